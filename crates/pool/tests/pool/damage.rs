//! Bytes that rot: superblock, log, anything. Never a wrong payload, never a panic.

use base::{Error, ErrorKind};

use super::*;

/// Where the log of [`sample`] begins: behind header, zone table, wear table and area 0.
const AREA: usize = 4096 + 16 * 64 + 16 * 8 + 4096;
const LAST_EDIT: usize = AREA + 640;

fn sample() -> (Vec<u8>, Vec<Vec<u8>>) {
    let pool = tiny(b"to be replaced");
    append(&pool, b"left-over");
    begin(&pool, b"snapshot");
    let mut payloads = vec![b"snapshot".to_vec()];
    for len in [0, 5, 48, 49, 200, 1] {
        payloads.push(Rng::new(len + 3).bytes(len as usize));
        append(&pool, payloads.last().unwrap());
    }
    (image(pool.region()), payloads)
}

fn open(image: &[u8]) -> Result<(Pool, Replay), Error> {
    Pool::open(region_of(image))
}

#[test]
fn one_damaged_slot_is_repaired_from_the_other() {
    let (good, payloads) = sample();
    for slot in [0, 2048] {
        for at in slot..slot + 128 {
            for flip in [1, 0x80, 0xff] {
                let mut image = good.clone();
                image[at] ^= flip;
                let (pool, replay) = open(&image).unwrap();
                assert_eq!(replay.payloads, payloads, "byte {at}");
                pool.flush_log().map(drop).unwrap();
                assert_eq!(super::image(pool.region()), good, "byte {at}");
            }
        }
        let mut image = good.clone();
        image[slot..slot + 128].fill(0);
        let (pool, _) = open(&image).unwrap();
        pool.flush_log().map(drop).unwrap();
        assert_eq!(super::image(pool.region()), good, "slot at {slot}");
    }
}

#[test]
fn a_log_begun_without_flush_repairs_first() {
    let (good, _) = sample();
    for slot in [0, 2048] {
        let mut image = good.clone();
        image[slot + 20] ^= 1;
        let (pool, _) = open(&image).unwrap();
        begin(&pool, b"next");
        let view = pool.view().to_string();
        assert!(!view.contains("damaged") && !view.contains("behind"), "{view}");
    }
}

#[test]
fn two_damaged_slots_are_corruption() {
    let (good, _) = sample();
    for at in 0..128 {
        for other in 0..128 {
            let mut image = good.clone();
            image[at] ^= 1;
            image[2048 + other] ^= 4;
            let error = open(&image).map(drop).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
        }
    }
}

#[test]
fn a_changed_edit_is_never_accepted() {
    let (good, payloads) = sample();
    let (area, last_edit) = (AREA, LAST_EDIT);
    let end = last_edit + 64;
    let mut corrupt = 0;
    for at in area..end {
        for flip in [1, 0x10, 0xff] {
            let mut image = good.clone();
            image[at] ^= flip;
            match open(&image) {
                Ok((_, replay)) if replay.payloads.len() == payloads.len() => {
                    assert_eq!(replay.payloads, payloads, "byte {at}");
                    assert!(!replay.torn_tail);
                }
                // Nothing tells damage of the last edit from a torn one.
                Ok((_, replay)) => {
                    assert!(at >= last_edit, "byte {at}");
                    assert_eq!(replay.payloads, payloads[..payloads.len() - 1]);
                    // Unless the damaged bytes are those that say whose edit it is.
                    assert_eq!(replay.torn_tail, !(8..16).contains(&(at - last_edit)));
                }
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
                    assert!(error.context().contains("offset"), "{error}");
                    assert!(at < last_edit, "byte {at}");
                    corrupt += 1;
                }
            }
        }
    }
    assert!(corrupt > 1000, "{corrupt}");
}

#[test]
fn damage_names_the_edit_and_the_one_behind_it() {
    let (mut image, _) = sample();
    image[AREA + 64 + 4] ^= 1;
    let error = open(&image).map(drop).unwrap_err();
    assert_eq!(
        error.to_string(),
        "Corruption: open pool: manifest log of heap: edit 1 at offset 9408 fails its check, and an \
         intact edit follows at 9472; restore a copy of the pool"
    );
}

#[test]
fn a_torn_tail_is_not_appended_to() {
    let (mut image, payloads) = sample();
    image[LAST_EDIT + 16] ^= 1;
    let (pool, replay) = open(&image).unwrap();
    assert!(replay.torn_tail);
    assert_eq!(replay.payloads, payloads[..payloads.len() - 1]);
    assert!(!pool.log_fits(0));
    assert_eq!(pool.log_append(b"x").map(drop).unwrap_err().kind(), ErrorKind::Internal);
    begin(&pool, b"again");
    append(&pool, b"x");
    assert_eq!(
        reopen(&pool).1,
        Replay { payloads: vec![b"again".to_vec(), b"x".to_vec()], torn_tail: false }
    );
}

#[test]
fn random_damage_never_panics_and_never_invents() {
    let (good, payloads) = sample();
    let mut rng = Rng::new(77);
    for _ in 0..20_000 {
        let mut image = good.clone();
        for _ in 0..=rng.below(4) {
            let at = match rng.below(3) {
                0 => rng.below(128) + 2048 * rng.below(2),
                1 => AREA as u64 + rng.below(11 * 64),
                _ => rng.below(TINY_LEN),
            } as usize;
            let len = (1 + rng.below(300) as usize * rng.below(2) as usize).min(image.len() - at);
            let bytes = if rng.below(2) == 0 { vec![0; len] } else { rng.bytes(len) };
            image[at..at + len].copy_from_slice(&bytes);
        }
        if let Ok((pool, replay)) = open(&image) {
            assert!(payloads.starts_with(&replay.payloads));
            pool.view().to_string();
            pool.sweep();
        }
    }
}

#[test]
fn random_regions_never_panic() {
    let mut rng = Rng::new(4);
    for _ in 0..2000 {
        let len = 1 + rng.below(12_000) as usize;
        let mut image = rng.bytes(len);
        if rng.below(2) == 0 && len >= 8 {
            image[..8].copy_from_slice(b"strandln");
        }
        assert!(open(&image).is_err());
    }
}
