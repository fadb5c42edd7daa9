//! Keyspaces that say where their files go: how they are placed, and in which of the store's tiers.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::common::{
    self, Contents, Place, TempDir, assert_nothing_leaked, dump, noise, scattered, small_levels,
};
use ssd::{Call, Failure, Faulty, Fs, Memory, Rule};
use strandline::{
    Db, ErrorKind, Hooks, IngestOptions, Keyspace, KeyspaceOptions, KeyspacePlacement,
    KeyspaceTiers, Options, Placement, PmSource, ReadOptions, TierSource, TierSpec,
};

const FAST: &str = "/fast";
const MIDDLE: &str = "/middle";
const OWN: &str = "/sst";

fn specs(tiers: &[(&str, u64)]) -> TierSource {
    TierSource::Dirs(tiers.iter().map(|(dir, size)| TierSpec::new(*dir, *size)).collect())
}

fn tiered(tiers: &[(&str, u64)]) -> Options {
    small_levels().tiers(specs(tiers))
}

fn place() -> Place {
    Place::new(small_levels().pm_size, Memory::default())
}

fn within<P: Into<PathBuf> + Clone>(dirs: &[P]) -> KeyspaceOptions {
    let dirs = dirs.iter().map(|dir| dir.clone().into()).collect();
    KeyspaceOptions::new().tiers(KeyspaceTiers::Dirs(dirs))
}

fn work(db: &Db) {
    while !db.work(1 << 20).expect("work").is_idle() {}
}

/// Writes `count` keys in no order, and compacts as it comes.
fn fill(db: &Db, space: &Keyspace, count: u64, round: u64) {
    for i in 0..count {
        space.put(scattered(i), noise(i, round)).expect("put");
        if i % 500 == 0 {
            work(db);
        }
    }
    db.compact().expect("compact");
    work(db);
}

/// Bytes that files of a keyspace have in each directory.
fn bytes_in(db: &Db, name: &str) -> BTreeMap<String, u64> {
    let mut sums = BTreeMap::new();
    let all = db.properties().keyspaces.into_iter().find(|space| space.name == name);
    let all = all.expect("the keyspace");
    let tables = all.levels.into_iter().flat_map(|level| level.tables);
    let tables = tables.map(|table| (table.path, table.bytes));
    for (path, bytes) in
        tables.chain(all.value_files.into_iter().map(|file| (file.path, file.bytes)))
    {
        let dir = path.parent().expect("a directory").display().to_string();
        *sums.entry(dir).or_insert(0) += bytes;
    }
    sums
}

fn dirs_of(db: &Db, name: &str) -> BTreeSet<String> {
    bytes_in(db, name).into_keys().collect()
}

fn only(dir: impl AsRef<Path>) -> BTreeSet<String> {
    BTreeSet::from([dir.as_ref().display().to_string()])
}

fn contents(space: &Keyspace) -> Contents {
    dump(space, &ReadOptions::default())
}

#[test]
fn files_go_to_the_tiers_of_their_keyspace() {
    let place = place();
    let options = tiered(&[(FAST, 8 << 20), (MIDDLE, 8 << 20)]);
    let db = place.open(options.clone().value_files_min(2000));
    let hot = db.create_keyspace_with("hot", within(&[FAST])).expect("create");
    let cold = db.create_keyspace_with("cold", within(&[OWN])).expect("create");
    // In the order of the store's list, whichever was given.
    let some = db.create_keyspace_with("some", within(&[OWN, MIDDLE])).expect("create");
    assert_eq!(some.options().to_string(), "tiers=/middle,/sst");
    for space in [db.default_keyspace(), &hot, &cold, &some] {
        fill(&db, space, 4_000, 1);
        space.put("long", [7; 4000]).expect("put");
    }
    db.compact().expect("compact");
    work(&db);
    assert_eq!((dirs_of(&db, "hot"), dirs_of(&db, "cold")), (only(FAST), only(OWN)));
    assert_eq!(dirs_of(&db, "some"), only(MIDDLE), "the fastest of its own");
    let files = |db: &Db| db.properties().keyspaces.remove(2).value_files;
    assert!(files(&db).iter().all(|file| file.path.starts_with(OWN)) && !files(&db).is_empty());
    let before: Vec<Contents> = [&hot, &cold, &some].map(contents).into();
    db.close().expect("close");
    // Another order of the list is no other tier.
    let db = place.open(tiered(&[(MIDDLE, 8 << 20), (FAST, 8 << 20)]));
    let names = ["hot", "cold", "some"];
    for (name, before) in names.iter().zip(&before) {
        let space = db.keyspace(name).expect("keyspace");
        assert!(contents(&space) == *before);
        fill(&db, &space, 4_000, 2);
    }
    db.compact().expect("compact");
    work(&db);
    let found = names.map(|name| dirs_of(&db, name));
    assert_eq!(found, [only(FAST), only(OWN), only(MIDDLE)]);
    let shown = names.map(|name| db.keyspace(name).expect("keyspace").options().to_string());
    assert_eq!(shown, ["tiers=/fast", "tiers=/sst", "tiers=/middle,/sst"]);
    assert_nothing_leaked(&db, "now");
    assert!(db.check().expect("check").damage.is_empty());
}

