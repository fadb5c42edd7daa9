//! Histories by chance: of stores that keep to a level, and of stores with a bug that some anomaly has to show.

use crate::store::{Bug, run};
use testkit::history::{Holds, Kind, Level, Report, Skew, Transaction, Workload, check};

const SEEDS: u64 = 12;
const COUNT: usize = 1500;
const HOLDS: [Holds; 2] = [Holds::Lists, Holds::Registers];

fn history(seed: u64, level: Level, bug: Option<Bug>, holds: Holds) -> Vec<Transaction> {
    let workload = match seed % 3 {
        0 => Workload::new(holds),
        1 => Workload { keys: 5, steps_max: 4, ..Workload::new(holds) },
        _ => Workload { keys: 40, skew: Skew::Uniform, ..Workload::new(holds) },
    };
    run(seed, level, bug, workload, COUNT)
}

/// Asserts that nothing is found, and that there was something to find it in.
fn assert_clean(report: &Report) {
    assert!(report.is_clean(), "{report}");
    assert!(report.committed > COUNT / 4 && report.aborted > 10 && report.unknown > 5, "{report}");
}

#[test]
fn a_store_shows_no_anomaly_that_its_level_forbids() {
    for seed in 0..SEEDS {
        for holds in HOLDS {
            for level in [Level::ReadCommitted, Level::Snapshot, Level::Serializable] {
                let history = history(seed, level, None, holds);
                for asked in [Level::ReadCommitted, Level::Snapshot, Level::Serializable] {
                    if asked <= level {
                        assert_clean(&check(&history, asked));
                    }
                }
            }
        }
    }
}

#[test]
fn snapshots_show_write_skew_and_phantoms() {
    for seed in 0..SEEDS {
        for holds in HOLDS {
            let history = history(seed, Level::Snapshot, None, holds);
            let report = check(&history, Level::Serializable);
            let (skews, phantoms) = (report.count(Kind::G2Item), report.count(Kind::Phantom));
            assert!(skews + phantoms > 0, "{report}");
            let allowed =
                |kind: &Kind| !Level::Snapshot.forbids(*kind) || *kind == Kind::NumberOrder;
            assert!(report.kinds().iter().all(allowed), "{report}");
        }
    }
}

#[test]
fn read_committed_shows_lost_updates_and_read_skew() {
    for holds in HOLDS {
        let reports = (0..SEEDS)
            .map(|seed| check(&history(seed, Level::ReadCommitted, None, holds), Level::Snapshot));
        let (mut lost, mut skews) = (0, 0);
        for report in reports {
            lost += report.count(Kind::LostUpdate);
            skews += report.count(Kind::GSingle) + report.count(Kind::GNonadjacent);
        }
        assert!(lost + skews > 0 && skews > 0, "{lost} {skews}");
    }
}

/// The first of these kinds that each bug shows within some seeds, at the store's own level.
#[test]
fn each_bug_is_found() {
    use Bug::*;
    use Holds::{Lists, Registers};
    use Level::{ReadCommitted, Serializable, Snapshot};
    let table = [
        (NoValidation, Snapshot, Registers, Kind::LostUpdate),
        (NoValidation, Snapshot, Lists, Kind::IncompatibleOrder),
        (NoValidation, Snapshot, Lists, Kind::LostAppend),
        (NoValidation, Serializable, Registers, Kind::LostUpdate),
        (RangesNotValidated, Serializable, Registers, Kind::Phantom),
        (DirtyReads, ReadCommitted, Registers, Kind::G1a),
        (DirtyReads, ReadCommitted, Registers, Kind::G1b),
        (DirtyReads, ReadCommitted, Registers, Kind::G1c),
        (DirtyReads, ReadCommitted, Lists, Kind::G1a),
        (DirtyReads, Serializable, Registers, Kind::G1a),
        (OldSnapshots, Snapshot, Registers, Kind::StaleSnapshot),
        (OldSnapshots, Serializable, Registers, Kind::StaleSnapshot),
        (OldSnapshots, Serializable, Lists, Kind::StaleSnapshot),
        (SnapshotPerRead, Snapshot, Registers, Kind::GSingle),
        (SnapshotPerRead, Snapshot, Lists, Kind::GSingle),
        (OwnWritesUnseen, ReadCommitted, Registers, Kind::Internal),
        (OwnWritesUnseen, Serializable, Lists, Kind::Internal),
        (LostCommits, ReadCommitted, Lists, Kind::LostAppend),
        (LostCommits, Serializable, Registers, Kind::StaleSnapshot),
        (NumbersSwapped, ReadCommitted, Lists, Kind::NumberOrder),
        (NumbersSwapped, Serializable, Registers, Kind::NumberOrder),
    ];
    for (bug, level, holds, kind) in table {
        let reports = (0..SEEDS).map(|seed| check(&history(seed, level, Some(bug), holds), level));
        let mut found: Vec<Kind> = Vec::new();
        let mut seeds = 0;
        for report in reports {
            seeds += u64::from(!report.is_clean());
            found.extend(report.kinds());
        }
        assert!(found.contains(&kind), "{bug:?}, {level:?}, {holds:?}: {found:?}");
        // All seeds show something.
        assert_eq!(seeds, SEEDS, "{bug:?}, {level:?}, {holds:?}");
    }
}
