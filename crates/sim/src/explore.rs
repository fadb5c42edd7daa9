//! The explorer: every crash point of a run, every image there, and again inside what follows.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use pmem::Region;
use ssd::{Disk, Fs};

use crate::beside::{Beside, End, Kind};
use crate::campaign::{Counters, SiteCount};
use crate::case::{Case, Failure};
use crate::check::{Accepted, Expect, Fold, Outcome, Rule, Violation};
use crate::cut::{CutLimits, Doubt, cuts, states};
use crate::files::{Files, Survivor, Survivors};
use crate::follow::{Dive, Image, Recovered};
use crate::hash::{self, HashMap64, HashSet64};
use crate::history::History;
use crate::lazy::LazyPm;
use crate::log::{Event, Log};
use crate::media::{Media, Mode, Torn, patch, unpatch};
use crate::pm::SimPm;
use crate::sabotage::Planted;
use crate::state::{EntryKey, State};
use crate::system::System;
use base::random::Rng;

/// Whether recovery is run on memory that decides line by line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lazily {
    /// Images are enumerated.
    Never,
    /// Images are enumerated; besides, so many lazy recoveries at a point at most.
    Also(u32),
    /// So many lazy recoveries at a point at most; crashes inside crashes are not tried there.
    Instead(u32),
}

/// How far the exploration goes.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Crash points tried of the workload, drawn by lot.
    pub top_points: usize,
    /// Images at the crash points of the workload.
    pub top: CutLimits,
    /// Images at the crash points of a recovery and of what follows it.
    pub deep: CutLimits,
    /// Crashes in a row, at least one.
    pub levels: usize,
    /// One in so many recoveries is itself crashed, with what follows; 0 for none.
    pub dive_one_in: u32,
    /// One in so many recovered stores is worked with; 0 for none.
    pub continue_one_in: u32,
    /// At one in so many crash points the process is killed as well; 0 for none.
    pub kill_one_in: u32,
    /// Crash points tried of a run that follows a crash.
    pub deep_points: usize,
    /// Lazy recoveries.
    pub lazily: Lazily,
    /// Images per case; exploration ends quietly when they are spent, and counts that.
    pub max_images: u64,
    /// Memory accesses after which a recovery counts as one that does not end.
    pub fuel: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            top_points: usize::MAX,
            top: CutLimits::default(),
            deep: CutLimits::small(),
            levels: 2,
            dive_one_in: 50,
            continue_one_in: 10,
            kill_one_in: 4,
            deep_points: 12,
            lazily: Lazily::Never,
            max_images: 1_000_000,
            fuel: 10_000_000,
        }
    }
}

/// Runs of one level kept for their turn; more would only take memory.
const MOST_DEFERRED: usize = 256;
/// Of images without a store, one in so many has one made again: that costs more than to see that there is none.
const REMADE_ONE_IN: u64 = 8;

/// What one depth of crashes needs to boot images, reused from image to image.
pub(crate) struct Rig {
    pub(crate) pm: Arc<SimPm>,
    pub(crate) spare: Option<Region>,
    pub(crate) image: Vec<u8>,
    pub(crate) files: Files,
}

/// What a run begins with.
pub(crate) struct Start {
    pub(crate) media: Media,
    pub(crate) disk: Arc<Disk>,
}

/// Explores cases of one system.
pub struct Explorer<'s, S: System> {
    pub(crate) system: &'s S,
    pub(crate) limits: Limits,
    /// What was done so far.
    pub counters: Counters,
    rigs: Vec<Option<Rig>>,
    pub(crate) lazy: Arc<LazyPm>,
    pub(crate) lazy_spare: Option<Region>,
    pub(crate) lazy_files: Files,
    /// The disk before any store is made.
    pub(crate) blank: Arc<Disk>,
    /// What recovery makes of an image; none if it refuses.
    seen: HashMap64<Option<Outcome>>,
    /// What lies beside the store, by the hash of it.
    beside: HashMap64<Arc<[Beside]>>,
    distinct: HashSet64,
    budget: u64,
    sabotage: Option<Planted>,
}

/// A crash point under exploration.
pub(crate) struct Point<'a, 'h> {
    pub(crate) case: &'a Case,
    pub(crate) event: usize,
    log: &'a Log,
    pub(crate) expect: Expect<'h>,
    /// The doubts in memory.
    pub(crate) torn: &'a [Torn],
    pub(crate) disk: &'a Arc<Disk>,
    /// The doubts on the disk.
    pub(crate) on_disk: &'a [Doubt],
    pub(crate) hash: u64,
    pub(crate) depth: usize,
    in_recovery: bool,
    in_flight: usize,
}

