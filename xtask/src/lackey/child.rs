//! The store whose loads are traced: it is filled, then read.

use std::path::Path;
use std::sync::Arc;

use base::random::Rng;
use pmem::{PmModel, Region};
use strandline::{Db, Options};

use super::phase::{Phase, Phases};

/// Less than what the host is measured on, so that nothing else reads the pool.
const LEN: u64 = 12 << 20;
const KEYS: u64 = 4000;
const VALUE: usize = 300;
const READS: u64 = 4000;
const SCANS: u64 = 60;
/// Keys of a scan.
const STEPS: usize = 50;

/// Arguments: bytes of the simulated cache, and the directory in which both sides tell how far they are.
pub(crate) fn run(args: &[String]) -> Result<(), String> {
    let [cache, dir] = args else { return Err("lackey-child: cache and directory".into()) };
    let phases = Phases::new(Path::new(dir));
    let model: PmModel = format!("zero,cache={cache}").parse().map_err(told)?;
    let cache: u64 = cache.parse().map_err(|_| "lackey-child: a cache in bytes".to_owned())?;
    let region = Arc::new(Region::heap(LEN, None).map_err(told)?.modelled(&model));
    let options = Options::default().background_threads(0).memtable_bytes(256 << 10);
    let db = Db::open_region(Arc::clone(&region), options).map_err(told)?;
    let mut random = Rng::new(5);
    for number in 0..KEYS {
        db.put(key(number), random.bytes(VALUE)).map_err(told)?;
    }
    db.flush().map_err(told)?;
    let begin = region.bytes(0, 1).as_ptr().addr() as u64;
    tell(&phases, &Phase::Begins { pool: begin..begin + LEN });
    // As much as leaves nothing else in either cache, from where no record is.
    for _ in 0..4 {
        for at in (LEN - 4 * cache..LEN).step_by(4096) {
            let page = region.bytes(at, 4096);
            std::hint::black_box(page.iter().fold(0_u8, |sum, byte| sum ^ byte));
        }
    }
    tell(&phases, &Phase::Counts);
    let lines = || region.model_figures().map_or(0, |figures| figures.lines_read);
    let before = lines();
    read(&db, &mut random).map_err(told)?;
    phases.say(&Phase::Ended { lines: lines() - before });
    // What a close reads is in no count.
    std::process::exit(0)
}

fn told(error: strandline::Error) -> String {
    error.to_string()
}

fn key(number: u64) -> String {
    format!("key{number:08}")
}

/// Goes on when the trace is read as far.
fn tell(phases: &Phases, phase: &Phase) {
    phases.say(phase);
    phases.await_heard(phase);
}

fn read(db: &Db, random: &mut Rng) -> strandline::Result<()> {
    for _ in 0..READS {
        let value = db.get(key(random.below(KEYS)))?;
        std::hint::black_box(value.map(|value| value.len()));
    }
    for _ in 0..SCANS {
        for entry in db.range(key(random.below(KEYS))..).take(STEPS) {
            let (key, value) = entry?;
            std::hint::black_box((key.len(), value.len()));
        }
    }
    Ok(())
}
