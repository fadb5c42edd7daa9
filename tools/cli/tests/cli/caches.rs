//! The cache in persistent memory as users of the command have it.

use serde_json::Value;

use crate::store::Store;

fn count(object: &Value, field: &str) -> u64 {
    object[field].as_u64().unwrap_or_else(|| panic!("{field} in {object}"))
}

/// A benchmark fills it, and what is there is there for the next process.
#[test]
fn what_is_cached_outlives_the_process() {
    let store = Store::new();
    let db = store.dir().join("cached").display().to_string();
    let of = [
        "--pm_size=32M",
        "--block_cache=256K",
        "--memtable_bytes=256K",
        "--table_bytes=256K",
        "--pm_cache=40",
        "--pm_cache_policy=both-ways",
    ];
    let bench = [
        "bench",
        "--db",
        &db,
        "--num=40000",
        "--value_size=200",
        "--statistics",
        "--benchmarks=filluniquerandom,compact,readrandom,readrandom",
    ];
    store.run(&[&bench[..], &of].concat()).ok();
    let dashed: Vec<String> = of.iter().map(|flag| flag.replace('_', "-")).collect();
    let dashed: Vec<&str> = dashed.iter().map(String::as_str).collect();
    let told = |what: &[&str]| store.run(&[what, &["--db", &db], &dashed[..]].concat()).ok();
    let stats = told(&["stats", "--json"]).json();
    let cache = &stats["ssd"]["pm_cache"];
    assert!(count(cache, "taken") > 1 << 20 && count(cache, "limit") > 12 << 20, "{cache}");
    let text = told(&["stats"]).text();
    assert!(text.contains("cache in PM") && text.contains("looked up there"), "{text}");
    let zones = told(&["zone", "--json"]).text();
    assert!(zones.contains("\"cache\""), "{zones}");
    // Nothing is asked of a store that is only looked at, so the entries are read by a benchmark.
    let again = ["bench", "--db", &db, "--num=40000", "--value_size=200", "--json"];
    let again = [&again[..], &["--use_existing_db", "--benchmarks=readrandom,stats"], &of].concat();
    let text = store.run(&again).ok().text();
    let found = text.lines().next().and_then(|line| serde_json::from_str::<Value>(line).ok());
    assert_eq!(found.map(|object| count(&object, "found")), Some(40_000), "{text}");
    assert!(told(&["check"]).text().contains("no damage"), "a sound store");
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
