//! Damage to every file of a store, all over it: a byte at a time, sectors and pages, cut and extended files, files that
//! are gone or in each other's place.
//!
//! Whatever is damaged, an open is refused with the file and a remedy, or `check` finds it. Every read gives the right
//! value or `Corruption`. A repair ends, and what it does not save it lists. Where nothing at all comes to light, the
//! bytes mean nothing, for a reason that is listed in [`places`], or [`Bench::in_doubt`].

#[path = "../common/mod.rs"]
mod common;
mod golden;
mod judge;
mod places;

use std::collections::BTreeSet;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use common::{TempDir, dump};
use golden::{Golden, write_files};
use judge::{Also, Tally, Verdict, judge};
use places::Places;
use strandline::{Db, ReadOptions, repair};
use testkit::{Rng, Value};

const POOL: &str = "pool";
const STORE: &str = "STORE";
const MANIFEST: &str = "sst/MANIFEST";
const OWNER: &str = "sst/OWNER";

/// A copy of a golden store, damaged and mended again and again.
struct Bench {
    golden: Golden,
    work: TempDir,
    places: Option<Places>,
    tally: Tally,
    rng: Rng,
}

impl Bench {
    fn new(golden: Golden) -> Bench {
        let work = TempDir::new(golden.name);
        write_files(work.path(), &golden.files);
        let places = golden
            .files
            .contains_key(Path::new(POOL))
            .then(|| Places::of(&work.join(POOL), &golden.copied_deletes));
        let mut bench = Bench { golden, work, places, tally: Tally::default(), rng: Rng::new(3) };
        let both = Also { repair: true, write: true };
        let verdict = judge(&bench.golden, bench.work.path(), "nothing", both, &mut bench.tally);
        assert_eq!(verdict, Some(Verdict::Quiet));
        bench.tally.assert_clean("before any damage", 1);
        bench.tally = Tally::default();
        bench
    }

    fn bytes(&self, file: &Path) -> &[u8] {
        &self.golden.files[file]
    }

    fn tables(&self) -> Vec<PathBuf> {
        let is_table = |path: &&PathBuf| path.extension().is_some_and(|end| end == "sst");
        self.golden.files.keys().filter(is_table).cloned().collect()
    }

    /// Now and then, what costs more than reading.
    fn also(&mut self, one_in: u64) -> Also {
        Also { repair: self.rng.chance(1, one_in), write: self.rng.chance(1, one_in) }
    }

    /// Puts `bad` at `at` of `file`, judges, and mends it.
    fn replace(&mut self, file: &Path, at: usize, bad: &[u8], what: &str, one_in: u64) {
        let good = self.golden.files[file][at..at + bad.len()].to_vec();
        if good == bad {
            return;
        }
        let also = self.also(one_in);
        let open = std::fs::OpenOptions::new().write(true).open(self.work.path().join(file));
        let open = open.expect("file");
        open.write_all_at(bad, at as u64).expect("damaged");
        let what = format!("{}, {} at {at}, {what}", self.golden.name, file.display());
        let verdict = judge(&self.golden, self.work.path(), &what, also, &mut self.tally);
        open.write_all_at(&good, at as u64).expect("mended");
        if verdict != Some(Verdict::Quiet) {
            return;
        }
        let in_pool = file == Path::new(POOL);
        let older = self.golden.older_pool.as_ref();
        if in_pool && at < 4096 && older.is_some_and(|older| older[at..at + bad.len()] == *bad) {
            // Nothing was written between the two.
            return self.tally.excuse("slots as the open before left them");
        }
        if in_pool && self.loses_end_of_log(at as u64, bad.len() as u64) {
            let why = "edits from one on to the last may never have been written: zones have what they said";
            return self.tally.excuse(why);
        }
        let changed = good.iter().zip(bad).enumerate().filter(|(_, (good, bad))| good != bad);
        let whys: Option<BTreeSet<&'static str>> =
            changed.map(|(i, _)| self.harmless(file, (at + i) as u64)).collect();
        match whys {
            Some(whys) => whys.into_iter().for_each(|why| self.tally.excuse(why)),
            None => self.tally.note("damage does not come to light", &what),
        }
    }

    /// Whether damage takes edits and all behind them, and not only one of them.
    fn loses_end_of_log(&self, at: u64, len: u64) -> bool {
        let Some(places) = self.places.as_ref().filter(|_| self.golden.doubtful.is_some()) else {
            return false;
        };
        let hit = |edit: &&Range<u64>| edit.start < at + len && edit.end > at;
        let from_first = places.edits[1..].iter().skip_while(|edit| !hit(edit));
        from_first.clone().count() > 1 && from_first.clone().all(|edit| hit(&edit))
    }