impl Point<'_, '_> {
    fn last(&self) -> Option<&Event> {
        self.log.events[..self.event].iter().rev().find(|e| e.is_media())
    }

    /// A number for what happened last.
    fn site(&self) -> u64 {
        match self.last() {
            Some(event) => match (event.site(), self.log.call(event)) {
                (Some(site), _) => site as u64 + 1,
                (None, Some(call)) => call.call as u64 + 0x80,
                (None, None) => 0,
            },
            None => 0,
        }
    }

    pub(crate) fn describe(&self, crash: &str) -> String {
        let phase = match (self.depth, self.in_recovery) {
            (0, _) => "workload",
            (_, true) => "recovery",
            (_, false) => "after recovery",
        };
        let last = self.last().map_or("nothing yet".to_string(), |e| self.log.describe(e));
        format!("{phase}, event {} of {}, {last}: {crash}", self.event, self.log.len())
    }

    pub(crate) fn describe_cut(&self, choice: &[u16]) -> String {
        let lines = self.torn.iter().zip(choice).map(|(t, &c)| {
            let fate = match usize::from(c) {
                0 => "lost".to_string(),
                c if c == t.candidates.kept => "kept".to_string(),
                c => format!("torn (content {c} of {})", t.count()),
            };
            format!("line {} {fate}", t.line)
        });
        let files = self.disk.tell(choice.get(self.torn.len()..).unwrap_or_default());
        let fates: Vec<String> = lines.chain(files).collect();
        self.describe(&format!("power cut [{}]", fates.join(", ")))
    }
}

/// Runs what may panic in the system under test.
pub(crate) fn guard<T>(f: impl FnOnce() -> Result<T, Violation>) -> Result<T, Violation> {
    catch_unwind(AssertUnwindSafe(f)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("?");
        Err(Violation::panicked(text))
    })
}

impl<'s, S: System> Explorer<'s, S> {
    /// An explorer with nothing counted yet.
    pub fn new(system: &'s S, limits: Limits) -> Self {
        Self {
            system,
            limits,
            counters: Counters::default(),
            rigs: Vec::new(),
            lazy: LazyPm::new(),
            lazy_spare: None,
            lazy_files: Files::default(),
            blank: Arc::new(system.disk()),
            seen: HashMap64::default(),
            beside: HashMap64::default(),
            distinct: HashSet64::default(),
            budget: 0,
            sabotage: None,
        }
    }

    /// Runs one case and explores it until a rule is broken or the limits are reached.
    pub fn run(&mut self, case: &Case) -> Result<(), Box<Failure>> {
        self.seen.clear();
        self.beside.clear();
        self.sabotage = case.sabotage;
        self.counters.totals.cases += 1;
        self.budget = self.counters.totals.images + self.limits.max_images;
        let result = self.record(case).and_then(|(log, history)| {
            let zeros = vec![0; self.system.region_len() as usize];
            let media = Media::new(case.mode, &zeros);
            let start = Start { media, disk: Arc::clone(&self.blank) };
            self.level(case, start, &log, &history, None, 0)
        });
        self.counters.totals.distinct = self.distinct.len() as u64;
        let rigs = self.rigs.iter().flatten();
        self.counters.totals.struck = rigs.map(|rig| rig.pm.struck()).sum();
        result.map_err(|violation| Box::new(Failure { case: case.clone(), violation }))
    }

    /// Whether the case has had its images.
    pub(crate) fn spent(&self) -> bool {
        self.counters.totals.images >= self.budget
    }

    pub(crate) fn take_rig(&mut self, depth: usize) -> Rig {
        if self.rigs.len() <= depth {
            self.rigs.resize_with(depth + 1, || None);
        }
        let rig = self.rigs[depth].take().unwrap_or_else(|| Rig {
            pm: SimPm::recorder(None),
            spare: None,
            image: Vec::new(),
            files: Files::default(),
        });
        // Recoveries are sabotaged as the workload is.
        rig.pm.set_sabotage(self.sabotage);
        rig
    }

    pub(crate) fn put_rig(&mut self, depth: usize, rig: Rig) {
        self.rigs[depth] = Some(rig);
    }

