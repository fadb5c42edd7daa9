//! What clients do: transactions by chance, from a seed. A client executes a plan step by step and notes what it saw.
//!
//! Keys retire after some writes, and others take their places: so lists stay short, scans meet keys that are new, and
//! keys that no one has touched yet are in play until the end.

use std::ops::Range;

use base::random::Rng;

use super::{Element, Key};

/// A step of a transaction: an [`Operation`](super::Operation) before it is known what it sees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Append this.
    Append {
        /// Key of the list.
        key: Key,
        /// Of this key and all others the only one of its kind.
        element: Element,
    },
    /// Read a list.
    ReadList {
        /// Key of the list.
        key: Key,
    },
    /// Write this.
    Write {
        /// Key of the register.
        key: Key,
        /// Of this key and all others the only one of its kind.
        value: u64,
    },
    /// Read a register.
    Read {
        /// Key of the register.
        key: Key,
    },
    /// Read the registers of a range.
    Scan {
        /// The first key, and the first behind the range.
        range: Range<Key>,
    },
}

/// Keys of a scan at most: each of them is a read to the checker.
const SCANNED_MAX: u64 = 16;

/// What keys hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holds {
    /// Lists, to which is appended.
    Lists,
    /// Registers, which are also scanned.
    Registers,
}

/// How often keys are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Skew {
    /// All equally.
    Uniform,
    /// About as Zipf's law has it: the n-th key in play one n-th as often as the first.
    Zipf,
}

/// What transactions are like.
#[derive(Clone, Copy, Debug)]
pub struct Workload {
    /// What keys hold.
    pub holds: Holds,
    /// Keys in play at a time. The fewer, the more conflicts.
    pub keys: u64,
    /// How often each key is in play.
    pub skew: Skew,
    /// A key is replaced after so many writes.
    pub writes_per_key: u64,
    /// Steps of a transaction at most.
    pub steps_max: u64,
    /// Steps in 100 that read. One transaction in eight only reads.
    pub reads_percent: u32,
    /// Reads of registers in 100 that are scans.
    pub scans_percent: u32,
}

impl Workload {
    /// A workload that conflicts often: of a few keys, some much hotter than others.
    pub fn new(holds: Holds) -> Workload {
        Workload {
            holds,
            keys: 16,
            skew: Skew::Zipf,
            writes_per_key: match holds {
                Holds::Lists => 100,
                // Inserts make phantoms, so that keys are new more often.
                Holds::Registers => 20,
            },
            steps_max: 8,
            reads_percent: 50,
            scans_percent: 20,
        }
    }
}

/// Transactions without end. Clients take theirs from one of these, behind a lock or ahead, so that elements stay unique.
#[derive(Clone, Debug)]
pub struct Plans {
    rng: Rng,
    workload: Workload,
    /// Keys in play, each with its writes so far.
    slots: Vec<(Key, u64)>,
    next_key: u64,
    next_element: u64,
}

impl Plans {
    /// Plans by chance; equal seeds and workloads give equal ones.
    pub fn new(seed: u64, workload: Workload) -> Plans {
        let slots = (0..workload.keys.max(1)).map(|key| (Key(key), 0)).collect::<Vec<_>>();
        let next_key = slots.len() as u64;
        Plans { rng: Rng::new(seed), workload, slots, next_key, next_element: 1 }
    }

    /// Plans that read all keys that were in play, to be executed when everything else is done: they show the order of the
    /// last appends, and whether some were lost.
    pub fn final_reads(&self) -> impl Iterator<Item = Vec<Step>> {
        let (holds, keys) = (self.workload.holds, self.next_key);
        let at_a_time = self.workload.steps_max.max(1);
        let read = move |key| match holds {
            Holds::Lists => Step::ReadList { key },
            Holds::Registers => Step::Read { key },
        };
        (0..keys)
            .step_by(at_a_time as usize)
            .map(move |first| (first..keys.min(first + at_a_time)).map(Key).map(read).collect())
    }

    fn slot(&mut self) -> usize {
        let slots = self.slots.len();
        match self.workload.skew {
            Skew::Uniform => self.rng.index(slots),
            // The logarithm of a slot's number is spread evenly.
            Skew::Zipf => {
                let number = ((slots + 1) as f64).powf(self.rng.part()) as usize;
                number.clamp(1, slots) - 1
            }
        }
    }

