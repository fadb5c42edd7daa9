//! What fuzzing runs, for `fuzz/` and for the tests below. No input may panic, overrun or go on for ever.

use std::sync::Arc;

use base::LINE;
use pmem::{Region, Site};

use crate::edit::{self, Binding};
use crate::pool::Pool;
use crate::superblock::{self, SLOT_LEN, SLOTS, Slot};

/// The longest region that an input makes.
const REGION_MAX: usize = 1 << 16;

/// The front of a region: opened as a pool, told as text, looked through for what is left of a pool. Then once more with
/// slots whose checksums hold, and once more with edits whose checksums do, since hardly any input passes them.
pub fn superblock(data: &[u8]) {
    let mut bytes = data[..data.len().min(REGION_MAX)].to_vec();
    // Fewer bytes stand for a region that was cut short.
    bytes.resize(bytes.len().next_multiple_of(LINE).max(LINE), 0);
    open(&bytes);
    for at in SLOTS.map(|at| at.get() as usize) {
        if let Some(slot) = bytes.get_mut(at..at + SLOT_LEN) {
            superblock::mend(slot);
        }
    }
    open(&bytes);
    let region = region(&bytes);
    for slot in [0, 1] {
        let Slot::Valid(superblock) = superblock::read(&region, slot) else { continue };
        let Ok(geometry) = superblock.geometry() else { continue };
        let binding = Binding { pool_id: superblock.pool_id, incarnation: superblock.incarnation };
        let area = geometry.area(superblock.area);
        edit::mend(&mut bytes, binding, area.start.get() as usize..area.end.get() as usize);
    }
    open(&bytes);
}

fn region(bytes: &[u8]) -> Arc<Region> {
    let region = Region::heap(bytes.len() as u64, None).expect("a region of the heap");
    let _dirty = region.copy(Site::Format, 0, bytes);
    Arc::new(region)
}

fn open(bytes: &[u8]) {
    let region = region(bytes);
    for pool in Pool::remains(&region) {
        _ = pool.space();
    }
    if let Ok((pool, replay)) = Pool::open(region) {
        assert!(!replay.payloads.is_empty(), "a log begins with a snapshot");
        _ = pool.view().to_string();
        _ = pool.damaged_slots();
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::geometry::Format;

    fn folder() -> PathBuf {
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/superblock")
    }

    #[test]
    fn corpus_and_mutants() {
        testkit::corpus::replay(&testkit::corpus::inputs(&folder()), 300, superblock);
    }

    /// Writes first inputs with the engine's own encoders.
    #[test]
    #[ignore = "writes to fuzz/corpus"]
    fn make_corpus() {
        std::fs::create_dir_all(folder()).expect("folder");
        for zone_len in [1 << 10, 2 << 10] {
            let format = Format { zone_len, manifest_len: 512 };
            let region = Arc::new(Region::heap(32 << 10, None).expect("region"));
            let pool = Pool::create(Arc::clone(&region), format, 7, b"snapshot").expect("pool");
            let _durable = pool.log_append(b"an edit").expect("append");
            let front = region.bytes(0, pool.geometry().data().start.get() as usize);
            std::fs::write(folder().join(format!("zones-of-{zone_len}")), front).expect("write");
        }
    }
}
