//! Damaged bytes, one place at a time, all over a small pool: a read gives the right value or says that
//! something is damaged; it never gives a wrong value and never says that a key is not there.

#[path = "../common/mod.rs"]
mod common;
mod crash;
mod expiring;
mod judge;
mod sample;

use std::os::unix::fs::FileExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use common::{TempDir, heap};
use judge::{Tally, verify};
use sample::{
    LEN, LINE, Layout, changes, key, load, options, places, sample_bytes, store, work_off,
    write_sample,
};
use strandline::{Db, ErrorKind};
use testkit::Rng;

/// Whether a message names an offset at most an extent before `at`.
fn names_nearby(text: &str, at: u64) -> bool {
    let numbers = text.split(|c: char| !c.is_ascii_digit()).filter_map(|word| word.parse().ok());
    numbers.into_iter().any(|named: u64| (named..named + (16 << 10)).contains(&at))
}

/// Damages every line in use of a store's file, one at a time, and reads it read-only.
fn read_only_tour(layout: Layout, overwrites: bool, only_records: bool) -> Tally {
    let dir = TempDir::new("damage");
    let content =
        write_sample(&|| Db::open(dir.path(), options()).expect("open"), layout, overwrites);
    let path = dir.join("pool");
    let places = places(&path);
    let whole = std::fs::read(&path).expect("read");
    let file = std::fs::OpenOptions::new().write(true).open(&path).expect("open");
    let mut tally = Tally::default();
    let open = || Db::open_read_only(dir.path(), options());
    let db = open().expect("open");
    assert!(!verify(&db, &content, "nothing", &mut tally));
    assert!(db.check().expect("check").damage.is_empty());
    drop(db);
    tally.assert_nothing_wrong();
    let mut rng = Rng::new(9);
    for (no, line) in whole.chunks_exact(LINE).enumerate() {
        let at = (no * LINE) as u64;
        let in_records = places.record_zones.iter().any(|zone| zone.contains(&at));
        if line.iter().all(|byte| *byte == 0) || (only_records && !in_records) {
            continue;
        }
        for (what, bad) in changes(&mut rng, line) {
            let part = match (in_records, places.data.contains(&at)) {
                (true, _) => "records",
                (false, true) => "index or extents",
                _ => "metadata",
            };
            let what = format!("{part}, offset {at}, {what}");
            tally.tried += 1;
            file.write_all_at(&bad, at).expect("damage");
            let tried = catch_unwind(AssertUnwindSafe(|| match open() {
                Err(error) => {
                    tally.refuse(&error, &what);
                    if in_records {
                        tally.note("a damaged record keeps readers out", &what);
                    }
                }
                Ok(db) => {
                    let damaged = verify(&db, &content, &what, &mut tally);
                    let found = db.check().map(|report| report.damage).unwrap_or_default();
                    let lines = at..at + LINE as u64;
                    let covered = found.iter().any(|damage| {
                        damage.at < lines.end && damage.at + damage.len > lines.start
                            || (!in_records && names_nearby(&damage.what, at))
                    });
                    if damaged && found.is_empty() {
                        tally.note("reads fail but check finds nothing", &what);
                    } else if damaged && !covered && part != "metadata" {
                        let what = format!("{what}: {found:?}");
                        tally.note(&format!("check does not name the place in {part}"), &what);
                    }
                }
            }));
            file.write_all_at(line, at).expect("repair");
            if tried.is_err() {
                tally.note("panic", &what);
            }
        }
    }
    let db = open().expect("the file is whole again");
    assert!(!verify(&db, &content, "repaired", &mut tally));
    tally
}

#[test]
fn read_only_fresh_memtables() {
    read_only_tour(Layout::Fresh, false, false).assert_clean(500);
}

#[test]
fn read_only_sealed_memtables() {
    read_only_tour(Layout::Sealed, false, false).assert_clean(500);
}

#[test]
fn read_only_runs() {
    read_only_tour(Layout::Runs, false, false).assert_clean(500);
}

#[test]
fn read_only_merged_runs() {
    read_only_tour(Layout::Merged, false, false).assert_clean(500);
}

#[test]
fn read_only_large_commits() {
    read_only_tour(Layout::Large, false, false).assert_clean(500);
}

