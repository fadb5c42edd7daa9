//! One life of a store: opened in what the one before it left, used by threads, and closed. All of it is on a tape.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

use base::planted::{self, Bug};
use sim::check::{Rule, Violation};
use sim::diary::{Base, Notes, Shown};
use sim::{Diary, Log, Media, Schedule, SimPm};
use ssd::{Disk, Fs, Memory};
use strandline::{Db, steps};

use super::crowd::{Crowd, StoreParts};
use super::setup::{Background, Setup};
use super::shape::Shape;
use crate::crash::whole::Spaces;

/// What a machine has when a process starts.
#[derive(Clone)]
pub struct Start {
    pub media: Media,
    pub disk: Arc<Disk>,
    /// There is no store yet.
    pub blank: bool,
}

/// What is done with a store once it is open.
#[derive(Clone)]
pub struct ThreadedPlan {
    pub setup: Setup,
    pub bug: Option<Bug>,
    pub seed: u64,
    /// What its threads do; they stay idle if there is none.
    pub crowd: Option<Shape>,
    pub first_id: u32,
}

/// A life that has ended.
pub struct Life {
    pub start: Start,
    pub log: Log,
    /// The store was open at this event.
    pub born: usize,
    /// What it showed then.
    pub shown: Shown,
    pub diary: Diary,
    pub tally: ThreadedTally,
    /// Who acted.
    pub schedule: Schedule,
}

/// What happened inside.
#[derive(Clone, Copy, Debug, Default)]
pub struct ThreadedTally {
    pub commits: u64,
    pub refused: u64,
    pub checkpoints: u64,
    pub ingests: u64,
    pub drops: u64,
    pub syncs: u64,
    /// Reads and walks that were explained.
    pub reads: u64,
    /// Compactions with several parts.
    pub parted: u64,
    pub subranges: u64,
    /// Some run has entries for tens of blocks.
    pub long_runs: bool,
    /// Commits that no zone takes.
    pub large: u64,
}

/// A life that broke a rule, with who acted before.
pub struct Wrong {
    pub violation: Violation,
    pub schedule: Schedule,
    /// The last turns of the tape.
    pub turns: String,
}

/// A process that does not end by then hangs.
const LIMIT: Duration = Duration::from_secs(60);
/// Entries that take some twenty blocks of a run.
const LONG_RUN: u64 = 300;
/// Turns told of a life that went wrong.
const TURNS: usize = 40;

/// Lives it, on a thread of its own, which is left behind if it does not end.
pub fn live(start: Start, plan: ThreadedPlan) -> Result<Life, Box<Wrong>> {
    let (pm, region) = SimPm::boot_for_threads(start.media.clone(), plan.seed);
    let fs: Arc<dyn Fs> = Arc::new(Memory::watched(Disk::clone(&start.disk), Arc::clone(&pm) as _));
    let (tell, told) = sync_channel(1);
    let recorder = Arc::clone(&pm);
    let first = start.clone();
    std::thread::spawn(move || {
        planted::plant(plan.bug);
        let lived =
            catch_unwind(AssertUnwindSafe(|| through(first, &plan, &recorder, region, &fs)));
        let lived = lived.unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("?");
            Err(Violation::new(Rule::N8, format!("panicked: {text}")))
        });
        let _nobody_waits = tell.send(lived);
    });
    let lived = told.recv_timeout(LIMIT).unwrap_or_else(|error| {
        let what = match error {
            RecvTimeoutError::Timeout => format!("it does not end within {} s", LIMIT.as_secs()),
            RecvTimeoutError::Disconnected => "it ended without a word".to_owned(),
        };
        Err(Violation::new(Rule::N8, what))
    });
    lived.map_err(|violation| {
        let mut log = Log::default();
        pm.swap_log(&mut log);
        let schedule = pm.schedule();
        let turns = schedule.turns(&log, log.len(), TURNS);
        Box::new(Wrong { violation, schedule, turns })
    })
}

