//! Measurements that are kept for a while: a keyspace whose values expire by themselves. Keys are a sensor and a time,
//! so one sensor's measurements lie together in order of time.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use strandline::{Clock, Db, Hooks, Keyspace, KeyspaceOptions, Options, PmSource};

const MINUTE: u64 = 60;

/// The time in seconds, which the example moves on by itself; without a clock among the hooks it is the system's.
#[derive(Default)]
struct Watch(AtomicU64);

impl Clock for Watch {
    fn now(&self) -> Duration {
        Duration::from_secs(self.0.load(Relaxed))
    }
}

struct Series {
    db: Db,
    points: Keyspace,
    watch: Arc<Watch>,
}

impl Series {
    fn open(keep: Duration) -> strandline::Result<Series> {
        let watch = Arc::new(Watch(AtomicU64::new(1_000_000)));
        let hooks = Hooks::default().clock(Arc::clone(&watch) as Arc<dyn Clock>);
        let options = Options::default().pm(PmSource::Heap).pm_size(16 << 20);
        let db = Db::open_with("unused-for-heap", options, hooks)?;
        let points = db.create_keyspace_with("points", KeyspaceOptions::new().ttl(keep))?;
        Ok(Series { db, points, watch })
    }

    /// Big-endian, so that keys are in order of time.
    fn key(sensor: u32, at: u64) -> Vec<u8> {
        [&sensor.to_be_bytes()[..], &at.to_be_bytes()].concat()
    }

    fn now(&self) -> u64 {
        self.watch.0.load(Relaxed)
    }

    fn measured(&self, sensor: u32, value: f64) -> strandline::Result<()> {
        self.points.put(Series::key(sensor, self.now()), value.to_le_bytes())
    }

    /// The mean of what a sensor measured from `since` on, if it measured anything.
    fn mean(&self, sensor: u32, since: u64) -> Result<Option<f64>, Box<dyn Error>> {
        let (mut sum, mut count) = (0.0, 0);
        let (first, last) = (Series::key(sensor, since), Series::key(sensor, u64::MAX));
        for point in self.points.range(first..=last) {
            let (_, value) = point?;
            sum += f64::from_le_bytes(value[..].try_into()?);
            count += 1;
        }
        Ok((count > 0).then(|| sum / f64::from(count)))
    }
}

/// Runs the example.
pub fn main() -> Result<(), Box<dyn Error>> {
    let series = Series::open(Duration::from_secs(60 * MINUTE))?;
    for minute in 0..90 {
        series.measured(1, f64::from(minute))?;
        series.measured(2, 20.0)?;
        series.watch.0.fetch_add(MINUTE, Relaxed);
    }
    // What is an hour old is gone, though nothing deleted it: minutes 31 to 89 are left.
    assert_eq!(series.points.prefix(1_u32.to_be_bytes()).count(), 59);
    assert_eq!(series.mean(1, 0)?, Some(60.0));
    assert_eq!(series.mean(1, series.now() - 10 * MINUTE)?, Some(84.5));
    assert_eq!((series.mean(2, 0)?, series.mean(3, 0)?), (Some(20.0), None));
    // Its space comes back as background work passes; this asks for that now.
    series.watch.0.fetch_add(60 * MINUTE, Relaxed);
    series.db.compact()?;
    assert_eq!(series.points.keys().count(), 0);
    Ok(())
}
