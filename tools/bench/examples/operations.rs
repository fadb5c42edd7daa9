//! One operation of the store, many times, in a function of its own, so that a profiler can count that and nothing else:
//! `operations NAME COUNT`. `scripts/compare-instructions` runs it from two revisions. It uses no more of the interface
//! than old revisions have.

use std::path::Path;

use strandline::{Batch, Db, Options, ReadOptions};

const VALUE: [u8; 100] = [7; 100];
/// Puts that a batch has, and keys that a seek is followed by.
const BATCH: usize = 100;

/// What is counted. Calls nothing with its own name, which would end the count.
#[inline(never)]
fn measured(operation: impl FnOnce()) {
    std::hint::black_box(());
    operation();
    std::hint::black_box(());
}

fn options() -> Options {
    let mut options = Options::default();
    // The same instructions each time: no thread works beside this one.
    for (name, value) in [("background_threads", "0"), ("pm_size", "256M")] {
        options.set(name, value).expect("an option of every revision");
    }
    options
}

/// Key `number`: 16 bytes, in no order.
fn key(number: usize) -> [u8; 16] {
    let mut key = [b'k'; 16];
    key[..8].copy_from_slice(&(number as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes());
    key
}

fn fill(db: &Db, count: usize) {
    (0..count).for_each(|number| db.put(&key(number)[..], &VALUE[..]).expect("put"));
}

/// Where keys are when they are read.
#[derive(Clone, Copy)]
enum Place {
    Memtable,
    Run,
    Table,
}

fn filled(dir: &Path, count: usize, place: Place) -> Db {
    let db = Db::open(dir, options()).expect("open");
    fill(&db, count);
    match place {
        Place::Memtable => {}
        Place::Run => db.flush().expect("flush"),
        Place::Table => db.compact().expect("compact"),
    }
    db
}

fn gets(dir: &Path, count: usize, place: Place) {
    let db = filled(dir, count, place);
    let mut value = Vec::new();
    measured(|| {
        for number in 0..count {
            value.clear();
            assert!(db.default_keyspace().get_into(&key(number)[..], &mut value).expect("get"));
        }
    });
}

fn seeks(dir: &Path, count: usize, place: Place) {
    let db = filled(dir, count, place);
    let mut cursor = db.default_keyspace().cursor(&ReadOptions::default()).expect("cursor");
    measured(|| {
        (0..count).for_each(|number| cursor.seek(&key(number)[..]).expect("seek"));
    });
}

fn scan(dir: &Path, count: usize, place: Place) {
    let db = filled(dir, count, place);
    let mut cursor = db.default_keyspace().cursor(&ReadOptions::default()).expect("cursor");
    let mut seen = 0;
    measured(|| {
        cursor.seek_to_first().expect("seek");
        while cursor.valid() {
            seen += usize::from(cursor.value().expect("value").is_some());
            cursor.next().expect("next");
        }
    });
    assert_eq!(seen, count);
}

fn run(name: &str, dir: &Path, count: usize) {
    match name {
        "put" => {
            let db = Db::open(dir, options()).expect("open");
            measured(|| fill(&db, count));
        }
        "batch" => {
            let db = Db::open(dir, options()).expect("open");
            let (keyspace, mut batch) = (db.default_keyspace(), Batch::new());
            measured(|| {
                for first in (0..count).step_by(BATCH) {
                    batch.clear();
                    (first..first + BATCH)
                        .for_each(|number| batch.put(keyspace, &key(number)[..], &VALUE[..]));
                    db.write(&batch).expect("write");
                }
            });
        }
        "overwrite" => {
            let db = filled(dir, count, Place::Run);
            measured(|| fill(&db, count));
        }
        "get-memtable" => gets(dir, count, Place::Memtable),
        "get-run" => gets(dir, count, Place::Run),
        "get-table" => gets(dir, count, Place::Table),
        "seek-run" => seeks(dir, count, Place::Run),
        "seek-table" => seeks(dir, count, Place::Table),
        "scan-memtable" => scan(dir, count, Place::Memtable),
        "scan-run" => scan(dir, count, Place::Run),
        "scan-table" => scan(dir, count, Place::Table),
        "flush" => {
            let db = filled(dir, count, Place::Memtable);
            measured(|| db.flush().expect("flush"));
        }
        "compact" => {
            let db = filled(dir, count, Place::Run);
            fill(&db, count);
            measured(|| db.compact().expect("compact"));
        }
        "reopen" => {
            // Not all revisions tell how closing went.
            drop(filled(dir, count, Place::Memtable));
            measured(|| drop(Db::open(dir, options()).expect("open")));
        }
        _ => panic!("no operation is named {name}"),
    }
}

fn main() {
    let mut words = std::env::args().skip(1);
    let (Some(name), Some(count)) = (words.next(), words.next()) else {
        panic!("operations NAME COUNT");
    };
    let scratch = std::env::temp_dir().join(format!("operations-{}", std::process::id()));
    std::fs::create_dir(&scratch).expect("a scratch folder");
    run(&name, &scratch.join("db"), count.parse().expect("a count"));
    std::fs::remove_dir_all(&scratch).expect("nothing in it is in use");
}
