//! Long random sentences of operations, held against the model answer by answer; and the same sentence
//! under many option sets, which must not change a single answer.

mod common;

use std::cell::Cell;
use std::path::Path;
use std::sync::Arc;

use common::{Driver, Files, heap, merging};
use strandline::{
    CacheOutputs, CachePolicy, Checksum, Compression, Db, ErrorKind, IndexKind, KeyspaceOptions,
    KeyspaceTiers, Level0Form, Options, PRESETS, Placement, PmSource, Region, SsdSource,
    TierSource, TierSpec, WalIo, WalSync, steps,
};
use testkit::{Generator, Keys, Op, Profile, Rng, Transcript};

/// The alphabet every pool of 16 KiB zones and more can speak: most batches stay below a quarter of a zone.
fn profile(keys: Keys) -> Profile {
    Profile {
        keys,
        spaces: 3,
        value_max: 20_000,
        batch_max: 3500,
        batch_changes: 20,
        admin: false,
        rare: 400,
    }
}

/// What gives a store its memory at each open: the same again, or what a log on `fs` tells.
fn memory(options: &Options, fs: &Arc<dyn ssd::Fs>) -> impl Fn() -> Arc<Region> + use<> {
    let logged = options.pm == PmSource::Dram;
    let (fs, options, len) = (Arc::clone(fs), options.clone(), options.pm_size);
    let region = (!logged).then(|| heap(len));
    move || match &region {
        Some(region) => Arc::clone(region),
        None => {
            let region =
                steps::journaled(Arc::clone(&fs), "/wal".as_ref(), &options, Some((7, len)));
            region.expect("log").expect("a region")
        }
    }
}

fn driver(options: Options, spaces: u32) -> Driver {
    let fs: Arc<dyn ssd::Fs> = Arc::new(ssd::Memory::default());
    for dir in ["/sst", "/wal"] {
        fs.create_dir_all(Path::new(dir)).expect("directory");
    }
    let region = memory(&options, &fs);
    if options.ssd == SsdSource::None {
        return Driver::with_spaces(spaces, move || {
            steps::open(region(), None, options.clone(), merging()).expect("open")
        });
    }
    let on = Arc::clone(&fs);
    let open = move |region, dir: &Path, options: Options| {
        steps::open(region, Some((Arc::clone(&on), dir)), options, merging()).expect("open")
    };
    let (again, with) = (open.clone(), options.clone());
    let opens = Cell::new(0);
    let mut driver = Driver::with_spaces(spaces, move || {
        let db = again(region(), Path::new("/sst"), with.clone());
        if with.tiers != TierSource::Auto {
            place_anew(&db, opens.replace(opens.get() + 1));
        }
        db
    });
    // A copy has all of its tables in one directory.
    let alone = options.tiers(TierSource::Auto);
    let open = move |dir: &Path| open(heap(alone.pm_size), dir, alone.clone());
    driver.files = Some(Files { fs, open: Box::new(open) });
    driver
}

/// Each open gives the keyspaces other tiers, each its own.
fn place_anew(db: &Db, open: usize) {
    let some = |dirs: &[&str]| KeyspaceTiers::Dirs(dirs.iter().map(Into::into).collect());
    for (at, name) in db.keyspaces().iter().enumerate() {
        let tiers = match (open + at) % 4 {
            0 => KeyspaceTiers::All,
            1 => some(&["/fast"]),
            2 => some(&["/sst", "/slow"]),
            _ => some(&["/sst"]),
        };
        let placement = match open % 3 {
            0 => Placement::Level,
            _ => Placement::Benefit,
        };
        let options = KeyspaceOptions::new().tiers(tiers).placement(placement);
        let set = db.keyspace(name).expect("keyspace").set_options(&options);
        assert!(set.is_ok() || common::kind_is(&set, ErrorKind::LimitExceeded), "{set:?}");
    }
}

fn run(options: Options, profile: &Profile, seed: u64, ops: usize) -> Transcript {
    let mut driver = driver(options, profile.spaces);
    for op in Generator::new(seed, profile.clone()).take(ops) {
        driver.run(&op);
    }
    driver.finish()
}

