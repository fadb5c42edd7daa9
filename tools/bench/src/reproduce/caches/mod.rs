//! The block cache's rule of replacement beside others, as shares of look-ups that hit: on skewed reads, beside a scan, in a loop
//! that is too long, as the hot keys change. Then what a hit costs, beside a cache that others use.
//!
//! Shares follow from the seeds alone. Each cache has room for so many values of one length; the others count values, ours bytes.

mod rivals;

use std::io::Write;
use std::sync::Arc;
use std::time::Instant;

use cache::{Cache, Key, Place};

use super::request::{Request, memory_left, say};
use crate::data::draw::{Draw, Draws};
use crate::data::rng::Rng;
use rivals::{Clock, Library, Lru, Policy, Sieve};

/// Values in all: as a rule, and quickly.
const USUAL: u64 = 400_000;
const QUICK: u64 = 4_000;
/// Fewest values: each part of a trace has some.
pub(super) const KEYS_MIN: u64 = 100;
/// Bytes that a value takes in the largest of the caches and in traces, and to spare.
const VALUE_BYTES: u64 = 500;
/// Look-ups for each value; the first third fills the caches and does not count.
const LOOKUPS: u64 = 15;
/// Percent of the values that a cache has room for.
const ROOMS: [u64; 3] = [5, 10, 25];
const THREADS: [u64; 2] = [1, 2];
/// Bytes that a value counts for.
const VALUE: u64 = 4096;

const PAPER: &str = "\
The paper (Yang et al., SOSP 2023), on 6594 traces: S3-FIFO misses less than each of twelve others, LRU, CLOCK, ARC, LIRS and
TinyLFU among them, on most; its short queue is a tenth, as here.";

pub(super) fn run(request: &Request, out: &mut dyn Write) -> Result<(), String> {
    let wanted = request.keys.unwrap_or(if request.quick { QUICK } else { USUAL });
    let values = wanted.min(memory_left() / 2 / VALUE_BYTES).max(KEYS_MIN);
    let mut say = |text: String| say(out, &text);
    if values < wanted {
        say(format!("Memory has room for {values} values, not for {wanted}.\n"))?;
    }
    say(format!(
        "Hits in percent of look-ups. {values} values, {} look-ups. clock: what the block cache had before; quick_cache: the library.\n",
        values * LOOKUPS
    ))?;
    let names = ["ours", "clock", "LRU", "SIEVE", "quick_cache"].map(|name| format!("{name:>12}"));
    say(format!("{:<34}{:>5}{}", "look-ups", "room", names.concat()))?;
    for trace in Trace::ALL {
        for percent in ROOMS {
            let room = values * percent / 100;
            let plan = HitPlan { trace, values, room };
            let cells = [
                plan.hits(&mut Ours::with_room_for(room)),
                plan.hits(&mut Clock::with_room_for(room)),
                plan.hits(&mut Lru::with_room_for(room)),
                plan.hits(&mut Sieve::with_room_for(room)),
                plan.hits(&mut Library::with_room_for(room)),
            ];
            let cells = cells.map(|share| format!("{:>12.1}", share * 100.0));
            say(format!("{:<34}{percent:>4}%{}", trace.name(), cells.concat()))?;
        }
    }
    say(format!(
        "\nMillions of look-ups a second that all hit, of {} values drawn by Zipf's law",
        values / 4
    ))?;
    for threads in THREADS {
        let plan = SpeedPlan { values: values / 4, lookups: values * LOOKUPS, threads };
        let (ours, library) = (Ours::with_room_for(values), Library::with_room_for(values));
        let [ours, library] = [plan.rate(&ours), plan.rate(&library)];
        say(format!("threads {threads}: ours {ours:.1}, quick_cache {library:.1}"))?;
    }
    say(format!("\n{PAPER}"))
}

/// What is looked up.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Trace {
    Zipf,
    ZipfBesideScan,
    Hot,
    Moving,
    Loop,
    Uniform,
}

impl Trace {
    const ALL: [Trace; 6] = [
        Trace::Zipf,
        Trace::ZipfBesideScan,
        Trace::Hot,
        Trace::Moving,
        Trace::Loop,
        Trace::Uniform,
    ];

    fn name(self) -> &'static str {
        match self {
            Trace::Zipf => "zipf 0.99",
            Trace::ZipfBesideScan => "zipf 0.99, a scan beside",
            Trace::Hot => "9 of 10 in a tenth",
            Trace::Moving => "zipf 0.99, an eighth on, six times",
            Trace::Loop => "a loop of 1.2 times the room",
            Trace::Uniform => "uniform",
        }
    }
}

