//! The memtable's index beside a concurrent skip list and a B-tree: inserts, look-ups of random keys, scans of a hundred
//! entries; keys in random and in ascending order; one thread and two.
//!
//! Inserts are timed without the writing of the records, which are there before. Each thread takes its share of the
//! keys. What look-ups and scans find is compared: every value with its key, and the sums of all scans among the
//! indexes.

use std::io::Write;
use std::time::Instant;

use art::Art;
use base::LINE;

use super::indexes::{Index, Skip, Tree};
use super::records::{KEY, KeyOrder, Records, VALUE, taste, value};
use super::request::{Request, memory_left, say};
use crate::data::rng::Rng;

/// KeyOrder: as a rule, and quickly.
const USUAL: u64 = 10_000_000;
const QUICK: u64 = 20_000;
/// Look-ups and scans at most: they are drawn at random, so more of them would not say more.
const LOOKUPS: u64 = 4_000_000;
const SCANS: u64 = 200_000;
/// Bytes that a key takes beside its record in the largest of the indexes, and to spare.
const INDEX_BYTES: u64 = 120;
const THREADS: [u64; 2] = [1, 2];
const COLUMNS: [&str; 3] = ["insert", "look-up", "scan of 100"];
const RANDOM: [&str; COLUMNS.len()] = ["8.3 x", "16 x", "slower"];
const ASCENDING: [&str; COLUMNS.len()] = ["6.0 x", "-", "-"];

const PAPER: &str = "\
The paper (X-Engine, VLDB 2021, slides), measured there on Optane: 50 M items, keys of 8 bytes, values of 32, memtables
of 2 GB. Against skip list, FAST&FAIR and FPTree: random insert up to 8.3 times as fast, sequential insert up to 6.0
times, random point look-up 16 times; random scan slower than the skip list. Recovery: about 3 s for 32 GB of memtables;
here `strandline bench --benchmarks=recovery` measures it.";

pub(super) fn run(request: &Request, out: &mut dyn Write) -> Result<(), String> {
    let wanted = request.keys.unwrap_or(if request.quick { QUICK } else { USUAL });
    let count = wanted.min(room()).max(1);
    let mut say = |text: String| say(out, &text);
    if count < wanted {
        say(format!("Memory has room for {count} keys, not for {wanted}.\n"))?;
    }
    let len = count * LINE as u64;
    let scratch = request.memory(len)?;
    let path = scratch.path().join("records");
    for (keys, order, paper) in
        [(KeyOrder::Random, "random", RANDOM), (KeyOrder::Ascending, "ascending", ASCENDING)]
    {
        let records = Records::write(&path, keys, count)?;
        if keys == KeyOrder::Random {
            say(format!(
                "Millions of operations per second. {count} keys of {KEY} bytes, values of {VALUE}, records of a line in\n\
                 {}.\n\
                 The radix tree holds locations, and a reader verifies the record. The others hold keys and values.",
                records.place()
            ))?;
        }
        for threads in THREADS {
            let plan = IndexPlan { count, threads, keys, records: &records };
            say(cells(&format!("\nkeys {order}, threads {threads}"), COLUMNS.map(String::from)))?;
            let tree = plan.measure::<Art>()?;
            say(rates(Art::NAME, &tree))?;
            let skip = plan.measure::<Skip>()?;
            say(rates(Skip::NAME, &skip))?;
            let b_tree = plan.measure::<Tree>()?;
            say(rates(Tree::NAME, &b_tree))?;
            if [skip.scanned, b_tree.scanned] != [tree.scanned; 2] {
                return Err("scans of the same keys found different values".into());
            }
            say(ratios("measured, to skip list", &tree, &skip))?;
            say(ratios("measured, to B-tree", &tree, &b_tree))?;
            say(cells("the paper's, at most", paper.map(String::from)))?;
        }
    }
    say(format!("\n{PAPER}"))
}

/// KeyOrder for which half of the memory that is left is enough; the other half is for others.
fn room() -> u64 {
    memory_left() / 2 / (LINE as u64 + INDEX_BYTES)
}

/// KeyOrder in one order, and threads that share them.
struct IndexPlan<'r> {
    count: u64,
    threads: u64,
    keys: KeyOrder,
    records: &'r Records,
}

/// Millions per second in the order of [`COLUMNS`], and the sum of what all scans found.
struct Measured {
    rates: [f64; COLUMNS.len()],
    scanned: u64,
}

impl IndexPlan<'_> {
    fn measure<I: Index>(&self) -> Result<Measured, String> {
        let (index, records) = (I::default(), self.records);
        let (insert, _) = self.timed(self.count, |number, _| {
            index.insert(records, number, self.keys.key(number)).map(|()| 0)
        })?;
        let (lookup, _) = self.timed(self.count.min(LOOKUPS), |_, any| {
            let found = index.get(records, any).filter(|found| *found == taste(&value(any)));
            found.ok_or_else(|| format!("{}: key {any:#x} is lost", I::NAME))
        })?;
        let (scan, scanned) = self.timed(self.count.min(SCANS), |_, any| {
            let found = index.scan(records, any);
            found.ok_or_else(|| format!("{}: a record behind key {any:#x} is damaged", I::NAME))
        })?;
        Ok(Measured { rates: [insert, lookup, scan], scanned })
    }

    /// Lets the threads do `each` so often between them, with the number of the operation and a key at random; millions
    /// per second, and the sum of what was returned.
    fn timed(
        &self,
        operations: u64,
        each: impl Fn(u64, u64) -> Result<u64, String> + Sync,
    ) -> Result<(f64, u64), String> {
        let share = |thread: u64| {
            let [from, to] = [thread, thread + 1].map(|end| operations * end / self.threads);
            // The keys follow from the thread: every index is asked for the same ones.
            let mut rng = Rng::new(thread);
            let mut sum = 0_u64;
            for number in from..to {
                let any = self.keys.key(rng.below(self.count));
                sum = sum.wrapping_add(each(number, any)?);
            }
            Ok(sum)
        };
        let began = Instant::now();
        let sums: Result<Vec<u64>, String> = std::thread::scope(|scope| {
            let spawn = |thread| scope.spawn(move || share(thread));
            let running: Vec<_> = (0..self.threads).map(spawn).collect();
            let join = |thread: std::thread::ScopedJoinHandle<'_, _>| {
                thread.join().unwrap_or_else(|_| Err("a thread failed".into()))
            };
            running.into_iter().map(join).collect()
        });
        let seconds = began.elapsed().as_secs_f64().max(1e-9);
        Ok((operations as f64 / seconds / 1e6, sums?.into_iter().fold(0, u64::wrapping_add)))
    }
}

fn rates(name: &str, measured: &Measured) -> String {
    cells(name, measured.rates.map(|rate| format!("{rate:.3}")))
}

fn ratios(name: &str, ours: &Measured, other: &Measured) -> String {
    let ratio = |column| format!("{:.1} x", ours.rates[column] / other.rates[column]);
    cells(name, std::array::from_fn(ratio))
}

fn cells(name: &str, cells: [String; COLUMNS.len()]) -> String {
    let cells: String = cells.iter().map(|cell| format!("{cell:>14}")).collect();
    format!("{name:<28}{cells}")
}