fn base() -> Options {
    Options::default()
        .pm_size(16 << 20)
        .zone_size(16 << 10)
        .memtable_bytes(128 << 10)
        .background_threads(0)
        .recovery_threads(1)
        .ssd(SsdSource::None)
}

/// Little persistent memory, small tables, and all else on SSD.
fn levels() -> Options {
    base()
        .pm_size(4 << 20)
        .memtable_bytes(64 << 10)
        .table_bytes(64 << 10)
        .block_cache(1 << 20)
        .ssd(SsdSource::Auto)
}

/// Directories so small that tables go on to the next.
fn in_memory() -> TierSource {
    TierSource::Dirs(vec![TierSpec::new("/fast", 96 << 10), TierSpec::new("/slow", 300 << 10)])
}

/// Every preset, with little memory.
fn presets() -> impl Iterator<Item = (&'static str, Options)> {
    PRESETS.iter().map(|preset| {
        let Options { pm, level0, pm_tables, subranges, .. } =
            Options::preset(preset.name).expect(preset.name);
        (preset.name, levels().pm(pm).level0(level0).pm_tables(pm_tables).subranges(subranges))
    })
}

/// Sets that differ in everything an option can change.
fn option_sets() -> Vec<(&'static str, Options)> {
    let mut sets = vec![
        ("base", base()),
        ("background", base().background_threads(1)),
        ("large zones", base().zone_size(64 << 10)),
        ("default zones", base().zone_size(0).background_threads(1).pm_size(24 << 20)),
        ("tiny memtables", base().memtable_bytes(8 << 10)),
        ("tiny memtables, background", base().memtable_bytes(8 << 10).background_threads(1)),
        ("one huge memtable", base().memtable_bytes(1 << 30).pm_size(64 << 20)),
        ("little DRAM", base().dram_budget(256 << 10)),
        ("tight pool", base().pm_size(6 << 20)),
        ("tight pool, background", base().pm_size(6 << 20).background_threads(1)),
        ("parallel recovery", base().recovery_threads(4).immutable_memtables_max(1)),
        ("levels", levels()),
        ("tables of memtables", levels().level0(Level0Form::Sst)),
        (
            "tables of memtables in subranges, background",
            levels().level0(Level0Form::Sst).subranges(3).background_threads(2),
        ),
        ("unmerged runs", levels().level0(Level0Form::IndexRuns)),
        (
            "unmerged runs in subranges, background",
            levels().level0(Level0Form::IndexRuns).subranges(4).background_threads(2),
        ),
        ("tables of memtables with a log", levels().level0(Level0Form::Sst).pm(PmSource::Dram)),
        ("a log", base().pm(PmSource::Dram)),
        (
            "a log without syncs, background",
            base().pm(PmSource::Dram).wal_sync(WalSync::Never).background_threads(1),
        ),
        ("levels with a log, background", levels().pm(PmSource::Dram).background_threads(2)),
        ("levels in persistent memory", levels().pm_tables(40)),
        (
            "levels in persistent memory, tiny tables, background",
            levels().pm_tables(75).table_bytes(4 << 10).background_threads(2),
        ),
        ("levels, background", levels().background_threads(2)),
        ("tiers", levels().tiers(in_memory()).block_cache(0)),
        (
            "tiers by level, values apart",
            levels()
                .tiers(in_memory())
                .placement(Placement::Level)
                .value_files_min(100)
                .background_threads(2),
        ),
        ("values apart", levels().value_files_min(1)),
        (
            "values apart, little garbage, background",
            levels().value_files_min(100).value_space(110).background_threads(2),
        ),
        (
            "values apart, tiny tables, no cache",
            levels()
                .value_files_min(10)
                .table_bytes(4 << 10)
                .block_cache(0)
                .compression(Compression::None),
        ),
        ("values apart in persistent memory", levels().value_files_min(100).pm_values(40)),
        ("outputs put in the cache", levels().cache_outputs(CacheOutputs::Warm)),
        (
            "outputs put in the caches, background",
            levels()
                .cache_outputs(CacheOutputs::Warm)
                .pm_cache(40)
                .block_cache(128 << 10)
                .level0(Level0Form::Sst)
                .background_threads(2),
        ),
        ("a cache in persistent memory", levels().pm_cache(40).block_cache(64 << 10)),
        (
            "a cache in persistent memory beside all that may be there, background",
            levels()
                .value_files_min(100)
                .pm_tables(20)
                .pm_values(20)
                .pm_cache(30)
                .pm_cache_policy(CachePolicy::PmFirst)
                .block_cache(64 << 10)
                .background_threads(2),
        ),
        (
            "values apart and levels in persistent memory, background",
            levels()
                .value_files_min(10)
                .value_space(110)
                .pm_tables(30)
                .pm_values(45)
                .background_threads(2),
        ),
        (
            "values apart, tables of memtables with a log",
            levels().value_files_min(200).level0(Level0Form::Sst).pm(PmSource::Dram),
        ),
        ("levels, no cache", levels().block_cache(0).compression(Compression::None)),
        ("levels, tiny tables", levels().table_bytes(4 << 10).memtable_bytes(8 << 10)),
        ("levels, tiny blocks without filters", levels().block_bytes(100).filter_bits(0)),
        (
            "levels, four threads",
            levels()
                .background_threads(4)
                .compression(*Compression::AVAILABLE.last().expect("some")),
        ),
        (
            "levels, large zones",
            levels()
                .pm_size(12 << 20)
                .zone_size(64 << 10)
                .compression(Compression::Snappy)
                .index(IndexKind::TwoLevel)
                .hash_index(true)
                .checksum(Checksum::Crc32c),
        ),
    ];
    sets.extend(presets());
    sets
}

