//! A queue that survives restarts: tasks in the order of their numbers, taken from the front. A task that is taken moves to
//! another keyspace until it is done, so that none is lost with the program that works on it.

use std::error::Error;

use strandline::{Batch, Db, Keyspace, KeyspaceOptions, Options, Slice};

struct Queue {
    db: Db,
    waiting: Keyspace,
    taken: Keyspace,
    next: u64,
}

impl Queue {
    fn open(path: &std::path::Path) -> strandline::Result<Queue> {
        let db = Db::open(path, Options::default().pm_size(16 << 20))?;
        let waiting = db.default_keyspace().clone();
        let taken = db.keyspace_or_create("taken", KeyspaceOptions::new())?;
        // What an earlier run took and did not end waits again.
        let mut batch = Batch::new();
        for item in taken.iter() {
            let (key, task) = item?;
            batch.put(&waiting, &key, &task);
            batch.delete(&taken, &key);
        }
        db.write(&batch)?;
        let last = waiting.keys().next_back().transpose()?;
        let last = last.and_then(|key| key[..].try_into().ok()).map_or(0, u64::from_be_bytes);
        Ok(Queue { db, waiting, taken, next: last + 1 })
    }

    fn push(&mut self, task: &str) -> strandline::Result<()> {
        self.waiting.put(self.next.to_be_bytes(), task)?;
        self.next += 1;
        Ok(())
    }

    /// The oldest task, which is this program's until it is done.
    fn take(&self) -> strandline::Result<Option<(Slice, Slice)>> {
        let Some(first) = self.waiting.iter().next() else { return Ok(None) };
        let (key, task) = first?;
        let mut batch = Batch::new();
        batch.delete(&self.waiting, &key);
        batch.put(&self.taken, &key, &task);
        self.db.write(&batch)?;
        Ok(Some((key, task)))
    }

    fn done(&self, key: &Slice) -> strandline::Result<()> {
        self.taken.delete(key)
    }
}

/// Runs the example.
pub fn main() -> Result<(), Box<dyn Error>> {
    let dir = tempfile::tempdir()?;
    let mut queue = Queue::open(dir.path())?;
    for no in 0..100 {
        queue.push(&format!("task {no}"))?;
    }
    for no in 0..50 {
        let (key, task) = queue.take()?.ok_or("empty")?;
        assert_eq!(task, format!("task {no}"));
        queue.done(&key)?;
    }
    // This one is not done when the program ends.
    let (_, lost) = queue.take()?.ok_or("empty")?;
    drop(queue);

    let mut queue = Queue::open(dir.path())?;
    queue.push("task 100")?;
    let (key, again) = queue.take()?.ok_or("empty")?;
    assert_eq!(again, lost);
    queue.done(&key)?;
    let mut left = 0;
    while let Some((key, _)) = queue.take()? {
        queue.done(&key)?;
        left += 1;
    }
    assert_eq!(left, 50);
    Ok(())
}
