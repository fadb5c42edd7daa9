//! Anomalies that lists show.

use crate::made::*;
use testkit::history::{Kind, Level, check};

#[test]
fn a_serial_history_is_clean() {
    is_clean(&[
        committed([list(1, &[]), append(1, 1), list(1, &[1]), append(2, 2)]),
        committed([append(1, 3), append(1, 4), list(1, &[1, 3, 4]), list(2, &[2])]),
        committed([list(1, &[1, 3, 4]), list(2, &[2])]),
        aborted([append(1, 5), list(1, &[1, 5])]),
        committed([append(1, 6)]),
    ]);
    is_clean(&[]);
}

#[test]
fn dirty_write() {
    shows(
        Kind::G0,
        &[
            committed([append(1, 1), append(2, 3)]),
            committed([append(1, 2), append(2, 4)]),
            committed([list(1, &[1, 2])]),
            committed([list(2, &[4, 3])]),
        ],
    );
}

#[test]
fn aborted_read() {
    let reader = committed([list(1, &[1])]);
    shows(Kind::G1a, &[aborted([append(1, 1)]), reader.clone()]);
    // It is not known that this one was not committed, and it is seen.
    is_clean(&[unknown([append(1, 1)]), reader]);
}

#[test]
fn an_aborted_element_in_a_list_that_does_not_fit() {
    let history = [
        aborted([append(1, 9)]),
        committed([append(1, 1), append(1, 2)]),
        committed([list(1, &[1, 2])]),
        committed([list(1, &[9])]),
    ];
    shows(Kind::G1a, &history);
}

#[test]
fn intermediate_read() {
    let history = [
        committed([append(1, 1), append(1, 2)]),
        committed([list(1, &[1])]),
        committed([list(1, &[1, 2])]),
    ];
    let report = check(&history, Level::ReadCommitted);
    assert_eq!(report.kinds(), [Kind::G1b], "{report}");
    // What the reader saw is of a transaction that overwrites it: a cycle, too.
    let report = check(&history, Level::Snapshot);
    assert_eq!(report.kinds(), [Kind::G1b, Kind::GSingle], "{report}");
}

#[test]
fn circular_information_flow() {
    shows(
        Kind::G1c,
        &[committed([append(1, 1), list(2, &[2])]), committed([append(2, 2), list(1, &[1])])],
    );
    // One edge is an overwrite.
    shows(
        Kind::G1c,
        &[
            committed([append(1, 1), list(2, &[3])]),
            committed([append(1, 2), append(2, 3)]),
            committed([list(1, &[1, 2])]),
        ],
    );
}

#[test]
fn read_skew() {
    let history = [
        committed([append(1, 1), append(2, 2)]),
        committed([list(1, &[]), list(2, &[2])]),
        committed([list(1, &[1])]),
    ];
    shows(Kind::GSingle, &history);
    let report = check(&history, Level::Snapshot);
    let anomaly = &report.anomalies[0];
    let mut transactions = anomaly.transactions.clone();
    transactions.sort_unstable();
    assert_eq!(transactions, [0, 1]);
    let printed = report.to_string();
    for line in [
        "3 committed, 0 aborted, 0 unknown, 5 operations",
        "G-single (read skew): 1",
        "  T0 -wr-> T1: T1 sees k2 as T0 wrote it",
        "  T1 -rw-> T0: T1 sees k1 as it was before T0 wrote it",
        "  T1 process 0, 1 to 1000, committed: read k1 [], read k2 [2]",
    ] {
        assert!(printed.lines().any(|printed| printed == line), "{line}\n{printed}");
    }
}

#[test]
fn a_read_that_does_not_repeat() {
    shows(Kind::GSingle, &[committed([append(1, 1)]), committed([list(1, &[]), list(1, &[1])])]);
}

