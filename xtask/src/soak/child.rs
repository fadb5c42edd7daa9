//! The child's side: lanes as those of kill9, and in their company guests, copies, snapshots, compactions by hand,
//! application code that panics and a device that refuses calls, all at once, until it is killed.

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};
use std::thread::Scope;
use std::time::Duration;

use pmem::{OpenMode, PoolFile, Prefault};
use ssd::{Call, Failure, Faulty, PageCache, Posix, Rule};
use strandline::{Db, ErrorKind, Options, ReadOptions, SsdSource, steps};
use testkit::Rng;

use super::guest::{self, End, Guest, contents};
use super::hooks::{Fuse, ON_PURPOSE, hooks, silence};
use super::told::Told;
use crate::kill9::child::{Child, Faults, Form, Order, RunningChild, announce};

/// Guests at the same time.
const GUESTS: u64 = 2;
/// One call of application code in so many panics.
const FUSE: u64 = 211;

type Device = Arc<Faulty<Posix>>;

/// What keeps the lanes company.
struct Company<'c> {
    child: &'c Child,
    device: Option<Device>,
    fuse: Arc<Fuse>,
    told: Told,
    /// A directory of its own, beside the store.
    beside: PathBuf,
    options: Options,
    seed: u64,
}

/// Runs as a child; comes back only if something went wrong.
pub fn run(args: &[String]) -> Result<(), String> {
    let order = Order::from_args(args).ok_or("soak-child is started by soak")?;
    let failed = |error: strandline::Error| error.to_string();
    silence();
    let seed = order.settings.variety ^ order.next.iter().sum::<u64>();
    let fuse = Fuse::new(if Rng::new(seed).chance(2, 3) { FUSE } else { 0 });
    let options = order.settings.options(&order.dir).map_err(failed)?;
    let out = announce()?;
    let (db, device) = open(&order, &options, &fuse).map_err(failed)?;
    let faults = if device.is_some() { Faults::Injected } else { Faults::None };
    let told = Told::new(Some(out.try_clone().map_err(|error| error.to_string())?));
    let child = Child::new(db, order.plan, out, faults)?;
    let beside = order.dir.with_extension("beside");
    let company = Company { child: &child, device, fuse, told, beside, options, seed };
    std::thread::scope(|scope| {
        let mut threads = child.spawn(scope, &order.next);
        if !order.next.is_empty() {
            company.spawn(scope, &mut threads, order.settings.form);
        }
        child.supervise(threads)
    })
}

/// Opens the store. One with levels may stand on a device that refuses calls.
fn open(
    order: &Order,
    options: &Options,
    fuse: &Arc<Fuse>,
) -> strandline::Result<(Db, Option<Device>)> {
    let tables = order.dir.join("sst");
    let faulty = order.settings.form == Form::Levels
        && order.dir.join("STORE").exists()
        && order.settings.variety.is_multiple_of(3);
    if !faulty {
        return Ok((Db::open_with(&order.dir, options.clone(), hooks(fuse))?, None));
    }
    let pool = PoolFile::open(&order.dir.join("pool"), OpenMode::ReadWrite)?;
    let region = Arc::new(pool.map(Prefault::Lazy)?);
    let device = Arc::new(Faulty::new(Posix::new(PageCache::Used)));
    let there = Some((Arc::clone(&device) as Arc<dyn ssd::Fs>, tables.as_path()));
    Ok((steps::open(region, there, options.clone(), hooks(fuse))?, Some(device)))
}

