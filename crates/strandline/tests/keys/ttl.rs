//! Values that expire, by a clock that the tests move.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use crate::common::{TempDir, kind_of};
use strandline::{
    Batch, Clock, CompactionFilter, Db, Decision, ErrorKind, Hooks, IngestOptions, Keyspace,
    KeyspaceOptions, Options, ReadOptions, SsdSource,
};
use testkit::Rng;

/// A clock in milliseconds.
#[derive(Default)]
struct Hand(AtomicU64);

impl Hand {
    fn pass(&self, millis: u64) {
        self.0.fetch_add(millis, SeqCst);
    }
}

impl Clock for Hand {
    fn now(&self) -> Duration {
        Duration::from_millis(self.0.load(SeqCst))
    }
}

fn options(ssd: SsdSource) -> Options {
    Options::default()
        .ssd(ssd)
        .pm_size(4 << 20)
        .zone_size(16 << 10)
        .memtable_bytes(16 << 10)
        .table_bytes(16 << 10)
        .background_threads(0)
}

fn hooks(hand: &Arc<Hand>) -> Hooks {
    Hooks::default().clock(Arc::clone(hand) as _)
}

fn hand() -> Arc<Hand> {
    Arc::new(Hand(AtomicU64::new(1_000_000)))
}

const TTL: Duration = Duration::from_millis(100);

fn expiring(db: &Db) -> Keyspace {
    db.create_keyspace_with("cache", KeyspaceOptions::new().ttl(TTL)).expect("create")
}

/// What every way to read says of `key`; they must agree.
fn read(keyspace: &Keyspace, key: &[u8]) -> Option<Vec<u8>> {
    let got = keyspace.get(key).expect("get");
    let many = keyspace.multi_get([key, b"absent"]).expect("multi_get");
    assert_eq!(many, [got.clone(), None]);
    assert_eq!(keyspace.contains_key(key).expect("contains_key"), got.is_some());
    let end = [key, &[0]].concat();
    let walked: Vec<_> = keyspace.range(key..&end[..]).map(|item| item.expect("item").1).collect();
    let back: Vec<_> =
        keyspace.range(key..&end[..]).rev().map(|item| item.expect("item").1).collect();
    assert_eq!(walked, back);
    assert_eq!(walked.first().map(|value| value.to_vec()), got, "a walk and a get");
    assert_eq!(keyspace.range(key..&end[..]).count(), usize::from(got.is_some()));
    let len = keyspace.explain_get(key).expect("explain").value_bytes;
    assert_eq!(len, got.as_ref().map(|value| value.len() as u64));
    got
}

#[test]
fn a_value_is_read_until_its_time_and_never_after_wherever_it_lies() {
    for ssd in [SsdSource::Auto, SsdSource::None] {
        let (dir, hand) = (TempDir::new("ttl"), hand());
        let open = || Db::open_with(dir.path(), options(ssd.clone()), hooks(&hand)).expect("open");
        let mut db = open();
        let cache = expiring(&db);
        let long = vec![7; 3000];
        let places: [&dyn Fn(&Db); 3] =
            [&|_| {}, &|db| db.flush().expect("flush"), &|db| db.compact().expect("compact")];
        for place in places {
            let cache = db.keyspace("cache").expect("keyspace");
            cache.put("short", "value").expect("put");
            cache.put("long", &long).expect("put");
            cache.put("empty", "").expect("put");
            place(&db);
            hand.pass(99);
            assert_eq!(read(&cache, b"short").as_deref(), Some(&b"value"[..]));
            assert_eq!(read(&cache, b"long").as_ref(), Some(&long));
            assert_eq!(read(&cache, b"empty").as_deref(), Some(&b""[..]));
            hand.pass(1);
            for key in ["short", "long", "empty"] {
                assert_eq!(read(&cache, key.as_bytes()), None, "{key}");
            }
            assert_eq!(cache.iter().count(), 0);
        }
        // Those that were read in the tables were read as cached records, too.
        let cached = db.properties().ssd.map_or(0, |ssd| ssd.cache.record_hits);
        assert_eq!(cached > 0, ssd != SsdSource::None, "{cached} records");
        drop(cache);
        db.close().expect("close");
        db = open();
        assert_eq!(db.keyspace("cache").expect("keyspace").options().ttl, Some(TTL));
        assert_eq!(db.keyspace("cache").expect("keyspace").iter().count(), 0);
        // Others do not expire.
        db.put("key", "value").expect("put");
        hand.pass(1 << 40);
        assert_eq!(db.get("key").expect("get").as_deref(), Some(&b"value"[..]));
    }
}

