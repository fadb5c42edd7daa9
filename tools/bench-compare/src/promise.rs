//! What a completed put survives. Figures of different promises measure different things.

use std::fmt;

use crate::figures::median;

/// What a completed put survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promise {
    /// Power failure, by memory that keeps its bytes.
    Persistent,
    /// Power failure: a disk was told to make it so.
    Synced,
    /// The end of the process.
    ProcessCrash,
    /// The end of the process; a power failure may take the whole store, and not only what was put last.
    ProcessCrashOrStore,
    /// Nothing.
    Nothing,
}

/// Every promise.
const ALL: [Promise; 5] = [
    Promise::Persistent,
    Promise::Synced,
    Promise::ProcessCrash,
    Promise::ProcessCrashOrStore,
    Promise::Nothing,
];

impl Promise {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Promise::Persistent => "power-fail",
            Promise::Synced => "synced to SSD",
            Promise::ProcessCrash => "process crash only",
            Promise::ProcessCrashOrStore => "process crash only, power failure may take the store",
            Promise::Nothing => "none",
        }
    }

    /// The promise of these words.
    pub fn named(words: &str) -> Option<Promise> {
        ALL.into_iter().find(|promise| promise.words() == words)
    }
}

impl fmt::Display for Promise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.words())
    }
}

/// Stands beside every ratio of figures with different promises.
pub const UNEQUAL: &str = "promises differ";

/// Stands beside a ratio of reads where one side put more beside them than the other.
pub const UNLIKE_WRITERS: &str = "writers differ";
/// The same where one scanned more.
pub const UNLIKE_SCANS: &str = "scans differ";

/// Puts or entries a second beside reads that count as the same: the least part of the other side's.
const ALIKE: f64 = 0.95;

/// Whether both sides did as much beside what was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BesideReads {
    /// They did, or did nothing.
    Alike,
    /// One did more, which slows what it reads; the note says of what.
    Differs(&'static str),
}

impl BesideReads {
    /// Of the puts or entries a second of both sides, if there were any, and the note for what differs.
    pub fn of(rates: [Option<f64>; 2], note: &'static str) -> BesideReads {
        match rates {
            [Some(ours), Some(theirs)] if ours.min(theirs) < ALIKE * ours.max(theirs) => {
                BesideReads::Differs(note)
            }
            _ => BesideReads::Alike,
        }
    }
}

/// What a reader has to know of a ratio beside promises and writers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// Time ended before all keys were put, so that the stores differ: so many of so many were.
    Cut(u64, u64),
    /// So few turns in which both ran.
    Few(usize),
}

/// How many times as fast this engine is as another. Where the two promise different things there is none, and where they
/// had different things to do beside, it cannot be told without a note.
#[derive(Clone, Debug, PartialEq)]
pub struct Ratio {
    median: f64,
    least: f64,
    most: f64,
    promises: [Promise; 2],
    beside: BesideReads,
    marks: Vec<Mark>,
}

impl Ratio {
    /// Of the ratios of single runs, this engine's promise and the other's; none of no runs.
    pub fn of(
        mut runs: Vec<f64>,
        promises: [Promise; 2],
        beside: BesideReads,
        marks: Vec<Mark>,
    ) -> Option<Ratio> {
        runs.sort_by(f64::total_cmp);
        let (least, most) = (*runs.first()?, *runs.last()?);
        Some(Ratio { median: median(runs), least, most, promises, beside, marks })
    }

    /// Whether both sides promise the same, and had the same to do.
    pub fn is_equal(&self) -> bool {
        self.figures().is_some() && self.beside == BesideReads::Alike
    }

    /// Why it is no comparison of speed, or one of few runs.
    fn notes(&self) -> Vec<String> {
        let promises = (self.promises[0] != self.promises[1]).then(|| UNEQUAL.to_string());
        let beside = match self.beside {
            BesideReads::Alike => None,
            BesideReads::Differs(note) => Some(note.to_string()),
        };
        let marks = self.marks.iter().map(|mark| match mark {
            Mark::Cut(put, of) => format!("{put} of {of} keys"),
            Mark::Few(1) => "1 run".into(),
            Mark::Few(runs) => format!("{runs} runs"),
        });
        promises.into_iter().chain(beside).chain(marks).collect()
    }

    /// What both sides promise, this engine first.
    pub fn promises(&self) -> [Promise; 2] {
        self.promises
    }

    /// Median, least and most; none of sides that promise different things or do not have the same data.
    pub fn figures(&self) -> Option<[f64; 3]> {
        let cut = self.marks.iter().any(|mark| matches!(mark, Mark::Cut(..)));
        (self.promises[0] == self.promises[1] && !cut).then_some([
            self.median,
            self.least,
            self.most,
        ])
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let notes = self.notes().join(", ");
        let note = if notes.is_empty() { notes } else { format!(" ({notes})") };
        f.pad(&match self.figures() {
            Some([median, least, most]) => format!("{median:.2} ({least:.2}-{most:.2}){note}"),
            None => format!("-{note}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_no_ratio_of_different_promises() {
        for ours in ALL {
            for theirs in ALL {
                let runs = vec![3.0, 1.0, 2.0];
                let ratio =
                    Ratio::of(runs, [ours, theirs], BesideReads::Alike, Vec::new()).unwrap();
                let same = if ours == theirs { "2.00 (1.00-3.00)" } else { "- (promises differ)" };
                assert_eq!(ratio.to_string(), same);
                assert_eq!(ratio.is_equal(), ours == theirs);
            }
        }
        let none = Ratio::of(Vec::new(), [Promise::Synced; 2], BesideReads::Alike, Vec::new());
        assert_eq!(none, None);
    }

    #[test]
    fn a_ratio_of_unlike_data_or_few_runs_says_so() {
        let ratio = |marks| {
            let ratio = Ratio::of(vec![2.0], [Promise::Synced; 2], BesideReads::Alike, marks);
            ratio.unwrap().to_string()
        };
        assert_eq!(ratio(vec![Mark::Cut(3, 10), Mark::Few(2)]), "- (3 of 10 keys, 2 runs)");
        assert_eq!(ratio(vec![Mark::Few(1)]), "2.00 (2.00-2.00) (1 run)");
    }

    #[test]
    fn a_ratio_of_reads_beside_different_writers_says_so() {
        let ratio_with = |rates, note| {
            let beside = BesideReads::of(rates, note);
            Ratio::of(vec![2.0], [Promise::Synced; 2], beside, Vec::new()).unwrap()
        };
        let scans = ratio_with([Some(50e3), Some(20e3)], UNLIKE_SCANS);
        assert_eq!(scans.to_string(), "2.00 (2.00-2.00) (scans differ)");
        let ratio = |puts: [Option<f64>; 2]| {
            let ratio = ratio_with(puts, UNLIKE_WRITERS);
            (ratio.is_equal(), ratio.to_string())
        };
        assert_eq!(ratio([Some(50e3), Some(49e3)]), (true, "2.00 (2.00-2.00)".into()));
        let differ = (false, "2.00 (2.00-2.00) (writers differ)".into());
        assert_eq!(ratio([Some(7e3), Some(48e3)]), differ);
        assert_eq!(ratio([Some(48e3), Some(7e3)]), differ);
        assert!(ratio([None, None]).0);
    }

    #[test]
    fn promises_are_found_by_their_words() {
        for promise in ALL {
            assert_eq!(Promise::named(promise.words()), Some(promise));
        }
        assert_eq!(Promise::named("forever"), None);
    }
}