    /// Why damage to this byte does not come to light.
    fn harmless(&self, file: &Path, at: u64) -> Option<&'static str> {
        let places = self.places.as_ref().filter(|_| file == Path::new(POOL))?;
        places.harmless(at).or_else(|| self.in_doubt(places, at))
    }

    /// Where damage looks like a power cut: they cannot be told apart.
    fn in_doubt(&self, places: &Places, at: u64) -> Option<&'static str> {
        let key = self.golden.doubtful.as_ref()?;
        if places.edits.last().is_some_and(|edit| edit.contains(&at)) {
            return Some("the last edit of the log may have been cut short");
        }
        let pool = self.bytes(Path::new(POOL));
        let stands =
            pool.windows(key.len()).position(|bytes| bytes == key).expect("the last commit");
        let line = stands / 64 * 64;
        (line..line + 64)
            .contains(&(at as usize))
            .then_some("the last commit may have been cut short")
    }

    /// One change of each of these bytes; all usual ones with `thorough`.
    fn flip(&mut self, file: &str, places: &[u64], thorough: bool, one_in: u64) {
        let file = Path::new(file);
        for at in places.iter().map(|at| *at as usize) {
            let good = self.bytes(file)[at];
            let bit = 1 << self.rng.below(8);
            let all = [good ^ bit, good ^ 1, good ^ 0x80, good ^ 0xff, 0, 0xff];
            let one = [*self.rng.pick(&all)];
            for bad in if thorough { &all[..] } else { &one[..] } {
                self.replace(file, at, &[*bad], &format!("{bad:#04x}"), one_in);
            }
        }
    }

    fn sample(&mut self, mut places: Vec<u64>, most: usize) -> Vec<u64> {
        while places.len() > most {
            let at = self.rng.below(places.len() as u64) as usize;
            places.swap_remove(at);
        }
        places
    }

    fn all(&self, file: &str) -> Vec<u64> {
        (0..self.bytes(Path::new(file)).len() as u64).collect()
    }

    /// Units of a file that are lost, or hold what belongs elsewhere.
    fn units(&mut self, file: &Path, range: Range<usize>, unit: usize, one_in: u64) {
        let bytes = self.bytes(file).to_vec();
        let older = self.golden.older_pool.clone().filter(|_| file == Path::new(POOL));
        let tables = self.tables();
        let starts: Vec<usize> = range.step_by(unit).collect();
        for at in starts {
            let len = unit.min(bytes.len() - at);
            // Where nothing was ever written there is not much to see.
            if bytes[at..at + len].iter().all(|byte| *byte == 0) && !self.rng.chance(1, 50) {
                continue;
            }
            let mut all = vec![("zeroes", vec![0; len]), ("ones", vec![0xff; len])];
            all.push(("noise", Value::new(self.rng.next(), len as u32).bytes()));
            if let Some(next) = bytes.get(at + unit..at + unit + len) {
                all.push(("what belongs behind it", next.to_vec()));
            }
            if let Some(older) = &older {
                all.push(("what was there before", older[at..at + len].to_vec()));
            }
            let other = self.rng.pick(&tables).clone();
            if let Some(other) = self.bytes(&other).get(at..at + len) {
                all.push(("what belongs to another table", other.to_vec()));
            }
            all.into_iter().for_each(|(what, bad)| {
                self.replace(file, at, &bad, &format!("{what} ({unit})"), one_in);
            });
        }
    }

    /// Leaves another file, or none, where `file` is.
    fn put_file(&mut self, file: &Path, bytes: Option<&[u8]>, what: &str, one_in: u64) {
        self.put_files(&[(file, bytes)], what, one_in);
    }

    fn put_files(&mut self, files: &[(&Path, Option<&[u8]>)], what: &str, one_in: u64) {
        let also = self.also(one_in);
        for (file, bytes) in files {
            let path = self.work.path().join(file);
            match bytes {
                Some(bytes) => std::fs::write(path, bytes).expect("written"),
                None => std::fs::remove_file(path).expect("removed"),
            }
        }
        let what = format!("{}, {}: {what}", self.golden.name, files[0].0.display());
        let verdict = judge(&self.golden, self.work.path(), &what, also, &mut self.tally);
        if verdict == Some(Verdict::Quiet) {
            self.tally.note("damage does not come to light", &what);
        }
        write_files(self.work.path(), &self.golden.files);
    }

    /// Cuts a file short, and extends it.
    fn cut(&mut self, file: &str, lengths: impl Iterator<Item = usize>, one_in: u64) {
        let file = Path::new(file);
        let bytes = self.bytes(file).to_vec();
        for len in lengths {
            self.put_file(file, Some(&bytes[..len]), &format!("cut to {len}"), one_in);
        }
    }

    fn finish(self, least: u32) {
        self.tally.assert_clean(self.golden.name, least);
    }
}

