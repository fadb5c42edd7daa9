//! Schedules under which looser rules of the protocol lose or invent commits, one test each. The real engine is
//! driven through them step by step, on memory that forgets what was not fenced.
//!
//! Each schedule is run again with the rule it is about switched off, and must then fail: that is what shows that it can.
#![allow(missing_docs)]

mod common;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::thread::ThreadId;

use base::planted::Bug;
use common::ends;
use pmem::{Domain, StoreMode};
use sim::{Event, Fault, Log, Media, Mode, Sabotage, SimPm};
use strandline::steps::{self, Read, Stepped, Write};
use strandline::{Db, Keyspace, Options, ReadOptions, Region, Result, Site};

const ZONES: u64 = 24;
const ZONE_LEN: u64 = 1024;
const MANIFEST_LEN: u64 = 2048;
const REGION_LEN: u64 =
    (4096 + ZONES * 72 + 2 * MANIFEST_LEN).next_multiple_of(4096) + ZONES * ZONE_LEN;

const DEFAULT: usize = 0;
const OTHER: usize = 1;

/// Steps of a write.
const COPIED: usize = 2;
const ACKNOWLEDGED: usize = 6;

/// A store on memory that can lose power. Its keyspaces stand for subranges.
struct World {
    pm: Arc<SimPm>,
    db: Db,
    spaces: Vec<Keyspace>,
}

fn options() -> Options {
    Options::default().background_threads(0).recovery_threads(1)
}

fn format(region: &Arc<Region>) -> Result<()> {
    let format = pool::Format { zone_len: ZONE_LEN, manifest_len: MANIFEST_LEN };
    steps::format(region, format, 0x5eed)
}

impl World {
    fn new() -> World {
        let (pm, region) = SimPm::new(Mode::Adr, REGION_LEN);
        let region = Arc::new(region);
        format(&region).expect("format");
        let db = Db::open_region(region, options()).expect("open");
        db.create_keyspace("other").expect("create");
        World::with(pm, db)
    }

    fn with(pm: Arc<SimPm>, db: Db) -> World {
        let spaces = ["default", "other"].map(|name| db.keyspace(name).expect("keyspace"));
        World { pm, db, spaces: spaces.into() }
    }

    fn recover(image: &[u8]) -> World {
        World::try_recover(image).expect("recovery")
    }

    fn try_recover(image: &[u8]) -> Result<World> {
        let (pm, region) = SimPm::survivor(Mode::Adr, image);
        Ok(World::with(pm, Db::open_region(Arc::new(region), options())?))
    }

    fn write<'w>(&'w self, changes: &[(usize, &'w str, &'w str)]) -> Write<'w> {
        let change = |(space, key, value): &(usize, &'w str, &'w str)| {
            let (key, value) = (key.as_bytes(), value.as_bytes());
            (&self.spaces[*space], steps::Change::Put { key, value })
        };
        let changes: Vec<_> = changes.iter().map(change).collect();
        Write::admit(&changes).expect("admitted")
    }

    fn put(&self, space: usize, key: &str, value: &str) {
        self.spaces[space].put(key.as_bytes(), value.as_bytes()).expect("put");
    }

    fn get(&self, space: usize, key: &str) -> Option<String> {
        let value = self.spaces[space].get(key.as_bytes()).expect("get");
        value.map(|value| String::from_utf8_lossy(&value).into_owned())
    }

    /// Flushes what is in memory, and does all background work that is due.
    fn flush(&self) {
        self.spaces.iter().for_each(steps::switch_memtable);
        self.work();
    }

    /// As [`flush`](Self::flush); besides, every run of a keyspace becomes one.
    fn merge(&self) {
        steps::reclaim(&self.spaces[DEFAULT]);
        self.work();
    }

    fn work(&self) {
        while !self.db.work(64).expect("work").is_idle() {}
    }

    /// Power fails. Of what was not fenced, lines that hold `survivor` survive. The writers of this world may
    /// be dropped afterwards: what that does is not seen any more.
    fn power_cut(&self, survivor: &str) -> World {
        World::recover(&self.power_cut_image(survivor))
    }

    fn power_cut_image(&self, survivor: &str) -> Vec<u8> {
        let mut media = self.pm.media_at(usize::MAX);
        let mut image = media.durable().to_vec();
        for torn in media.torn() {
            let kept = torn.candidates.contents[torn.candidates.kept];
            let holds = kept.windows(survivor.len()).any(|bytes| bytes == survivor.as_bytes());
            if holds {
                let at = torn.line as usize * base::LINE;
                image[at..at + base::LINE].copy_from_slice(&kept);
            }
        }
        image
    }
}

