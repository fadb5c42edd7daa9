//! One engine, one run: a store from empty to verified and gone.

use std::path::Path;

use bench::scratch::{MEMORY, Scratch};

use crate::data::{Data, Model};
use crate::dram::{BUFFERS, Dram};
use crate::engines::{Engine, Maker, OURS, Result, Setup};
use crate::flags::Flags;
use crate::ground;
use crate::measure::bytes::ProcessBytes;
use crate::measure::group::Peak;
use crate::measure::memory::MemoryMeter;
use crate::measure::misses::Misses;
use crate::plan;
use crate::promise::Promise;
use crate::sample::Sample;
use crate::slices;
use crate::stages::{Case, Fit, Holds, PageCache, Place, Prepared, Stage, Survives, Work};
use crate::verify::{self, Digest};
use crate::work::records::{self, RECORD_KEY, Records};
use crate::work::{Bench, Clocks, Measured, orders, written_since};

/// Logs that are filled before commits are measured: more than engines keep to write over.
const LOGS: u64 = BUFFERS + 1;
/// So many keys that each thread has some.
const LEAST_KEYS: u64 = 1024;
/// Puts of each key, on average, before a store counts as worn.
const WEAR: u64 = 3;

/// What came of it.
#[derive(Clone, Debug)]
pub struct Turn {
    /// Figures of each benchmark, and of the bare loops beside it.
    pub samples: Vec<Sample>,
    /// What the store held at the end, where that must be the same for all engines.
    pub digest: Option<Digest>,
}

/// How a store is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mode {
    survives: Survives,
    direct: bool,
}

/// As data is put before benchmarks that only read or overwrite.
const LOADING: Mode = Mode { survives: Survives::Kill, direct: false };

/// A store, from one benchmark to the next.
struct Subject<'s> {
    maker: &'static Maker,
    dir: &'s Path,
    memory: Option<&'s Path>,
    dram: Dram,
    /// None while it is closed.
    engine: Option<(Mode, Box<dyn Engine>)>,
    stage: &'static Stage,
    flags: &'s Flags,
    data: &'s Data,
    model: &'s Model,
    begun: &'s Model,
    records: Option<&'s Records>,
    run: usize,
}