#[test]
fn bytes_of_the_metadata_of_a_settled_pool() {
    let mut bench = Bench::new(golden::settled());
    let places = bench.places.as_ref().expect("pool").metadata();
    bench.flip(POOL, &places, false, 40);
    bench.finish(500);
}

#[test]
fn bytes_of_the_data_of_a_settled_pool() {
    let mut bench = Bench::new(golden::settled());
    let places = bench.places.as_ref().expect("pool").used_data();
    let places = bench.sample(places, 1500);
    bench.flip(POOL, &places, false, 40);
    bench.finish(1000);
}

#[test]
fn bytes_of_a_busy_pool() {
    let mut bench = Bench::new(golden::busy());
    let places = bench.places.as_ref().expect("pool");
    let all = [places.metadata(), places.used_data()].concat();
    let all = bench.sample(all, 1500);
    bench.flip(POOL, &all, false, 40);
    bench.finish(1000);
}

/// Most of the bytes that mean nothing according to the list; zeroes that a checksum covers are among them.
#[test]
fn bytes_that_mean_nothing() {
    let mut bench = Bench::new(golden::settled());
    let len = bench.bytes(Path::new(POOL)).len() as u64;
    let places = bench.places.as_ref().expect("pool");
    let harmless = (0..len).filter(|at| places.harmless(*at).is_some()).collect();
    let places = bench.sample(harmless, 300);
    bench.flip(POOL, &places, false, 40);
    assert!(bench.tally.verdicts[&Verdict::Quiet] * 20 > bench.tally.tried * 19);
    bench.finish(200);
}

#[test]
fn bytes_of_the_identity() {
    let mut bench = Bench::new(golden::settled());
    for file in [STORE, OWNER] {
        let places = bench.all(file);
        bench.flip(file, &places, true, 2);
        bench.cut(file, 0..places.len(), 2);
        bench.put_file(Path::new(file), None, "gone", 1);
    }
    bench.finish(100);
}

#[test]
fn bytes_of_tables() {
    let mut bench = Bench::new(golden::settled());
    let table = bench.tables()[0].display().to_string();
    let places = bench.all(&table);
    bench.flip(&table, &places, false, 60);
    let len = places.len();
    bench.cut(&table, (0..len).step_by(37).chain(len - 60..len), 20);
    for table in &bench.tables()[1..] {
        let table = table.display().to_string();
        let places = bench.all(&table);
        let places = bench.sample(places, 150);
        bench.flip(&table, &places, false, 20);
    }
    bench.finish(1000);
}

#[test]
fn bytes_of_the_manifest_of_a_checkpoint() {
    let mut bench = Bench::new(golden::copy());
    let places = bench.all(MANIFEST);
    bench.flip(MANIFEST, &places, false, 20);
    bench.cut(MANIFEST, (0..places.len()).step_by(7), 10);
    bench.put_file(Path::new(MANIFEST), None, "gone", 1);
    bench.finish(100);
}

#[test]
fn sectors_and_pages() {
    for golden in [golden::settled(), golden::busy()] {
        let mut bench = Bench::new(golden);
        let data = bench.places.as_ref().expect("pool").data.clone();
        let (start, end) = (data.start as usize, data.end as usize);
        for unit in [64, 512, 4096] {
            bench.units(Path::new(POOL), 0..start, unit, 40);
        }
        for unit in [512, 4096] {
            bench.units(Path::new(POOL), start..end, unit, 40);
        }
        bench.finish(300);
    }
    let mut bench = Bench::new(golden::copy());
    for table in bench.tables() {
        let len = bench.bytes(&table).len();
        for unit in [64, 512, 4096] {
            bench.units(&table, 0..len, unit, 40);
        }
    }
    bench.finish(300);
}

