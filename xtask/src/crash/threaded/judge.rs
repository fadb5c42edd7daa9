//! Cuts the power in a life at random events, and sees what the next one makes of what is left.

use std::sync::Arc;

use base::planted::Bug;
use sim::check::{Rule, Violation};
use sim::cut::{Doubt, draw};
use sim::diary::Shown;
use sim::{Log, Media, Mode, Rng, Schedule, System};
use ssd::{Disk, Fs, Memory};

use super::crowd::copy;
use super::life::{Life, Start, ThreadedPlan, ThreadedTally, Wrong, live};
use super::setup::Setup;
use super::shape::Shape;
use super::tallies::Counts;
use crate::crash::whole;

/// How far a world is explored.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Events at which the power is cut, of the first life.
    pub cuts: usize,
    /// The same of a life that follows a cut.
    pub deep_cuts: usize,
    /// Images at each.
    pub images: usize,
    /// Lives in a row, at least one.
    pub lives: usize,
    /// Of the stores that are recovered one in so many is used by threads.
    pub follow_one_in: u32,
    /// Of the others one in so many has its recovery cut, too.
    pub dive_one_in: u32,
    /// At one in so many cuts the process is killed instead.
    pub kill_one_in: u32,
    /// Copies are opened on one in so many images.
    pub copies_one_in: u32,
}

/// A world: what it is made of, and what goes wrong in it.
#[derive(Clone)]
pub struct World {
    pub setup: Setup,
    pub shape: Shape,
    /// What threads do with a recovered store.
    pub afterwards: Shape,
    pub mode: Mode,
    pub limits: Limits,
    pub bug: Option<Bug>,
    pub seed: u64,
}

/// What must hold of what a life opens with.
enum Before<'l> {
    /// Nothing was there.
    Nothing,
    /// A life was cut off at this event.
    Cut { life: &'l Life, event: usize, before: &'l Before<'l>, killed: bool },
    /// A life had this when it was opened, and was cut off before it changed any of it.
    Same(&'l Shown),
}

/// What went wrong, and the way to it.
pub struct Failure {
    pub violation: Violation,
    pub schedule: Schedule,
    /// The turns of threads before it.
    pub turns: String,
    /// What had been asked for and told shortly before.
    pub diary: Vec<String>,
}

impl From<Box<Wrong>> for Box<Failure> {
    fn from(wrong: Box<Wrong>) -> Self {
        let Wrong { violation, schedule, turns } = *wrong;
        Box::new(Failure { violation, schedule, turns, diary: Vec::new() })
    }
}

impl Failure {
    fn after(mut self: Box<Self>, crash: String) -> Box<Self> {
        self.violation = self.violation.after(crash);
        self
    }
}

/// Values of a life begin to be numbered here, times the depth.
const IDS_PER_LIFE: u32 = 1 << 27;
/// Of a life that goes on after a crash this share of the writes, in percent, must be taken.
const TAKEN_LEAST: u64 = 90;

impl World {
    /// Lives the first life and cuts it, and those that follow.
    pub fn explore(&self, counts: &mut Counts) -> Result<(), Box<Failure>> {
        let zeros = vec![0; self.setup.engine.region_len() as usize];
        let disk = Arc::new(System::disk(&self.setup.engine));
        let start = Start { media: Media::new(self.mode, &zeros), disk, blank: true };
        let life = live(start, self.plan(self.seed, 0, Some(&self.shape)))?;
        counts.world(&life);
        let mut judge = Judge { world: self, rng: Rng::fork(self.seed, 0x77), counts };
        judge.cut(&life, &Before::Nothing, 0)
    }

    fn plan(&self, seed: u64, depth: usize, crowd: Option<&Shape>) -> ThreadedPlan {
        ThreadedPlan {
            setup: self.setup,
            bug: self.bug,
            seed,
            crowd: crowd.cloned(),
            first_id: depth as u32 * IDS_PER_LIFE + 1,
        }
    }
}

/// Cuts the lives of one world.
struct Judge<'w> {
    world: &'w World,
    rng: Rng,
    counts: &'w mut Counts,
}

