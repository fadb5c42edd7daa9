//! Counters that many threads add to: a keyspace with the built-in merge operator `add`. Nothing is read to write.

use std::error::Error;
use std::path::Path;

use strandline::{Db, Keyspace, KeyspaceOptions, Options};

struct Counters {
    hits: Keyspace,
}

impl Counters {
    /// The store keeps the operator's name: later opens need not bring it.
    fn open(path: &Path) -> strandline::Result<Counters> {
        let db = Db::open(path, Options::default().pm_size(16 << 20))?;
        let hits = db.keyspace_or_create("hits", KeyspaceOptions::new().merge_operator("add"))?;
        Ok(Counters { hits })
    }

    fn add(&self, page: &str, count: u64) -> strandline::Result<()> {
        self.hits.merge(page, count.to_le_bytes())
    }

    fn of(&self, page: &str) -> Result<u64, Box<dyn Error>> {
        let Some(bytes) = self.hits.get(page)? else { return Ok(0) };
        Ok(u64::from_le_bytes(bytes.as_slice().try_into()?))
    }
}

/// Runs the example.
pub fn main() -> Result<(), Box<dyn Error>> {
    let dir = tempfile::tempdir()?;
    let counters = Counters::open(dir.path())?;
    std::thread::scope(|scope| {
        let visit = || (0..100).try_for_each(|_| counters.add("home", 1));
        let visitors: Vec<_> = (0..4).map(|_| scope.spawn(visit)).collect();
        visitors.into_iter().try_for_each(|visitor| visitor.join().expect("no panic"))
    })?;
    counters.add("about", 7)?;
    drop(counters);

    let counters = Counters::open(dir.path())?;
    assert_eq!(counters.of("home")?, 400);
    assert_eq!(counters.of("about")?, 7);
    assert_eq!(counters.of("nowhere")?, 0);
    // A count can be set, too.
    counters.hits.put("about", 0_u64.to_le_bytes())?;
    counters.add("about", 1)?;
    assert_eq!(counters.of("about")?, 1);
    Ok(())
}
