//! Which benchmarks there are, and on which stores they run.

mod disk;
mod hybrid;
mod terms;
mod tmpfs;
mod tpcc;
mod transaction;
mod ycsb;

use bench::data::draw::Draw;

pub use terms::{Fit, Group, Holds, PageCache, Place, Prepared, Survives, Work};

/// One benchmark.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// Its name.
    pub name: &'static str,
    /// What its threads do.
    pub work: Work,
    /// How many there are.
    pub threads: usize,
    /// What puts should survive.
    pub survives: Survives,
    /// What the system's cache may do.
    pub cache: PageCache,
    /// How keys are drawn, where that is what the benchmark is about and no flag says it.
    pub draw: Option<Draw>,
}

impl Case {
    /// Whether bare loops stand beside it: they have one thread.
    pub fn has_bare_loops(&self) -> bool {
        let commits = matches!(self.work, Work::Commit(_));
        commits && self.cache == PageCache::Used && self.threads == 1
    }
}

/// Benchmarks that run on one store, one after the other.
#[derive(Clone, Copy, Debug)]
pub struct Stage {
    /// The group of its benchmarks.
    pub group: Group,
    /// Bytes of values; 0 where rows have any.
    pub value_size: usize,
    /// Where the store is.
    pub place: Place,
    /// How the data lies.
    pub fit: Fit,
    /// What is done before.
    pub prepared: Prepared,
    /// Keyspaces that the store has; none but the usual one if none are named.
    pub keyspaces: &'static [&'static str],
    /// The benchmarks.
    pub cases: &'static [Case],
}

const fn case(
    name: &'static str,
    work: Work,
    threads: usize,
    survives: Survives,
    cache: PageCache,
) -> Case {
    Case { name, work, threads, survives, cache, draw: None }
}

/// Gets of keys by Zipf's law, past the system's cache.
const fn zipf(name: &'static str, work: Work, threads: usize, survives: Survives) -> Case {
    Case { name, work, threads, survives, cache: PageCache::Past, draw: Some(Draw::Zipf) }
}

/// Puts a second that each engine can do beside gets.
const PACE: u32 = 50_000;
/// Bytes of keys and values that each engine can scan in a second beside gets.
const SCAN_PACE: u64 = 32 << 20;

/// All of them, in the order in which they run.
pub fn all() -> impl Iterator<Item = &'static Stage> {
    let places = disk::STAGES.iter().chain(hybrid::STAGES).chain(tmpfs::STAGES);
    places.chain(transaction::STAGES).chain(ycsb::STAGES).chain(tpcc::STAGES)
}

/// The benchmark of this name with so many threads and values of this size, and its stage.
pub fn find(
    name: &str,
    threads: usize,
    value_size: usize,
) -> Option<(&'static Stage, &'static Case)> {
    all().filter(|stage| stage.value_size == value_size).find_map(|stage| {
        let case = stage.cases.iter().find(|case| case.name == name && case.threads == threads)?;
        Some((stage, case))
    })
}

/// What the benchmarks are about, by name.
pub fn about() -> impl Iterator<Item = &'static (&'static str, &'static str)> {
    let places = disk::ABOUT.iter().chain(hybrid::ABOUT).chain(tmpfs::ABOUT);
    places.chain(transaction::ABOUT).chain(ycsb::ABOUT).chain(tpcc::ABOUT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_benchmark_is_told_about() {
        for case in all().flat_map(|stage| stage.cases) {
            assert_eq!(about().filter(|(name, _)| *name == case.name).count(), 1, "{case:?}");
        }
    }

    #[test]
    fn a_benchmark_is_found_by_its_name() {
        for stage in all() {
            for case in stage.cases {
                let (found, _) = find(case.name, case.threads, stage.value_size).unwrap();
                assert!(std::ptr::eq(found, stage), "{case:?} is in two stages");
            }
        }
        assert!(find("disk-sync", 3, 100).is_none());
    }

    #[test]
    fn a_benchmark_belongs_to_one_group() {
        for stage in all() {
            for case in stage.cases {
                let others = all().filter(|other| other.cases.iter().any(|o| o.name == case.name));
                let mut others = others.map(|other| (other.group, other.place));
                let own = (stage.group, stage.place);
                assert!(others.all(|other| other == own), "{}", case.name);
            }
        }
    }

    #[test]
    fn a_group_of_a_place_has_its_stages_there_and_the_newer_ones_are_in_two() {
        for group in Group::ALL {
            let of_group = all().filter(|stage| stage.group == group);
            let mut places: Vec<Place> = of_group.map(|stage| stage.place).collect();
            places.dedup();
            let wanted = match group {
                Group::Disk => vec![Place::Disk],
                Group::Hybrid => vec![Place::Hybrid],
                // These two take turns.
                Group::Tmpfs => vec![Place::Tmpfs; places.len()],
                Group::Split => vec![Place::Split; places.len()],
                Group::Transaction | Group::Ycsb | Group::Tpcc => vec![Place::Disk, Place::Tmpfs],
            };
            assert_eq!(places, wanted, "{group:?}");
            let names = all().filter(|stage| stage.group == group).flat_map(|stage| stage.cases);
            let begin = format!("{}-", group.name());
            let told = group.wants_transactions() || group == Group::Ycsb;
            assert!(!told || names.into_iter().all(|case| case.name.starts_with(&begin)));
        }
    }

    #[test]
    fn synced_commits_are_compared_at_all_sizes() {
        for value_size in [100, 1024] {
            for (name, batch) in [("disk-sync", 1), ("disk-sync-100", 100)] {
                for threads in [1, 2, 16, 64] {
                    let (stage, case) = find(name, threads, value_size).unwrap();
                    assert_eq!(case.work, Work::Commit(batch));
                    assert_eq!((stage.place, case.survives), (Place::Disk, Survives::Power));
                    assert_eq!(case.has_bare_loops(), threads == 1);
                }
            }
        }
    }
}