#[test]
fn read_only_sealed_large_commits() {
    read_only_tour(Layout::LargeSealed, true, false).assert_clean(500);
}

#[test]
fn read_only_large_commits_in_runs() {
    read_only_tour(Layout::LargeRuns, false, false).assert_clean(500);
}

/// Where older versions lie behind the damaged ones, they must not be given for the newest.
#[test]
fn read_only_fresh_memtables_with_older_versions() {
    read_only_tour(Layout::Fresh, true, true).assert_clean(200);
}

#[test]
fn read_only_sealed_memtables_with_older_versions() {
    read_only_tour(Layout::Sealed, true, true).assert_clean(200);
}

#[test]
fn read_only_runs_with_older_versions() {
    read_only_tour(Layout::Runs, true, false).assert_clean(500);
}

/// Damage, then a store opened for writing that works, merges and is opened again: damage must not turn
/// into absence on the way.
fn writing_tour(layout: Layout) -> Tally {
    let (content, whole, places) = sample_bytes(layout, false);
    let mut tally = Tally::default();
    let mut rng = Rng::new(10);
    for (no, line) in whole.chunks_exact(LINE).enumerate() {
        let at = (no * LINE) as u64;
        if line.iter().all(|byte| *byte == 0) {
            continue;
        }
        let in_records = places.record_zones.iter().any(|zone| zone.contains(&at));
        let part = match (in_records, places.data.contains(&at)) {
            (true, _) => "records",
            (false, true) => "index or extents",
            _ => "metadata",
        };
        let all = changes(&mut rng, line);
        let (what, bad) = rng.pick(&all);
        let what = format!("{part}, offset {at}, {what}");
        tally.tried += 1;
        let region = load(&whole);
        store(&region, at, bad);
        let open = || Db::open_region(Arc::clone(&region), options());
        let tried = catch_unwind(AssertUnwindSafe(|| {
            let db = match open() {
                Ok(db) => db,
                Err(error) => return tally.refuse(&error, &what),
            };
            verify(&db, &content, &what, &mut tally);
            // A caller that goes on regardless must not lose more.
            let _ = db.put(b"zz new", b"written later");
            let _ = db.flush();
            let _ = db.compact();
            work_off(&db);
            let _ = db.delete(b"zz new");
            let _ = db.compact();
            verify(&db, &content, &format!("{what}, after compacting"), &mut tally);
            drop(db);
            match open() {
                Ok(db) => drop(verify(&db, &content, &format!("{what}, opened again"), &mut tally)),
                Err(error) if error.kind() == ErrorKind::Corruption => tally.refused += 1,
                Err(error) => {
                    tally.note(&format!("the second open says {:?}", error.kind()), &what)
                }
            }
        }));
        if tried.is_err() {
            tally.note("panic", &what);
        }
    }
    tally
}

#[test]
fn writing_on_with_damaged_fresh_memtables() {
    writing_tour(Layout::Fresh).assert_clean(200);
}

#[test]
fn writing_on_with_damaged_sealed_memtables() {
    writing_tour(Layout::Sealed).assert_clean(200);
}

#[test]
fn writing_on_with_damaged_runs() {
    writing_tour(Layout::Runs).assert_clean(200);
}

#[test]
fn writing_on_with_a_damaged_merged_run() {
    writing_tour(Layout::Merged).assert_clean(200);
}

#[test]
fn writing_on_with_damaged_large_commits() {
    writing_tour(Layout::Large).assert_clean(200);
    writing_tour(Layout::LargeSealed).assert_clean(200);
    writing_tour(Layout::LargeRuns).assert_clean(200);
}