fn advance(write: &mut Write<'_>, steps: usize) {
    let mut done = 0;
    while done < steps {
        done += usize::from(write.step().expect("step") != Stepped::Waited);
    }
}

const NONE: &str = "no line holds this";

/// What a schedule showed that must not be.
type Shown = std::result::Result<(), String>;

fn expect(world: &World, space: usize, key: &str, value: Option<&str>) -> Shown {
    let found = world.get(space, key);
    if found.as_deref() == value {
        Ok(())
    } else {
        Err(format!("{key} is {found:?}, not {value:?}"))
    }
}

/// The schedule shows nothing wrong, and would without the rule that `bug` breaks.
#[track_caller]
fn needs(bug: Bug, schedule: fn() -> Shown) {
    assert_eq!(schedule(), Ok(()));
    base::planted::plant(Some(bug));
    // A store that cannot be opened any more is one way to show it.
    let without = std::panic::catch_unwind(schedule);
    base::planted::plant(None);
    let is_noticed = without.map_or(true, |shown| shown.is_err());
    assert!(is_noticed, "the schedule does not need the rule that {bug:?} breaks");
}

/// Keys whose deletion is worth a vacancy, all between `k00` and `k99`.
fn delete_many(world: &World) {
    for no in 10..50 {
        world.spaces[DEFAULT].delete(format!("k{no}").as_bytes()).expect("delete");
    }
}

/// What a scan finds first.
fn expect_first(world: &World, key: Option<&str>) -> Shown {
    let mut iter = world.spaces[DEFAULT].cursor(&ReadOptions::default()).expect("iter");
    iter.seek_to_first().expect("seek");
    let found = iter.key().map(|key| String::from_utf8_lossy(key).into_owned());
    if found.as_deref() == key { Ok(()) } else { Err(format!("{found:?} is first, not {key:?}")) }
}

fn delete_range(world: &World) -> Write<'_> {
    let change = steps::Change::DeleteRange { begin: b"", end: b"k99" };
    Write::admit(&[(&world.spaces[DEFAULT], change)]).expect("admitted")
}

/// A range is deleted and then written to again.
fn a_put_comes_into_a_range_that_was_deleted() -> Shown {
    let world = World::new();
    world.put(DEFAULT, "k20", "before");
    let mut delete = delete_range(&world);
    advance(&mut delete, ACKNOWLEDGED);
    expect_first(&world, None)?;
    world.put(DEFAULT, "k30", "after");
    expect_first(&world, Some("k30"))
}

#[test]
fn what_makes_a_key_live_takes_it_out_of_the_vacancies() {
    needs(Bug::VacancyKept, a_put_comes_into_a_range_that_was_deleted);
}

/// A put has the number behind that of a range deletion and is indexed first.
fn a_put_overtakes_a_range_deletion() -> Shown {
    let world = World::new();
    world.put(DEFAULT, "k20", "before");
    let mut delete = delete_range(&world);
    advance(&mut delete, 1);
    let mut put = world.write(&[(DEFAULT, "k30", "after")]);
    advance(&mut put, ACKNOWLEDGED - 1);
    advance(&mut delete, ACKNOWLEDGED - 1);
    advance(&mut put, 1);
    expect_first(&world, Some("k30"))
}

#[test]
fn a_range_deletion_announces_its_vacancy_before_it_takes_a_number() {
    needs(Bug::VacancyAnnouncedLate, a_put_overtakes_a_range_deletion);
}

/// A range deletion that is given up deletes nothing.
fn a_range_deletion_is_given_up() -> Shown {
    let world = World::new();
    world.put(DEFAULT, "k20", "there");
    for steps in 0..ACKNOWLEDGED - 1 {
        let mut delete = delete_range(&world);
        advance(&mut delete, steps);
        delete.abandon();
        expect_first(&world, Some("k20"))?;
    }
    Ok(())
}