fn same_under_all_options(keys: Keys, seed: u64, ops: usize) {
    let profile = profile(keys);
    let mut first: Option<Transcript> = None;
    for (name, options) in option_sets() {
        let transcript = run(options, &profile, seed, ops);
        let expected = first.get_or_insert_with(|| transcript.clone());
        assert_eq!(*expected, transcript, "{name} answers differently");
    }
}

#[test]
fn options_do_not_change_answers_numbered_keys() {
    same_under_all_options(Keys::Numbered(1500), 11, 32_000);
}

#[test]
fn options_do_not_change_answers_tangled_keys() {
    same_under_all_options(Keys::Tangled, 12, 32_000);
}

#[test]
fn options_do_not_change_answers_mixed_keys() {
    same_under_all_options(Keys::Mixed(700), 13, 32_000);
}

/// Batches that no zone takes.
#[test]
fn options_do_not_change_answers_large_batches() {
    let profile = Profile { batch_max: 90_000, batch_changes: 400, ..profile(Keys::Mixed(700)) };
    let mut first: Option<Transcript> = None;
    for (name, options) in option_sets() {
        let transcript = run(options, &profile, 14, 10_000);
        let expected = first.get_or_insert_with(|| transcript.clone());
        assert_eq!(*expected, transcript, "{name} answers differently");
    }
}

#[test]
fn keyspaces_come_and_go_under_load() {
    for (seed, (_, options)) in (100..).zip(option_sets()) {
        let profile = Profile { admin: true, rare: 120, spaces: 5, ..profile(Keys::Mixed(300)) };
        run(options, &profile, seed, 8_000);
    }
}

#[test]
fn keys_up_to_the_limit() {
    for background_threads in [0, 1] {
        let options = base()
            .pm_size(256 << 20)
            .zone_size(1 << 20)
            .memtable_bytes(2 << 20)
            .background_threads(background_threads);
        let profile = Profile {
            keys: Keys::Long(64 << 10),
            spaces: 2,
            value_max: 300_000,
            batch_max: 200 << 10,
            batch_changes: 20,
            admin: false,
            rare: 60,
        };
        run(options, &profile, 21, 4_000);
    }
}

#[test]
fn deep_stacks_of_versions_under_snapshots() {
    // Few keys, many versions: a key's versions fill several index blocks.
    let profile = Profile { rare: 700, ..profile(Keys::Numbered(6)) };
    for seed in 31..34 {
        let options = base().memtable_bytes(32 << 10);
        let mut driver = driver(options, 3);
        let generator = Generator::new(seed, profile.clone());
        for (count, op) in generator.take(20_000).enumerate() {
            driver.run(&op);
            if count % 97 == 0 {
                driver.run(&Op::Snapshot(4 + count / 97 % 40));
            }
        }
        driver.finish();
    }
}

