//! Creating, opening, and every way in which opening is refused.

use base::ErrorKind;
use base::checksum::sum64;
use pool::{FORMAT_VERSION, Format, Pool};

use super::*;

fn refusal(image: &[u8]) -> (ErrorKind, String) {
    let error = Pool::open(region_of(image)).map(drop).unwrap_err();
    (error.kind(), error.to_string())
}

#[test]
fn what_was_created_is_opened() {
    let pool = tiny(b"snapshot");
    append(&pool, b"one");
    append(&pool, b"");
    let (opened, replay) = reopen(&pool);
    assert_eq!(opened.id(), ID);
    assert_eq!(opened.geometry(), pool.geometry());
    assert_eq!(replay.payloads, [&b"snapshot"[..], b"one", b""]);
    assert!(!replay.torn_tail);
}

#[test]
fn default_formats_work_at_many_lengths() {
    for len in [512 << 10, 1 << 20, (10 << 20) + 12345, 64 << 20] {
        let pool = Pool::create(heap(len), Format::for_len(len), ID, b"s").unwrap();
        let (opened, _) = Pool::open(region_of(&image(pool.region()))).unwrap();
        assert_eq!(opened.geometry(), pool.geometry(), "{len}");
    }
}

#[test]
fn opening_writes_nothing() {
    let pool = tiny(b"snapshot");
    append(&pool, b"edit");
    let mut bytes = image(pool.region());
    bytes[100] ^= 1;
    let region = region_of(&bytes);
    let before = region.stats();
    let (opened, _) = Pool::open(region.clone()).unwrap();
    opened.claim_zone(3).unwrap();
    opened.view().to_string();
    assert_eq!(region.stats(), before);
    assert_eq!(image(&region), bytes);
}

#[test]
fn creation_forgets_what_was_there() {
    let old = tiny(b"old");
    append(&old, b"edit of the earlier pool");
    for no in 0..16 {
        old.claim_zone(no).unwrap();
        let _durable = old.grant(no, &zones::header(no));
    }
    begin(&old, b"other area");
    append(&old, b"edit in the other area");
    let region = region_of(&image(old.region()));
    let new = Pool::create(region, TINY, ID, b"old").unwrap();
    let (opened, replay) = reopen(&new);
    assert_eq!(replay.payloads, [b"old"]);
    assert!((0..16).all(|no| opened.header(no) == pool::HeaderState::Free));
    assert_eq!((opened.wear().most, opened.wear().unknown), (0.0, 0));
}

#[test]
fn creation_over_random_bytes_works() {
    let region = region_of(&Rng::new(5).bytes(TINY_LEN as usize));
    let pool = Pool::create(region, TINY, ID, b"s").unwrap();
    assert_eq!(reopen(&pool).1.payloads, [b"s"]);
}

#[test]
fn impossible_creations_are_refused() {
    let kind = |len, format, snapshot: &[u8]| {
        Pool::create(heap(len), format, ID, snapshot).unwrap_err().kind()
    };
    assert_eq!(kind(4096, TINY, b""), ErrorKind::InvalidArgument);
    let odd = Format { zone_len: 1000, ..TINY };
    assert_eq!(kind(TINY_LEN, odd, b""), ErrorKind::InvalidArgument);
    assert_eq!(kind(TINY_LEN, TINY, &[0; 4096]), ErrorKind::LimitExceeded);
    assert!(Pool::create(heap(TINY_LEN), TINY, ID, &[0; 4096 - 16]).is_ok());
}

#[test]
fn fresh_memory_holds_no_pool() {
    for len in [1, 64, 128, 4096, TINY_LEN as usize] {
        let (kind, text) = refusal(&vec![0; len]);
        assert_eq!(kind, ErrorKind::NotFound, "{text}");
        assert!(text.contains("begin anew elsewhere"), "{text}");
    }
}

#[test]
fn other_files_are_foreign() {
    for image in [vec![7; 8192], b"SQLite format 3".to_vec(), Rng::new(9).bytes(4096)] {
        let (kind, text) = refusal(&image);
        assert_eq!(kind, ErrorKind::InvalidArgument, "{text}");
        assert!(text.contains("not a strandline pool"), "{text}");
    }
}

#[test]
fn a_pool_that_was_cut_short_says_by_how_much() {
    let whole = image(tiny(b"s").region());
    for len in [128, 2048, 4096, 20000, whole.len() - 1] {
        let (kind, text) = refusal(&whole[..len]);
        assert_eq!(kind, ErrorKind::Corruption, "{text}");
        assert!(text.contains(&format!("{len} bytes")) && text.contains("32768"), "{text}");
    }
    assert_eq!(refusal(&whole[..100]).0, ErrorKind::Corruption);
    let mut longer = whole.clone();
    longer.extend_from_slice(&[9; 5000]);
    assert!(Pool::open(region_of(&longer)).is_ok());
}

#[test]
fn other_format_versions_are_named() {
    for (version, remedy) in [(FORMAT_VERSION + 1, "newer"), (2, "checkpoint")] {
        let mut image = image(tiny(b"s").region());
        for slot in [0, 2048] {
            image[slot + 8..slot + 12].copy_from_slice(&version.to_le_bytes());
            let sum = sum64(u64::from_le_bytes(*b"strandln"), &image[slot..slot + 120]);
            image[slot + 120..slot + 128].copy_from_slice(&sum.to_le_bytes());
            let (kind, text) = refusal(&image);
            assert_eq!(kind, ErrorKind::NotSupported, "{text}");
            assert!(text.contains(&format!("pool format {version}")), "{text}");
            assert!(text.contains(remedy), "{text}");
        }
    }
}

#[test]
fn a_wiped_header_is_damage_not_fresh_memory() {
    let mut image = image(tiny(b"s").region());
    image[..4096].fill(0);
    let (kind, text) = refusal(&image);
    assert_eq!(kind, ErrorKind::Corruption, "{text}");
    assert!(text.contains("restore a copy of the pool"), "{text}");
}