#[test]
fn a_range_deletion_that_is_given_up_leaves_no_vacancy() {
    assert_eq!(a_range_deletion_is_given_up(), Ok(()));
}

/// A scan at an older snapshot walks over a key that was written since.
fn a_scan_of_the_past_walks_over_a_put() -> Shown {
    let world = World::new();
    delete_many(&world);
    let snapshot = world.db.snapshot();
    world.put(DEFAULT, "k30", "after");
    let options = ReadOptions::at(&snapshot);
    let mut iter = world.spaces[DEFAULT].cursor(&options).expect("iter");
    iter.seek_to_first().expect("seek");
    if iter.valid() {
        return Err("the snapshot shows what is newer".into());
    }
    expect_first(&world, Some("k30"))
}

#[test]
fn what_one_scan_has_walked_is_vacant_once_another_has_seen_what_was_under_way() {
    needs(Bug::VacancyUnconfirmed, a_scan_of_the_past_walks_over_a_put);
}

/// Commit n is lost, n + 1 survives in a zone that goes on to be read; then n is given out again.
fn a_number_is_given_out_again_in_front_of_a_survivor() -> Shown {
    let world = World::new();
    world.put(DEFAULT, "base", "there");
    world.put(OTHER, "base", "there");
    let mut lost = world.write(&[(OTHER, "k1", "lost")]);
    advance(&mut lost, COPIED);
    world.pm.set_thread(1);
    let mut survivor = world.write(&[(DEFAULT, "k2", "survivor")]);
    advance(&mut survivor, COPIED);
    let second = world.power_cut("survivor");
    if second.db.recovery().survivors_dropped != 1 {
        return Err("nothing was dropped behind the lost commit".into());
    }
    expect(&second, DEFAULT, "k2", None)?;
    second.put(OTHER, "k1", "again");
    let third = second.power_cut(NONE);
    expect(&third, OTHER, "k1", Some("again"))?;
    expect(&third, DEFAULT, "k2", None)?;
    expect(&third, DEFAULT, "base", Some("there"))
}

#[test]
fn bytes_beyond_a_sealed_length_never_count_again() {
    needs(Bug::IgnoreSealedLength, a_number_is_given_out_again_in_front_of_a_survivor);
}

#[test]
#[cfg_attr(not(feature = "planted"), ignore = "that bug is in no other build")]
fn a_zone_from_before_an_open_is_never_appended_to() {
    needs(Bug::AppendToOldTail, a_number_is_given_out_again_in_front_of_a_survivor);
}

#[test]
fn an_open_that_recovers_says_so_before_it_serves_anything() {
    needs(Bug::SkipRecoveryEdit, a_number_is_given_out_again_in_front_of_a_survivor);
}

#[test]
fn a_commit_behind_a_lost_one_does_not_count() {
    needs(Bug::AcceptOverHole, a_number_is_given_out_again_in_front_of_a_survivor);
}

/// As above, but nothing in the survivor's zone counted: the zone is free again, and granted again.
fn a_zone_is_granted_again_over_a_survivor() -> Shown {
    let world = World::new();
    let mut lost = world.write(&[(DEFAULT, "k1", "lost")]);
    advance(&mut lost, COPIED);
    world.pm.set_thread(1);
    let mut survivor = world.write(&[(OTHER, "k2", "survivor")]);
    advance(&mut survivor, COPIED);
    let second = world.power_cut("survivor");
    expect(&second, OTHER, "k2", None)?;
    second.put(DEFAULT, "k1", "again");
    let _only_admitted = second.write(&[(OTHER, "k3", "never written")]);
    let third = second.power_cut(NONE);
    expect(&third, DEFAULT, "k1", Some("again"))?;
    expect(&third, OTHER, "k2", None)
}

#[test]
fn an_incarnation_is_not_given_out_again_after_a_crash() {
    needs(Bug::ReuseIncarnation, a_zone_is_granted_again_over_a_survivor);
}