#[test]
fn many_keys_make_deep_fences() {
    let profile = Profile { rare: 30_000, ..profile(Keys::Numbered(80_000)) };
    let options = base().pm_size(96 << 20).memtable_bytes(2 << 20).zone_size(0);
    run(options, &profile, 41, 200_000);
}

/// Options drawn at random, tables on SSD in two of three.
fn drawn(rng: &mut Rng) -> Options {
    let pick = |rng: &mut Rng, of: &[u64]| *rng.pick(of);
    let ssd = if rng.chance(2, 3) { SsdSource::Auto } else { SsdSource::None };
    let least = if ssd == SsdSource::Auto { 3 } else { 12 };
    let pm = if rng.chance(1, 4) { PmSource::Dram } else { PmSource::Heap };
    let upper = ssd == SsdSource::Auto && pm != PmSource::Dram;
    let pm_tables = if upper { pick(rng, &[0, 20, 50, 75]) as u32 } else { 0 };
    let pm_values = if upper { pick(rng, &[0, 20, 75]) as u32 } else { 0 };
    let pm_values = pm_values.min(75 - pm_tables);
    let pm_cache = if upper { pick(rng, &[0, 15, 50, 75]) as u32 } else { 0 };
    base()
        .pm_tables(pm_tables)
        .pm_values(pm_values)
        .pm_cache(pm_cache.min(75 - pm_tables - pm_values))
        .pm_cache_policy(*rng.pick(&CachePolicy::ALL))
        .value_files_min(pick(rng, &[0, 1, 100, 2000]))
        .value_space(pick(rng, &[110, 150, 300]) as u32)
        .pm_size((least + rng.below(9)) << 20)
        .zone_size(pick(rng, &[0, 16 << 10, 32 << 10]))
        .memtable_bytes(pick(rng, &[8 << 10, 32 << 10, 100 << 10, 1 << 20, 64 << 20]))
        .immutable_memtables_max(1 + rng.below(5) as u32)
        .dram_budget(pick(rng, &[1 << 20, 4 << 20, 1 << 30]))
        // Tables of 4 KiB fill the manifest of the smallest pools, and compactions are refused.
        .table_bytes(pick(rng, &[6 << 10, 30 << 10, 200 << 10, 2 << 20]))
        .block_bytes(pick(rng, &[4 << 10, 16 << 10, 64 << 10]) as u32)
        .filter_bits(pick(rng, &[0, 3, 10]) as u32)
        .index(*rng.pick(&[IndexKind::Binary, IndexKind::TwoLevel]))
        .hash_index(rng.chance(1, 2))
        .checksum(*rng.pick(&[Checksum::Xxh3, Checksum::Crc32c]))
        .block_cache(pick(rng, &[0, 64 << 10, 1 << 20, 64 << 20]))
        .cache_outputs(*rng.pick(&CacheOutputs::ALL))
        .compression(*rng.pick(Compression::AVAILABLE))
        .background_threads(rng.below(4) as u32)
        .recovery_threads(1 + rng.below(3) as u32)
        .pm(pm)
        .wal_sync(if rng.chance(1, 2) { WalSync::Always } else { WalSync::Never })
        .wal_io(if rng.chance(1, 2) { WalIo::Cached } else { WalIo::Direct })
        .ssd(ssd)
        .tiers(if upper && rng.chance(1, 3) { in_memory() } else { TierSource::Auto })
        .placement(*rng.pick(&[Placement::Benefit, Placement::Level]))
}

/// Four million operations, a hundred thousand under each set of options.
fn long(seed: u64) {
    let mut rng = Rng::new(seed);
    for round in 0..40 {
        let options = drawn(&mut rng);
        let keys = match rng.below(3) {
            0 => Keys::Numbered(200 + rng.below(3000)),
            1 => Keys::Tangled,
            _ => Keys::Mixed(100 + rng.below(1000)),
        };
        eprintln!("seed {seed}, round {round}: {options:?}, {keys:?}");
        run(options, &profile(keys), rng.next(), 100_000);
    }
}

#[test]
#[ignore = "minutes: continuous integration runs it"]
fn four_million_operations() {
    long(1);
}

#[test]
#[ignore = "minutes: continuous integration runs it"]
fn four_million_more() {
    long(2);
}
