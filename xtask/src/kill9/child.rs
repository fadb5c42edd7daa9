//! The child's side: opens the store, commits and reads as fast as it can, tells what it does, until it is
//! killed.

use std::collections::BTreeSet;
use std::fs::File;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

use pmem::Site;
use strandline::{
    Batch, Checksum, Compression, Db, ErrorKind, IndexKind, Keyspace, Level0Form, Options, PRESETS,
    PmSource, SsdSource, WalDir, WalIo, WalSync, steps,
};
use testkit::Rng;

use super::message::{Count, Message, tell};
use super::plan::{Change, Key, KillPlan, SPACES, ZONE_BYTES};

/// Bytes of persistent memory: little, so that zones are reused all the time.
const POOL_BYTES: u64 = 16 << 20;
/// The same where there are tables: so little that data leaves it all the time.
const POOL_BYTES_OF_LEVELS: u64 = 2 << 20;
/// Bytes of a table: level 0 makes several.
const TABLE_BYTES: u64 = 32 << 10;
/// How long a lane goes on trying where calls of the device fail on purpose.
const PATIENCE: Duration = Duration::from_secs(20);
/// Reads between two looks at the store's figures.
const READS: u64 = 50;

/// What the parent asks of a child.
#[derive(Clone, Debug)]
pub struct Order {
    pub dir: PathBuf,
    pub plan: KillPlan,
    pub settings: Settings,
    /// Number of each lane's next commit; empty: open the store and do nothing.
    pub next: Vec<u64>,
}

/// What a store is; the same at every open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// All data in a pool.
    Pool,
    /// A pool, and tables on SSD.
    Levels,
    /// DRAM with a log, and tables on SSD.
    Log,
    /// The same with a log that is placed by `wal_dir`: in memory it is streamed.
    PlacedLog,
}

impl Form {
    pub const ALL: [Form; 4] = [Form::Levels, Form::Log, Form::Pool, Form::PlacedLog];

    /// Whether its records are in DRAM.
    pub fn has_log(self) -> bool {
        matches!(self, Form::Log | Form::PlacedLog)
    }

    /// The form, out of these, of the store that comes after one of this.
    pub fn next(self, forms: &[Form]) -> Form {
        let at = forms.iter().position(|form| *form == self).unwrap_or(0);
        forms[(at + 1) % forms.len()]
    }

    pub fn name(self) -> &'static str {
        match self {
            Form::Levels => "levels",
            Form::Log => "log",
            Form::PlacedLog => "placed-log",
            Form::Pool => "pool",
        }
    }
}

/// Options of an open that vary.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    pub form: Form,
    /// Which of the presets, by its place among them. Each open has another.
    pub preset: usize,
    /// The log, if there is one, is synced.
    pub synced: bool,
    pub memtable_bytes: u64,
    pub background_threads: u32,
    pub recovery_threads: u32,
    /// Chooses the options that shape tables and levels; 0: what the preset says, in the smallest pools.
    pub variety: u64,
}

impl Settings {
    /// The parent's own: nothing happens that it did not ask for.
    pub const fn quiet(form: Form) -> Settings {
        Settings {
            form,
            preset: 0,
            synced: true,
            memtable_bytes: 1 << 20,
            background_threads: 0,
            recovery_threads: 1,
            variety: 0,
        }
    }

    /// Settings that a seed chooses.
    pub fn random(rng: &mut Rng, form: Form) -> Settings {
        Settings {
            form,
            preset: rng.below(PRESETS.len() as u64) as usize,
            synced: rng.chance(1, 2),
            memtable_bytes: *rng.pick(&[64 << 10, 128 << 10, 256 << 10, 1 << 20]),
            background_threads: u32::from(rng.chance(3, 4)),
            recovery_threads: 1 + rng.below(2) as u32,
            variety: 0,
        }
    }