    /// Explores the crash points of a run that began so. Until its store was open,
    /// `before` tells what must hold.
    pub(crate) fn level(
        &mut self,
        case: &Case,
        start: Start,
        log: &Log,
        history: &History,
        before: Option<Expect<'_>>,
        depth: usize,
    ) -> Result<(), Violation> {
        let Start { mut media, disk } = start;
        let points = self.points(case, log, depth, media.hash());
        let dir = self.system.beside_dir();
        let mut survivors = Survivors::new(disk, dir);
        let mut done = 0;
        // Breadth first: what one crash fewer shows is shown so.
        let mut later = Vec::new();
        for event in points {
            if self.spent() {
                self.counters.totals.truncated += 1;
                return Ok(());
            }
            media.replay(log, done..event);
            if let Some(changed) = log.disk_after(done..event) {
                survivors = Survivors::new(Arc::clone(changed), dir);
            }
            done = event;
            let in_recovery = depth > 0 && event <= history.born();
            let expect = match before {
                Some(before) if in_recovery => before,
                _ => history.expect(event),
            };
            let torn = media.torn();
            let (disk, on_disk) = (Arc::clone(survivors.disk()), Arc::clone(survivors.doubts()));
            let point = Point {
                case,
                event,
                log,
                expect,
                torn: &torn,
                disk: &disk,
                on_disk: &on_disk,
                hash: media.hash(),
                depth,
                in_recovery,
                in_flight: expect.in_flight(),
            };
            self.point(&point, &media, &mut survivors, &mut later)?;
            if later.len() >= MOST_DEFERRED {
                self.dive(case, &mut later, depth)?;
            }
        }
        if depth == 0 {
            self.counters.waste.add(&media.waste());
        }
        self.dive(case, &mut later, depth)
    }

    /// The crash points of a run: before each event that concerns memory or the disk, and at the end. Marks that
    /// stand before an event have then been made, which is when the oracle demands most.
    fn points(&mut self, case: &Case, log: &Log, depth: usize, salt: u64) -> Vec<usize> {
        let mut points: Vec<usize> = (0..=log.len())
            .filter(|&i| {
                let next = log.events.get(i).is_none_or(Event::is_media);
                // With eADR a store is under way until something follows it, be it a mark.
                next || case.mode == Mode::Eadr && i > 0 && log.events[i - 1].is_media()
            })
            .collect();
        let mut most = self.limits.deep_points;
        if depth == 0 {
            self.counters.totals.events += log.len() as u64;
            for event in &log.events {
                self.count(log, event, |count| count.events += 1);
            }
            most = self.limits.top_points;
        }
        let mut rng = Rng::fork(case.seed, salt ^ depth as u64);
        while points.len() > most {
            points.remove(rng.index(points.len()));
        }
        points
    }

    /// Counts an event at its site, or with calls of its kind.
    fn count(&mut self, log: &Log, event: &Event, up: impl FnOnce(&mut SiteCount)) {
        if let Some(site) = event.site() {
            up(&mut self.counters.sites[site as usize]);
        } else if let Some(call) = log.call(event) {
            up(self.counters.call_mut(call));
        }
    }