#[test]
fn files_follow_what_is_set() {
    let place = place();
    let options = tiered(&[(FAST, 8 << 20), (MIDDLE, 8 << 20)]).compaction_rate(1 << 30);
    let db = place.open(options.clone());
    let hot = db.create_keyspace("hot").expect("create");
    fill(&db, &hot, 6_000, 1);
    fill(&db, db.default_keyspace(), 6_000, 1);
    let before = (contents(&hot), contents(db.default_keyspace()));
    for dir in [OWN, MIDDLE, FAST, OWN, FAST] {
        hot.set_options(&within(&[dir])).expect("set");
        let moves = || db.properties().ssd.expect("tables").compactions.tier_moves;
        let moved = moves();
        work(&db);
        assert_eq!(dirs_of(&db, "hot"), only(dir));
        assert!(moves() > moved);
        assert_eq!(hot.options(), within(&[dir]));
    }
    // The default keyspace too, and one more option does not take the others away.
    let level = KeyspaceOptions::new().placement(Placement::Level);
    db.default_keyspace().set_options(&within(&[MIDDLE, OWN])).expect("set");
    db.default_keyspace().set_options(&level).expect("set");
    work(&db);
    assert_eq!(dirs_of(&db, "default"), only(MIDDLE));
    let both = within(&[MIDDLE, OWN]).placement(Placement::Level);
    assert_eq!(db.default_keyspace().options(), both);
    // And back to what the store has.
    let stores = KeyspaceOptions::new().placement(KeyspacePlacement::Store);
    db.default_keyspace().set_options(&stores).expect("set");
    assert_eq!(db.default_keyspace().options(), within(&[MIDDLE, OWN]));
    let made = db.create_keyspace_with("plain", stores).expect("create");
    assert!(made.options().is_empty());
    db.default_keyspace().set_options(&level).expect("set");
    db.close().expect("close");
    for _ in 0..2 {
        let db = place.open(options.clone());
        assert_eq!(db.default_keyspace().options(), both);
        let hot = db.keyspace("hot").expect("keyspace");
        assert_eq!(hot.options(), within(&[FAST]));
        work(&db);
        assert_eq!((dirs_of(&db, "hot"), dirs_of(&db, "default")), (only(FAST), only(MIDDLE)));
        assert!((contents(&hot), contents(db.default_keyspace())) == before);
        db.close().expect("close");
    }
    let db = place.open(options);
    let hot = db.keyspace("hot").expect("keyspace");
    hot.set_options(&KeyspaceOptions::new().tiers(KeyspaceTiers::All)).expect("set");
    assert_eq!(hot.options(), KeyspaceOptions::new());
    assert_nothing_leaked(&db, "at the end");
}