/// An expired value hides older ones, so these must not rise when it goes.
#[test]
fn older_values_do_not_rise_when_a_newer_one_expires() {
    for ssd in [SsdSource::Auto, SsdSource::None] {
        let (dir, hand) = (TempDir::new("ttl-rise"), hand());
        let db = Db::open_with(dir.path(), options(ssd), hooks(&hand)).expect("open");
        let forever = KeyspaceOptions::new().ttl(Duration::from_millis(1_000_000));
        let cache = db.create_keyspace_with("cache", forever).expect("create");
        cache.put("key", "old").expect("put");
        db.flush().expect("flush");
        db.compact().expect("compact");
        let snapshot = db.snapshot();
        hand.pass(10);
        cache.put("key", "new").expect("put");
        db.flush().expect("flush");
        hand.pass(1_000_000);
        for step in 0..4 {
            assert_eq!(read(&cache, b"key"), None, "step {step}");
            let then = ReadOptions::at(&snapshot);
            assert_eq!(cache.get_with("key", &then).expect("get"), None, "judged as of now");
            match step {
                0 => db.flush().expect("flush"),
                1 => while !db.work(10).expect("work").is_idle() {},
                _ => db.compact().expect("compact"),
            }
        }
    }
}

/// Reads of a store at a moment agree with a model, whatever flushes, merges, splits and opens do meanwhile.
#[test]
fn a_model_with_a_clock_agrees() {
    for (seed, ssd) in [(1, SsdSource::Auto), (2, SsdSource::None), (3, SsdSource::Auto)] {
        let (dir, hand, mut rng) = (TempDir::new("ttl-model"), hand(), Rng::new(seed));
        let open = || Db::open_with(dir.path(), options(ssd.clone()), hooks(&hand)).expect("open");
        let mut db = open();
        drop(expiring(&db));
        let mut model: BTreeMap<Vec<u8>, (u64, Vec<u8>)> = BTreeMap::new();
        for round in 0..6000_u64 {
            let cache = db.keyspace("cache").expect("keyspace");
            let now = hand.0.load(SeqCst);
            let key = format!("key{:03}", rng.below(200)).into_bytes();
            match rng.below(100) {
                0..60 => {
                    let len = if rng.below(50) == 0 { 2500 } else { rng.below(40) as usize };
                    let mut value = round.to_le_bytes().to_vec();
                    value.resize(8 + len, 1);
                    let mut batch = Batch::new();
                    batch.put(&cache, &key, &value);
                    db.write(&batch).expect("write");
                    model.insert(key, (now + 100, value));
                }
                60..70 => {
                    cache.delete(&key).expect("delete");
                    model.remove(&key);
                }
                70..72 => {
                    let end = format!("key{:03}", rng.below(200)).into_bytes();
                    if key < end {
                        cache.delete_range(&key, &end).expect("delete range");
                        model.retain(|each, _| *each < key || *each >= end);
                    }
                }
                72..90 => hand.pass(rng.below(5)),
                90..94 => db.flush().expect("flush"),
                94..98 => {
                    db.work(50).expect("work");
                }
                98 => db.compact().expect("compact"),
                _ => {
                    drop(cache);
                    db.close().expect("close");
                    db = open();
                }
            }
            let cache = db.keyspace("cache").expect("keyspace");
            let now = hand.0.load(SeqCst);
            let live = |(_, (expires, _)): &(&Vec<u8>, &(u64, Vec<u8>))| now < *expires;
            if round % 50 == 0 {
                let shown: Vec<(Vec<u8>, Vec<u8>)> = cache
                    .iter()
                    .map(|item| item.map(|(key, value)| (key.to_vec(), value.to_vec())))
                    .collect::<Result<_, _>>()
                    .expect("iter");
                let wanted = model.iter().filter(live);
                let wanted: Vec<_> =
                    wanted.map(|(key, (_, value))| (key.clone(), value.clone())).collect();
                assert_eq!(shown, wanted, "seed {seed}, round {round}");
            }
            let key = format!("key{:03}", rng.below(200)).into_bytes();
            let wanted =
                model.get_key_value(&key).filter(live).map(|(_, (_, value))| value.clone());
            assert_eq!(read(&cache, &key), wanted, "seed {seed}, round {round}");
        }
    }
}