    fn key(&mut self) -> Key {
        let slot = self.slot();
        self.slots[slot].0
    }

    /// A key that is written, and what is; after its last write another one takes its place.
    fn written(&mut self) -> (Key, u64) {
        let slot = self.slot();
        let (key, writes) = &mut self.slots[slot];
        let written = *key;
        *writes += 1;
        if *writes >= self.workload.writes_per_key {
            (*key, *writes) = (Key(self.next_key), 0);
            self.next_key += 1;
        }
        self.next_element += 1;
        (written, self.next_element - 1)
    }

    fn read(&mut self) -> Step {
        let key = self.key();
        match self.workload.holds {
            Holds::Lists => Step::ReadList { key },
            Holds::Registers if self.rng.percent(self.workload.scans_percent) => {
                let len = 1 + self.rng.below(self.workload.keys.clamp(1, SCANNED_MAX));
                Step::Scan { range: key..Key(key.0 + len) }
            }
            Holds::Registers => Step::Read { key },
        }
    }

    /// A write; half of them read what they overwrite, as updates do.
    fn write(&mut self, steps: &mut Vec<Step>) {
        let (key, number) = self.written();
        match self.workload.holds {
            Holds::Lists => steps.push(Step::Append { key, element: Element(number) }),
            Holds::Registers => {
                if self.rng.chance(1, 2) {
                    steps.push(Step::Read { key });
                }
                steps.push(Step::Write { key, value: number });
            }
        }
    }
}

impl Iterator for Plans {
    type Item = Vec<Step>;

    fn next(&mut self) -> Option<Vec<Step>> {
        let wanted = 1 + self.rng.below(self.workload.steps_max.max(1)) as usize;
        let only_reads = self.rng.one_in(8);
        let mut steps = Vec::with_capacity(wanted + 1);
        while steps.len() < wanted {
            if only_reads || self.rng.percent(self.workload.reads_percent) {
                let read = self.read();
                steps.push(read);
            } else {
                self.write(&mut steps);
            }
        }
        Some(steps)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};

    use super::*;

    fn appended(steps: &[Step]) -> impl Iterator<Item = (Key, u64)> {
        steps.iter().filter_map(|step| match step {
            Step::Append { key, element } => Some((*key, element.0)),
            Step::Write { key, value } => Some((*key, *value)),
            _ => None,
        })
    }

    #[test]
    fn equal_seeds_give_equal_plans() {
        let plans = |seed| Plans::new(seed, Workload::new(Holds::Registers)).take(50);
        assert!(plans(1).eq(plans(1)));
        assert!(!plans(1).eq(plans(2)));
    }

    #[test]
    fn elements_are_unique_keys_retire_and_all_are_read_in_the_end() {
        for holds in [Holds::Lists, Holds::Registers] {
            let workload = Workload::new(holds);
            let mut plans = Plans::new(3, workload);
            let (mut elements, mut writes) = (HashSet::new(), HashMap::new());
            for steps in plans.by_ref().take(2000) {
                assert!((1..=workload.steps_max + 1).contains(&(steps.len() as u64)));
                for (key, element) in appended(&steps) {
                    assert!(elements.insert(element));
                    *writes.entry(key).or_insert(0) += 1;
                }
            }
            assert!(writes.values().all(|times| *times <= workload.writes_per_key));
            assert!(writes.len() as u64 > 2 * workload.keys);
            let reads: Vec<Step> = plans.final_reads().flatten().collect();
            let is_read = |key: &Key| {
                let list = Step::ReadList { key: *key };
                reads.contains(&list) || reads.contains(&Step::Read { key: *key })
            };
            assert!(writes.keys().all(is_read));
        }
    }

    #[test]
    fn the_first_key_in_play_is_hot() {
        let workload = Workload { writes_per_key: u64::MAX, ..Workload::new(Holds::Lists) };
        let mut plans = Plans::new(5, workload);
        let mut times = vec![0; workload.keys as usize];
        (0..10_000).for_each(|_| times[plans.slot()] += 1);
        assert!(times[0] > 2000 && times[0] > 8 * times[15] && times[15] > 100, "{times:?}");
    }
}
