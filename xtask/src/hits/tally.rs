//! What is counted, by a life and by the whole campaign, and what a campaign must have counted so that its silence means something.

use std::fmt::{self, Write as _};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use strandline::{CacheOutputs, CachePolicy, FastBlocks, Level0Form};

use super::shape::{CacheShape, CacheSize, CachedForm};

macro_rules! hit_counts {
    ($($(#[doc = $doc:literal])* $name:ident = $says:literal,)+) => {
        /// What is counted.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum HitCount { $($(#[doc = $doc])* $name,)+ }

        impl HitCount {
            pub const ALL: &[HitCount] = &[$(HitCount::$name,)+];

            fn says(self) -> &'static str {
                match self { $(HitCount::$name => $says,)+ }
            }
        }
    };
}

impl HitCount {
    /// Whether a few seconds may bring none of it.
    fn is_rare(self) -> bool {
        matches!(
            self,
            HitCount::LowHits
                | HitCount::PmHits
                | HitCount::Warmed
                | HitCount::Drops
                | HitCount::Options
        )
    }
}

hit_counts! {
    /// Hits of all caches while answers were compared; where there were more hits than answers, so many as answers. More than the answers
    /// that came from caches: memtables answer too, a get may hit several blocks, and compactions and files taken in hit some.
    Hits = "hits beside answers",
    /// Answers that were compared, from wherever they came.
    Answers = "answers compared",
    BlockHits = "hits of blocks in the block cache",
    RecordHits = "hits of records there",
    LowHits = "hits of blocks of fast devices, among those",
    PmHits = "hits in the cache in persistent memory",
    Misses = "blocks read from files",
    /// As `cache_outputs=warm` wants it.
    Warmed = "blocks of compactions put in the block cache",
    /// Answers from value files, or long enough for them: what a memtable answers is among them.
    Values = "answers long enough for a value file",
    Absent = "answers that there is nothing",
    Pinned = "answers that were pinned",
    Several = "answers of gets of several keys",
    Scanned = "answers of scans",
    /// Answers of snapshots that were read again.
    Again = "answers of a snapshot, again",
    Changes = "changes",
    Ranges = "ranges deleted",
    Ingests = "files taken in",
    Drops = "keyspaces dropped",
    Compactions = "compactions",
    Options = "options changed while open",
    Reopens = "clean closes and opens",
    Left = "keys compared after kills and closes",
}

/// Counters of a life, which its threads share.
#[derive(Debug)]
pub struct HitCounts([AtomicU64; HitCount::ALL.len()]);

impl Default for HitCounts {
    fn default() -> HitCounts {
        HitCounts(std::array::from_fn(|_| AtomicU64::new(0)))
    }
}

impl HitCounts {
    pub fn add(&self, of: HitCount, more: u64) {
        self.0[of as usize].fetch_add(more, Relaxed);
    }

    pub fn get(&self, of: HitCount) -> u64 {
        self.0[of as usize].load(Relaxed)
    }

    /// Writes them to `file`, with what `more` adds, in one piece.
    pub fn tell(&self, file: &File, more: &HitSums) -> Result<(), String> {
        let sums = self.0.iter().zip(more.0).map(|(count, more)| count.load(Relaxed) + more);
        let bytes: Vec<u8> = sums.flat_map(u64::to_le_bytes).collect();
        file.write_all_at(&bytes, 0).map_err(|error| format!("the counts: {error}"))
    }
}

/// Counts that stay as they are.
#[derive(Clone, Copy, Debug, Default)]
pub struct HitSums(pub [u64; HitCount::ALL.len()]);

impl HitSums {
    /// What a life has told; nothing, if it had no time for it.
    pub fn told(path: &Path) -> HitSums {
        let bytes = std::fs::read(path).unwrap_or_default();
        let (words, _) = bytes.as_chunks::<8>();
        let mut sums = HitSums::default();
        sums.0.iter_mut().zip(words).for_each(|(sum, word)| *sum = u64::from_le_bytes(*word));
        sums
    }

    pub fn get(&self, of: HitCount) -> u64 {
        self.0[of as usize]
    }

    /// Of all caches.
    pub fn hits(&self) -> u64 {
        let caches = [HitCount::BlockHits, HitCount::RecordHits, HitCount::PmHits];
        caches.into_iter().map(|of| self.get(of)).sum()
    }

    pub fn set(&mut self, of: HitCount, is: u64) {
        self.0[of as usize] = is;
    }

    fn add(&mut self, other: &HitSums) {
        self.0.iter_mut().zip(other.0).for_each(|(sum, more)| *sum += more);
    }
}

/// Kinds of lives, by name, with the hits that such a life should have had: what counts of `sums`.
fn kinds(shape: &CacheShape, sums: &HitSums) -> Vec<(&'static str, u64)> {
    let records = sums.get(HitCount::RecordHits);
    let (blocks, below) = (sums.get(HitCount::BlockHits), sums.get(HitCount::PmHits));
    let mut kinds = vec![
        match shape.form {
            CachedForm::Pool => ("a pool", blocks + records),
            CachedForm::Logged => ("a log", blocks + records),
            CachedForm::Volatile => ("blocks in volatile memory", blocks),
            CachedForm::Tiered => ("two tiers", blocks + records),
            CachedForm::Shared => ("a cache of two stores", blocks + records),
        },
        match shape.level0 {
            Level0Form::IndexRuns => ("level0=index-runs", blocks + records),
            Level0Form::Sst => ("level0=sst", blocks + records),
            _ => ("level0=global-index", blocks + records),
        },
        match shape.cache {
            CacheSize::Small => ("a small block cache", blocks + records),
            CacheSize::Middling => ("a middling block cache", blocks + records),
            CacheSize::Large => ("a large block cache", blocks + records),
        },
        match shape.value_files_min {
            0 => ("no value files", blocks + records),
            _ => ("value files", sums.get(HitCount::Values)),
        },
    ];
    // Where options change, hits are of one kind and of the other.
    if shape.restless {
        kinds.push(("options that change", blocks + records));
        return kinds;
    }
    // Records are kept, and blocks go to persistent memory, once the block cache is full.
    let is_full = shape.cache == CacheSize::Small;
    if !shape.records {
        kinds.push(("no records", blocks));
    } else if is_full {
        kinds.push(("records", records));
    }
    if is_full && shape.outputs == CacheOutputs::Warm {
        kinds.push(("cache_outputs=warm", sums.get(HitCount::Warmed)));
    }
    if shape.pm_cache > 0 && is_full {
        kinds.push(match shape.policy {
            CachePolicy::DramFirst => ("pm_cache, dram-first", below),
            CachePolicy::PmFirst => ("pm_cache, pm-first", below),
            CachePolicy::BothWays => ("pm_cache, both-ways", below),
            _ => ("pm_cache, auto", below),
        });
    }
    if shape.form == CachedForm::Tiered {
        kinds.push(match shape.fast_blocks {
            FastBlocks::Bypass => ("fast_blocks=bypass", blocks + records),
            FastBlocks::Equal => ("fast_blocks=equal", blocks + records),
            _ => ("fast_blocks=low", sums.get(HitCount::LowHits)),
        });
    }
    kinds
}

/// Lives of a kind.
#[derive(Clone, Copy, Debug)]
struct KindTally {
    name: &'static str,
    lives: u64,
    answers: u64,
    hits: u64,
}

/// Counters of a campaign.
#[derive(Debug, Default)]
pub struct HitTally {
    pub sums: HitSums,
    kinds: Vec<KindTally>,
    pub lives: u64,
    pub stores: u64,
    /// Before the store was open.
    pub killed_in_open: u64,
    pub violations: u64,
    pub elapsed: Duration,
}

/// After so many lives of a kind, with so many answers in all of them, there must have been a hit of it.
const KIND_LIVES: u64 = 4;
const KIND_ANSWERS: u64 = 500_000;
/// After so many lives, with so many answers, there must be some of all that is counted but for what is rare; of that, later.
const SOME_LIVES: u64 = 12;
const SOME_ANSWERS: u64 = 1_000_000;
const RARE_LIVES: u64 = 48;
const RARE_ANSWERS: u64 = 10_000_000;
/// What must have been compared for each second that a run took: two busy cores compare a hundred times as much.
const ANSWERS_A_SECOND: f64 = 2_000.0;
const HITS_A_SECOND: f64 = 1_000.0;

impl HitTally {
    /// Counts a life that was killed.
    pub fn add(&mut self, shape: &CacheShape, sums: &HitSums) {
        self.lives += 1;
        self.sums.add(sums);
        let answers = sums.get(HitCount::Answers);
        for (name, hits) in kinds(shape, sums) {
            let at = self.kinds.iter().position(|kind| kind.name == name).unwrap_or_else(|| {
                self.kinds.push(KindTally { name, lives: 0, answers: 0, hits: 0 });
                self.kinds.len() - 1
            });
            let kind = &mut self.kinds[at];
            kind.lives += 1;
            kind.answers += answers;
            kind.hits += hits;
        }
    }

    pub fn hits(&self) -> u64 {
        self.sums.get(HitCount::Hits)
    }

    /// What there should have been and was not: without it nothing is shown by a run without violations.
    pub fn check_floors(&self) -> Result<(), String> {
        let seconds = self.elapsed.as_secs_f64();
        let rates = [(HitCount::Answers, ANSWERS_A_SECOND), (HitCount::Hits, HITS_A_SECOND)];
        for (count, rate) in rates {
            let (is, floor) = (self.sums.get(count), ((rate * seconds) as u64).max(1));
            if is < floor {
                let says = count.says();
                return Err(format!(
                    "{is} {says} in {seconds:.1} s, less than {floor}: that shows nothing; give --minutes more, or a faster --dir"
                ));
            }
        }
        let kinds = self.kinds.iter().filter(|kind| {
            kind.lives >= KIND_LIVES && kind.answers >= KIND_ANSWERS && kind.hits == 0
        });
        let mut low: Vec<&str> = kinds.map(|kind| kind.name).collect();
        let answers = self.sums.get(HitCount::Answers);
        let is_some_due = self.lives >= SOME_LIVES && answers >= SOME_ANSWERS;
        let is_rare_due = self.lives >= RARE_LIVES && answers >= RARE_ANSWERS;
        for count in HitCount::ALL.iter().filter(|count| self.sums.get(**count) == 0) {
            let is_due = if count.is_rare() { is_rare_due } else { is_some_due };
            if is_due {
                low.push(count.says());
            }
        }
        if low.is_empty() { Ok(()) } else { Err(format!("nothing of: {}", low.join(", "))) }
    }
}

impl fmt::Display for HitTally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for kind in &self.kinds {
            let KindTally { name, lives, answers, hits } = kind;
            writeln!(f, "{hits:>14} in {lives:>5} lives, {answers:>12} answers: {name}")?;
        }
        for count in HitCount::ALL {
            writeln!(f, "{:>14} {}", self.sums.get(*count), count.says())?;
        }
        let rows = [
            (self.stores, "stores"),
            (self.lives, "kills"),
            (self.killed_in_open, "kills while the store was being opened"),
            (self.elapsed.as_secs(), "s"),
        ];
        for (number, name) in rows {
            writeln!(f, "{number:>14} {name}")?;
        }
        let rate = self.hits() as f64 / self.elapsed.as_secs_f64().max(0.001);
        writeln!(f, "{rate:>14.0} hits beside answers per second")?;
        write!(f, "{:>14} violations", self.violations)
    }
}