/// Runs `cases` of `stage` on a new store of `maker`.
pub fn run(
    flags: &Flags,
    stage: &'static Stage,
    cases: &[&'static Case],
    maker: &'static Maker,
    run: usize,
) -> Result<Turn> {
    let cases: Vec<&Case> =
        cases.iter().copied().filter(|case| (maker.offers)(stage, case)).collect();
    let sizes = flags.sizes;
    let (bytes, dram) = (sizes.data(stage.place, stage.fit), sizes.dram(stage.place, stage.fit));
    let within = |parent: &Path, wanted: u64| Scratch::within(&[parent.to_owned()], wanted);
    let memory = match stage.place {
        Place::Disk => None,
        Place::Tmpfs | Place::Split => Some(within(Path::new(MEMORY), dram.pool + 2 * bytes)?),
        Place::Hybrid => Some(within(Path::new(MEMORY), dram.pool)?),
    };
    let disk = match stage.place {
        Place::Tmpfs => None,
        Place::Disk | Place::Split | Place::Hybrid => {
            ground::settle(&flags.disk)?;
            // A log of records takes some twice their bytes.
            Some(within(&flags.disk, 3 * (bytes + dram.pool))?)
        }
    };
    let memory = memory.as_ref().map(Scratch::path);
    let dir = disk.as_ref().map(Scratch::path).or(memory).ok_or("a store without a folder")?;
    let data = Data::new(flags.spread, flags.load.filling, stage.value_size);
    let holds = stage.group.holds();
    let keys = if holds == Holds::Numbers { bytes / data.entry() } else { 0 };
    let model = Model::new(keys.max(LEAST_KEYS));
    let records = (holds == Holds::Records).then(|| {
        let count = (bytes / (RECORD_KEY + stage.value_size) as u64).max(LEAST_KEYS);
        Records::new(count, stage.value_size, flags.load.filling, stage.keyspaces.len())
    });
    let puts_beside = cases.iter().any(|case| matches!(case.work, Work::GetWhilePut(_)));
    // Made before memory is looked at: it is not the store's.
    let begun = Model::new(if puts_beside { model.len() } else { 0 });
    let meter = MemoryMeter::start(memory);
    let mut subject = Subject {
        maker,
        dir,
        memory,
        dram,
        engine: None,
        stage,
        flags,
        data: &data,
        model: &model,
        begun: &begun,
        records: records.as_ref(),
        run,
    };
    let done = subject.benchmarks(&cases, &meter);
    let closed = subject.close();
    let turn = done?;
    closed?;
    Ok(turn)
}

impl Subject<'_> {
    /// All benchmarks on the store, and a look at all of it before and after.
    fn benchmarks(&mut self, cases: &[&'static Case], meter: &MemoryMeter) -> Result<Turn> {
        let Some(first) = cases.first() else {
            return Ok(Turn { samples: Vec::new(), digest: None });
        };
        self.prepare(first)?;
        let mut peak = self.flags.group.as_deref().map(Peak::of);
        let mut samples = Vec::new();
        for case in cases {
            self.make_ready(case)?;
            meter.take_peak();
            peak.iter_mut().for_each(Peak::reset);
            let (measured, loops) = self.measure(case)?;
            let group_memory = peak.as_mut().and_then(Peak::bytes);
            let memory = meter.take_peak();
            let space = Some(ground::taken(self.dir)?);
            samples.push(self.sample(case, Measured { memory, space, group_memory, ..measured })?);
            samples.extend(loops);
        }
        Ok(Turn { samples, digest: self.verify(cases)? })
    }

    /// A last look at all of it. What it holds, if that must be the same for all engines.
    fn verify(&self, cases: &[&Case]) -> Result<Option<Digest>> {
        let bench = self.bench(0)?;
        match self.stage.group.holds() {
            Holds::Numbers => {
                let digest = verify::whole(bench.engine, bench.data, bench.model)?;
                spot_check(&bench)?;
                delete_some(&bench)?;
                let alike = cases.iter().all(|case| case.work.leaves_all_alike());
                Ok(Some(digest).filter(|digest| alike && digest.count == bench.model.len()))
            }
            // Of these the order of operations says what is left.
            Holds::Records => records::verify(&bench).map(|_| None),
            Holds::Orders => orders::verify(&bench).map(|()| None),
        }
    }

    /// Brings the new store to what the stage begins from.
    fn prepare(&mut self, first: &Case) -> Result<()> {
        // Opened anew, an engine may begin with empty memtables.
        let stays = matches!(self.stage.prepared, Prepared::Empty | Prepared::Primed)
            || self.stage.fit == Fit::Memtables;
        self.open(if stays { mode(first) } else { LOADING })?;
        let bench = self.bench(0)?;
        let holds = self.stage.group.holds();
        match self.stage.prepared {
            // Its load comes first, whether it was asked for or not.
            Prepared::Empty if holds == Holds::Records && first.work != Work::Insert => {
                records::load(&bench)?;
            }
            Prepared::Empty => return Ok(()),
            Prepared::Primed if self.maker.has_log => {
                bench.put_random((LOGS * self.dram.buffer).div_ceil(self.data.entry()))?;
            }
            Prepared::Primed => {}
            Prepared::Loaded if holds == Holds::Orders => orders::load(&bench)?,
            Prepared::Loaded => bench.load()?,
            Prepared::Compacted | Prepared::Warm => {
                bench.load()?;
                bench.engine.compact()?;
            }
            Prepared::Worn => {
                bench.load()?;
                bench.put_random(WEAR * self.model.len())?;
            }
        }
        let _seconds = ProcessBytes::settle();
        if self.fills_caches(first) {
            verify::whole(bench.engine, bench.data, bench.model)?;
        }
        Ok(())
    }

    /// Whether a look at the whole store before a benchmark is worth its time: it is to find everything in caches.
    fn fills_caches(&self, case: &Case) -> bool {
        self.stage.group.holds() == Holds::Numbers
            && case.cache == PageCache::Used
            && matches!(self.stage.prepared, Prepared::Loaded | Prepared::Compacted)
    }

    /// Opens the store anew, if the benchmark needs that.
    fn make_ready(&mut self, case: &Case) -> Result<()> {
        let on_disk = self.stage.place.shares_disk();
        let stays = matches!(self.stage.prepared, Prepared::Empty | Prepared::Warm);
        let cold = on_disk && case.cache != PageCache::Used && !stays;
        let open = self.engine.as_ref().map(|(mode, _)| *mode);
        if cold || open != Some(mode(case)) {
            self.close()?;
            if cold {
                ground::chill(self.dir)?;
            } else if on_disk {
                ground::sync(self.dir)?;
            }
            self.open(mode(case))?;
            if self.fills_caches(case) {
                let bench = self.bench(0)?;
                verify::whole(bench.engine, bench.data, bench.model)?;
            }
            if let Some(length) = plan::fills_caches(self.stage, self.model.len()) {
                let bench = self.bench_of(case, 3)?;
                bench.run(Work::Get, plan::WARM_THREADS, length, &Clocks::new(plan::UNTIMED))?;
            }
        } else if on_disk {
            ground::sync(self.dir)?;
        }
        Ok(())
    }

    /// Runs the benchmark, and the bare loops beside it.
    fn measure(&self, case: &'static Case) -> Result<(Measured, Vec<Sample>)> {
        let length = plan::length(self.flags, self.stage, case, self.maker);
        if let Some(warm) = plan::warm(self.stage, case, length) {
            let bench = self.bench_of(case, 1)?;
            bench.run(case.work, case.threads, warm, &Clocks::new(plan::UNTIMED))?;
        }
        let bench = self.bench_of(case, 2)?;
        let clocks = Clocks {
            misses: Misses::new(plan::looks(self.stage, case)),
            ..Clocks::new(plan::timing(self.stage, case))
        };
        let (before, moved) = (bench.engine.written(), ProcessBytes::now());
        let slices = plan::slices(self.flags, self.stage, case);
        let (mut measured, loops) = match slices {
            Some(slice) => {
                let beside = self.maker.name == OURS.name;
                let setup = self.setup(mode(case));
                slices::run(&bench, self.stage, case, slice, &clocks, beside.then_some(&setup))?
            }
            None => (bench.run(case.work, case.threads, length, &clocks)?, Vec::new()),
        };
        if plan::owes(case.work) {
            measured.settled = ProcessBytes::settle();
            measured.moved = ProcessBytes::now().since(moved);
            measured.written = written_since(bench.engine, before);
        }
        if measured.cut.is_some() && case.work == Work::Insert {
            records::load(&bench)?;
        }
        measured.hits = clocks.misses.hits();
        measured.latency = clocks.main.latency();
        measured.aside_latency = clocks.aside.latency();
        let loops = loops.into_iter().map(|one| Sample {
            engine: one.maker.name,
            run: self.run,
            stage: self.stage,
            case,
            load: self.flags.load.of(case),
            keys: 0,
            promise: Promise::Synced,
            durability: one.durability,
            measured: one.measured,
        });
        Ok((measured, loops.collect()))
    }

    fn sample(&self, case: &'static Case, measured: Measured) -> Result<Sample> {
        let bench = self.bench(0)?;
        Ok(Sample {
            engine: self.maker.name,
            run: self.run,
            stage: self.stage,
            case,
            load: self.flags.load.of(case),
            keys: match self.stage.group.holds() {
                Holds::Numbers => self.model.len(),
                Holds::Records => self.records.map_or(0, Records::len),
                Holds::Orders => 0,
            },
            promise: bench.engine.promise(),
            durability: bench.engine.durability()?,
            measured,
        })
    }

    /// The store at hand, for `case`. It draws other keys than the cases before it, which are in caches.
    fn bench_of(&self, case: &Case, salt: u64) -> Result<Bench<'_>> {
        let bench = self.bench(salt)?;
        let fold = |sum: u64, byte| sum.wrapping_mul(31).wrapping_add(u64::from(byte));
        let own = case.name.bytes().fold(case.threads as u64, fold);
        let seed = bench.seed.wrapping_add(own << 24);
        Ok(Bench { draw: case.draw.unwrap_or(bench.draw), seed, ..bench })
    }

    /// The store at hand. What is drawn differs with `salt`.
    fn bench(&self, salt: u64) -> Result<Bench<'_>> {
        let (_, engine) = self.engine.as_ref().ok_or("the store is closed")?;
        Ok(Bench {
            engine: &**engine,
            data: self.data,
            model: self.model,
            begun: self.begun,
            records: self.records,
            scale: self.flags.scale,
            draw: self.flags.load.draw,
            seed: self.flags.seed + self.run as u64 + (salt << 8),
        })
    }

    fn setup(&self, mode: Mode) -> Setup<'_> {
        Setup {
            dir: self.dir,
            memory: self.memory,
            place: self.stage.place,
            fit: self.stage.fit,
            keyspaces: self.stage.keyspaces,
            survives: mode.survives,
            direct: mode.direct,
            dram: self.dram,
            counted: self.flags.counted,
        }
    }

    fn open(&mut self, mode: Mode) -> Result<()> {
        self.engine = Some((mode, (self.maker.open)(&self.setup(mode))?));
        Ok(())
    }

    fn close(&mut self) -> Result<()> {
        self.engine.take().map_or(Ok(()), |(_, engine)| engine.close())
    }
}

