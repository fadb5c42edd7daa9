//! `cargo xtask fullness`: how long a full store takes to come back once its data is deleted.
//!
//! For each preset and each thing that can fill, a store with background threads is filled until it refuses writes, all
//! is deleted, in each way, and puts are tried until one is taken. It must be within a second of the last deletion.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ssd::{Call, Disk, Failure, Faulty, Fs, Memory, Rule};
use strandline::{Db, Keyspace, Options, PmSource, Region, SsdSource};

const MIB: u64 = 1 << 20;
const POOL: u64 = 8 * MIB;
const FILES: u64 = 6 * MIB;
/// Within which puts must go on.
const BAR: Duration = Duration::from_secs(1);
/// After which nothing is waited for any more.
const GIVEN_UP: Duration = Duration::from_secs(20);
const PRESETS: [&str; 5] = ["auto", "log-free", "wal-to-sst", "re-lsm", "l0l1-pm"];
const RESOURCES: [&str; 4] = ["pool", "ssd_size", "device", "descriptors"];
const WAYS: [&str; 3] = ["keys", "range", "keyspace"];

/// A store, and the file system that it is on.
struct Filled {
    db: Db,
    fs: Arc<Faulty<Memory>>,
}

pub fn run(args: &[String]) -> Result<(), String> {
    if !args.is_empty() {
        return Err("usage: cargo xtask fullness".into());
    }
    println!(
        "{:<12} {:<12} {:<9} {:>8} {:>10} {:>10}",
        "preset", "full", "deleted", "puts", "ms", "then"
    );
    let mut late = 0;
    for preset in PRESETS {
        for resource in RESOURCES {
            // The others have tables.
            if resource == "pool" && !["auto", "log-free"].contains(&preset) {
                continue;
            }
            for way in WAYS {
                let (puts, took, then) = measure(preset, resource, way)
                    .map_err(|error| format!("{preset}, {resource}, {way}: {error}"))?;
                late += u32::from(took > BAR || then < puts / 10 * 9);
                let ms = took.as_secs_f64() * 1e3;
                println!("{preset:<12} {resource:<12} {way:<9} {puts:>8} {ms:>10.1} {then:>10}");
            }
        }
    }
    if late > 0 { Err(format!("{late} come back late, or to less")) } else { Ok(()) }
}

/// Fills a store and deletes all; how many puts it took, how long until it takes one again, and how many it takes then.
fn measure(preset: &str, resource: &str, way: &str) -> strandline::Result<(u64, Duration, u64)> {
    let filled = open(preset, resource)?;
    let space = match way {
        "keyspace" => filled.db.create_keyspace("filled")?,
        _ => filled.db.default_keyspace().clone(),
    };
    if resource == "descriptors" {
        let none = |call| Rule::new(1, Failure::NoDescriptors).of(call).on(".sst").for_ever();
        filled.fs.set_rules(vec![none(Call::Create), none(Call::Open)]);
    }
    let puts = fill(&space, 0);
    // Others close theirs.
    filled.fs.set_rules(Vec::new());
    match way {
        "keys" => (0..puts).try_for_each(|i| space.delete(key(i)))?,
        "range" => space.delete_range(b"", b"z")?,
        _ => filled.db.drop_keyspace("filled")?,
    }
    let begun = Instant::now();
    let space = match way {
        "keyspace" => filled.db.create_keyspace("filled")?,
        _ => space,
    };
    while let Err(error) = space.put(b"again", value(0, 1)) {
        if begun.elapsed() > GIVEN_UP {
            return Err(error);
        }
    }
    let took = begun.elapsed();
    Ok((puts, took, fill(&space, 1)))
}

fn open(preset: &str, resource: &str) -> strandline::Result<Filled> {
    let capacity = if resource == "device" { FILES } else { u64::MAX };
    let fs = Arc::new(Faulty::new(Memory::with_capacity(Disk::default(), capacity)));
    fs.create_dir_all(Path::new("/sst"))?;
    // Where descriptors run out, this is what fills once there are some.
    let ssd_size = if ["ssd_size", "descriptors"].contains(&resource) { FILES } else { 0 };
    let options = Options::preset(preset)?
        .pm(PmSource::Heap)
        .pm_size(POOL)
        .ssd_size(ssd_size)
        .zone_size(32 << 10)
        .memtable_bytes(64 << 10)
        .background_threads(2);
    let region = Arc::new(Region::heap(POOL, None)?);
    let db = match resource {
        "pool" => Db::open_region(region, options.ssd(SsdSource::None))?,
        _ => Db::open_on(region, Arc::clone(&fs) as Arc<dyn Fs>, "/sst", options)?,
    };
    Ok(Filled { db, fs })
}

/// Puts until one is refused; how many were not.
fn fill(space: &Keyspace, round: u64) -> u64 {
    (0..).find(|i| space.put(key(*i), value(*i, round)).is_err()).unwrap_or(u64::MAX)
}

/// Keys in no order.
fn key(i: u64) -> Vec<u8> {
    format!("key{:020}", i.wrapping_mul(0x9E37_79B9_7F4A_7C15)).into_bytes()
}

/// A value that hardly compresses.
fn value(i: u64, round: u64) -> Vec<u8> {
    let mut rng = testkit::Rng::new(i ^ round << 32);
    std::iter::repeat_with(|| rng.next() as u8).take(120).collect()
}