    fn point<'h>(
        &mut self,
        point: &Point<'_, 'h>,
        media: &Media,
        survivors: &mut Survivors,
        later: &mut Vec<Dive<'h>>,
    ) -> Result<(), Violation> {
        self.counters.totals.points += 1;
        if let Some(event) = point.last() {
            self.count(point.log, event, |count| count.points += 1);
        }
        let limits = if point.depth == 0 { self.limits.top } else { self.limits.deep };
        let (enumerate, lazy) = match self.limits.lazily {
            Lazily::Never => (true, 0),
            Lazily::Also(n) => (true, n),
            Lazily::Instead(n) => (false, n),
        };
        // Every choice of what survived, where these are few enough; a sample of them elsewhere.
        if enumerate {
            let mut doubts: Vec<Doubt> = point.torn.iter().map(Doubt::from).collect();
            doubts.extend(point.on_disk);
            let all = states(&doubts) <= limits.exhaustive as u128;
            self.counters.totals.exhaustive_points += u64::from(all);
            let mut rig = self.take_rig(point.depth);
            rig.image.clear();
            rig.image.extend_from_slice(media.durable());
            let mut result = Ok(());
            let mut rng = Rng::fork(point.case.seed, point.hash ^ point.event as u64);
            cuts(&doubts, &limits, &mut rng, &mut |choice| {
                let files = survivors.get(&choice[point.torn.len()..]);
                result = self.image(&mut rig, point, choice, files, later);
                result.is_ok() && !self.spent()
            });
            self.put_rig(point.depth, rig);
            result?;
        }
        // Lines are chosen only once recovery reads them, so that few choices stand for many.
        if lazy > 0 {
            self.each_disk_lazily(point, media.durable(), survivors, lazy)?;
        }
        // A killed process loses no line; its recovery is then explored in turn.
        let mut rng = Rng::fork(point.case.seed, point.hash.rotate_left(7) ^ point.event as u64);
        if point.depth + 1 < self.limits.levels
            && rng.one_in(self.rate(point, self.limits.kill_one_in))
        {
            let mut killed = media.clone();
            killed.kill();
            self.kill(point, killed, later).map_err(|v| v.after(point.describe("process kill")))?;
        }
        Ok(())
    }

    fn image<'h>(
        &mut self,
        rig: &mut Rig,
        point: &Point<'_, 'h>,
        choice: &[u16],
        files: &Survivor,
        later: &mut Vec<Dive<'h>>,
    ) -> Result<(), Violation> {
        let deltas = point.torn.iter().zip(choice);
        let hash = deltas.fold(point.hash, |h, (t, &c)| h ^ t.candidates.deltas[usize::from(c)]);
        let hash = hash ^ files.hash;
        let totals = &mut self.counters.totals;
        totals.images += 1;
        totals.images_in_flight += u64::from(point.in_flight >= 2);
        totals.disk_images += u64::from(!point.on_disk.is_empty());
        totals.mixed_images += u64::from(!point.on_disk.is_empty() && !point.torn.is_empty());
        totals.double_crashes += u64::from(point.depth > 0);
        totals.crashes_in_recovery += u64::from(point.in_recovery);
        let (outcome, store) = match self.seen.get(&hash) {
            Some(&outcome) => (outcome, None),
            None => {
                totals.recoveries += 1;
                patch(&mut rig.image, point.torn, choice);
                let region = rig.pm.region(&rig.image, rig.spare.take());
                unpatch(&mut rig.image, point.torn);
                let fs = rig.files.boot(&files.disk, &rig.pm);
                rig.pm.set_fuel(self.limits.fuel);
                match guard(|| self.open(region, fs)) {
                    Ok((store, outcome)) => {
                        self.seen.insert(hash, Some(outcome));
                        (Some(outcome), Some(store))
                    }
                    Err(v) if !point.expect.created() && v.says_unmade() => {
                        if hash.is_multiple_of(REMADE_ONE_IN) {
                            let remade = self.remake(rig, point, choice, files);
                            remade.map_err(|v| v.after(point.describe_cut(choice)))?;
                        }
                        self.seen.insert(hash, None);
                        (None, None)
                    }
                    Err(v) => return Err(v.after(point.describe_cut(choice))),
                }
            }
        };
        let accepted = outcome.and_then(|o| point.expect.check(&o));
        match (outcome, accepted, store) {
            (Some(outcome), Some(accepted), store) => {
                let beside = self.check_beside(&point.expect, accepted, &files.disk, files.beside);
                let beside = beside.map_err(|v| v.after(point.describe_cut(choice)))?;
                self.tally(point, choice, outcome.cut);
                let Some(store) = store else { return Ok(()) };
                let facts = point.expect.facts_after(accepted, &beside, End::PowerCut);
                let recovered = Recovered { store, accepted, outcome, facts };
                self.follow(rig, point, Image { choice, hash, files }, recovered, later)
            }
            (None, _, _) if !point.expect.created() => {
                self.counters.totals.unmade += 1;
                Ok(())
            }
            (_, _, store) => {
                // Looked at once more, byte by byte, to say what is wrong.
                drop(store);
                patch(&mut rig.image, point.torn, choice);
                let region = rig.pm.region(&rig.image, None);
                unpatch(&mut rig.image, point.torn);
                let fs = rig.files.boot(&files.disk, &rig.pm);
                Err(self.explain(point, region, fs).after(point.describe_cut(choice)))
            }
        }
    }

    /// Makes the store again where none was completely made: nothing that is left may stand in the way, or show.
    fn remake(
        &mut self,
        rig: &mut Rig,
        point: &Point<'_, '_>,
        choice: &[u16],
        files: &Survivor,
    ) -> Result<(), Violation> {
        patch(&mut rig.image, point.torn, choice);
        let region = rig.pm.region(&rig.image, rig.spare.take());
        unpatch(&mut rig.image, point.torn);
        let fs = rig.files.boot(&files.disk, &rig.pm);
        rig.pm.set_fuel(self.limits.fuel);
        let refused = |error| Violation::new(Rule::N8, format!("it cannot be made again: {error}"));
        let store = guard(|| self.system.create(region, fs).map_err(refused))?;
        let shown = self.fold(&store)?;
        rig.spare = self.system.close(store);
        self.counters.totals.remade += 1;
        match shown == Fold::default() {
            true => Ok(()),
            false => Err(Violation::new(Rule::N3, "made again, it is not empty".into())),
        }
    }

    pub(crate) fn tally(&mut self, point: &Point<'_, '_>, choice: &[u16], cut: u64) {
        let kept = point.torn.iter().map(|t| t.candidates.kept as u16);
        let kept = kept.chain(point.on_disk.iter().map(|d| d.kept));
        let pattern = kept.zip(choice).fold(cut << 8 | point.site(), |h, (kept, &c)| {
            let class = if c == kept { u64::MAX } else { c.into() };
            (h ^ class).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23)
        });
        self.distinct.insert(base::random::mix(pattern));
        if point.depth == 0 {
            *self.counters.cuts.entry(cut).or_default() += 1;
        }
    }

    pub(crate) fn open(
        &self,
        region: Region,
        fs: Arc<dyn Fs>,
    ) -> Result<(S::Store, Outcome), Violation> {
        let store = self.system.open(region, fs).map_err(|e| Violation::refused(&e))?;
        let fold = self.fold(&store)?;
        let (cut, leaks) = (self.system.cut(&store), self.system.leaks(&store));
        Ok((store, Outcome { cut, fold, leaks }))
    }

    /// Looks at what lies beside a store on this disk, which `hash` tells from others, and compares it with what
    /// is known.
    pub(crate) fn check_beside(
        &mut self,
        expect: &Expect<'_>,
        accepted: Accepted,
        disk: &Disk,
        hash: u64,
    ) -> Result<Arc<[Beside]>, Violation> {
        let beside = match self.beside.get(&hash) {
            Some(beside) => Arc::clone(beside),
            None => {
                let broken = |e| Violation::new(Rule::N8, format!("beside the store: {e}"));
                let beside = guard(|| self.system.beside(disk).map_err(broken))?;
                self.counters.totals.copies_opened +=
                    beside.iter().filter(|it| it.kind != Kind::Source).count() as u64;
                let beside: Arc<[Beside]> = beside.into();
                self.beside.insert(hash, Arc::clone(&beside));
                beside
            }
        };
        expect.check_beside(accepted, &beside).map(|()| beside)
    }

    /// The same with the disk as a process left it.
    pub(crate) fn check_beside_now(
        &mut self,
        expect: &Expect<'_>,
        accepted: Accepted,
        disk: &Disk,
    ) -> Result<Arc<[Beside]>, Violation> {
        let Some(dir) = self.system.beside_dir() else { return Ok(Arc::new([])) };
        self.check_beside(expect, accepted, disk, hash::disk(disk, Some(dir)).1)
    }

    pub(crate) fn fold(&self, store: &S::Store) -> Result<Fold, Violation> {
        let mut fold = Fold::default();
        let shown = self.system.visit(store, &mut |keyspace, key, value| {
            fold.sum = fold.sum.wrapping_add(hash::entry(keyspace, key, value));
            fold.count += 1;
        });
        shown.map_err(|e| Violation::new(Rule::N8, format!("entries cannot be read: {e}")))?;
        Ok(fold)
    }

    pub(crate) fn explain(
        &self,
        point: &Point<'_, '_>,
        region: Region,
        fs: Arc<dyn Fs>,
    ) -> Violation {
        let explained = guard(|| {
            let (store, outcome) = self.open(region, fs)?;
            let mut state = State::new();
            let _ = self.system.visit(&store, &mut |keyspace, key, value| {
                state.insert(EntryKey::new(keyspace, key), value.to_vec());
            });
            Ok(point.expect.explain(&outcome, &state))
        });
        explained.unwrap_or_else(|violation| violation)
    }
}