/// A command that compacts closes the store behind it: what was to move stayed where it was.
#[test]
fn a_manual_compaction_ends_with_files_where_they_belong() {
    let faults = Arc::new(Faulty::new(Memory::default()));
    faults.create_dir_all(Path::new(OWN)).expect("directory");
    let fs: Arc<dyn Fs> = Arc::clone(&faults) as Arc<dyn Fs>;
    let place = Place { region: common::heap(small_levels().pm_size), fs };
    let db = place.open(tiered(&[(FAST, 8 << 20), (MIDDLE, 8 << 20)]));
    let hot = db.create_keyspace("hot").expect("create");
    fill(&db, &hot, 6_000, 1);
    fill(&db, db.default_keyspace(), 6_000, 1);
    let (before, others) = (contents(&hot), dirs_of(&db, "default"));
    for (dir, of_store) in [(OWN, true), (MIDDLE, false), (FAST, true), (OWN, false)] {
        hot.set_options(&within(&[dir])).expect("set");
        match of_store {
            true => db.compact().expect("compact"),
            false => db.compact_range(&hot, None, None).expect("compact"),
        }
        assert_eq!(dirs_of(&db, "hot"), only(dir));
    }
    // Those of other keyspaces are not waited for, nor those beyond the range.
    db.default_keyspace().set_options(&within(&[MIDDLE])).expect("set");
    hot.set_options(&within(&[FAST])).expect("set");
    let middle = before.keys().nth(before.len() / 2).expect("a key");
    db.compact_range(&hot, None, Some(middle)).expect("compact");
    assert_eq!(dirs_of(&db, "hot").len(), 2, "{:?}", dirs_of(&db, "hot"));
    assert_eq!(dirs_of(&db, "default"), others);
    // One that fails is left to the background.
    let full = Rule::new(1, Failure::NoSpace).of(Call::Append).on(FAST).for_ever();
    faults.set_rules(vec![full]);
    let had = bytes_in(&db, "hot")[FAST];
    db.compact_range(&hot, None, None).expect("compact");
    assert_eq!(bytes_in(&db, "hot")[FAST], had);
    faults.set_rules(Vec::new());
    db.compact_range(&hot, None, None).expect("compact");
    assert_eq!(dirs_of(&db, "hot"), only(FAST));
    assert!(contents(&hot) == before);
    assert_nothing_leaked(&db, "at the end");
}

#[test]
fn what_a_keyspace_cannot_have_is_refused() {
    let place = place();
    let db = place.open(tiered(&[(FAST, 8 << 20)]));
    let hot = db.create_keyspace("hot").expect("create");
    let kept = KeyspaceOptions::new().filter_bits(3);
    let dirs = |text: &str| within(&[text]);
    let none = KeyspaceOptions::new().tiers(KeyspaceTiers::Dirs(Vec::new()));
    for (options, why) in [
        (dirs("/nowhere"), "tiers=/nowhere: the store has no such directory"),
        (dirs("/nowhere"), "/fast, /sst"),
        (dirs("/fast:64M"), "name the directory alone"),
        (none, "tiers=: no directory"),
    ] {
        let made = db.create_keyspace_with("other", options.clone()).err().expect("refused");
        let set = hot.set_options(&options).expect_err("refused");
        for error in [made, set] {
            assert_eq!(error.kind(), ErrorKind::InvalidArgument);
            assert!(error.context().contains(why), "{error}");
        }
    }
    let refused = hot.set_options(&kept).expect_err("refused");
    assert!(refused.context().contains("filter_bits of a keyspace stays"), "{refused}");
    assert!(hot.options().is_empty() && db.keyspace("other").is_err());
    db.drop_keyspace("hot").expect("drop");
    assert_eq!(hot.set_options(&dirs(FAST)).expect_err("dropped").kind(), ErrorKind::Closed);
    db.close().expect("close");
    // A store in one directory knows that one; one without tables none.
    let one = place.open(small_levels());
    one.default_keyspace().set_options(&dirs(OWN)).expect("set");
    one.default_keyspace().set_options(&dirs(FAST)).expect_err("not its own");
    let memory = Db::open_region(common::heap(8 << 20), small_levels().pm_size(8 << 20));
    let refused = memory.expect("open").default_keyspace().set_options(&dirs(OWN));
    assert!(refused.expect_err("no tables").context().contains("ssd"));
}