impl Judge<'_> {
    /// Cuts a life at random events; `before` says what must hold until it is open.
    fn cut(&mut self, life: &Life, before: &Before<'_>, depth: usize) -> Result<(), Box<Failure>> {
        let Limits { cuts, deep_cuts, images, kill_one_in, .. } = self.world.limits;
        let (from, most) = if depth == 0 { (life.born, cuts) } else { (0, deep_cuts) };
        let mut media = life.start.media.clone();
        let mut disk = Arc::clone(&life.start.disk);
        let mut done = 0;
        for event in events(&life.log, from, most, &mut self.rng) {
            media.replay(&life.log, done..event);
            if let Some(changed) = life.log.disk_after(done..event) {
                disk = Arc::clone(changed);
            }
            done = event;
            self.counts.point(life, event, depth);
            let killed = self.rng.one_in(kill_one_in);
            let cut = Before::Cut { life, event, before, killed };
            let say = |fate: &str| told(life, event, depth, fate);
            if killed {
                let mut left = media.clone();
                left.kill();
                self.counts.kills += 1;
                let start = Start { media: left, disk: Arc::clone(&disk), blank: false };
                let next = self.next(start, &cut, depth);
                next.map_err(|failure| failure.after(say("the process is killed")))?;
                continue;
            }
            for n in 0..images {
                let (start, fate) = survivor(&mut media, &disk, n, &mut self.rng);
                let next = self.next(start, &cut, depth);
                next.map_err(|failure| failure.after(say(&fate)))?;
            }
        }
        Ok(())
    }

    /// The life that follows a cut.
    fn next(&mut self, start: Start, cut: &Before<'_>, depth: usize) -> Result<(), Box<Failure>> {
        let Limits { lives, follow_one_in, dive_one_in, copies_one_in, .. } = self.world.limits;
        let Before::Cut { life, event, before, killed } = *cut else { return Ok(()) };
        let last = depth + 1 >= lives;
        let follow = !last && self.rng.one_in(follow_one_in);
        let crowd = follow.then_some(&self.world.afterwards);
        let next = live(start, self.world.plan(self.rng.next(), depth + 1, crowd))?;
        self.counts.image(&next);
        let wrong = |violation| failure(violation, life, event);
        cut.check(&next.shown).map_err(wrong)?;
        if !killed && depth == 0 && self.rng.one_in(copies_one_in) {
            self.check_copies(life, event, &next.start.disk).map_err(wrong)?;
        }
        if follow {
            self.counts.followed(&next);
            takes_writes(&next.tally).map_err(wrong)?;
        }
        if last || !follow && !killed && !self.rng.one_in(dive_one_in) {
            return Ok(());
        }
        // What was killed has left what is not durable yet. Until the next process has opened it, power may take from it
        // what it may take from the first.
        let before = match killed {
            true => Before::Cut { life, event, before, killed: false },
            false => Before::Same(&next.shown),
        };
        self.cut(&next, &before, depth + 1)
    }

    /// Copies that are on a disk that survived are whole, and those that were made by then are there.
    fn check_copies(&mut self, life: &Life, event: usize, disk: &Disk) -> Result<(), Violation> {
        let fs: Arc<dyn Fs> = Arc::new(Memory::new(disk.clone()));
        for (id, must, shows) in life.diary.copies(event) {
            let path = copy(id);
            let there = fs.exists(&path).unwrap_or(false);
            if !there && must {
                return Err(Violation::new(Rule::N1, format!("checkpoint {id} is gone")));
            }
            if !there {
                continue;
            }
            self.counts.copies += 1;
            let engine = &self.world.setup.engine;
            let found = whole::open_copy(&fs, &path, engine.keys, &engine.options())
                .map_err(|e| Violation::new(Rule::N8, format!("checkpoint {id}: {e}")))?;
            if found != shows {
                let what = format!("checkpoint {id} shows {found:?}, not {shows:?}");
                return Err(Violation::new(Rule::N2, what));
            }
        }
        Ok(())
    }
}

/// A cut, in words.
fn told(life: &Life, event: usize, depth: usize, fate: &str) -> String {
    let phase = match (depth, event <= life.born) {
        (0, _) => "first life",
        (_, true) => "recovery",
        (_, false) => "after recovery",
    };
    let last = life.log.events[..event].iter().rev().find(|event| event.is_media());
    let last = last.map_or("nothing yet".to_owned(), |event| life.log.describe(event));
    format!("{phase}, life {depth}, event {event} of {}, {last}: {fate}", life.log.len())
}

