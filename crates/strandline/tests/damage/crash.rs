//! Damage, then a store opened for writing that merges what is damaged, then a power cut at any point of that.
//!
//! All that is written is what is there already, so that every cut leaves the same content.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use pmem::Region;
use sim::{Media, Mode, SimPm};
use strandline::{Db, ErrorKind, repair};
use testkit::Rng;

use crate::common::{TempDir, covers};
use crate::judge::{Tally, verify};
use crate::sample::{Content, LINE, Layout, changes, key, options, work_off, write_sample};

/// Of the lines in use, one in so many is damaged.
const ONE_IN: u64 = 5;
/// Cuts after each damage.
const CUTS: usize = 4;
/// One cut in so many is repaired, too.
const REPAIRS: u64 = 4;

/// What was looked at after cuts.
#[derive(Debug, Default)]
struct Seen {
    read_only: u32,
    writing: u32,
    repaired: u32,
}

/// A store in a directory whose pool is replaced by images.
struct Place {
    dir: TempDir,
    content: Content,
    whole: Vec<u8>,
}

impl Place {
    fn new(layout: Layout) -> Place {
        let dir = TempDir::new("damage-crash");
        let open = || Db::open(dir.path(), options()).expect("open");
        let content = write_sample(&open, layout, true);
        let whole = std::fs::read(dir.join("pool")).expect("read");
        Place { dir, content, whole }
    }

    /// Opens `image` for writing and works on it; what it went through.
    fn work_on(&self, image: &[u8]) -> Option<Arc<SimPm>> {
        let (pm, region) = SimPm::survivor(Mode::Adr, image);
        let db = Db::open_region(Arc::new(region), options()).ok()?;
        for (key, value) in &self.content.live {
            _ = db.put(key, value);
        }
        _ = db.flush();
        (200..205).for_each(|i| drop(db.delete(key(i))));
        _ = db.compact();
        work_off(&db);
        Some(pm)
    }

    /// Holds what a cut left against the content: read-only, repaired, and open for writing.
    fn judge(
        &self,
        image: &[u8],
        repairs: bool,
        what: &str,
        (tally, seen): (&mut Tally, &mut Seen),
    ) {
        std::fs::write(self.dir.join("pool"), image).expect("write");
        let read_only = Db::open_read_only(self.dir.path(), options());
        seen.read_only += u32::from(read_only.is_ok());
        self.read(read_only, what, tally);
        if repairs {
            seen.repaired += u32::from(self.repair(what, tally));
        }
        let region: Arc<Region> = Arc::new(SimPm::survivor(Mode::Adr, image).1);
        let writing = Db::open_region(region, options());
        seen.writing += u32::from(writing.is_ok());
        self.read(writing, what, tally);
    }

    fn read(&self, opened: strandline::Result<Db>, what: &str, tally: &mut Tally) {
        match opened {
            Ok(db) => drop(verify(&db, &self.content, what, tally)),
            Err(error) => tally.refuse(&error, what),
        }
    }

    /// What a repair saves is right, and what it does not save it lists. Whether there was anything to save.
    fn repair(&self, what: &str, tally: &mut Tally) -> bool {
        let place = TempDir::new("damage-crash-saved");
        let to = place.join("saved");
        let report = match repair(self.dir.path(), &to, options()) {
            Ok(report) => report,
            Err(error) => {
                if error.kind() != ErrorKind::Corruption {
                    tally.note(&format!("a repair says {:?}", error.kind()), what);
                }
                return false;
            }
        };
        let db = Db::open(&to, options()).expect("a repaired store");
        let told = |key: &[u8]| report.lost.iter().any(|lost| covers(lost, key));
        for (key, value) in &self.content.live {
            if db.get(key).expect("get").as_ref() != Some(value) && !told(key) {
                tally.note("a repair loses without a word", what);
            }
        }
        for key in &self.content.absent {
            if db.get(key).expect("get").is_some() && !told(key) {
                tally.note("a repair brings back what was deleted without a word", what);
            }
        }
        true
    }
}

/// What a power cut leaves of `media`, lines that it decides over by chance.
fn survivor(media: &mut Media, rng: &mut Rng) -> Vec<u8> {
    let torn = media.torn();
    let choice: Vec<u16> = torn.iter().map(|t| rng.below(t.count() as u64) as u16).collect();
    media.survivor(&torn, &choice)
}

fn tour(layout: Layout) {
    let place = Place::new(layout);
    let (mut tally, mut rng) = (Tally::default(), Rng::new(layout as u64));
    let (mut opened, mut seen) = (0, Seen::default());
    for (no, line) in place.whole.chunks_exact(LINE).enumerate() {
        if line.iter().all(|byte| *byte == 0) || !rng.chance(1, ONE_IN) {
            continue;
        }
        let all = changes(&mut rng, line);
        let (what, bad) = rng.pick(&all);
        let mut image = place.whole.clone();
        image[no * LINE..][..LINE].copy_from_slice(bad);
        let what = format!("offset {}, {what}", no * LINE);
        let tried = catch_unwind(AssertUnwindSafe(|| {
            let Some(pm) = place.work_on(&image) else { return };
            opened += 1;
            let events = pm.events() as u64;
            let cuts: BTreeSet<u64> = (0..CUTS).map(|_| rng.below(events + 1)).collect();
            for cut in cuts {
                tally.tried += 1;
                let image = survivor(&mut pm.media_at(cut as usize), &mut rng);
                let what = format!("{what}, cut at event {cut} of {events}");
                place.judge(&image, rng.chance(1, REPAIRS), &what, (&mut tally, &mut seen));
            }
        }));
        if tried.is_err() {
            tally.note("panic", &what);
        }
    }
    let enough = opened > 20 && seen.read_only > 60 && seen.writing > 60 && seen.repaired > 15;
    assert!(enough, "{opened} opened for writing; after cuts {seen:?}");
    tally.assert_clean(80);
}

#[test]
fn damaged_sealed_memtables() {
    tour(Layout::Sealed);
}

#[test]
fn damaged_runs() {
    tour(Layout::Runs);
}

#[test]
fn a_damaged_merged_run() {
    tour(Layout::Merged);
}