#[test]
fn the_space_of_expired_values_comes_back() {
    for ssd in [SsdSource::Auto, SsdSource::None] {
        let (dir, hand) = (TempDir::new("ttl-space"), hand());
        // Each subrange has zones that stand ready.
        let options = options(ssd).subranges(1);
        let db = Db::open_with(dir.path(), options, hooks(&hand)).expect("open");
        let cache = expiring(&db);
        // Ten times as much as there is room for.
        for round in 0..40_u32 {
            for no in 0..1000_u32 {
                let key = [round.to_be_bytes(), no.to_be_bytes()].concat();
                cache.put(key, [1; 800]).expect("what expired makes room");
            }
            hand.pass(100);
            db.flush().expect("flush");
            db.compact().expect("compact");
        }
        while !db.work(1000).expect("work").is_idle() {}
        assert_eq!(cache.iter().count(), 0);
        let figures = db.properties();
        let of = figures.keyspaces.iter().find(|each| each.name == "cache").expect("figures");
        assert_eq!(of.levels.iter().map(|level| level.bytes()).sum::<u64>(), 0, "no tables");
        let checked = db.check().expect("check");
        assert!(checked.damage.is_empty(), "{:?}", checked.damage);
        assert_eq!(of.runs.len() as u64 + of.memtable_records, 0, "no records");
    }
}

/// Does background work until there is none.
fn idle(db: &Db) {
    while !db.work(1000).expect("work").is_idle() {}
}

/// Nothing is written any more: what expires goes all the same, from memtables, runs and tables, and nothing else does.
#[test]
fn what_expires_in_an_idle_store_gives_its_space_back() {
    for (ssd, opened_again) in [
        (SsdSource::Auto, false),
        (SsdSource::None, false),
        (SsdSource::Auto, true),
        (SsdSource::None, true),
    ] {
        let (dir, hand) = (TempDir::new("ttl-idle"), hand());
        let open = || {
            let options = options(ssd.clone()).subranges(1);
            Db::open_with(dir.path(), options, hooks(&hand)).expect("open")
        };
        let mut db = open();
        let cache = expiring(&db);
        db.put("kept", [7; 800]).expect("put");
        idle(&db);
        let empty = db.properties().pm_free;
        let fill = |from: u32| {
            for no in from..from + 400 {
                cache.put(no.to_be_bytes(), [1; 800]).expect("put");
            }
            cache.put(from.to_be_bytes(), [2; 5000]).expect("put");
        };
        // Into tables where there are any, into runs, and into a memtable.
        fill(0);
        db.flush().expect("flush");
        db.compact().expect("compact");
        fill(200);
        db.flush().expect("flush");
        cache.delete_range(10_u32.to_be_bytes(), 20_u32.to_be_bytes()).expect("delete range");
        fill(400);
        drop(cache);
        if opened_again {
            db.close().expect("close");
            db = open();
        }
        let held = |db: &Db| {
            let figures = db.properties();
            let of = figures.keyspaces.iter().find(|each| each.name == "cache").expect("figures");
            let tables: u64 = of.levels.iter().map(|level| level.bytes()).sum();
            (tables, of.runs.len() as u64, of.memtable_records)
        };
        idle(&db);
        let snapshot = db.snapshot();
        hand.pass(90);
        idle(&db);
        assert_ne!(held(&db), (0, 0, 0), "it has not expired");
        let keys = db.keyspace("cache").expect("keyspace").keys().count();
        assert!(keys > 700, "{keys}");
        for _ in 0..40 {
            hand.pass(10);
            idle(&db);
        }
        assert_eq!(held(&db), (0, 0, 0), "opened again: {opened_again}");
        let lost = empty.saturating_sub(db.properties().pm_free);
        assert!(lost <= 6 * db.properties().zone_bytes, "{lost} bytes are held");
        assert_eq!(snapshot.get("kept").expect("get"), Some(vec![7; 800]));
        let cache = db.keyspace("cache").expect("keyspace");
        assert_eq!(cache.iter().count(), 0);
        assert!(db.check().expect("check").damage.is_empty());
        cache.put("key", "value").expect("put");
        assert_eq!(read(&cache, b"key").as_deref(), Some(&b"value"[..]));
    }
}

/// What came after level 0 had expired gathers there as ever: each flush by itself is no reason to compact.
#[test]
fn what_comes_after_level_0_has_expired_gathers_there() {
    let (dir, hand) = (TempDir::new("ttl-gathers"), hand());
    let options = options(SsdSource::Auto).subranges(1);
    let db = Db::open_with(dir.path(), options, hooks(&hand)).expect("open");
    let cache = expiring(&db);
    let runs = || {
        let figures = db.properties();
        figures.keyspaces.iter().find(|each| each.name == "cache").map(|each| each.runs.len())
    };
    cache.put("key", "value").expect("put");
    db.flush().expect("flush");
    // Two looks: numbers have ages from the first on.
    idle(&db);
    hand.pass(200);
    idle(&db);
    assert_eq!(runs(), Some(0), "it has expired");
    // The clock stands still, so no look comes between.
    for round in 1..=3 {
        cache.put(format!("key {round}"), "value").expect("put");
        db.flush().expect("flush");
        idle(&db);
        assert_eq!(runs(), Some(round));
    }
}