/// A cache, asked for values by number; what it does not have it takes in.
trait Asks {
    /// Whether the value was there.
    fn ask(&mut self, number: u64) -> bool;
}

impl<P: Policy> Asks for P {
    fn ask(&mut self, number: u64) -> bool {
        Policy::ask(self, number)
    }
}

/// A cache that threads share.
trait Shared: Sync {
    /// The value, if it is there.
    fn get(&self, number: u64) -> Option<u64>;

    /// Takes it in.
    fn put(&self, number: u64);
}

/// One trace, and the room that caches have.
struct HitPlan {
    trace: Trace,
    values: u64,
    room: u64,
}

impl HitPlan {
    /// The share of look-ups that hit.
    fn hits(&self, cache: &mut impl Asks) -> f64 {
        let HitPlan { trace, values, room } = *self;
        let draw = if trace == Trace::Uniform { Draw::Uniform } else { Draw::Zipf };
        let (mut draws, mut rng) = (Draws::new(draw, values, Rng::new(1)), Rng::new(2));
        let lookups = values * LOOKUPS;
        let (mut asked, mut hits) = (0_u64, 0_u64);
        for step in 0..lookups {
            let number = match trace {
                Trace::Zipf | Trace::ZipfBesideScan | Trace::Uniform => draws.draw(),
                Trace::Hot if rng.below(10) < 9 => rng.below((values / 10).max(1)),
                Trace::Hot => rng.below(values),
                Trace::Moving => (draws.draw() + step * 6 / lookups * (values / 8)) % values,
                Trace::Loop => step % (room * 6 / 5).max(1),
            };
            let hit = cache.ask(number);
            if trace == Trace::ZipfBesideScan {
                let _scanned = cache.ask(values + step % values);
            }
            if step >= lookups / 3 {
                (asked, hits) = (asked + 1, hits + u64::from(hit));
            }
        }
        hits as f64 / asked.max(1) as f64
    }
}

/// Look-ups of values that are all there, by threads that share the cache.
struct SpeedPlan {
    values: u64,
    lookups: u64,
    threads: u64,
}

impl SpeedPlan {
    /// Millions of look-ups a second.
    fn rate(&self, cache: &impl Shared) -> f64 {
        (0..self.values).for_each(|number| cache.put(number));
        let began = Instant::now();
        let sum: u64 = std::thread::scope(|scope| {
            let look_up = |thread: u64| {
                let mut draws = Draws::new(Draw::Zipf, self.values, Rng::new(thread));
                let share = self.lookups / self.threads;
                (0..share).filter_map(|_| cache.get(draws.draw())).fold(0, u64::wrapping_add)
            };
            let spawn = |thread| scope.spawn(move || look_up(thread));
            let running: Vec<_> = (0..self.threads).map(spawn).collect();
            running
                .into_iter()
                .map(|thread| thread.join().unwrap_or_default())
                .fold(0, u64::wrapping_add)
        });
        let seconds = began.elapsed().as_secs_f64().max(1e-9);
        std::hint::black_box(sum);
        self.lookups as f64 / seconds / 1e6
    }
}

/// The cache of the engine.
struct Ours(Cache<Number, u64>);

#[derive(Clone, Copy, PartialEq, Eq)]
struct Number(u64);

impl Key for Number {
    type Group = ();

    #[inline]
    fn hash(&self) -> u64 {
        base::checksum::mix(self.0, 7)
    }

    fn group(&self) {}
}

impl Ours {
    fn with_room_for(values: u64) -> Ours {
        Ours(Cache::new(values * Cache::<Number, u64>::cost(VALUE)))
    }
}

impl Asks for Ours {
    fn ask(&mut self, number: u64) -> bool {
        let is_there = Shared::get(self, number).is_some();
        if !is_there {
            self.put(number);
        }
        is_there
    }
}

impl Shared for Ours {
    fn get(&self, number: u64) -> Option<u64> {
        self.0.get(Number(number)).map(|value| *value)
    }

    fn put(&self, number: u64) {
        let _kept = self.0.insert(Number(number), Arc::new(number), VALUE, Place::Probation);
    }
}

impl Shared for Library {
    fn get(&self, number: u64) -> Option<u64> {
        self.0.get(&number).map(|value| *value)
    }

    fn put(&self, number: u64) {
        self.0.insert(number, Arc::new(number));
    }
}