/// As a store is open for `case`.
fn mode(case: &Case) -> Mode {
    Mode { survives: case.survives, direct: case.cache.is_passed() }
}

/// Gets of keys all over the store, since the whole scan went another way.
fn spot_check(bench: &Bench<'_>) -> Result<()> {
    let (mut key, mut value) = (Vec::new(), Vec::new());
    let count = bench.model.len();
    for number in (0..count).step_by((count / 10_000).max(1) as usize) {
        bench.data.key(number, &mut key);
        value.clear();
        let found = bench.engine.get(&key, &mut value)?;
        let got = bench.data.generation(number, &value).filter(|_| found);
        let wanted = Some(bench.model.get(number)).filter(|generation| *generation > 0);
        if got != wanted {
            return Err(format!("get {number} at the end: generation {got:?}, not {wanted:?}"));
        }
    }
    Ok(())
}

/// Deletes a few keys, the last thing that is done to a store: they must be gone, and only they.
fn delete_some(bench: &Bench<'_>) -> Result<()> {
    let count = bench.model.len();
    for number in (0..count).step_by((count / 100).max(1) as usize) {
        let mut key = Vec::new();
        bench.data.key(number, &mut key);
        bench.engine.delete(&key)?;
        bench.model.set(number, 0);
    }
    spot_check(bench)
}
