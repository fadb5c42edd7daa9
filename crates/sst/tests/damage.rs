//! Damaged tables: an error or the same content, never a panic, never other content.

mod common;

use std::path::Path;

use base::Seq;
use base::random::Rng;
use common::{Entry, Model, all, open, write};
use sst::{Checksum, Compression, EntryKind, IndexKind, RangeDelete, Writer, WriterOptions};

/// All that can be read of a table, through every block of it.
fn content(bytes: Vec<u8>) -> base::Result<(Vec<Entry>, Vec<RangeDelete>)> {
    let table = open(bytes)?;
    let entries = all(&table)?;
    for ((key, seq), _) in &entries {
        assert!(table.may_contain(key)?, "the filter denies a key");
        assert!(table.get(key, seq.0)?.is_some(), "a key is lost");
    }
    let ranges = table.range_deletes()?;
    Ok((entries, ranges))
}

fn ours(options: WriterOptions) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), options);
    for i in 0..40_u64 {
        let kind = if i % 9 == 0 { EntryKind::Delete } else { EntryKind::Value };
        let value = if i % 9 == 0 { String::new() } else { "value ".repeat(i as usize % 7) };
        writer
            .add(format!("key{i:03}").as_bytes(), Seq::new(100 - i), kind, value.as_bytes())
            .unwrap();
    }
    writer.add_range_delete(b"key010", b"key020", Seq::new(7)).unwrap();
    writer.finish().unwrap().0
}

fn small() -> WriterOptions {
    WriterOptions { block_bytes: 200, metadata_block_bytes: 64, ..WriterOptions::default() }
}

fn tables() -> Vec<(&'static str, Vec<u8>)> {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let theirs = |name| (name, std::fs::read(golden.join(name)).unwrap());
    vec![
        ("plain", ours(small())),
        ("crc32c, two levels", {
            let index = IndexKind::TwoLevel;
            ours(WriterOptions { checksum: Checksum::Crc32c, index, ..small() })
        }),
        ("another compression, hash index", {
            let compression = *Compression::AVAILABLE.last().unwrap();
            ours(WriterOptions { compression, hash_index: true, ..small() })
        }),
        theirs("v2-crc32c-snappy.sst"),
        theirs("v6-xxh3-lz4.sst"),
    ]
}

#[test]
fn cut_off_anywhere() {
    for (name, bytes) in tables() {
        for len in 0..bytes.len() {
            assert!(content(bytes[..len].to_vec()).is_err(), "{name}: cut off at {len}");
        }
        let mut longer = bytes.clone();
        longer.push(0);
        assert!(content(longer).is_err(), "{name}: one byte more");
    }
}

#[test]
fn every_byte_changed() {
    for (name, bytes) in tables() {
        let whole = content(bytes.clone()).unwrap();
        let mut silent = Vec::new();
        for at in 0..bytes.len() {
            for change in [0x01, 0x80, 0xff] {
                let mut bad = bytes.clone();
                bad[at] ^= change;
                if let Ok(found) = content(bad) {
                    assert!(found == whole, "{name}: byte {at} changes what is read");
                    silent.push(at);
                }
            }
        }
        // Up to version 5 no checksum covers the zeroes of the footer, and nothing reads them. A zero makes
        // a longer spelling of the varint before it, too. Versions 2 to 5 are read alike;
        // and where the kind of checksum turns to "none", no reader looks at them.
        let padding = bytes.len() - 53 + 1..bytes.len() - 12;
        let version = bytes[bytes.len() - 12];
        let unread = |at: &usize| {
            let zero = bytes[*at] == 0 || bytes[*at + 1] == 0;
            version < 6
                && (padding.contains(at) && zero || *at == padding.end || *at + 1 == padding.start)
        };
        silent.retain(|at| !unread(at));
        assert!(
            silent.is_empty(),
            "{name} of {} bytes: nothing notices a change at {silent:?}",
            bytes.len()
        );
    }
}

/// A block from elsewhere, whole and with its checksum: from version 6 on the place is part of it.
#[test]
fn swapped_blocks() {
    let name = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/v6-external.sst");
    let bytes = std::fs::read(name).unwrap();
    let entries = all(&open(bytes.clone()).unwrap()).unwrap();
    // The first two data blocks of that table have the same length; find it by trying.
    let swapped = (300..900).filter_map(|len| {
        let mut bad = bytes.clone();
        let (first, second) = bad[..2 * len].split_at_mut(len);
        first.swap_with_slice(second);
        all(&open(bad).ok()?).ok()
    });
    assert!(swapped.into_iter().all(|found| found == entries));
}

/// What is sound in every block and wrong as a whole is found by the check.
#[test]
fn the_check_sees_more_than_checksums() {
    let model: Model = (0..50_u8)
        .map(|i| ((vec![i], std::cmp::Reverse(Seq::new(1))), (EntryKind::Value, vec![i; 40])))
        .collect();
    let (good, _) = write(&model, small());
    assert_eq!(open(good.clone()).unwrap().verify().unwrap(), []);
    // Damage in one block; the others are looked at all the same.
    let mut bad = good.clone();
    bad[30] ^= 1;
    let found = open(bad).unwrap().verify().unwrap();
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].what.contains("checksum") && found[0].offset == Some(0), "{found:?}");
    // A filter that knows other keys, with its right checksum.
    let other: Model = (0..50_u8)
        .map(|i| ((vec![i + 100], std::cmp::Reverse(Seq::new(1))), (EntryKind::Value, vec![i; 40])))
        .collect();
    let (other, summary) = write(&other, small());
    let from = summary.data_bytes as usize;
    let to = from + summary.filter_bytes as usize + 5;
    let mut bad = good.clone();
    bad[from..to].copy_from_slice(&other[from..to]);
    let found = open(bad).unwrap().verify().unwrap();
    assert!(found.iter().any(|finding| finding.what.contains("filter denies")), "{found:?}");
    // Data of another table under this index: keys do not fit their separators.
    let mut bad = good;
    bad[..from].copy_from_slice(&other[..from]);
    let found = open(bad).unwrap().verify().unwrap();
    assert!(found.iter().any(|finding| finding.what.contains("index says")), "{found:?}");
    assert!(found.len() <= 100);
}

#[test]
fn noise_is_no_table() {
    let mut random = Rng::new(5);
    for _ in 0..2000 {
        let len = random.below(300) as usize;
        let noise: Vec<u8> = (0..len).map(|_| random.next() as u8).collect();
        assert!(open(noise).is_err());
    }
}