    /// What the form of the store leaves of the preset, with little memory.
    pub fn options(&self, dir: &Path) -> strandline::Result<Options> {
        let mut preset = Options::preset(PRESETS.get(self.preset).map_or("auto", |one| one.name))?;
        if self.form == Form::Pool {
            preset.level0 = Level0Form::GlobalIndex;
        }
        if self.form != Form::Levels {
            preset.pm_tables = 0;
        }
        if !self.form.has_log() {
            // Only beside a log are records and blocks in memory of another kind.
            (preset.memtable_memory, preset.block_cache_memory) = Default::default();
        }
        let options = preset
            .pm(if self.form.has_log() { PmSource::Dram } else { PmSource::Auto })
            .wal_sync(if self.synced { WalSync::Always } else { WalSync::Never })
            .pm_size(if self.form == Form::Pool { POOL_BYTES } else { POOL_BYTES_OF_LEVELS })
            .ssd(if self.form == Form::Pool { SsdSource::None } else { SsdSource::Auto })
            .table_bytes(TABLE_BYTES)
            .zone_size(ZONE_BYTES)
            .memtable_bytes(self.memtable_bytes)
            .background_threads(self.background_threads)
            .recovery_threads(self.recovery_threads);
        // A store that is there knows where its log is.
        let is_placed = self.form == Form::PlacedLog && !dir.join("STORE").exists();
        let options = match is_placed {
            true => options.wal_dir(WalDir::Path(dir.join("log"))),
            false => options,
        };
        Ok(if self.variety == 0 { options } else { varied(options, &mut Rng::new(self.variety)) })
    }
}

/// `options` in a larger pool, with tables and levels of any shape.
fn varied(options: Options, rng: &mut Rng) -> Options {
    let Options { pm_size, subranges, .. } = options;
    options
        .pm_size(4 * pm_size)
        .table_bytes(*rng.pick(&[8 << 10, 32 << 10, 256 << 10]))
        .block_bytes(*rng.pick(&[512, 4096, 16384]))
        .block_cache(*rng.pick(&[256 << 10, 4 << 20]))
        .compression(*rng.pick(Compression::AVAILABLE))
        .checksum(*rng.pick(&[Checksum::Xxh3, Checksum::Crc32c]))
        .filter_bits(*rng.pick(&[0, 10]))
        .index(*rng.pick(&[IndexKind::Binary, IndexKind::TwoLevel]))
        .hash_index(rng.chance(1, 3))
        .wal_io(*rng.pick(&[WalIo::Auto, WalIo::Cached, WalIo::Direct, WalIo::Direct]))
        .subranges(*rng.pick(&[subranges, 0, 1, 3]))
        .immutable_memtables_max(*rng.pick(&[1, 4]))
}

impl Order {
    /// As arguments of the hidden subcommand.
    pub fn to_args(&self) -> Vec<String> {
        let Settings {
            form,
            preset,
            synced,
            memtable_bytes,
            background_threads,
            recovery_threads,
            variety,
        } = self.settings;
        let form = Form::ALL.iter().position(|one| *one == form).unwrap_or(0);
        let mut args = vec![self.dir.display().to_string()];
        let numbers = [
            self.plan.seed,
            self.plan.lanes as u64,
            form as u64,
            u64::from(synced),
            memtable_bytes,
            u64::from(background_threads),
            u64::from(recovery_threads),
            preset as u64,
            variety,
        ];
        args.extend(numbers.iter().chain(&self.next).map(u64::to_string));
        args
    }

    pub fn from_args(args: &[String]) -> Option<Order> {
        let (dir, numbers) = args.split_first()?;
        let numbers: Vec<u64> =
            numbers.iter().map(|text| text.parse().ok()).collect::<Option<_>>()?;
        let (settings, next) = numbers.split_at_checked(9)?;
        Some(Order {
            dir: dir.into(),
            plan: KillPlan { seed: settings[0], lanes: settings[1] as usize },
            settings: Settings {
                form: *Form::ALL.get(usize::try_from(settings[2]).ok()?)?,
                synced: settings[3] == 1,
                memtable_bytes: settings[4],
                background_threads: settings[5] as u32,
                recovery_threads: settings[6] as u32,
                preset: usize::try_from(settings[7]).ok()?,
                variety: settings[8],
            },
            next: next.to_vec(),
        })
    }
}

/// Both keyspaces, made if they are missing.
pub fn keyspaces(db: &Db) -> strandline::Result<[Keyspace; SPACES.len()]> {
    let other = match db.keyspace(SPACES[1]) {
        Err(error) if error.kind() == ErrorKind::NotFound => db.create_keyspace(SPACES[1]),
        there => there,
    };
    Ok([db.default_keyspace().clone(), other?])
}