#[test]
fn a_full_tier_is_gone_around_and_returned_to() {
    let place = place();
    let sizes = |fast: u64| tiered(&[(FAST, fast), (MIDDLE, 8 << 20)]);
    let db = place.open(sizes(300 << 10));
    let hot = db.create_keyspace_with("hot", within(&[FAST])).expect("create");
    fill(&db, &hot, 4_000, 1);
    let sums = bytes_in(&db, "hot");
    assert!(sums[FAST] <= 300 << 10 && sums[MIDDLE] > 300 << 10, "{sums:?}");
    let before = contents(&hot);
    db.close().expect("close");
    let db = place.open(sizes(1200 << 10));
    let (hot, others) = (db.keyspace("hot").expect("keyspace"), db.default_keyspace());
    work(&db);
    assert_eq!(dirs_of(&db, "hot"), only(FAST), "there is room");
    assert!(contents(&hot) == before);
    // Others have the room, and give way once they have elsewhere to go.
    hot.set_options(&within(&[MIDDLE])).expect("set");
    others.set_options(&within(&[FAST])).expect("set");
    fill(&db, others, 8_000, 1);
    let full = bytes_in(&db, "default")[FAST];
    assert!(full > 700 << 10, "{full}");
    hot.set_options(&within(&[FAST])).expect("set");
    work(&db);
    assert_eq!(bytes_in(&db, "default")[FAST], full, "they have not");
    others.set_options(&KeyspaceOptions::new().tiers(KeyspaceTiers::All)).expect("set");
    work(&db);
    assert_eq!(dirs_of(&db, "hot"), only(FAST));
    let left = bytes_in(&db, "default");
    assert!(left.get(FAST).is_none_or(|bytes| *bytes < full / 2), "{left:?}");
    assert!(contents(&hot) == before);
    let settled = db.properties().ssd.expect("tables").compactions.tier_moves;
    work(&db);
    assert_eq!(db.properties().ssd.expect("tables").compactions.tier_moves, settled);
}

#[test]
fn upper_levels_of_one_keyspace_fill_its_fastest_tier() {
    let place = place();
    let db = place.open(tiered(&[(FAST, 8 << 20), (MIDDLE, 2600 << 10)]));
    let level = within(&[MIDDLE, OWN]).placement(Placement::Level);
    let hot = db.create_keyspace_with("hot", level).expect("create");
    fill(&db, &hot, 20_000, 1);
    for i in 0..14_000 {
        hot.put(scattered(i), noise(i, 2)).expect("put");
        work(&db);
    }
    let levels = db.properties().keyspaces.remove(1).levels;
    let deepest = levels.iter().filter(|level| !level.tables.is_empty()).map(|level| level.level);
    let deepest = deepest.max().expect("levels");
    let mut slow = 0;
    for level in levels {
        for table in level.tables {
            let is_deep = level.level == deepest;
            assert!(is_deep || table.path.starts_with(MIDDLE), "{}: {table:?}", level.level);
            assert!(!table.path.starts_with(FAST), "{table:?}");
            slow += u64::from(is_deep && table.path.starts_with(OWN));
        }
    }
    assert!(slow > 10, "{slow}");
}

#[test]
fn files_that_are_taken_in_go_there_too() {
    let place = place();
    let db = place.open(tiered(&[(FAST, 8 << 20), (MIDDLE, 8 << 20)]));
    let hot = db.create_keyspace_with("hot", within(&[FAST, MIDDLE])).expect("create");
    let changes: Vec<_> = (0..200).map(|i| (common::numbered(i), Some(noise(i, 1)))).collect();
    let file = common::write_file(&*place.fs, "/in.sst", &common::external(&changes, &[]));
    db.ingest(&hot, &[file], IngestOptions::default()).expect("ingest");
    assert_eq!(dirs_of(&db, "hot"), only(MIDDLE), "the slowest of its own");
}

fn on_disk() -> Options {
    small_levels().pm(PmSource::Dram).create_if_missing(true)
}

