//! Anomalies that registers and scans show.

use crate::made::*;
use testkit::history::{Kind, Level, check};

#[test]
fn a_serial_history_is_clean() {
    is_clean(&[
        numbered(10, [read(1, None), write(1, 1), read(1, 1), write(2, 2)]),
        numbered(20, [scan(0..9, &[(1, 1), (2, 2)]), write(1, 3), write(1, 4), write(3, 5)]),
        committed([read(1, 4), read(2, 2), scan(2..4, &[(2, 2), (3, 5)])]),
        committed([scan(0..9, &[]), read(3, None)]),
        aborted([write(1, 6)]),
        numbered(30, [write(4, 7), scan(0..9, &[(1, 4), (2, 2), (3, 5), (4, 7)])]),
    ]);
}

#[test]
fn aborted_read() {
    shows(Kind::G1a, &[aborted([write(1, 1)]), committed([read(1, 1)])]);
    shows(Kind::G1a, &[aborted([write(1, 1)]), committed([scan(0..2, &[(1, 1)])])]);
    is_clean(&[unknown([write(1, 1)]), committed([read(1, 1)])]);
}

#[test]
fn intermediate_read() {
    shows(Kind::G1b, &[numbered(1, [write(1, 1), write(1, 2)]), committed([read(1, 1)])]);
}

#[test]
fn circular_information_flow() {
    // The numbers are of no help to it.
    shows(Kind::G1c, &[committed([write(1, 1), read(2, 2)]), committed([write(2, 2), read(1, 1)])]);
}

#[test]
fn read_skew() {
    shows(
        Kind::GSingle,
        &[numbered(1, [write(1, 1), write(2, 2)]), committed([read(1, None), read(2, 2)])],
    );
    // A scan is one moment, too.
    shows(
        Kind::GSingle,
        &[numbered(1, [write(1, 1), write(2, 2)]), committed([scan(0..9, &[(2, 2)])])],
    );
}

#[test]
fn lost_update() {
    shows(
        Kind::LostUpdate,
        &[
            numbered(1, [write(1, 1)]),
            numbered(2, [read(1, 1), write(1, 2)]),
            numbered(3, [read(1, 1), write(1, 3)]),
        ],
    );
    // The other one need not have read it.
    shows(
        Kind::LostUpdate,
        &[numbered(2, [write(1, 2)]), numbered(3, [read(1, None), write(1, 3)])],
    );
}

#[test]
fn write_skew() {
    let history =
        [numbered(1, [read(1, None), write(2, 2)]), numbered(2, [read(2, None), write(1, 1)])];
    shows(Kind::G2Item, &history);
    let of_three = [
        numbered(1, [read(1, None), write(2, 2)]),
        numbered(2, [read(2, None), write(3, 3)]),
        numbered(3, [read(3, None), write(1, 1)]),
    ];
    shows(Kind::G2Item, &of_three);
}

#[test]
fn phantom() {
    shows(
        Kind::Phantom,
        &[
            numbered(1, [scan(0..10, &[]), write(11, 1)]),
            numbered(2, [scan(10..20, &[]), write(5, 2)]),
        ],
    );
    // What is beyond the range is none.
    is_clean(&[
        numbered(1, [scan(0..5, &[]), write(11, 1)]),
        numbered(2, [scan(12..20, &[]), write(5, 2)]),
    ]);
    // The value of a key that was there is an item.
    shows(
        Kind::G2Item,
        &[
            numbered(1, [write(5, 1), write(15, 2)]),
            numbered(2, [scan(0..10, &[(5, 1)]), write(15, 3)]),
            numbered(3, [scan(10..20, &[(15, 2)]), write(5, 4)]),
        ],
    );
}

#[test]
fn own_writes_are_seen() {
    shows(Kind::Internal, &[numbered(1, [write(1, 1), read(1, None)])]);
    shows(Kind::Internal, &[numbered(1, [write(1, 1), write(1, 2), read(1, 1)])]);
    shows(Kind::Internal, &[numbered(1, [read(1, 1), write(1, 1)])]);
    shows(Kind::Internal, &[numbered(1, [write(1, 1), scan(0..9, &[])])]);
    is_clean(&[numbered(1, [scan(0..9, &[]), write(1, 1), scan(0..9, &[(1, 1)])])]);
}

#[test]
fn what_was_never_written() {
    shows(Kind::Corrupt, &[committed([read(1, 7)])]);
    let writer = numbered(1, [write(1, 1), write(2, 2)]);
    shows(Kind::Corrupt, &[writer.clone(), committed([scan(2..9, &[(1, 1), (2, 2)])])]);
    shows(Kind::Corrupt, &[writer.clone(), committed([scan(0..9, &[(2, 2), (1, 1)])])]);
    shows(Kind::Corrupt, &[writer, committed([scan(0..9, &[(1, 1), (1, 1), (2, 2)])])]);
}

#[test]
#[should_panic(expected = "T0 and T1 write 5 to k1")]
fn values_are_written_once() {
    check(&[numbered(1, [write(1, 5)]), numbered(2, [write(1, 5)])], Level::Snapshot);
}