/// Runs as a child; comes back only if something went wrong.
pub fn run(args: &[String]) -> Result<(), String> {
    let order = Order::from_args(args).ok_or("kill9-child is started by kill9")?;
    let out = announce()?;
    let options = order.settings.options(&order.dir).map_err(|error| error.to_string())?;
    let db = Db::open(&order.dir, options).map_err(|error| error.to_string())?;
    let child = Child::new(db, order.plan, out, Faults::None)?;
    std::thread::scope(|scope| child.supervise(child.spawn(scope, &order.next)))
}

/// Tells that the store is about to be opened; the way to tell more.
pub fn announce() -> Result<File, String> {
    // Not through a buffer: what was told has left this process.
    let out = std::io::stdout().as_fd().try_clone_to_owned().map_err(|error| error.to_string())?;
    let out = File::from(out);
    tell(&out, &[Message::Opening])?;
    Ok(out)
}

fn fault(ended: std::thread::Result<Result<(), String>>) -> String {
    match ended {
        Ok(Err(text)) => text,
        Ok(Ok(())) => "a thread came to an end".into(),
        Err(_) => "a thread panicked".into(),
    }
}

/// Whether calls of the device fail on purpose, so that a commit may be refused for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Faults {
    None,
    Injected,
}

/// An open store, and what is done to it.
pub struct Child {
    pub db: Db,
    spaces: [Keyspace; SPACES.len()],
    plan: KillPlan,
    pub out: File,
    faults: Faults,
    /// Held by each commit; taken for writing, no commit of a lane is under way.
    pub gate: RwLock<()>,
}

/// A thread that should not end.
pub type RunningChild<'scope> = ScopedJoinHandle<'scope, Result<(), String>>;

impl Child {
    /// Makes the keyspaces, and tells that the store is open.
    pub fn new(db: Db, plan: KillPlan, out: File, faults: Faults) -> Result<Child, String> {
        let spaces = keyspaces(&db).map_err(|error| error.to_string())?;
        tell(&out, &[Message::Opened])?;
        Ok(Child { db, spaces, plan, out, faults, gate: RwLock::new(()) })
    }

    /// The keyspaces of the lanes.
    pub fn spaces(&self) -> &[Keyspace] {
        &self.spaces
    }

