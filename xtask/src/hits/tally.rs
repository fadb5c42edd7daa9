//! What is counted, by a life and by the whole campaign, and what a campaign must have counted so that its silence means something.

use std::fmt::{self, Write as _};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use strandline::{CachePolicy, FastBlocks, Level0Form};

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

hit_counts! {
    /// Hits of all caches, but no more than answers that were compared.
    Checked = "checked hits",
    /// Answers that were compared, from wherever they came.
    Answers = "answers compared",
    BlockHits = "hits of blocks in the block cache",
    RecordHits = "hits of records there",
    LowHits = "hits of blocks of fast devices, among those",
    PmHits = "hits in the cache in persistent memory",
    Misses = "blocks read from files",
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
        kinds.push(("options that change", sums.get(HitCount::Options)));
        return kinds;
    }
    kinds.push(if shape.records { ("records", records) } else { ("no records", blocks) });
    let is_full = shape.cache == CacheSize::Small;
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

/// So many lives of a kind must have had a hit of it.
const LIVES: u64 = 4;
/// Answers below which a life proves nothing about its kinds.
const ANSWERS: u64 = 100_000;

impl HitTally {
    /// Counts a life that was killed.
    pub fn add(&mut self, shape: &CacheShape, sums: &HitSums) {
        self.lives += 1;
        self.sums.add(sums);
        if sums.get(HitCount::Answers) < ANSWERS {
            return;
        }
        for (name, hits) in kinds(shape, sums) {
            match self.kinds.iter_mut().find(|kind| kind.name == name) {
                Some(kind) => (kind.lives, kind.hits) = (kind.lives + 1, kind.hits + hits),
                None => self.kinds.push(KindTally { name, lives: 1, hits }),
            }
        }
    }

    pub fn checked(&self) -> u64 {
        self.sums.get(HitCount::Checked)
    }

    /// What there should have been and was not. The first lives prove too little.
    pub fn check_floors(&self) -> Result<(), String> {
        let kinds = self.kinds.iter().filter(|kind| kind.lives >= LIVES && kind.hits == 0);
        let mut low: Vec<&str> = kinds.map(|kind| kind.name).collect();
        if self.lives >= 12 * LIVES {
            let counts = HitCount::ALL.iter().filter(|count| self.sums.get(**count) == 0);
            low.extend(counts.map(|count| count.says()));
        }
        if low.is_empty() { Ok(()) } else { Err(format!("nothing of: {}", low.join(", "))) }
    }
}

impl fmt::Display for HitTally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for kind in &self.kinds {
            let KindTally { name, lives, hits } = kind;
            writeln!(f, "{hits:>14} in {lives:>5} lives: {name}")?;
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
        let rate = self.checked() as f64 / self.elapsed.as_secs_f64().max(0.001);
        writeln!(f, "{rate:>14.0} checked hits per second")?;
        write!(f, "{:>14} violations", self.violations)
    }
}

/// A line while it runs.
pub fn progress(tally: &HitTally) -> String {
    let mut line = String::new();
    let seconds = tally.elapsed.as_secs();
    let _infallible = write!(
        line,
        "{seconds:>6} s {:>6} kills {:>14} checked hits",
        tally.lives,
        tally.checked()
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

    #[test]
    fn a_kind_that_never_hit_is_missed() {
        let mut shape = CacheShape::new(CachedForm::Pool, 1);
        (shape.restless, shape.records) = (false, true);
        let mut tally = HitTally::default();
        let blocks = [(HitCount::Answers, ANSWERS), (HitCount::BlockHits, 9)];
        for _ in 0..LIVES - 1 {
            tally.add(&shape, &sums(&blocks));
        }
        assert_eq!(tally.check_floors(), Ok(()), "too few lives to tell");
        tally.add(&shape, &sums(&blocks));
        let low = tally.check_floors().expect_err("no record was ever found");
        assert!(low.contains("records") && !low.contains("a pool"), "{low}");
        tally.add(&shape, &sums(&[(HitCount::Answers, ANSWERS), (HitCount::RecordHits, 1)]));
        tally.add(&shape, &sums(&[(HitCount::Answers, ANSWERS), (HitCount::Values, 1)]));
        tally.add(&shape, &sums(&[(HitCount::Answers, ANSWERS), (HitCount::PmHits, 1)]));
        assert_eq!(tally.check_floors(), Ok(()));
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