/// A line while it runs.
pub fn progress(tally: &HitTally) -> String {
    let mut line = String::new();
    let seconds = tally.elapsed.as_secs();
    let _infallible = write!(
        line,
        "{seconds:>6} s {:>6} kills {:>14} hits beside answers",
        tally.lives,
        tally.hits()
    );
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sums(of: &[(HitCount, u64)]) -> HitSums {
        let mut sums = HitSums::default();
        of.iter().for_each(|(of, is)| sums.set(*of, *is));
        sums
    }

    /// A tally of a second, whose absolute floors are met.
    fn busy(shape: &CacheShape) -> HitTally {
        let mut tally = HitTally { elapsed: Duration::from_secs(1), ..HitTally::default() };
        let some = [(HitCount::Answers, 100_000), (HitCount::Hits, 50_000)];
        tally.add(shape, &sums(&some));
        tally
    }

    #[test]
    fn a_kind_that_never_hit_is_missed() {
        let mut shape = CacheShape::new(CachedForm::Pool, 1);
        (shape.restless, shape.records, shape.cache) = (false, true, CacheSize::Small);
        let mut tally = busy(&shape);
        let blocks = [(HitCount::Answers, 130_000), (HitCount::BlockHits, 9)];
        tally.add(&shape, &sums(&[(HitCount::Answers, KIND_ANSWERS), (HitCount::BlockHits, 9)]));
        assert_eq!(tally.check_floors(), Ok(()), "too few lives to tell");
        tally = busy(&shape);
        for _ in 0..3 {
            tally.add(&shape, &sums(&blocks));
        }
        assert_eq!(tally.check_floors(), Ok(()), "too few answers to tell");
        // Lives too short to tell by themselves tell it together.
        (0..10).for_each(|_| tally.add(&shape, &sums(&[(HitCount::Answers, 1_000)])));
        let low = tally.check_floors().expect_err("no record was ever found");
        assert!(low.contains("records") && !low.contains("a pool"), "{low}");
        let all = [HitCount::RecordHits, HitCount::Values, HitCount::PmHits, HitCount::Warmed];
        all.into_iter().for_each(|of| tally.add(&shape, &sums(&[(of, 1)])));
        tally.sums = sums(&HitCount::ALL.iter().map(|of| (*of, 100_000)).collect::<Vec<_>>());
        assert_eq!(tally.check_floors(), Ok(()));
    }

    #[test]
    fn what_is_counted_at_all_has_a_floor() {
        let shape = CacheShape::new(CachedForm::Pool, 1);
        let full: Vec<_> = HitCount::ALL.iter().map(|of| (*of, RARE_ANSWERS)).collect();
        for missing in HitCount::ALL {
            let mut tally = busy(&shape);
            tally.kinds.clear();
            tally.sums = sums(&full);
            tally.sums.set(*missing, 0);
            let is_scarce = matches!(missing, HitCount::Answers | HitCount::Hits);
            for (lives, is_asked) in
                [(SOME_LIVES - 1, is_scarce), (SOME_LIVES, !missing.is_rare()), (RARE_LIVES, true)]
            {
                tally.lives = lives;
                let missed = tally.check_floors().is_err();
                assert_eq!(missed, is_asked, "{missing:?} after {lives} lives");
            }
        }
    }

    #[test]
    fn a_run_that_compared_next_to_nothing_shows_nothing() {
        let none = HitTally::default();
        assert!(none.check_floors().is_err_and(|text| text.contains("shows nothing")));
        let mut tally = busy(&CacheShape::new(CachedForm::Pool, 1));
        assert_eq!(tally.check_floors(), Ok(()));
        tally.elapsed = Duration::from_secs(3_600);
        assert!(tally.check_floors().is_err_and(|text| text.contains("less than 7200000")));
    }

    #[test]
    fn counts_are_told_whole() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let counts = HitCounts::default();
        counts.add(HitCount::Drops, 3);
        counts.tell(file.as_file(), &sums(&[(HitCount::BlockHits, 7)])).expect("told");
        let told = HitSums::told(file.path());
        assert_eq!((told.get(HitCount::Drops), told.get(HitCount::BlockHits)), (3, 7));
        assert_eq!(HitSums::told(Path::new("/nowhere")).get(HitCount::Drops), 0);
    }
}
