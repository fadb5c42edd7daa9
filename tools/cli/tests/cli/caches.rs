//! Cached records and the cache in persistent memory as users of the command have it.

use crate::store::Store;

/// Hits and misses of a cache, as the benchmark `stats` tells them.
fn hits_and_misses(text: &str, cache: &str) -> [u64; 2] {
    let line = text.lines().find(|line| line.contains(cache)).expect(text);
    let told = line.split("; ").nth(1).expect("look-ups");
    let mut counts = told.split(", ").map(|count| count.split(' ').next().expect("a count"));
    [(); 2].map(|()| counts.next().and_then(|count| count.parse().ok()).expect("a number"))
}

/// A benchmark fills it, and what is there is there for the next process.
#[test]
fn what_is_cached_outlives_the_process() {
    let store = Store::new();
    let db = store.dir().join("cached").display().to_string();
    let bench = |benchmarks: &str, flags: &[&str]| {
        let all = [
            "bench",
            "--db",
            &db,
            "--num=40000",
            "--value_size=200",
            "--pm_size=32M",
            "--block_cache=1M",
            "--memtable_bytes=256K",
            "--table_bytes=256K",
            "--pm_cache=40",
            "--pm_cache_policy=both-ways",
            "--benchmarks",
            benchmarks,
        ];
        store.run(&[&all[..], flags].concat()).ok().text()
    };
    let first = bench("filluniquerandom,compact,readrandom,readrandom,stats", &[]);
    assert!(hits_and_misses(&first, "cache in PM")[0] > 1000, "{first}");
    let again = bench("readrandom,stats", &["--use_existing_db"]);
    let [hits, misses] = hits_and_misses(&again, "cache in PM");
    assert!(hits > 3 * misses, "{again}");
    let zones = store.run(&["zone", "--json", "--db", &db]).ok().text();
    let cached = zones.matches("\"cache\"").count();
    // Values compress to half, and so do entries.
    assert!(cached > 20, "{cached} zones");
    let pool = store.run(&["pool", "--db", &db]).ok().text();
    assert!(pool.contains(" cache, unclaimed"), "{pool}");
    store.run(&["check", "--db", &db]).ok();
}

#[test]
fn reproduce_puts_a_cache_below_the_one_in_dram() {
    let report = Store::new().run(&["reproduce", "kassa", "--quick"]).ok().text();
    assert!(report.starts_with("Figures: emulated where "), "{report}");
    let rows = |of: &str| {
        let rows = report.lines().filter(|line| line.starts_with(of) && line.contains("x)"));
        rows.map(str::to_owned).collect::<Vec<_>>()
    };
    for policy in ["dram-first", "pm-first", "both-ways", "auto"] {
        let rows = rows(&format!("32 + 256, {policy}"));
        assert_eq!(rows.len(), 3, "{policy} in {report}");
        // What was found there stands behind the first percent sign of the look-ups.
        for row in rows {
            let found = row.split("%,").nth(1).and_then(|rest| rest.split('%').next());
            let found: f64 = found.and_then(|share| share.trim().parse().ok()).expect("a share");
            assert!(found > 1.0, "{row}");
        }
    }
    assert_eq!((rows("64 DRAM").len(), rows("128 DRAM").len()), (3, 3), "{report}");
    assert!(report.contains("The paper: up to +80 %"), "{report}");
}

#[test]
fn reproduce_restarts_with_a_warm_cache() {
    let report = Store::new().run(&["reproduce", "intel-persistent-cache", "--quick"]).ok().text();
    let first = |of: &str| {
        let line = report.lines().find(|line| line.contains(of)).expect(of);
        let after = line.split("after ").nth(1).expect("slices");
        let share =
            after.split('(').nth(1).and_then(|rest| rest.split(' ').next()).expect("a share");
        share.parse::<f64>().expect("a share")
    };
    for memory in ["optane-100x6-delta", "optane-100x6-ratio"] {
        let (warm, cold) = (first(&format!("{memory}, warm")), first(&format!("{memory}, cold")));
        assert!(warm > cold, "{memory}: {warm} to {cold} percent of look-ups: {report}");
    }
}

/// Where few keys are hot, single records answer gets, and blocks are read less.
#[test]
fn records_of_hot_keys_are_cached() {
    let store = Store::new();
    let bench = |records: &str| {
        let db = store.dir().join(records).display().to_string();
        let flags = [
            "bench",
            "--db",
            &db,
            "--num=100000",
            "--reads=100000",
            "--draw=zipf",
            "--value_size=100",
            "--pm_size=16M",
            "--block_cache=1M",
            "--dram_budget=16M",
            "--memtable_bytes=256K",
            "--table_bytes=256K",
            "--threads=1",
            "--benchmarks=filluniquerandom,compact,readrandom,readrandom,stats",
            "--cache_records",
            records,
        ];
        let text = store.run(&flags).ok().text();
        (hits_and_misses(&text, "cached records")[0], hits_and_misses(&text, "block cache")[1])
    };
    let (with, without) = (bench("true"), bench("false"));
    assert!(with.0 > 80_000 && without.0 == 0, "{with:?}, {without:?}");
    assert!(5 * with.1 < 4 * without.1, "blocks read: {with:?}, {without:?}");
}
