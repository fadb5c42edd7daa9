//! The manifest log in ordinary life.

use base::ErrorKind;

use super::*;

#[test]
fn hundreds_of_logs_say_what_was_written() {
    let mut rng = Rng::new(11);
    let mut pool = tiny(b"first");
    let mut expected = vec![b"first".to_vec()];
    let (mut begins, mut reopens) = (0, 0);
    for _ in 0..3000 {
        let len = rng.below(300) as usize;
        let payload = rng.bytes(len);
        if rng.below(20) == 0 || !pool.log_fits(len) {
            begin(&pool, &payload);
            expected = vec![payload];
            begins += 1;
        } else {
            append(&pool, &payload);
            expected.push(payload);
        }
        let (opened, replay) = reopen(&pool);
        assert_eq!(replay, Replay { payloads: expected.clone(), torn_tail: false });
        if rng.below(10) == 0 {
            opened.flush_log().map(drop).unwrap();
            begin(&opened, b"reopened");
            expected = vec![b"reopened".to_vec()];
            pool = opened;
            reopens += 1;
        }
    }
    assert!(begins > 100 && reopens > 200, "{begins} {reopens}");
}

#[test]
fn a_full_area_is_said_before_and_after() {
    let pool = tiny(b"");
    let mut edits = 1;
    while pool.log_fits(48) {
        append(&pool, &[1; 48]);
        edits += 1;
    }
    assert_eq!(edits, 4096 / 64);
    assert_eq!(pool.log_append(b"").map(drop).unwrap_err().kind(), ErrorKind::NoSpace);
    assert_eq!(reopen(&pool).1.payloads.len(), edits);
    // Nothing is handed out before the sweep, so that it stays in its areas.
    let pool = reopen(&pool).0;
    begin(&pool, &[3; 4096 - 16]);
    assert!(!pool.log_fits(0));
    assert_eq!(reopen(&pool).1.payloads, [[3; 4096 - 16]]);
}

#[test]
fn a_log_moves_to_areas_that_fit_and_gives_back_those_it_leaves() {
    let pool = roomy(b"");
    let whole = pool.space().free;
    for (len, area) in
        [(100, 4096), (3200, 8192), (7000, 16_384), (1000, 4096), (3000, 4096), (6000, 8192)]
    {
        begin(&pool, &vec![5; len]);
        let taken = if area == 4096 { 0 } else { 2 * area };
        assert_eq!((pool.log_area_len(), whole - pool.space().free), (area, taken), "{len}");
        append(&pool, b"edit");
        let (again, replay) = reopen(&pool);
        assert_eq!(replay.payloads, [&vec![5; len][..], b"edit"]);
        assert_eq!(whole - again.space().free, taken, "an open claims them");
    }
    pool.log_begin_for(b"", 10_000).map(drop).unwrap();
    assert_eq!(pool.log_area_len(), 16_384);
}

#[test]
fn a_log_that_finds_no_room_stays_where_it_is_as_long_as_it_fits() {
    let pool = roomy(b"");
    let rest: Vec<_> = std::iter::from_fn(|| pool.take_extent(256)).collect();
    begin(&pool, &[6; 4000]);
    assert_eq!(pool.log_area_len(), 4096);
    let error = pool.log_begin(&[6; 5000]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LimitExceeded);
    assert!(error.context().contains("no room for longer ones"), "{error}");
    assert_eq!(reopen(&pool).1.payloads, [[6; 4000]]);
    rest.into_iter().for_each(|extent| pool.release_extent(extent));
    begin(&pool, &[6; 5000]);
    assert_eq!(pool.log_area_len(), 8192);
}

#[test]
fn payloads_beyond_an_area_are_over_a_limit() {
    let pool = tiny(b"s");
    for len in [1 << 18, 1 << 20] {
        assert!(!pool.log_fits(len));
        let kind = |result: base::Result<pmem::Durable>| result.map(drop).unwrap_err().kind();
        assert_eq!(kind(pool.log_append(&vec![0; len])), ErrorKind::LimitExceeded);
        assert_eq!(kind(pool.log_begin(&vec![0; len])), ErrorKind::LimitExceeded);
    }
    assert!(!pool.log_fits(usize::MAX));
    append(&pool, b"still fine");
    assert_eq!(reopen(&pool).1.payloads, [&b"s"[..], b"still fine"]);
}

#[test]
fn an_append_costs_one_fence_and_its_own_lines() {
    let pool = tiny(b"s");
    let before = pool.region().stats();
    append(&pool, &[0; 100]);
    let after = pool.region().stats();
    assert_eq!(after.fences - before.fences, 1);
    assert_eq!(after.lines_flushed - before.lines_flushed, 2);
    assert_eq!(after.bytes_stored - before.bytes_stored, 128);
}