#[test]
fn whole_files() {
    let elsewhere = golden::copy();
    for golden in [golden::settled(), golden::copy()] {
        let mut bench = Bench::new(golden);
        let files = bench.golden.files.clone();
        for (file, bytes) in &files {
            let extended = [&bytes[..], b"more"].concat();
            // A region may be longer than its pool.
            if file != Path::new(POOL) {
                bench.put_file(file, Some(&extended), "extended", 1);
            }
            bench.put_file(file, None, "gone", 1);
            bench.put_file(file, Some(b""), "empty", 1);
            bench.put_file(file, Some(&bytes[..bytes.len() / 2]), "cut in half", 1);
            bench.put_file(file, Some(&vec![0; bytes.len()]), "zeroes", 1);
            bench.put_file(file, Some(&Value::new(8, bytes.len() as u32).bytes()), "noise", 1);
            if let Some(other) = elsewhere.files.get(file).filter(|other| *other != bytes) {
                bench.put_file(file, Some(other), "that of another store", 1);
            }
            for (other, found) in files.range(file.clone()..).skip(1) {
                let swapped = [(&**file, Some(&found[..])), (&**other, Some(&bytes[..]))];
                bench.put_files(&swapped, &format!("in the place of {}", other.display()), 1);
            }
        }
        bench.finish(50);
    }
}

/// Every byte of everything, in every usual way. Takes long.
#[test]
#[ignore = "long"]
fn every_byte() {
    for golden in [golden::settled(), golden::busy(), golden::copy()] {
        let mut bench = Bench::new(golden);
        let files: Vec<String> =
            bench.golden.files.keys().map(|file| file.display().to_string()).collect();
        for file in files {
            let all = match (&bench.places, &file[..]) {
                (Some(places), POOL) => [places.metadata(), places.used_data()].concat(),
                _ => bench.all(&file),
            };
            bench.flip(&file, &all, true, 200);
        }
        bench.finish(10_000);
    }
}

/// Where neither superblock nor manifest can be read, tables and zones are there all the same, and a repair takes them.
#[test]
fn without_superblock_or_manifest_zones_are_saved() {
    let golden = golden::settled();
    let places = Places::of(&golden.dir.join(POOL), &[]);
    let snapshot = places.edits[0].start as usize;
    let pool = golden.files[Path::new(POOL)].clone();
    let sums: [&[usize]; 3] = [&[snapshot], &[120, 2048 + 120], &[0, 33, 2048, 2048 + 49]];
    for flips in sums {
        let place = TempDir::new("no-manifest");
        let mut bytes = pool.clone();
        flips.iter().for_each(|at| bytes[*at] ^= 0x20);
        write_files(place.path(), &golden.files);
        std::fs::write(place.join(POOL), &bytes).expect("written");
        Db::open_read_only(place.path(), golden::options()).map(drop).expect_err("damaged");
        let report = repair(place.path(), place.join("new"), golden::options()).expect("repair");
        let told = &report.lost[0];
        assert!(told.keyspace.is_none() && told.from.is_none() && told.to.is_none(), "{told:?}");
        assert!(told.reason.contains(POOL), "{told:?}");
        let db = Db::open(place.join("new"), golden::options()).expect("open");
        for (name, known) in &golden.known {
            let saved = dump(&db.keyspace(name).expect("keyspace"), &ReadOptions::default());
            // In this store nothing was merged away whose deletions only a manifest could bury.
            assert!(saved == known.live, "{name}: {} and {}", saved.len(), known.live.len());
        }
    }
}

/// The log loses its end, a power cut's way or another: no answer is wrong, and nothing is missing without a word. The
/// last edit alone may go unnoticed, as if the power had been cut before it; not what zones show to be missing.
#[test]
fn a_lost_end_of_the_log() {
    let mut bench = Bench::new(golden::edited());
    let edits = bench.places.as_ref().expect("pool").edits.clone();
    assert!(edits.len() > 8, "{}", edits.len());
    let pool = bench.bytes(Path::new(POOL)).to_vec();
    for first in 1..edits.len() {
        let (start, end) = (edits[first].start as usize, edits[edits.len() - 1].end as usize);
        for fill in [0, 0xff] {
            let mut bad = pool.clone();
            bad[start..end].fill(fill);
            bench.put_file(
                Path::new(POOL),
                Some(&bad),
                &format!("edits from {first} on are lost"),
                1,
            );
        }
    }
    bench.finish(10);
}

/// Tables are told from each other, though nothing in the file itself is wrong.
#[test]
fn tables_of_one_length_in_each_others_place() {
    let mut bench = Bench::new(golden::alike());
    let tables = bench.tables();
    let mut swapped = 0;
    for (at, one) in tables.iter().enumerate() {
        for other in &tables[at + 1..] {
            let (a, b) = (bench.bytes(one).to_vec(), bench.bytes(other).to_vec());
            if a.len() == b.len() {
                bench.put_files(&[(one, Some(&b)), (other, Some(&a))], "swapped", 3);
                bench.put_file(one, Some(&b), "twice there", 3);
                swapped += 1;
            }
        }
    }
    assert!(swapped > 3, "{swapped}");
    bench.finish(swapped);
}