/// Memory goes bad under an open store.
fn live_tour(layout: Layout) -> Tally {
    let (content, whole, places) = sample_bytes(layout, false);
    let mut tally = Tally::default();
    let mut rng = Rng::new(11);
    let region = load(&whole);
    let db = Db::open_region(Arc::clone(&region), options()).expect("open");
    for (no, line) in whole.chunks_exact(LINE).enumerate() {
        let at = (no * LINE) as u64;
        let in_data = places.data.contains(&at);
        if line.iter().all(|byte| *byte == 0) || !in_data || region.bytes(at, LINE) != line {
            continue;
        }
        for (what, bad) in changes(&mut rng, line) {
            let what = format!("offset {at}, {what}");
            tally.tried += 1;
            store(&region, at, &bad);
            let tried = catch_unwind(AssertUnwindSafe(|| {
                let damaged = verify(&db, &content, &what, &mut tally);
                let found = db.check().map(|report| report.damage).unwrap_or_default();
                if damaged && found.is_empty() {
                    tally.note("reads fail but check finds nothing", &what);
                }
            }));
            store(&region, at, line);
            if tried.is_err() {
                tally.note("panic", &what);
            }
        }
    }
    assert!(!verify(&db, &content, "repaired", &mut tally));
    tally
}

#[test]
fn memory_that_goes_bad_under_memtables() {
    live_tour(Layout::Sealed).assert_clean(200);
}

#[test]
fn memory_that_goes_bad_under_runs() {
    live_tour(Layout::Runs).assert_clean(200);
}

/// The offset at which `needle` stands in `bytes`.
fn find(bytes: &[u8], needle: &[u8]) -> u64 {
    let mut found = bytes.windows(needle.len()).enumerate().filter(|(_, part)| *part == needle);
    let (at, _) = found.next().expect("is in the pool");
    at as u64
}

/// Damage to an acknowledged record of a live memtable: opening for writing is refused with the place, and
/// reading still serves what came before and after.
#[test]
fn a_damaged_acknowledged_record_is_named() {
    for reopened in [false, true] {
        let dir = TempDir::new("named");
        let open = || Db::open(dir.path(), options()).expect("open");
        let db = open();
        let value = |i: u64| format!("<value {i:03}>").into_bytes();
        (0..60).for_each(|i| db.put(key(i), value(i)).expect("put"));
        drop(db);
        if reopened {
            drop(open());
        }
        let whole = std::fs::read(dir.join("pool")).expect("read");
        let at = find(&whole, &value(20));
        let file = std::fs::OpenOptions::new().write(true).open(dir.join("pool")).expect("open");
        file.write_all_at(b"X", at).expect("damage");
        let line = at / 64 * 64;
        let refused = Db::open(dir.path(), options()).map(drop).expect_err("damaged");
        assert_eq!(refused.kind(), ErrorKind::Corruption);
        let pool = places(&dir.join("pool"));
        let zone = (at - pool.data.start) / (16 << 10);
        assert!(refused.context().contains("zone"), "{refused}");
        assert!(refused.context().contains(&zone.to_string()), "names zone {zone}: {refused}");
        let named = [line, line - 64].iter().any(|at| refused.context().contains(&at.to_string()));
        assert!(named, "names offset {line}: {refused}");
        let after = std::fs::read(dir.join("pool")).expect("read");
        let mut expected = whole.clone();
        expected[at as usize] = b'X';
        assert!(after == expected, "a refused open changed the pool");

        let db = Db::open_read_only(dir.path(), options()).expect("read-only");
        assert!(!db.recovery().damage.is_empty());
        for i in (0..60).filter(|i| *i != 20) {
            let found = db.get(key(i));
            assert_eq!(
                found.expect("not damaged"),
                Some(value(i)),
                "key {i} (reopened: {reopened})"
            );
        }
        for key in [key(20), b"never there".to_vec()] {
            let error = db.get(&key).expect_err("may have been lost");
            assert_eq!(error.kind(), ErrorKind::Corruption);
        }
        assert!(!db.check().expect("check").damage.is_empty());
    }
}

/// A merge that meets damage and is asked again must not go on behind it.
#[test]
fn a_merge_that_met_damage_does_not_skip_it() {
    let region = heap(4 << 20);
    let db = Db::open_region(Arc::clone(&region), options()).expect("open");
    let value = |i: u64| format!("<value {i:04}>").into_bytes();
    for round in 0..12_u64 {
        (0..100).for_each(|i| db.put(key(round * 100 + i), value(round * 100 + i)).expect("put"));
        db.flush().expect("flush");
    }
    // A merge gets under way and stops half way.
    let mut begun = false;
    for _ in 0..3 {
        begun |= !db.work(40).expect("work").is_idle();
    }
    assert!(begun, "there was nothing to merge");
    let whole = region.bytes(0, region.len() as usize).to_vec();
    let victims: Vec<u64> = (0..12).map(|round| round * 100 + 77).collect();
    for i in &victims {
        store(&region, find(&whole, &value(*i)), b"X");
    }
    for _ in 0..20 {
        let _ = db.compact();
        let _ = db.work(1000);
    }
    for i in 0..1200_u64 {
        match (db.get(key(i)), victims.contains(&i)) {
            (Ok(Some(found)), false) => assert_eq!(found, value(i)),
            (Err(error), true) => assert_eq!(error.kind(), ErrorKind::Corruption),
            (other, victim) => panic!("key {i} (damaged: {victim}): {other:?}"),
        }
    }
}