    /// Starts the lanes, each at its next commit, and a reader, if there is any lane.
    pub fn spawn<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        next: &[u64],
    ) -> Vec<RunningChild<'scope>> {
        let lanes = next.iter().enumerate();
        let mut threads: Vec<_> = lanes
            .map(|(lane, first)| {
                let first = *first;
                scope.spawn(move || self.write(lane, first))
            })
            .collect();
        if let Some(seed) = next.first().copied() {
            threads.push(scope.spawn(move || self.observe(seed)));
        }
        threads
    }

    /// Waits for ever, or until a thread ends, which it does if something is wrong: then the process must not outlive it.
    pub fn supervise(&self, mut threads: Vec<RunningChild<'_>>) -> Result<(), String> {
        loop {
            if let Some(at) = threads.iter().position(ScopedJoinHandle::is_finished) {
                eprintln!("{}", fault(threads.swap_remove(at).join()));
                std::process::exit(1);
            }
            // Said again and again, so that nothing goes on when the parent is gone.
            if tell(&self.out, &[Message::Opened]).is_err() {
                std::process::exit(1);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Makes the commits of `lane` from `first` on.
    fn write(&self, lane: usize, first: u64) -> Result<(), String> {
        tell(&self.out, &[Message::Intend { lane, number: first }])?;
        let mut batch = Batch::new();
        for number in first.. {
            self.commit_at_last(lane, number, &mut batch).map_err(|error| {
                let figures = self.db.properties();
                format!(
                    "lane {lane}, commit {number}: {error}\n{figures:?}\n{}",
                    self.db.pool_view()
                )
            })?;
            let next = Message::Intend { lane, number: number + 1 };
            tell(&self.out, &[Message::Acknowledged { lane, number }, next])?;
        }
        Ok(())
    }

    /// Whether a call of the device that failed on purpose may be the reason.
    fn is_on_purpose(&self, error: &strandline::Error) -> bool {
        self.faults == Faults::Injected
            && matches!(error.kind(), ErrorKind::Io | ErrorKind::NoSpace)
    }

    /// Makes a commit, again and again where it may be refused for a while.
    fn commit_at_last(
        &self,
        lane: usize,
        number: u64,
        batch: &mut Batch,
    ) -> strandline::Result<()> {
        let begun = Instant::now();
        loop {
            let gate = self.gate.read().unwrap_or_else(PoisonError::into_inner);
            let committed = self.commit(lane, number, batch);
            drop(gate);
            match committed {
                Err(error) if self.is_on_purpose(&error) && begun.elapsed() < PATIENCE => {}
                committed => return committed,
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn commit(&self, lane: usize, number: u64, batch: &mut Batch) -> strandline::Result<()> {
        let changes = self.plan.commit(lane, number);
        if let [Change { key, put }] = &changes[..] {
            let space = &self.spaces[key.space];
            return match put {
                Some(version) => space.put(key.bytes(), self.plan.value(lane, key, *version)),
                None => space.delete(key.bytes()),
            };
        }
        batch.clear();
        for Change { key, put } in changes {
            let space = &self.spaces[key.space];
            match put {
                Some(version) => {
                    batch.put(space, key.bytes(), self.plan.value(lane, &key, version));
                }
                None => batch.delete(space, key.bytes()),
            }
        }
        self.db.write(batch)
    }

    /// Reads keys and tells whose values it saw; tells what background work came to.
    fn observe(&self, seed: u64) -> Result<(), String> {
        let keys: Vec<Key> = self.plan.keys().collect();
        let mut rng = Rng::new(self.plan.seed ^ seed);
        let mut runs = Runs::default();
        loop {
            for _ in 0..READS {
                self.read(rng.pick(&keys))?;
            }
            if rng.chance(1, 40) {
                match self.db.compact() {
                    Err(error) if self.is_on_purpose(&error) => {}
                    compacted => compacted.map_err(|error| format!("compact: {error}"))?,
                }
            }
            let properties = self.db.properties();
            if let Some(why) = properties.refusing_writes {
                return Err(format!("writes are refused: {why}"));
            }
            let ids = properties.keyspaces.iter().flat_map(|space| &space.runs).map(|run| run.id);
            runs.look(ids.collect());
            let regrants = steps::zones_regranted(&self.spaces[0]);
            let cleaned = properties.persisted.site_bytes(Site::Clean);
            let compactions = steps::compactions(&self.spaces[0]);
            tell(
                &self.out,
                &[
                    Message::Count { of: Count::Flushes, is: runs.flushes },
                    Message::Count { of: Count::Merges, is: runs.merges },
                    Message::Count { of: Count::Regrants, is: regrants },
                    Message::Count { of: Count::Cleaned, is: cleaned },
                    Message::Count { of: Count::Drained, is: compactions.level0 },
                    Message::Count { of: Count::Sunk, is: compactions.levels + compactions.moves },
                ],
            )?;
            std::thread::sleep(Duration::from_micros(300));
        }
    }

    fn read(&self, key: &Key) -> Result<(), String> {
        let value = self.spaces[key.space].get(key.bytes()).map_err(|error| error.to_string())?;
        let Some(value) = value else { return Ok(()) };
        let (lane, version) = self
            .plan
            .writer(key, &value)
            .ok_or_else(|| format!("{key:?} held {} bytes that were never written", value.len()))?;
        tell(&self.out, &[Message::Saw { lane, number: version.commit() }])
    }
}

/// Runs that were seen. What came and went between two looks is not counted.
#[derive(Default)]
struct Runs {
    last: Option<BTreeSet<u64>>,
    flushes: u64,
    merges: u64,
}

impl Runs {
    fn look(&mut self, ids: BTreeSet<u64>) {
        if let Some(last) = &self.last {
            let came = ids.difference(last).count() as u64;
            // Flushes only add; a merge takes runs away and puts at most one in their place.
            let merged = u64::from(last.difference(&ids).next().is_some());
            self.merges += merged;
            self.flushes += came.saturating_sub(merged);
        }
        self.last = Some(ids);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_survive_the_command_line() {
        let order = Order {
            dir: "/some/where".into(),
            plan: KillPlan { seed: u64::MAX, lanes: 2 },
            settings: Settings::quiet(Form::Log),
            next: vec![5, 6],
        };
        let back = Order::from_args(&order.to_args()).unwrap();
        assert_eq!(format!("{back:?}"), format!("{order:?}"));
        assert!(Order::from_args(&order.to_args()[..9]).is_none());
        assert!(Order::from_args(&[]).is_none());
    }
}
