//! Scans of the Global Index beside a skip list in DRAM and beside the least that an index over records can be: their
//! numbers, sorted.
//!
//! All have the same keys of 8 bytes with values of 32. The skip list holds both in its nodes; the other two go to records
//! in persistent memory, and only the store verifies them.

use std::io::Write;
use std::time::Instant;

use base::LINE;
use strandline::{Db, Options, PmSource};

use super::super::indexes::{Index, Skip, Sorted};
use super::super::records::{KeyOrder, Records, taste, value};
use super::super::request::{Request, say};
use super::fill::scan;
use crate::data::rng::Rng;
use crate::scratch::Scratch;
use crate::words::told;

const SCANS: u64 = 100_000;
/// The store's pool for each byte of its records: those, their index, and what a merge needs.
const ROOM: u64 = 4;

/// Compares scans over records of so many bytes together.
pub(super) fn compare(bytes: u64, request: &Request, out: &mut dyn Write) -> Result<(), String> {
    let count = (bytes / LINE as u64).max(1);
    let pm_size = (ROOM * count * LINE as u64).max(16 << 20);
    let scratch = request.memory(pm_size + count * LINE as u64)?;
    let records = Records::write(&scratch.path().join("records"), KeyOrder::Random, count)?;
    let (skip, sorted) = (Skip::default(), Sorted::new(count, KeyOrder::Random));
    let db = store(&scratch, pm_size, count)?;
    for number in 0..count {
        Index::insert(&skip, &records, number, KeyOrder::Random.key(number))?;
    }
    let ours = timed(count, |key| {
        let mut sum = 0_u64;
        scan(&db, &key.to_be_bytes(), &mut |value| {
            sum = sum.wrapping_add(taste(value));
            Ok(())
        })?;
        Ok(sum)
    })?;
    let lost = || "a record of the skip list is lost".to_owned();
    let skip = timed(count, |key| Index::scan(&skip, &records, key).ok_or_else(lost))?;
    let sorted = timed(count, |key| Ok(sorted.scan(&records, key)))?;
    if [skip.sum, sorted.sum] != [ours.sum; 2] {
        return Err("scans of the same keys found different values".into());
    }
    say(
        out,
        &format!(
            "\nscans of 100 entries a second, {count} keys of 8 bytes, values of 32, one thread"
        ),
    )?;
    say(out, &format!("{:<32}{:>10.0}", "Global Index", ours.rate))?;
    for (name, other, bar) in
        [("skip list", &skip, "1.0"), ("sorted array, not verified", &sorted, "0.5")]
    {
        let ratio = ours.rate / other.rate;
        say(
            out,
            &format!(
                "{name:<32}{:>10.0}  Global Index to it {ratio:.2}; the aim is {bar}",
                other.rate
            ),
        )?;
    }
    Ok(())
}

/// A store with one run of those records.
fn store(scratch: &Scratch, pm_size: u64, count: u64) -> Result<Db, String> {
    let mut options = Options::preset("log-free").map_err(told)?;
    options.set("ssd", "none").map_err(told)?;
    options.pm = PmSource::Path(scratch.path().join("pool"));
    options.pm_size = pm_size;
    let db = Db::open(scratch.path().join("db"), options).map_err(told)?;
    for number in 0..count {
        let key = KeyOrder::Random.key(number);
        db.put(key.to_be_bytes(), value(key)).map_err(told)?;
    }
    db.compact().map_err(told)?;
    Ok(db)
}

/// Scans a second, and the sum of what they found.
struct Timed {
    rate: f64,
    sum: u64,
}

fn timed(count: u64, mut scan: impl FnMut(u64) -> Result<u64, String>) -> Result<Timed, String> {
    let (scans, mut rng, mut sum) = (SCANS.min(count), Rng::new(1), 0_u64);
    let began = Instant::now();
    for _ in 0..scans {
        sum = sum.wrapping_add(scan(KeyOrder::Random.key(rng.below(count)))?);
    }
    Ok(Timed { rate: scans as f64 / began.elapsed().as_secs_f64().max(1e-9), sum })
}