/// The only place of a value is damaged, then its zone is cleaned: a copy under a checksum of its own would be believed.
#[test]
fn cleaning_copies_no_damaged_record() {
    let mut refused = 0;
    for victim in (0..400).step_by(50) {
        let region = heap(LEN);
        let db = Db::open_region(Arc::clone(&region), options()).expect("open");
        let value = |i: u64| format!("<value {i:04}>{}", "-".repeat(300)).into_bytes();
        (0..400).for_each(|i| db.put(key(i), value(i)).expect("put"));
        db.flush().expect("flush");
        let whole = region.bytes(0, region.len() as usize).to_vec();
        store(&region, find(&whole, &value(victim)) + 100, b"X");
        // The zones of most keys come to hold little else than the others.
        for i in (0..400).filter(|i| i % 10 != 0).cycle().take(8000) {
            // Merges end where they meet the damage, so the pool may become full.
            match db.put(key(i), value(i)) {
                Ok(()) => {}
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::NoSpace);
                    refused += 1;
                    break;
                }
            }
        }
        let error = db.get(key(victim)).expect_err("damaged");
        assert_eq!(error.kind(), ErrorKind::Corruption);
        assert!(!db.check().expect("check").damage.is_empty());
    }
    assert!(refused > 0, "nothing was cleaned");
}

/// A merge tells by their sequence numbers which versions of a key to drop, and one byte speaks for the head of a record:
/// one in 256 such changes passes it.
#[test]
fn a_damaged_old_version_costs_no_newer_one() {
    // Long enough for a merge not to read them without need.
    let value = |round: &str, i| format!("<{round} {i}>{}", "-".repeat(300)).into_bytes();
    let whole = {
        let region = heap(LEN);
        let db = Db::open_region(Arc::clone(&region), options()).expect("open");
        for round in ["old", "new"] {
            (0..50).for_each(|i| db.put(key(i), value(round, i)).expect("put"));
            db.flush().expect("flush");
        }
        drop(db);
        region.bytes(0, region.len() as usize).to_vec()
    };
    let record = find(&whole, b"<old 20>") / LINE as u64 * LINE as u64;
    let mut stopped = 0;
    for seq in 1000..3000_u32 {
        let region = load(&whole);
        let db = Db::open_region(Arc::clone(&region), options()).expect("open");
        store(&region, record + 6, &seq.to_le_bytes()[..3]);
        stopped += u32::from(db.compact().is_err());
        for i in 0..50 {
            let found = db.get(key(i)).unwrap_or_else(|error| panic!("{seq}, key {i}: {error}"));
            assert_eq!(found, Some(value("new", i)), "{seq}");
        }
    }
    assert_eq!(stopped, 2000, "the old version was not read");
}

/// `check` lists every damaged record and every damaged index block, each by its place.
#[test]
fn check_finds_all_of_several() {
    let region = heap(4 << 20);
    let db = Db::open_region(Arc::clone(&region), options()).expect("open");
    let value = |i: u64| format!("<value {i:04}>").into_bytes();
    (0..600).for_each(|i| db.put(key(i), value(i)).expect("put"));
    db.flush().expect("flush");
    (600..1200).for_each(|i| db.put(key(i), value(i)).expect("put"));
    assert!(db.check().expect("check").damage.is_empty());
    let whole = region.bytes(0, region.len() as usize).to_vec();
    // Long stretches too: more in a row than a check looks at together.
    let victims: Vec<u64> = (0..600).step_by(37).chain(700..1150).collect();
    let places: Vec<u64> = victims.iter().map(|i| find(&whole, &value(*i))).collect();
    places.iter().for_each(|at| store(&region, *at, b"X"));
    let report = db.check().expect("check");
    let missed = victims.iter().zip(&places).filter(|(_, at)| {
        !report.damage.iter().any(|damage| (damage.at..damage.at + damage.len).contains(at))
    });
    let missed: Vec<u64> = missed.map(|(i, _)| *i).collect();
    assert!(missed.is_empty(), "{} of {} not listed: {missed:?}", missed.len(), victims.len());
    let mut listed: Vec<u64> = report.damage.iter().map(|damage| damage.at).collect();
    listed.sort_unstable();
    listed.dedup();
    assert_eq!(listed.len(), report.damage.len(), "places are listed twice");
    assert_eq!(report.damage.len(), victims.len());
}

