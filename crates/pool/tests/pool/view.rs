//! The text view, to the letter.

use super::*;

#[test]
fn a_pool_prints_what_it_is() {
    let pool = tiny(b"snapshot");
    append(&pool, &[7; 100]);
    begin(&pool, b"snapshot");
    append(&pool, b"edit");
    for _ in 0..3 {
        let no = pool.take_zone().unwrap();
        let _durable = pool.grant(no, &zones::header(no));
    }
    pool.take_zone().unwrap();
    pool.take_extent(1300).unwrap();
    assert_eq!(
        pool.view().to_string(),
        "\
pool 000000005eed1dea, format 4, 32768 bytes
  generation 2
  slot A     valid
  slot B     valid
log in area 1 at 9344, incarnation 2
  edits      2
  bytes      128 of 4096
16 zones of 1024 bytes at 16384, grains of 256
         0 MCMt..........+#
  M        2 memtable
  C        1 clean
  t        1 taken, not granted
  #        1 extents
  +        1 part extents
  .       10 free
space
  free       10752 of 16384 bytes
  whole      10 zones
wear
  least      0.0 fillings
  mean       0.3 fillings
  most       1.0 fillings
"
    );
}

#[test]
fn an_opened_pool_prints_its_wounds() {
    let pool = tiny(b"snapshot");
    for no in 0..4 {
        pool.claim_zone(no).unwrap();
        let _durable = pool.grant(no, &zones::header(no));
    }
    let stale = image(pool.region())[..128].to_vec();
    begin(&pool, b"next");
    let mut bytes = image(pool.region());
    bytes[2048..2048 + 128].copy_from_slice(&stale);
    bytes[4096 + 3 * 64] ^= 1;
    bytes[4096 + 3 * 64 + 32] ^= 1;
    let (behind, _) = Pool::open(region_of(&bytes)).unwrap();
    behind.claim_zone(0).unwrap();
    let text = behind.view().to_string();
    assert!(text.contains("slot A     valid\n  slot B     behind, generation 1\n"), "{text}");
    assert!(text.contains("0 Mcm!............\n"), "{text}");
    bytes[2048] ^= 1;
    let text = Pool::open(region_of(&bytes)).unwrap().0.view().to_string();
    assert!(text.contains("slot B     damaged\n"), "{text}");
    assert!(!text.contains("unknown"), "{text}");
    bytes[4096 + 16 * 64 + 5 * 8] ^= 1;
    let text = Pool::open(region_of(&bytes)).unwrap().0.view().to_string();
    assert!(text.ends_with("  unknown    1 zones, taken for the mean\n"), "{text}");
}

#[test]
fn equal_rows_of_zones_are_shown_once() {
    let len = (1024 + 72) * 400 + (16 << 10);
    let pool = Pool::create(heap(len), TINY, ID, b"").unwrap();
    pool.take_zone().unwrap();
    let text = pool.view().to_string();
    let rows: Vec<&str> = text.lines().skip_while(|line| !line.contains("zones of")).collect();
    assert!(rows[1].starts_with("         0 t...."), "{text}");
    assert!(rows[2].starts_with("        64 ....."), "{text}");
    assert_eq!(rows[3], "         *", "{text}");
    assert!(rows[4].starts_with("       384 ....."), "{text}");
}
