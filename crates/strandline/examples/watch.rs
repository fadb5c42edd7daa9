//! A service keeps an eye on its store: what it flushed and compacted, how long writers were slowed, and whether to call
//! for help.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use strandline::{Db, Event, Hooks, Listener, Options, PmSource};

/// What the service shows on its status page.
#[derive(Debug, Default)]
struct Health {
    flushes: u64,
    flushed_bytes: u64,
    compactions: u64,
    written_bytes: u64,
    slowed: Duration,
    /// One line for each failure and each damage.
    alarms: Vec<String>,
}

#[derive(Default)]
struct Watch(Mutex<Health>);

impl Listener for Watch {
    fn on_event(&self, event: &Event) {
        let mut health = self.0.lock().expect("no other holder panics");
        match event {
            Event::FlushCompleted(flush) if flush.outcome.is_ok() => {
                health.flushes += 1;
                health.flushed_bytes += flush.begun.bytes;
            }
            Event::CompactionCompleted(compaction) => {
                if let Ok(output) = &compaction.outcome {
                    health.compactions += 1;
                    health.written_bytes += output.bytes;
                }
            }
            Event::StallEnded(stall) => health.slowed += stall.duration,
            Event::BackgroundError(_) | Event::CorruptionFound(_) => {
                health.alarms.push(event.to_string());
            }
            _ => {}
        }
    }
}

/// Runs the example.
pub fn main() -> io::Result<()> {
    let directory = tempfile::tempdir()?;
    let watch = Arc::new(Watch::default());
    let options = Options::default().pm(PmSource::Heap).pm_size(16 << 20);
    let hooks = Hooks::default().listener(watch.clone());
    let db = Db::open_with(directory.path(), options, hooks)?;
    for round in 0..4 {
        for no in 0..1_000 {
            db.put(format!("key {no:04}"), format!("value {no} of round {round}"))?;
        }
        db.flush()?;
    }
    db.compact()?;
    db.close()?;

    let health = watch.0.lock().expect("no other holder panics");
    assert!(health.flushes >= 4, "{health:?}");
    assert!(health.flushed_bytes > 4 * 1_000 * 16, "{health:?}");
    assert!(health.compactions >= 1 && health.written_bytes > 0, "{health:?}");
    assert!(health.alarms.is_empty(), "{health:?}");
    println!("{health:#?}");
    Ok(())
}