/// Zones are filled, merged away, freed, and granted again with most of their old records still in them.
fn a_zone_lives_again() -> Shown {
    let world = World::new();
    let mut newest = BTreeMap::new();
    let mut looks = 0;
    for round in 0.. {
        for write in 0..12 {
            let (key, value) = (format!("k{}", write % 4), format!("{round}.{write}"));
            world.put(DEFAULT, &key, &value);
            newest.insert(key, value);
            if steps::zones_regranted(&world.spaces[DEFAULT]) == 0 {
                continue;
            }
            let second = world.power_cut(NONE);
            newest.iter().try_for_each(|(k, v)| expect(&second, DEFAULT, k, Some(v)))?;
            looks += 1;
            if looks == 24 {
                return Ok(());
            }
        }
        world.flush();
        world.merge();
    }
    Ok(())
}

#[test]
fn a_zones_life_is_part_of_its_records_identity() {
    needs(Bug::IgnoreIncarnation, a_zone_lives_again);
}

/// Power fails after the edit that retires a zone, before the zone's own word is cleared.
fn a_retired_zone_keeps_its_word() -> Shown {
    let world = World::new();
    world.put(DEFAULT, "k", "old");
    world.flush();
    world.put(DEFAULT, "k", "new");
    let overwritten = world.pm.mark();
    world.flush();
    world.merge();
    let mut log = Log::default();
    world.pm.swap_log(&mut log);
    let clears = |event: &Event| matches!(event, Event::Store { site: Site::ZoneClear, .. });
    let moments: Vec<usize> =
        (overwritten..log.len()).filter(|&i| clears(&log.events[i])).collect();
    assert!(!moments.is_empty(), "no zone was retired");
    for moment in moments {
        let mut media = Media::new(Mode::Adr, &[0; REGION_LEN as usize]);
        media.replay(&log, 0..moment);
        expect(&World::recover(media.durable()), DEFAULT, "k", Some("new"))?;
    }
    Ok(())
}

#[test]
fn the_manifest_and_not_the_zones_word_says_that_it_is_retired() {
    needs(Bug::RescanRetiredZone, a_retired_zone_keeps_its_word);
}

/// One thread has a zone granted, another one's commit in it is acknowledged; then power fails.
fn a_zone_is_granted_by_one_and_used_by_another(sabotage: Option<Sabotage>) -> Shown {
    let world = World::new();
    world.pm.set_sabotage(sabotage);
    world.pm.set_thread(1);
    let _granted = world.write(&[(OTHER, "k1", "never written")]);
    world.pm.set_thread(2);
    advance(&mut world.write(&[(OTHER, "k2", "acknowledged")]), ACKNOWLEDGED);
    let second = World::try_recover(&world.power_cut_image(NONE)).map_err(|e| e.to_string())?;
    expect(&second, OTHER, "k2", Some("acknowledged"))
}

#[test]
fn a_grant_is_durable_before_anyone_may_use_the_zone() {
    assert_eq!(a_zone_is_granted_by_one_and_used_by_another(None), Ok(()));
    let lazily = Sabotage { site: Site::ZoneGrant, what: Fault::DropFence };
    assert!(a_zone_is_granted_by_one_and_used_by_another(Some(lazily)).is_err());
}

/// A reader is between the halves of R1 while its key is overwritten and a merge drops what it saw.
fn a_merge_passes_a_reader() -> Shown {
    let world = World::new();
    world.put(DEFAULT, "k", "old");
    let mut read = Read::begin(&world.spaces[DEFAULT], b"k");
    world.put(DEFAULT, "k", "new");
    world.flush();
    world.merge();
    match read.finish(b"k").expect("read") {
        Some(None) => Err("a key that was always there is missing".into()),
        // To begin again is right, too.
        _ => Ok(()),
    }
}

#[test]
fn a_reader_pins_the_view_before_it_loads_the_number() {
    needs(Bug::SequenceBeforeView, a_merge_passes_a_reader);
}

#[test]
fn a_reader_whose_view_was_replaced_begins_again() {
    let world = World::new();
    let spaces = &world.spaces;
    let mut reads = [Read::begin(&spaces[DEFAULT], b"a"), Read::begin(&spaces[OTHER], b"b")];
    world.put(OTHER, "warm", "so that there is a memtable to switch");
    steps::switch_memtable(&spaces[OTHER]);
    advance(&mut world.write(&[(DEFAULT, "a", "batch"), (OTHER, "b", "batch")]), ACKNOWLEDGED);
    // The number that both would load covers the batch; only one of the pinned Views does.
    let a = reads[0].finish(b"a").expect("read");
    assert_eq!(a, Some(Some(b"batch".to_vec())));
    assert_eq!(reads[1].finish(b"b").expect("read"), None, "half a batch would be shown");
    let again = Read::begin(&spaces[OTHER], b"b").finish(b"b").expect("read");
    assert_eq!(again, Some(Some(b"batch".to_vec())));
}

