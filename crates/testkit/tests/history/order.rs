//! Anomalies that the clock shows, and commit numbers; and what a check costs.

use std::time::{Duration, Instant};

use crate::made::*;
use testkit::history::{Kind, Level, check};

#[test]
fn stale_snapshot() {
    let writer = during(1..2, numbered(1, [write(1, 1)]));
    shows(Kind::StaleSnapshot, &[writer.clone(), during(3..4, committed([read(1, None)]))]);
    is_clean(&[writer.clone(), during(2..4, committed([read(1, None)]))]);
    is_clean(&[writer, during(3..4, committed([read(1, 1)]))]);
    let list = [
        during(1..2, committed([append(1, 1)])),
        during(3..4, committed([list(1, &[])])),
        during(5..6, committed([list(1, &[1])])),
    ];
    shows(Kind::StaleSnapshot, &list);
}

/// Many transactions between the two do not make the cycle longer.
#[test]
fn a_stale_snapshot_of_long_ago() {
    let mut history = vec![during(1..2, numbered(1, [write(1, 1)]))];
    let other = |at| during(3 * at..3 * at + 1, numbered(at, [write(1 + at, at)]));
    history.extend((1..500).map(|at| other(at + 1)));
    history.push(during(9000..9001, committed([read(1, None)])));
    shows(Kind::StaleSnapshot, &history);
    assert_eq!(check(&history, Level::Snapshot).anomalies[0].transactions.len(), 2);
}

/// What no client was told may be committed later.
#[test]
fn an_unknown_outcome_has_no_end() {
    let writer = during(1..2, unknown([append(1, 1)]));
    let reader = during(3..4, committed([list(1, &[])]));
    is_clean(&[writer, reader, during(5..6, committed([list(1, &[1])]))]);
}

/// The first overwrites what the second read, which overwrites what the third read; and the third began when the first had
/// ended: snapshots allow that, and an order of all that the clock explains does not.
#[test]
fn serializable_but_not_strictly() {
    shows(
        Kind::RealTime,
        &[
            during(1..4, committed([append(2, 2)])),
            during(1..9, committed([list(2, &[]), append(1, 1)])),
            during(5..9, committed([list(1, &[])])),
        ],
    );
}

#[test]
fn numbers_against_what_was_seen() {
    shows(Kind::NumberOrder, &[numbered(2, [write(1, 1)]), numbered(1, [read(1, 1), write(2, 2)])]);
    shows(
        Kind::NumberOrder,
        &[numbered(2, [append(1, 1)]), numbered(1, [append(1, 2)]), committed([list(1, &[1, 2])])],
    );
    shows(Kind::NumberOrder, &[numbered(1, [write(1, 1)]), numbered(1, [write(2, 2)])]);
}

/// The order of two commits explains it, but not that of their numbers.
#[test]
fn an_order_that_is_not_that_of_the_numbers() {
    let history = [numbered(1, [write(1, 1)]), numbered(2, [read(1, None), write(2, 2)])];
    assert!(check(&history, Level::Snapshot).is_clean());
    let report = check(&history, Level::Serializable);
    assert_eq!(report.kinds(), [Kind::NumberOrder], "{report}");
}

/// Independent anomalies are found one by one.
#[test]
fn two_anomalies() {
    let skew = |key, number| {
        [
            numbered(number, [read(key, None), write(key + 1, 2)]),
            numbered(number + 1, [read(key + 1, None), write(key, 1)]),
        ]
    };
    let history = [&skew(1, 1)[..], &skew(11, 3), &[committed([read(99, 1)])]].concat();
    let report = check(&history, Level::Serializable);
    assert_eq!(report.kinds(), [Kind::G2Item, Kind::Corrupt]);
    assert_eq!((report.count(Kind::G2Item), report.count(Kind::Corrupt)), (2, 1));
    assert_eq!(check(&history, Level::Snapshot).kinds(), [Kind::Corrupt]);
}

/// A hundred thousand transactions, each depends on the one before it, with an anomaly that leads from the last to
/// the first: one component of them all. A square of steps would take minutes.
#[test]
fn the_cost_is_nearly_linear() {
    let count = 100_000;
    let update = |at| {
        let before = (at > 0).then_some(at);
        numbered(at + 1, [read(1, before), write(1, at + 1), read(2, None)])
    };
    let mut history: Vec<_> = (0..count).map(update).collect();
    let started = Instant::now();
    is_clean(&history);
    history[0].operations.push(write(2, 5));
    let report = check(&history, Level::Snapshot);
    assert_eq!(report.kinds(), [Kind::GSingle]);
    assert!(started.elapsed() < Duration::from_secs(30), "{:?}", started.elapsed());
}
