//! Zone headers and the sweep.

use pool::{HeaderState, SweepReport, ZoneHeader, ZoneKind};

use super::*;

pub fn header(no: u32) -> ZoneHeader {
    ZoneHeader {
        kind: if no.is_multiple_of(2) { ZoneKind::Memtable } else { ZoneKind::Clean },
        epoch: 7,
        grant: no + 1,
        keyspace: 2,
        subrange: 3,
        base_seq: base::Seq::new(1000 + u64::from(no)),
    }
}

fn grant(pool: &Pool) -> u32 {
    let no = pool.take_zone().unwrap();
    let _durable = pool.grant(no, &header(no));
    no
}

#[test]
fn granted_zones_are_found_again_until_cleared() {
    let pool = tiny(b"s");
    assert_eq!((0..3).map(|_| grant(&pool)).collect::<Vec<_>>(), [0, 1, 2]);
    assert_eq!(header(1).incarnation(), (7 << 32) + 2);
    let (opened, _) = reopen(&pool);
    for no in 0..3 {
        assert_eq!(opened.header(no), HeaderState::Granted(header(no)));
    }
    assert_eq!(opened.header(3), HeaderState::Free);
    let _durable = pool.clear_zone(1);
    pool.release_zone(1);
    assert_eq!(reopen(&pool).0.header(1), HeaderState::Free);
    assert_eq!(pool.take_zone(), Some(1));
}

#[test]
fn a_grant_costs_one_fence_and_two_lines() {
    let pool = tiny(b"s");
    let before = pool.region().stats();
    grant(&pool);
    let granted = pool.region().stats();
    let _durable = pool.clear_zone(0);
    let cleared = pool.region().stats();
    assert_eq!(
        (granted.fences - before.fences, granted.lines_flushed - before.lines_flushed),
        (1, 2)
    );
    assert_eq!(
        (cleared.fences - granted.fences, cleared.bytes_stored - granted.bytes_stored),
        (1, 16)
    );
}

#[test]
fn one_copy_of_a_header_is_enough() {
    let pool = tiny(b"s");
    grant(&pool);
    let bytes = image(pool.region());
    for byte in 0..64 {
        for bit in 0..8 {
            let mut bad = bytes.clone();
            bad[4096 + byte] ^= 1 << bit;
            let (opened, _) = Pool::open(region_of(&bad)).unwrap();
            assert_eq!(opened.header(0), pool.header(0), "byte {byte}, bit {bit}");
            assert!(!opened.header_is_whole(0) && opened.header_is_whole(1));
        }
    }
    // After a clear there is no copy left that damage to the first word could bring back.
    let _durable = pool.clear_zone(0);
    let mut bad = image(pool.region());
    bad[4096] ^= 1;
    assert_eq!(Pool::open(region_of(&bad)).unwrap().0.header(0), HeaderState::Torn);
}

#[test]
fn the_sweep_frees_what_nobody_claimed() {
    let pool = tiny(b"s");
    for _ in 0..5 {
        grant(&pool);
    }
    let mut bytes = image(pool.region());
    bytes[4096 + 4 * 64 + 9] ^= 1;
    bytes[4096 + 4 * 64 + 32 + 9] ^= 1;
    let (opened, _) = Pool::open(region_of(&bytes)).unwrap();
    assert_eq!(opened.header(4), HeaderState::Torn);
    opened.claim_zone(1).unwrap();
    opened.claim_zone(3).unwrap();
    assert_eq!(opened.sweep(), SweepReport { granted: 2, torn: 1 });
    assert_eq!(opened.sweep(), SweepReport::default());
    let (after, _) = reopen(&opened);
    for no in 0..5 {
        assert_eq!(after.header(no) == HeaderState::Free, ![1, 3].contains(&no), "zone {no}");
    }
    assert_eq!(opened.space().free_zones, 14);
    assert_eq!(
        (opened.take_zone(), opened.take_zone(), opened.take_zone()),
        (Some(0), Some(2), Some(4))
    );
}

#[test]
#[should_panic(expected = "before the sweep")]
fn nothing_is_handed_out_before_the_sweep() {
    reopen(&tiny(b"s")).0.take_zone();
}

#[test]
fn a_planted_leak_is_visible_in_the_counters() {
    let pool = tiny(b"s");
    grant(&pool);
    let (opened, _) = reopen(&pool);
    base::planted::plant(Some(base::planted::Bug::SkipLeakSweep));
    opened.sweep();
    base::planted::plant(None);
    assert_eq!(opened.space().free_zones, 15);
}
