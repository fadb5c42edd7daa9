//! Gets of blocks that are at hand by their position in the index: they find what others find, and read no index entry for it.

mod common;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock};

use base::random::Rng;
use base::{Result, Seq};
use common::{Model, options, write};
use sst::{Block, Blocks, EntryKind, Handle, Hit, Layout, Role, Table, Uncached};

/// Blocks in memory: the index stays, and data blocks by their positions once they were read so.
struct Shelved {
    bytes: Vec<u8>,
    index: OnceLock<Arc<Block>>,
    shelf: Mutex<BTreeMap<usize, Arc<Block>>>,
    /// Data blocks that were found at hand, and that were read.
    found: AtomicU64,
    read: AtomicU64,
}

impl Blocks for Shelved {
    fn get(&self, layout: &Layout, handle: Handle, role: Role) -> Result<Arc<Block>> {
        if role == Role::Data {
            self.read.fetch_add(1, Relaxed);
        }
        let block = layout.load(&self.bytes, handle, role).map(Arc::new)?;
        if role == Role::Index && layout.is_root(handle, role) {
            let _there = self.index.set(Arc::clone(&block));
        }
        Ok(block)
    }

    fn index(&self) -> Option<&Block> {
        self.index.get().map(|index| &**index)
    }

    fn at_hand(&self, position: usize) -> Option<Arc<Block>> {
        let block = self.shelf.lock().expect("no panic").get(&position).cloned();
        self.found.fetch_add(u64::from(block.is_some()), Relaxed);
        block
    }

    fn get_at(&self, layout: &Layout, handle: Handle, position: usize) -> Result<Arc<Block>> {
        let block = self.get(layout, handle, Role::Data)?;
        self.shelf.lock().expect("no panic").insert(position, Arc::clone(&block));
        Ok(block)
    }
}

fn key(rng: &mut Rng) -> Vec<u8> {
    match rng.below(3) {
        0 => rng.below(3000).to_be_bytes().to_vec(),
        1 => format!("/usr/share/{}/{}", rng.below(3), rng.below(900)).into_bytes(),
        _ => vec![b'k'; rng.below(12) as usize],
    }
}

fn model(rng: &mut Rng) -> Model {
    let entry = |rng: &mut Rng| {
        let seq = Seq::new(1 + rng.below(40));
        let value = vec![seq.get() as u8; rng.below(60) as usize];
        ((key(rng), std::cmp::Reverse(seq)), (EntryKind::Value, value))
    };
    (0..1 + rng.below(3000)).map(|_| entry(rng)).collect()
}

fn told(hit: Option<Hit>) -> Option<(Seq, Vec<u8>)> {
    hit.map(|hit| (hit.seq, hit.value().to_vec()))
}

#[test]
fn what_is_at_hand_is_what_a_search_finds() {
    let mut rng = Rng::new(3);
    let (mut found, mut read) = (0, 0);
    for round in 0..60 {
        let model = model(&mut rng);
        let (bytes, _) = write(&model, options(round * 0x9E37_79B9 + round));
        let layout = Arc::new(Layout::open(&bytes).expect("open"));
        let plain = Table::new(Arc::clone(&layout), Uncached(bytes.clone()));
        let (index, shelf, at_hand, as_read) = Default::default();
        let table =
            Table::new(layout, Shelved { bytes, index, shelf, found: at_hand, read: as_read });
        for _ in 0..400 {
            let (key, at) = (key(&mut rng), Seq::new(rng.below(45)));
            let expected = told(plain.find(&key, at).expect("find"));
            assert_eq!(told(table.find(&key, at).expect("find")), expected, "{key:?} {at}");
            assert_eq!(told(table.find(&key, at).expect("find")), expected, "{key:?} {at} again");
        }
        found += table.blocks().found.load(Relaxed);
        read += table.blocks().read.load(Relaxed);
    }
    assert!(found > 1000 && read > 1000, "{found} at hand, {read} read");
}

#[test]
fn a_get_of_a_block_at_hand_mostly_reads_nothing() {
    let entry = |i: u64| {
        (
            (i.to_be_bytes().to_vec(), std::cmp::Reverse(Seq::new(1))),
            (EntryKind::Value, vec![7; 100]),
        )
    };
    let model: Model = (0..4000).map(entry).collect();
    let (bytes, _) = write(&model, sst::WriterOptions::default());
    let layout = Arc::new(Layout::open(&bytes).expect("open"));
    let (index, shelf, found, read) = Default::default();
    let table = Table::new(layout, Shelved { bytes, index, shelf, found, read });
    let gets = || {
        (0..4000_u64).filter(|i| table.find(&i.to_be_bytes(), Seq::new(9)).expect("find").is_some())
    };
    assert_eq!(gets().count(), 4000);
    let read = table.blocks().read.load(Relaxed);
    assert_eq!(gets().count(), 4000);
    let again = table.blocks().read.load(Relaxed) - read;
    // Where a separator's head is that of the key itself, the entry is looked at.
    assert!(again < 4000 / 16, "{again} of 4000 read again");
}
