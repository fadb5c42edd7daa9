//! A small store, what it holds, what lies where in it, and how a line of it changes.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use pmem::{OpenMode, PoolFile, Prefault, Region, Site};
use pool::{HeaderState, Pool};
use strandline::{Batch, Db, Options, SsdSource, Work};
use testkit::{Rng, Value};

use crate::common::{TempDir, heap};

pub const LINE: usize = 64;
pub const LEN: u64 = 1 << 20;

pub fn options() -> Options {
    Options::default()
        .pm_size(LEN)
        .zone_size(16 << 10)
        .background_threads(0)
        .recovery_threads(1)
        .ssd(SsdSource::None)
}

/// What a store should hold.
#[derive(Default)]
pub struct Content {
    pub live: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Never there, or deleted.
    pub absent: Vec<Vec<u8>>,
    /// The last commit, if nothing later tells that it was acknowledged: like a torn write, it may be lost.
    pub doubtful: Option<Vec<u8>>,
}

/// How a sample store is laid out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Layout {
    /// Memtables that were never recovered.
    Fresh,
    /// Memtables whose length an open has sealed.
    Sealed,
    /// Several runs, and a sealed memtable.
    Runs,
    /// One run, merged and cleaned.
    Merged,
    /// Memtables that were never recovered, one of them of a large commit.
    Large,
    /// The same after an open, which has sealed all zones.
    LargeSealed,
    /// A run with the records of a large commit, and memtables.
    LargeRuns,
}

impl Layout {
    fn is_large(self) -> bool {
        matches!(self, Layout::Large | Layout::LargeSealed | Layout::LargeRuns)
    }
}

pub fn key(i: u64) -> Vec<u8> {
    format!("sample/{i:04}").into_bytes()
}

/// Writes a sample; with `overwrites`, most keys have older versions behind them.
pub fn write_sample(open: &dyn Fn() -> Db, layout: Layout, overwrites: bool) -> Content {
    let mut content = Content::default();
    let mut db = open();
    let mut put = |db: &Db, i: u64, value: Vec<u8>| {
        db.put(key(i), &value).expect("put");
        content.live.insert(key(i), value);
    };
    let keys = 48;
    let generations = if overwrites { 3 } else { 1 };
    for generation in 0..generations {
        for i in 0..keys {
            // Without overwrites each layer has keys of its own.
            let len = [0, 1, 20, 100, 300, 3000][(i % 6) as usize];
            put(&db, i, Value::new(i * 10 + generation, len).bytes());
            if layout == Layout::Runs && i == keys / 2 {
                db.flush().expect("flush");
            }
        }
        let mut batch = Batch::new();
        for i in 100..108_u64 {
            batch.put(db.default_keyspace(), key(i), i.to_le_bytes().repeat(3));
        }
        db.write(&batch).expect("write");
        if matches!(layout, Layout::Runs | Layout::Merged) {
            db.flush().expect("flush");
        }
    }
    for i in 100..108_u64 {
        content.live.insert(key(i), i.to_le_bytes().repeat(3));
    }
    if overwrites {
        for i in [3, 17, 104] {
            db.delete(key(i)).expect("delete");
            content.live.remove(&key(i));
            content.absent.push(key(i));
        }
    }
    if layout == Layout::Merged {
        db.compact().expect("compact");
    }
    if layout.is_large() {
        // Over two zones, and over older versions of some keys.
        let mut batch = Batch::new();
        for i in (40..48).chain(110..160) {
            let value = Value::new(i * 10 + 7, [40, 300, 900][(i % 3) as usize]).bytes();
            batch.put(db.default_keyspace(), key(i), &value);
            content.live.insert(key(i), value);
            content.absent.retain(|absent| *absent != key(i));
        }
        batch.delete(db.default_keyspace(), key(105));
        content.live.remove(&key(105));
        content.absent.push(key(105));
        db.write(&batch).expect("write");
        assert_eq!(db.properties().large_commits.committed, 1);
    }
    if layout == Layout::LargeRuns {
        db.flush().expect("flush");
    }
    if matches!(layout, Layout::Runs | Layout::Sealed | Layout::LargeSealed | Layout::LargeRuns) {
        (60..70).for_each(|i| {
            db.put(key(i), [i as u8; 30]).expect("put");
            content.live.insert(key(i), vec![i as u8; 30]);
        });
    }
    if matches!(layout, Layout::Fresh | Layout::Large) {
        db.put(b"the last commit", b"x").expect("put");
        content.live.insert(b"the last commit".to_vec(), b"x".to_vec());
        content.doubtful = Some(b"the last commit".to_vec());
    }
    if matches!(layout, Layout::Sealed | Layout::Runs | Layout::LargeSealed | Layout::LargeRuns) {
        drop(db);
        db = open();
    }
    drop(db);
    content.absent.extend((200..210).map(key));
    content.absent.extend([vec![], b"sample/".to_vec(), b"z".to_vec()]);
    content
}

/// What lies where in a pool.
pub struct Places {
    /// Zones that hold records.
    pub record_zones: Vec<Range<u64>>,
    pub data: Range<u64>,
}

pub fn places(path: &std::path::Path) -> Places {
    let file = PoolFile::open(path, OpenMode::ReadOnly).expect("pool file");
    let region = Arc::new(file.map(Prefault::Lazy).expect("map"));
    let (pool, _) = Pool::open(region).expect("pool");
    let geometry = pool.geometry();
    let record_zones = (0..geometry.zones())
        .filter(|no| matches!(pool.header(*no), HeaderState::Granted(_)))
        .map(|no| geometry.zone_at(no).get())
        .map(|start| start..start + geometry.zone_len())
        .collect();
    let data = geometry.data();
    Places { record_zones, data: data.start.get()..data.end.get() }
}

/// Changes to one line: what it is called, and what the line becomes.
pub fn changes(rng: &mut Rng, line: &[u8]) -> Vec<(String, Vec<u8>)> {
    let mut all = Vec::new();
    for _ in 0..3 {
        let (at, bit) = (rng.below(LINE as u64) as usize, rng.below(8));
        let mut bad = line.to_vec();
        bad[at] ^= 1 << bit;
        all.push((format!("byte {at} bit {bit}"), bad));
    }
    all.push(("line zeroed".into(), vec![0; LINE]));
    if rng.chance(1, 4) {
        all.push(("line of ones".into(), vec![0xff; LINE]));
        all.push(("line of noise".into(), Value::new(rng.next(), LINE as u32).bytes()));
    }
    all
}

pub fn load(bytes: &[u8]) -> Arc<Region> {
    let region = heap(bytes.len() as u64);
    store(&region, 0, bytes);
    region
}

pub fn store(region: &Region, at: u64, bytes: &[u8]) {
    let _durable = region.fence(region.flush(region.copy(Site::Format, at, bytes)));
}

/// The bytes of a sample store, with what lies where.
pub fn sample_bytes(layout: Layout, overwrites: bool) -> (Content, Vec<u8>, Places) {
    let dir = TempDir::new("bytes");
    let content =
        write_sample(&|| Db::open(dir.path(), options()).expect("open"), layout, overwrites);
    let bytes = std::fs::read(dir.join("pool")).expect("read");
    (content, bytes, places(&dir.join("pool")))
}

/// Does background work until there is none, or it fails; more than there can be is left.
pub fn work_off(db: &Db) {
    for _ in 0..50 {
        if !matches!(db.work(100), Ok(Work::Did)) {
            break;
        }
    }
}