/// A clock that is set back neither makes values live longer nor brings them back, also not at the next open.
#[test]
fn the_clock_does_not_fall() {
    let (dir, hand) = (TempDir::new("ttl-clock"), hand());
    let db = Db::open_with(dir.path(), options(SsdSource::Auto), hooks(&hand)).expect("open");
    let cache = expiring(&db);
    cache.put("key", "value").expect("put");
    hand.pass(100);
    assert_eq!(cache.get("key").expect("get"), None);
    hand.0.store(5, SeqCst);
    assert_eq!(cache.get("key").expect("get"), None, "it stands still");
    cache.put("other", "value").expect("put");
    db.flush().expect("an edit keeps the time");
    drop(cache);
    db.close().expect("close");
    for access in 0..3 {
        let open = || match access {
            0 => Db::open_read_only_with(dir.path(), options(SsdSource::Auto), hooks(&hand)),
            _ => Db::open_with(dir.path(), options(SsdSource::Auto), hooks(&hand)),
        };
        let db = open().expect("open");
        let cache = db.keyspace("cache").expect("keyspace");
        assert_eq!(cache.get("key").expect("get"), None, "open {access}");
        assert!(cache.get("other").expect("get").is_some(), "open {access}");
        drop(cache);
        db.close().expect("close");
    }
    hand.0.store(1_000_200, SeqCst);
    let db = Db::open_with(dir.path(), options(SsdSource::Auto), hooks(&hand)).expect("open");
    assert_eq!(db.keyspace("cache").expect("keyspace").iter().count(), 0);
}

/// The time that a store was told outlives the keyspaces that it was told for: else what a later one puts would expire at an
/// open.
#[test]
fn the_clock_goes_on_after_the_last_keyspace_with_a_time_to_live_is_dropped() {
    let (dir, hand) = (TempDir::new("ttl-dropped"), hand());
    let open = || Db::open_with(dir.path(), options(SsdSource::Auto), hooks(&hand)).expect("open");
    let db = open();
    expiring(&db).put("key", "value").expect("put");
    hand.pass(1_000_000);
    db.flush().expect("an edit keeps the time");
    db.drop_keyspace("cache").expect("drop");
    db.close().expect("close");
    hand.0.store(1_000_000, SeqCst);
    let db = open();
    expiring(&db).put("key", "value").expect("put");
    db.close().expect("close");
    let db = open();
    let cache = db.keyspace("cache").expect("keyspace");
    assert!(cache.get("key").expect("get").is_some(), "no time has passed since it was put");
    hand.0.store(2_000_100, SeqCst);
    assert_eq!(
        cache.get("key").expect("get"),
        None,
        "counted from the time that the store was told"
    );
}

#[test]
fn an_iterator_has_one_time() {
    let (dir, hand) = (TempDir::new("ttl-iterator"), hand());
    let db = Db::open_with(dir.path(), options(SsdSource::Auto), hooks(&hand)).expect("open");
    let cache = expiring(&db);
    for no in 0..2000_u32 {
        cache.put(no.to_be_bytes(), "value").expect("put");
    }
    let mut iter = cache.iter();
    let mut cursor = cache.cursor(&ReadOptions::default()).expect("cursor");
    cursor.seek_to_first().expect("seek");
    iter.next().expect("an item").expect("read");
    hand.pass(100);
    assert_eq!(iter.count(), 1999, "all in batches of later times");
    let mut seen = 0;
    while cursor.key().is_some() {
        assert_eq!(cursor.value().expect("value"), Some(&b"value"[..]));
        seen += 1;
        cursor.next().expect("next");
    }
    assert_eq!(seen, 2000);
    assert_eq!(cache.iter().count(), 0, "a new one has the new time");
}

/// Filters see the value as it was put, and what they make of it expires as it would have.
struct Shout;

impl CompactionFilter for Shout {
    fn decide(&self, _: &str, _: usize, key: &[u8], value: &[u8]) -> Decision {
        match key {
            b"loud" => Decision::Change(value.to_ascii_uppercase()),
            b"gone" => Decision::Remove,
            _ => Decision::Keep,
        }
    }
}