fn broken(what: &str) -> impl FnOnce(base::Error) -> Violation {
    move |error| Violation::new(Rule::N8, format!("{what}: {error}"))
}

/// From the open to the close.
fn through(
    start: Start,
    plan: &ThreadedPlan,
    pm: &Arc<SimPm>,
    region: pmem::Region,
    fs: &Arc<dyn Fs>,
) -> Result<Life, Violation> {
    let setup = &plan.setup;
    let background = if plan.crowd.is_some() { setup.background } else { 0 };
    let db = match start.blank {
        true => setup.create(region, fs).map_err(broken("no store can be made"))?,
        false => setup.open(region, fs, background).map_err(broken("recovery fails"))?,
    };
    let born = pm.mark();
    let quiet = background == 0 && !start.blank;
    let at_work = if quiet { Background::Quiet } else { Background::Running };
    let shown = setup.shown(&db, at_work).map_err(broken("entries cannot be read"))?;
    let (diary, tally) = match &plan.crowd {
        None => (Diary::empty(base_of(&shown), setup.promise()), ThreadedTally::default()),
        Some(shape) => crowded(plan, shape, StoreParts { db: &db, pm, fs }, &shown)?,
    };
    drop(db);
    let mut log = Log::default();
    pm.swap_log(&mut log);
    Ok(Life { start, log, born, shown, diary, tally, schedule: pm.schedule() })
}

/// What a diary begins with.
fn base_of(shown: &Shown) -> Base {
    Base { state: shown.state.clone(), cut: shown.cut }
}

/// The threads at a store that has just shown `before`.
fn crowded(
    plan: &ThreadedPlan,
    shape: &Shape,
    parts: StoreParts<'_>,
    before: &Shown,
) -> Result<(Diary, ThreadedTally), Violation> {
    let crowd = Crowd::new(parts, shape, plan.seed, plan.first_id);
    let crowd = crowd.map_err(broken("no keyspaces"))?;
    let notes = crowd.run()?;
    let tally = tally(&notes, parts.db);
    let diary = Diary::new(base_of(before), plan.setup.promise(), notes)?;
    let shown = plan
        .setup
        .shown(parts.db, Background::Running)
        .map_err(broken("entries cannot be read"))?;
    let wanted = diary.last();
    if shown.state != wanted {
        let what = sim::diary::difference(&shown, &wanted);
        return Err(Violation::new(Rule::N2, format!("the store before it was closed: {what}")));
    }
    Ok((diary, tally))
}

fn tally(notes: &[Notes], db: &Db) -> ThreadedTally {
    let sum = |of: &dyn Fn(&Notes) -> usize| notes.iter().map(of).sum::<usize>() as u64;
    let ingests = sum(&|notes| notes.edits.iter().filter(|edit| edit.numbered).count());
    let is_drop = |write: &sim::Write| matches!(write, sim::Write::Drop { .. });
    let spaces = Spaces::of(db, None, None);
    let properties = db.properties();
    let mut runs = properties.keyspaces.iter().flat_map(|keyspace| &keyspace.runs);
    ThreadedTally {
        large: properties.large_commits.committed,
        long_runs: runs.any(|run| run.entries >= LONG_RUN),
        commits: sum(&|notes| notes.commits.len()),
        refused: notes.iter().map(|notes| notes.refused).sum(),
        checkpoints: sum(&|notes| notes.copies.len()),
        ingests,
        drops: sum(&|notes| {
            notes.edits.iter().filter(|edit| edit.writes.iter().any(is_drop)).count()
        }),
        syncs: sum(&|notes| notes.syncs.len()),
        reads: sum(&|notes| notes.reads.len() + notes.walks.len()),
        parted: steps::compactions(db.default_keyspace()).parted,
        subranges: spaces.map_or(0, |spaces| {
            spaces.each().map(|(_, space)| steps::subranges(space) as u64).sum()
        }),
    }
}