/// The zone table says which zones hold records. What a damaged line of it hid would be gone without a
/// word, and an open for writing would even clear it away.
#[test]
fn a_damaged_zone_header_hides_nothing() {
    let mut tally = Tally::default();
    let plain = [Layout::Fresh, Layout::Sealed, Layout::Runs, Layout::Merged];
    let large = [Layout::Large, Layout::LargeSealed, Layout::LargeRuns];
    for layout in plain.into_iter().chain(large) {
        let (content, whole, _) = sample_bytes(layout, false);
        for no in 0..8 {
            let at = 4096 + 64 * no;
            let line = &whole[at as usize..][..LINE];
            for (byte, both) in [0, 3, 5, 9, 14, 19, 27, 31]
                .map(|byte| [(byte, false), (byte, true)])
                .as_flattened()
            {
                // The header stands there twice. Both gone, a zone that no open has seen was never granted, as far
                // as anyone can tell.
                if line.iter().all(|byte| *byte == 0)
                    || *both && matches!(layout, Layout::Fresh | Layout::Large)
                {
                    continue;
                }
                let mut bad = line.to_vec();
                bad[*byte] ^= 4;
                bad[*byte + 32] ^= if *both { 4 } else { 0 };
                let what = format!("{layout:?}, header of zone {no}, byte {byte}");
                tally.tried += 1;
                let region = load(&whole);
                store(&region, at, &bad);
                match Db::open_region(Arc::clone(&region), options()) {
                    Ok(db) => drop(verify(&db, &content, &what, &mut tally)),
                    Err(error) => {
                        tally.refused += 1;
                        if error.kind() != ErrorKind::Corruption {
                            tally.note(&format!("open says {:?}", error.kind()), &what);
                        }
                    }
                }
            }
        }
    }
    tally.assert_clean(50);
}

/// Puts beside damaged records succeed or say so. They never panic, and what was there is never silently gone.
#[test]
fn puts_beside_damaged_records() {
    let value = |i: u64| format!("<value {i:04}>").into_bytes();
    let mut refused = 0;
    for victim in (0..200_u64).step_by(7) {
        let region = heap(4 << 20);
        let db = Db::open_region(Arc::clone(&region), options()).expect("open");
        (0..200).for_each(|i| db.put(key(i * 10), value(i)).expect("put"));
        let whole = region.bytes(0, region.len() as usize).to_vec();
        let line = find(&whole, &key(victim * 10)) / 64 * 64;
        for byte in [1, 4, 6, 10, 12, 20] {
            let mut bad = whole[line as usize..][..LINE].to_vec();
            bad[byte] ^= 0x11;
            store(&region, line, &bad);
            for i in victim * 10..victim * 10 + 10 {
                let more = [&key(i)[..], &[byte as u8]].concat();
                if let Err(error) = db.put(&more, b"more") {
                    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
                    refused += 1;
                }
            }
            for i in 0..200_u64 {
                match db.get(key(i * 10)) {
                    Ok(Some(found)) if found == value(i) => {}
                    Err(error) if i == victim => assert_eq!(error.kind(), ErrorKind::Corruption),
                    other => panic!("victim {victim}, byte {byte}, key {i}: {other:?}"),
                }
            }
            store(&region, line, &whole[line as usize..][..LINE]);
        }
        (0..200).for_each(|i| assert_eq!(db.get(key(i * 10)).expect("get"), Some(value(i))));
    }
    assert!(refused > 0, "no put ever met the damage");
}