impl<'c> Company<'c> {
    fn spawn<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        threads: &mut Vec<RunningChild<'scope>>,
        form: Form,
    ) {
        for number in 0..GUESTS {
            threads.push(scope.spawn(move || self.guests(number, form)));
        }
        threads.push(scope.spawn(|| self.copies()));
        threads.push(scope.spawn(|| self.compactions()));
        threads.push(scope.spawn(|| self.faults()));
    }

    fn rng(&self, of: u64) -> Rng {
        Rng::new(self.seed.wrapping_mul(31) + of)
    }

    /// Has one guest after the other.
    fn guests(&self, number: u64, form: Form) -> Result<(), String> {
        let (db, mut rng) = (&self.child.db, self.rng(number));
        let name = format!("{}{number}", guest::PREFIX);
        if db.keyspaces().contains(&name) {
            db.drop_keyspace(&name).map_err(|error| error.to_string())?;
        }
        let files = (form != Form::Pool).then_some(self.beside.as_path());
        loop {
            let ended = Guest::new(db, &name, files, rng.below(1 << 30), &self.told)
                .map_err(End::from)
                .and_then(Guest::live);
            match ended {
                Ok(()) => {}
                Err(End::Violation(text)) => return Err(text),
                Err(End::Refused) if self.device.is_some() => {}
                Err(End::Refused) => return Err(format!("{name}: there was no space for it")),
            }
            std::thread::sleep(Duration::from_millis(rng.below(5)));
        }
    }

    /// Copies the store, and compares the copy with a snapshot that was taken when no commit of a lane was under way.
    fn copies(&self) -> Result<(), String> {
        let mut rng = self.rng(100);
        loop {
            std::thread::sleep(Duration::from_millis(rng.below(60)));
            match self.copy() {
                Err(error) if error.kind() == ErrorKind::Io && self.device.is_some() => {}
                Err(error) if error.kind() == ErrorKind::NoSpace && self.device.is_some() => {}
                Err(error) if error.to_string().contains(ON_PURPOSE) => {}
                Err(error) => return Err(format!("a checkpoint: {error}")),
                Ok(same) if same.iter().all(|same| *same) => self.told.copied(),
                Ok(_) => return Err("a checkpoint differs from a snapshot of its moment".into()),
            }
        }
    }

    /// Whether each keyspace of the lanes is in the copy as it was.
    fn copy(&self) -> strandline::Result<Vec<bool>> {
        let db = &self.child.db;
        let target = self.beside.join("copy");
        remove(&target)?;
        let gate = self.child.gate.write().unwrap_or_else(PoisonError::into_inner);
        let snapshot = db.snapshot();
        let copied = db.checkpoint(&target);
        drop(gate);
        copied?;
        let options = self.options.clone().ssd(SsdSource::Auto);
        let copy = Db::open_read_only_with(&target, options, hooks(&Fuse::new(0)))?;
        let then = ReadOptions::at(&snapshot);
        let spaces = self.child.spaces().iter();
        let same = spaces.map(|space| {
            let there = contents(&copy.keyspace(space.name())?, &ReadOptions::default())?;
            Ok(there == contents(space, &then)?)
        });
        let same = same.collect();
        drop(copy);
        remove(&target)?;
        same
    }

    /// Compacts by hand, everything or some keys, and verifies everything now and then.
    fn compactions(&self) -> Result<(), String> {
        let (db, mut rng) = (&self.child.db, self.rng(200));
        loop {
            std::thread::sleep(Duration::from_millis(rng.below(40)));
            let space = rng.pick(self.child.spaces());
            let done = match rng.below(4) {
                0 => db.flush(),
                1 => db.compact(),
                2 => db.check().map(drop),
                _ => db.compact_range(space, Some(b"lane0"), Some(b"lane1")),
            };
            match done {
                Err(error) if error.to_string().contains(ON_PURPOSE) => {}
                Err(error) if self.device.is_some() && is_refused(&error) => {}
                done => done.map_err(|error| format!("a compaction by hand: {error}"))?,
            }
        }
    }

    /// Makes calls of the device fail, for a moment at a time.
    fn faults(&self) -> Result<(), String> {
        let mut rng = self.rng(300);
        loop {
            std::thread::sleep(Duration::from_millis(20 + rng.below(40)));
            let failed = self.device.as_ref().map_or(0, |device| device.struck());
            self.told.faults(self.fuse.panics(), failed);
            let Some(device) = &self.device else { continue };
            let calls = [Call::Create, Call::Append, Call::Sync, Call::SyncDir];
            let failure = *rng.pick(&[Failure::Io, Failure::NoSpace, Failure::Short]);
            let rule = Rule::new(1 + rng.below(20), failure).of(*rng.pick(&calls)).on(".sst");
            let for_ever = rng.chance(1, 2);
            device.set_rules(vec![if for_ever { rule.for_ever() } else { rule }]);
            std::thread::sleep(Duration::from_millis(rng.below(15)));
            device.set_rules(Vec::new());
        }
    }
}

fn is_refused(error: &strandline::Error) -> bool {
    matches!(error.kind(), ErrorKind::Io | ErrorKind::NoSpace)
}

fn remove(dir: &Path) -> strandline::Result<()> {
    match std::fs::remove_dir_all(dir) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(strandline::Error::io("remove", dir.display().to_string(), error))
        }
        _ => Ok(()),
    }
}