/// A number of a tier is not used twice: a keyspace that named a directory which the store has left would get another one, to which
/// it never said yes.
#[test]
fn a_keyspace_loses_a_directory_that_the_store_leaves() {
    let dir = TempDir::new("keyspace-tiers");
    let (store, fast, other) = (dir.join("store"), dir.join("fast"), dir.join("other"));
    let with = |dirs: &[&PathBuf]| {
        let specs = dirs.iter().map(|dir| TierSpec::new(*dir, 8 << 20)).collect();
        on_disk().tiers(TierSource::Dirs(specs))
    };
    let db = Db::open(&store, with(&[&fast])).expect("open");
    let hot = db.create_keyspace_with("hot", within(&[&fast])).expect("create");
    fill(&db, &hot, 3_000, 1);
    assert_eq!(dirs_of(&db, "hot"), only(&fast));
    let before = contents(&hot);
    db.close().expect("close");
    let db = Db::open(&store, with(&[])).expect("without it");
    let hot = db.keyspace("hot").expect("keyspace");
    assert!(hot.options().is_empty(), "{}", hot.options());
    let refused = hot.set_options(&within(&[&fast])).expect_err("it leaves");
    assert!(refused.context().contains("the store leaves this directory"), "{refused}");
    work(&db);
    assert_eq!(dirs_of(&db, "hot"), only(store.join("sst")));
    db.close().expect("close");
    Db::open(&store, on_disk()).expect("it is forgotten").close().expect("close");
    let db = Db::open(&store, with(&[&other])).expect("with another one");
    let hot = db.keyspace("hot").expect("keyspace");
    assert!(hot.options().is_empty(), "{}", hot.options());
    // So a keyspace that says nothing and this one are placed alike.
    fill(&db, &hot, 3_000, 2);
    hot.set_options(&within(&[store.join("sst")])).expect("set");
    work(&db);
    assert_eq!(dirs_of(&db, "hot"), only(store.join("sst")));
    fill(&db, &hot, 3_000, 1);
    assert!(contents(&hot) == before);
    db.close().expect("close");
    let db = Db::open(&store, on_disk()).expect("open");
    let hot = db.keyspace("hot").expect("keyspace");
    assert_eq!(hot.options(), within(&[store.join("sst")]));
    assert!(contents(&hot) == before);
}

#[test]
fn copies_have_all_in_one_directory_and_keep_the_placement() {
    let dir = TempDir::new("keyspace-tiers-copies");
    let (store, fast) = (dir.join("store"), dir.join("fast"));
    let tiers = TierSource::Dirs(vec![TierSpec::new(&fast, 8 << 20)]);
    let db = Db::open(&store, on_disk().tiers(tiers)).expect("open");
    let options = within(&[&fast]).placement(Placement::Level);
    let hot = db.create_keyspace_with("hot", options.clone()).expect("create");
    fill(&db, &hot, 3_000, 1);
    assert_eq!(dirs_of(&db, "hot"), only(&fast));
    let before = contents(&hot);
    db.checkpoint(dir.join("copy")).expect("checkpoint");
    db.close().expect("close");
    let report = strandline::repair(&store, dir.join("saved"), on_disk()).expect("repair");
    assert!(report.lost.is_empty(), "{report:?}");
    let placed = KeyspaceOptions::new().placement(Placement::Level);
    for name in ["copy", "saved"] {
        // A directory that they get becomes no tier that the keyspace had named.
        let own = dir.join("of-").display().to_string() + name;
        let tiers = TierSource::Dirs(vec![TierSpec::new(own, 8 << 20)]);
        let copy = Db::open(dir.join(name), on_disk().tiers(tiers)).expect(name);
        let hot = copy.keyspace("hot").expect("keyspace");
        assert!(contents(&hot) == before && hot.options() == placed, "{}", hot.options());
    }
    let to_pool = on_disk().pm(PmSource::Path(store.join("pool")));
    Db::convert(&store, &to_pool, Hooks::default()).expect("convert");
    let db = Db::open(&store, small_levels()).expect("converted");
    let hot = db.keyspace("hot").expect("keyspace");
    assert!(contents(&hot) == before);
    assert_eq!(hot.options(), options);
    work(&db);
    assert_eq!(dirs_of(&db, "hot"), only(&fast), "it moves there again");
    assert!(db.check().expect("check").damage.is_empty());
}