impl Before<'_> {
    /// Whether what a life opened with is allowed.
    fn check(&self, shown: &Shown) -> Result<(), Violation> {
        match *self {
            Before::Nothing => Ok(()),
            Before::Same(same) => {
                if (shown.cut, &shown.state) == (same.cut, &same.state) && shown.leaks == 0 {
                    return Ok(());
                }
                let what = sim::diary::difference(shown, &same.state);
                let leaks = shown.leaks;
                Err(Violation::new(
                    Rule::N6,
                    format!("the cut was {}; {what}; {leaks} leaked", same.cut),
                ))
            }
            Before::Cut { life, event, before, .. } if event <= life.born => before.check(shown),
            Before::Cut { life, event, killed, .. } => {
                // A process that dies takes nothing of what it told with it.
                let told = if killed { life.diary.told(event) } else { 0 };
                life.diary.check(event, told, shown)
            }
        }
    }
}

/// Events of the tape, and commits of the diary, told of a cut after which something is wrong.
const TURNS: usize = 40;
const COMMITS: usize = 16;

fn failure(violation: Violation, life: &Life, event: usize) -> Box<Failure> {
    let schedule = life.schedule.clone();
    let turns = schedule.turns(&life.log, event, TURNS);
    Box::new(Failure { violation, schedule, turns, diary: life.diary.tell(event, COMMITS) })
}

/// A recovered store that turns writes away must have a reason, and space that power failure took is none.
fn takes_writes(tally: &ThreadedTally) -> Result<(), Violation> {
    let asked = tally.commits + tally.refused;
    if tally.commits * 100 >= asked * TAKEN_LEAST && tally.commits > 0 {
        return Ok(());
    }
    let what = format!("a recovered store took {} of {asked} writes", tally.commits);
    Err(Violation::new(Rule::N8, what))
}

/// Events at which to cut, ascending: half of them anywhere, half behind an event of a place that is drawn first, so that
/// what happens rarely is cut as well.
fn events(log: &Log, from: usize, most: usize, rng: &mut Rng) -> Vec<usize> {
    let to = log.len();
    if to <= from {
        return Vec::new();
    }
    let mut places: std::collections::BTreeMap<String, Vec<usize>> = Default::default();
    for (at, event) in log.events.iter().enumerate().skip(from) {
        let place = match (event.site(), log.call(event)) {
            (Some(site), _) => format!("{site:?}"),
            (None, Some(call)) => format!("{} {}", call.call, call.kind()),
            (None, None) => continue,
        };
        places.entry(place).or_default().push(at);
    }
    let places: Vec<Vec<usize>> = places.into_values().collect();
    let mut chosen: Vec<usize> = (0..most)
        .map(|n| {
            if n % 2 == 0 || places.is_empty() {
                return from + rng.index(to - from + 1);
            }
            let place = &places[rng.index(places.len())];
            place[rng.index(place.len())] + rng.index(2)
        })
        .collect();
    chosen.sort_unstable();
    chosen.dedup();
    chosen
}

/// What the `n`-th power cut at a point leaves: nothing of what is in doubt, all of it, and whatever it draws.
fn survivor(media: &mut Media, disk: &Arc<Disk>, n: usize, rng: &mut Rng) -> (Start, String) {
    let torn = media.torn();
    let mut doubts: Vec<Doubt> = torn.iter().map(Doubt::from).collect();
    doubts.extend(disk.doubts().into_iter().map(Doubt::from));
    let mut choice = vec![0; doubts.len()];
    match rng.index(6) {
        0 => {}
        1 => choice.iter_mut().zip(&doubts).for_each(|(choice, doubt)| *choice = doubt.kept),
        _ => draw(&doubts, n, rng, &mut choice),
    }
    let (lines, files) = choice.split_at(torn.len());
    let image = media.survivor(&torn, lines);
    let survived = if files.is_empty() { Arc::clone(disk) } else { Arc::new(disk.survivor(files)) };
    let kept = choice.iter().zip(&doubts).filter(|(choice, doubt)| **choice == doubt.kept).count();
    let fate = format!(
        "power is cut, {} lines and {} things on the disk in doubt, {kept} of them kept",
        lines.len(),
        files.len()
    );
    (Start { media: Media::new(media.mode(), &image), disk: survived, blank: false }, fate)
}
