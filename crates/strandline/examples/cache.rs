//! A cache of what is slow to make: at most so many entries, the oldest go first. What is found is read where it lies.

use std::error::Error;

use strandline::{Batch, Db, Keyspace, Options, PinnedValue, PmSource};

struct Cache {
    db: Db,
    /// A key to when it came, eight bytes, and its value.
    entries: Keyspace,
    /// When a key came, big-endian, to the key.
    ages: Keyspace,
    now: u64,
    len: usize,
    most: usize,
}

impl Cache {
    /// A cache in memory of this process: nothing of it is on a disk.
    fn new(most: usize) -> strandline::Result<Cache> {
        let options = Options::default().pm(PmSource::Heap).pm_size(16 << 20);
        let db = Db::open("unused-for-heap", options)?;
        let entries = db.default_keyspace().clone();
        let ages = db.create_keyspace("ages")?;
        Ok(Cache { db, entries, ages, now: 0, len: 0, most })
    }

    /// The value of `key`, which `make` makes if it is not there.
    fn get(&mut self, key: &str, make: impl FnOnce() -> Vec<u8>) -> strandline::Result<Value> {
        if let Some(found) = self.entries.get_pinned(key)? {
            return Ok(Value::Found(found));
        }
        let made = make();
        let mut batch = Batch::new();
        self.now += 1;
        batch.put(&self.entries, key, [&self.now.to_be_bytes(), &made[..]].concat());
        batch.put(&self.ages, self.now.to_be_bytes(), key);
        let oldest =
            if self.len == self.most { self.ages.iter().next().transpose()? } else { None };
        match &oldest {
            Some((age, key)) => {
                batch.delete(&self.entries, key);
                batch.delete(&self.ages, age);
            }
            None => self.len += 1,
        }
        self.db.write(&batch)?;
        Ok(Value::Made(made))
    }
}

enum Value {
    Found(PinnedValue),
    Made(Vec<u8>),
}

impl Value {
    fn bytes(&self) -> &[u8] {
        match self {
            Value::Found(found) => &found[8..],
            Value::Made(made) => made,
        }
    }
}

/// Runs the example.
pub fn main() -> Result<(), Box<dyn Error>> {
    let mut cache = Cache::new(100)?;
    let mut made = 0;
    for round in 0..3 {
        for no in 0..80_u8 {
            let value = cache.get(&format!("thumbnail {no}"), || {
                made += 1;
                vec![no; 10_000]
            })?;
            assert!(value.bytes().iter().all(|byte| *byte == no), "{no} in round {round}");
        }
    }
    assert_eq!(made, 80, "each was made once");
    // Others come, and the oldest go.
    for no in 0..50 {
        cache.get(&format!("page {no}"), || b"text".to_vec())?;
    }
    assert_eq!((cache.entries.keys().count(), cache.ages.keys().count()), (100, 100));
    assert!(!cache.entries.contains_key("thumbnail 0")?);
    assert!(cache.entries.contains_key("thumbnail 79")?);
    Ok(())
}