#[test]
fn what_cannot_expire_is_refused_and_filters_and_copies_keep_times() {
    let (dir, hand) = (TempDir::new("ttl-refused"), hand());
    let hooks = hooks(&hand).compaction_filter(Arc::new(Shout));
    let options = options(SsdSource::Auto);
    let at = |name: &str| dir.path().join(name);
    let db = Db::open_with(at("db"), options.clone(), hooks.clone()).expect("open");
    let both = KeyspaceOptions::new().ttl(TTL).merge_operator("add");
    assert_eq!(kind_of(db.create_keyspace_with("both", both)), ErrorKind::InvalidArgument);
    let cache = expiring(&db);
    let merged = cache.merge("key", "1").expect_err("no time");
    assert_eq!(merged.kind(), ErrorKind::InvalidArgument);
    assert!(merged.to_string().contains("time to live"), "{merged}");
    let mut batch = Batch::new();
    batch.merge(&cache, "key", "1");
    assert_eq!(kind_of(db.write(&batch)), ErrorKind::InvalidArgument);
    let ingested = db.ingest(&cache, &[at("none")], IngestOptions::default());
    assert_eq!(kind_of(ingested), ErrorKind::InvalidArgument);

    for key in ["loud", "gone", "plain"] {
        cache.put(key, "value").expect("put");
    }
    db.flush().expect("flush");
    db.compact().expect("compact");
    let shown = |db: &Db| {
        let cache = db.keyspace("cache").expect("keyspace");
        assert_eq!(cache.options().ttl, Some(TTL));
        cache
            .iter()
            .map(|item| item.map(|(_, value)| value.to_vec()))
            .collect::<Result<Vec<_>, _>>()
    };
    assert_eq!(shown(&db).expect("iter"), [&b"VALUE"[..], b"value"]);
    db.checkpoint(at("copy")).expect("checkpoint");
    drop(cache);
    db.close().expect("close");
    let open = || Db::open_with(at("copy"), options.clone(), hooks.clone()).expect("open");
    assert_eq!(shown(&open()).expect("iter"), [&b"VALUE"[..], b"value"]);
    hand.pass(100);
    assert_eq!(shown(&open()).expect("iter"), Vec::<Vec<u8>>::new());
}

/// By the clock of the system: a repair knows no other.
#[test]
fn a_repaired_store_has_what_has_not_expired() {
    let dir = TempDir::new("ttl-repair");
    let options = options(SsdSource::Auto);
    let db = Db::open(dir.path().join("db"), options.clone()).expect("open");
    for (name, ttl) in [("hour", Duration::from_secs(3600)), ("moment", Duration::from_millis(1))] {
        let keyspace = db.create_keyspace_with(name, KeyspaceOptions::new().ttl(ttl));
        keyspace.expect("create").put("key", "value").expect("put");
    }
    db.close().expect("close");
    let fixed = dir.path().join("fixed");
    let report = strandline::repair(dir.path().join("db"), &fixed, options.clone());
    assert!(report.expect("repair").lost.is_empty());
    let db = Db::open(fixed, options).expect("open");
    let get = |name: &str| db.keyspace(name).expect("keyspace").get("key").expect("get");
    assert_eq!((get("hour").as_deref(), get("moment")), (Some(&b"value"[..]), None));
}

/// Only the manifest knows which keyspaces have a time to live: without it their values come back with the time before them, and
/// the report says so.
#[test]
fn a_repair_without_a_manifest_gives_values_with_their_times() {
    let dir = TempDir::new("ttl-pieces");
    let options = options(SsdSource::Auto);
    let db = Db::open(dir.path().join("db"), options.clone()).expect("open");
    let hour = KeyspaceOptions::new().ttl(Duration::from_secs(3600));
    db.create_keyspace_with("hour", hour).expect("create").put("key", "value").expect("put");
    let copy = dir.path().join("copy");
    db.checkpoint(&copy).expect("checkpoint");
    std::fs::write(copy.join("sst/MANIFEST"), b"gone").expect("written");
    let fixed = dir.path().join("fixed");
    let report = strandline::repair(&copy, &fixed, options.clone()).expect("repair");
    assert!(report.lost.iter().any(|lost| lost.reason.contains("time to live")), "{report:?}");
    let db = Db::open(fixed, options).expect("open");
    let hour = db.keyspace("hour").expect("its name is in the table");
    assert_eq!(hour.options().ttl, None);
    let stored = hour.get("key").expect("get").expect("there");
    assert_eq!((stored.len(), &stored[8..]), (8 + 5, &b"value"[..]));
}