#[test]
fn lost_update() {
    let update = |element| committed([list(1, &[1]), append(1, element)]);
    shows(
        Kind::LostUpdate,
        &[committed([append(1, 1)]), update(2), update(3), committed([list(1, &[1, 2, 3])])],
    );
}

#[test]
fn a_cycle_with_anti_dependencies_apart() {
    // Snapshots that two readers see, each with one write and without the other.
    shows(
        Kind::GNonadjacent,
        &[
            committed([append(1, 1)]),
            committed([append(2, 2)]),
            committed([list(1, &[1]), list(2, &[])]),
            committed([list(1, &[]), list(2, &[2])]),
        ],
    );
}

#[test]
fn write_skew() {
    shows(
        Kind::G2Item,
        &[
            committed([list(1, &[]), append(2, 2)]),
            committed([list(2, &[]), append(1, 1)]),
            committed([list(1, &[1]), list(2, &[2])]),
        ],
    );
}

#[test]
fn own_appends_are_seen() {
    shows(Kind::Internal, &[committed([append(1, 1), list(1, &[])])]);
    shows(Kind::Internal, &[committed([list(1, &[1]), append(1, 1)])]);
    // At read committed another one's append comes between, and no transaction can tell.
    let history = [
        committed([append(1, 1), list(1, &[1])]),
        committed([append(1, 2)]),
        committed([list(1, &[2, 1])]),
    ];
    assert!(check(&history, Level::ReadCommitted).is_clean());
    assert_eq!(check(&history, Level::Snapshot).kinds(), [Kind::LostUpdate]);
}

#[test]
fn lists_in_different_orders() {
    shows(
        Kind::IncompatibleOrder,
        &[
            committed([append(1, 1)]),
            committed([append(1, 2)]),
            committed([list(1, &[1, 2])]),
            committed([list(1, &[2])]),
        ],
    );
    let own = [committed([append(1, 1), append(1, 2)]), committed([list(1, &[2, 1])])];
    let report = check(&own, Level::ReadCommitted);
    assert!(report.count(Kind::IncompatibleOrder) == 1, "{report}");
}

#[test]
fn an_element_twice() {
    shows(Kind::DuplicateElement, &[committed([append(1, 1)]), committed([list(1, &[1, 1])])]);
}

#[test]
fn an_element_from_nowhere() {
    shows(Kind::Corrupt, &[committed([append(1, 1)]), committed([list(1, &[1, 7])])]);
    // Of another key.
    shows(Kind::Corrupt, &[committed([append(2, 1)]), committed([list(1, &[1])])]);
}

#[test]
fn lost_append() {
    let append = |element| during(1..5, committed([append(1, element)]));
    let reader = |stamps| during(stamps, committed([list(1, &[1])]));
    // It may come yet: the reader began before it had ended.
    is_clean(&[append(1), append(2), reader(4..9)]);
    for lost in [vec![append(2)], vec![append(2), append(3)]] {
        let history = [vec![append(1), reader(6..9)], lost.clone()].concat();
        let report = check(&history, Level::ReadCommitted);
        assert_eq!(report.kinds(), [Kind::LostAppend], "{report}");
        assert_eq!(report.count(Kind::LostAppend), lost.len());
    }
    is_clean(&[unknown([crate::made::append(1, 2)]), append(1), reader(6..9)]);
}

#[test]
#[should_panic(expected = "T0 and T1 append 5 to k1")]
fn elements_are_appended_once() {
    check(&[committed([append(1, 5)]), aborted([append(1, 5)])], Level::Snapshot);
}

/// The tail that no read saw has the order of numbers: the reader did not see its first, and is overwritten by it.
#[test]
fn unseen_appends_come_in_the_order_of_their_numbers() {
    shows(
        Kind::G2Item,
        &[
            numbered(2, [append(1, 1), list(2, &[])]),
            numbered(3, [append(2, 2), list(1, &[])]),
            numbered(4, [append(1, 3)]),
        ],
    );
}