/// A batch over two keyspaces, with the second one's memtable switched and merged at every step.
#[test]
fn a_snapshot_shows_all_of_a_batch_or_none_whenever_memtables_switch() {
    for switch in 0..=ACKNOWLEDGED {
        for taken in 0..=ACKNOWLEDGED {
            let world = World::new();
            world.put(OTHER, "warm", "so that there is a memtable to switch");
            let mut write = world.write(&[(DEFAULT, "a", "batch"), (OTHER, "b", "batch")]);
            let mut snapshot = None;
            for step in 0..=ACKNOWLEDGED {
                if step == switch {
                    steps::switch_memtable(&world.spaces[OTHER]);
                }
                if step == taken {
                    snapshot = Some(world.db.snapshot());
                }
                if step < ACKNOWLEDGED {
                    advance(&mut write, 1);
                }
            }
            world.flush();
            world.merge();
            let options = ReadOptions::at(snapshot.as_ref());
            let shown = [(DEFAULT, b"a"), (OTHER, b"b")].map(|(space, key)| {
                world.spaces[space].get_with(key, &options).expect("get").is_some()
            });
            assert_eq!(shown[0], shown[1], "switch before step {switch}, snapshot before {taken}");
        }
    }
}

/// Notes which thread flushes and which fences what recovery accepted.
#[derive(Default)]
struct Fences(Mutex<BTreeMap<String, Vec<&'static str>>>);

impl Fences {
    fn note(&self, site: Site, what: &'static str) {
        if site == Site::RecoverAccepted {
            let thread: ThreadId = std::thread::current().id();
            self.0.lock().expect("notes").entry(format!("{thread:?}")).or_default().push(what);
        }
    }
}

impl Domain for Fences {
    fn store(&self, _: &Region, _: Site, _: u64, _: usize, _: StoreMode) {}
    fn load(&self, _: &Region, _: u64, _: usize) {}

    fn flush(&self, _: &Region, site: Site, _: u64, _: usize) {
        self.note(site, "flush");
    }

    fn fence(&self, _: &Region, site: Site) {
        self.note(site, "fence");
    }
}

#[test]
fn each_thread_that_recovers_fences_what_it_flushed() {
    let fences = Arc::new(Fences::default());
    let domain = Arc::clone(&fences) as Arc<dyn Domain>;
    let region = Arc::new(Region::heap(REGION_LEN, Some(domain)).expect("heap region"));
    format(&region).expect("format");
    let db = Db::open_region(Arc::clone(&region), options()).expect("open");
    (0..40).for_each(|i| db.put(format!("k{i}").as_bytes(), b"value").expect("put"));
    drop(db);
    let _open = Db::open_region(region, options().recovery_threads(3)).expect("open");
    let notes = fences.0.lock().expect("notes");
    assert!(!notes.is_empty(), "nothing was accepted");
    for (thread, notes) in &*notes {
        assert_eq!(notes.last(), Some(&"fence"), "{thread} leaves flushes unfenced");
    }
}

/// The writer of a void commit waits for nothing, so that no thread may be left to publish it: what waits for its
/// memtable does.
#[test]
fn a_commit_that_is_given_up_does_not_hold_up_the_flush_of_its_memtable() {
    ends(|| {
        for published_first in [false, true] {
            let world = World::new();
            let mut older = world.write(&[(DEFAULT, "older", "value")]);
            advance(&mut older, COPIED);
            let mut void = world.write(&[(DEFAULT, "void", "value")]);
            advance(&mut void, COPIED);
            if published_first {
                advance(&mut older, ACKNOWLEDGED - 1 - COPIED);
                void.abandon();
            } else {
                void.abandon();
                advance(&mut older, ACKNOWLEDGED - 1 - COPIED);
            }
            world.db.flush().expect("flush");
            expect(&world, DEFAULT, "older", Some("value")).expect("published");
            expect(&world, DEFAULT, "void", None).expect("void");
        }
    });
}
