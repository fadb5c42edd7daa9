//! Damage to values that expire. Nothing but their own checksum speaks for the time before them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use pmem::{Domain, Region, Site, StoreMode};
use strandline::{Db, ErrorKind, Keyspace, KeyspaceOptions};

use crate::find;
use crate::sample::{key, options, store};

/// Bytes of the time before each value.
const STAMP_LEN: u64 = 8;

/// Counts the bytes that are looked at.
#[derive(Default)]
struct Looks(AtomicU64);

impl Domain for Looks {
    fn store(&self, _: &Region, _: Site, _: u64, _: usize, _: StoreMode) {}

    fn flush(&self, _: &Region, _: Site, _: u64, _: usize) {}

    fn fence(&self, _: &Region, _: Site) {}

    fn load(&self, _: &Region, _: u64, len: usize) {
        self.0.fetch_add(len as u64, Relaxed);
    }
}

fn expiring(db: &Db) -> Keyspace {
    let hour = KeyspaceOptions::new().ttl(Duration::from_secs(3600));
    db.create_keyspace_with("cache", hour).expect("create")
}

fn value(i: u64, len: usize) -> Vec<u8> {
    let mut value = format!("<value {i:04}>").into_bytes();
    value.resize(len, b'-');
    value
}

/// A flush read the whole of every value for its time, and ended at one that was damaged: the store refused writes.
#[test]
fn a_flush_passes_a_damaged_value_on() {
    // In its record, and in an extent; a byte of the value, and a time that says that it has expired.
    for (len, stamp) in [(300, false), (300, true), (5000, false), (5000, true)] {
        let region = Arc::new(Region::heap(4 << 20, None).expect("heap"));
        let db = Db::open_region(Arc::clone(&region), options()).expect("open");
        let cache = expiring(&db);
        (0..100).for_each(|i| cache.put(key(i), value(i, len)).expect("put"));
        let whole = region.bytes(0, region.len() as usize).to_vec();
        let at = find(&whole, &value(20, len));
        match stamp {
            true => store(&region, at - STAMP_LEN, &[0; STAMP_LEN as usize]),
            false => store(&region, at + 100, b"X"),
        }
        db.flush().expect("a flush passes it on");
        for i in 0..100 {
            match cache.get(key(i)) {
                Ok(found) => assert_eq!((i != 20).then(|| value(i, len)), found, "{i} of {len}"),
                Err(error) => assert_eq!((error.kind(), i), (ErrorKind::Corruption, 20)),
            }
        }
        assert!(cache.get(key(20)).is_err(), "damage does not make a value expire");
        assert!(!db.check().expect("check").damage.is_empty());
        cache.put(key(20), value(20, len)).expect("put anew");
        assert_eq!(cache.get(key(20)).expect("get"), Some(value(20, len)));
        db.put("key", "value").expect("the store takes writes");
        db.flush().expect("flush");
    }
}

/// Of values that live on, a flush reads the time alone.
#[test]
fn a_flush_does_not_read_values_for_their_time() {
    let looked = |expires: bool, len: usize| {
        let looks = Arc::new(Looks::default());
        let region = Region::heap(4 << 20, Some(Arc::clone(&looks) as Arc<dyn Domain>));
        let db = Db::open_region(Arc::new(region.expect("heap")), options()).expect("open");
        let plain = db.default_keyspace().clone();
        let keyspace = if expires { expiring(&db) } else { plain };
        (0..100).for_each(|i| keyspace.put(key(i), value(i, len)).expect("put"));
        let before = looks.0.load(Relaxed);
        db.flush().expect("flush");
        looks.0.load(Relaxed) - before
    };
    for len in [5000, 20_000] {
        let (plain, expiring) = (looked(false, len), looked(true, len));
        let more = expiring.saturating_sub(plain);
        assert!(more < 100 * 200, "{more} bytes more for 100 times before values of {len} bytes");
    }
}
