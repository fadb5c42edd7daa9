//! stats, pool, zone, explain: what they print.

use serde_json::Value;

use crate::store::Store;

/// A store with a memtable and runs.
fn store() -> Store {
    Store::with_runs(20_000)
}

#[test]
fn stats_tells_of_memory_and_space() {
    let store = store();
    let text = store.run(&["stats"]).ok().text();
    for part in [
        "durability",
        "because",
        "free",
        "headroom",
        "bytes per record",
        "bytes per entry",
        "budget",
        "anonymous",
        "  found",
        "  pages",
        "recovery",
        "fences",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    let json = store.run(&["stats", "--json"]).ok().json();
    let keyspace = &json["keyspaces"][0];
    assert_eq!(keyspace["name"], "default");
    let number = |value: &Value| value.as_u64().unwrap_or_else(|| panic!("{value}"));
    let records = number(&keyspace["memtable_records"]) + number(&keyspace["run_entries"]);
    assert_eq!(records, 20_000);
    assert!(number(&keyspace["run_entries"]) > 0);
    assert!(keyspace["fences_dram_bytes_per_entry"].as_f64() > Some(0.0));
    assert!(number(&json["pm"]["free"]) <= number(&json["pm"]["capacity"]));
    assert!(number(&json["memory"]["anonymous"]) > 0);
    let held_by = json["memory"]["held_by"].as_object().expect("by whom");
    let held: u64 = held_by.values().map(number).sum();
    assert_eq!(held, number(&json["memory"]["held_bytes"]));
    assert!(number(&held_by["memtables"]) > 0 && number(&held_by["runs"]) > 0, "{held_by:?}");
    for pages in [&json["pm"]["pages"], &json["memory"]["pages"]] {
        assert!(
            number(&pages["size"]) >= 4096 && number(&pages["huge"]) <= number(&pages["resident"])
        );
    }
    let found = json["memory"]["found"].as_u64();
    let eighth = found.map_or(1 << 30, |bytes| (bytes / 8).clamp(1 << 20, 1 << 30));
    assert_eq!(number(&json["memory"]["budget"]), eighth, "{}", json["memory"]);
    assert_eq!(json["recovery"]["damage"], Value::Array(Vec::new()));
}

#[test]
fn reproduce_lists_experiments_and_runs_them() {
    let store = store();
    let list = store.run(&["reproduce"]).ok().text();
    let names: Vec<&str> = list.lines().filter_map(|row| row.split_whitespace().next()).collect();
    let all = [
        "halloc",
        "xengine-memtable",
        "caches",
        "xengine-l0",
        "xengine-ycsb",
        "xengine-ror",
        "intel-wal",
        "intel-paths",
        "intel-values",
        "intel-fine-reads",
        "intel-priority",
        "intel-cache",
        "mcgill",
        "intel-persistent-cache",
        "kassa",
        "relsm-ladder",
        "relsm-values",
        "relsm-sizes",
        "relsm-ycsb",
    ];
    assert_eq!(names, all, "{list}");
    store.run(&["reproduce", "nothing"]).failed(2, "nothing is no experiment");
    let report = store.run(&["reproduce", "halloc", "--quick"]).ok().text();
    assert!(report.starts_with("Figures: emulated (pm: DRAM) where "), "{report}");
    assert!(report.contains("for which /dev/shm stands; else measured.\n"), "{report}");
    for part in ["volatile objects", "extents", "zones, granted", "malloc, untouched", "The paper"]
    {
        assert!(report.contains(part), "{part} in {report}");
    }
    for length in ["    64 B ", "  64 KiB ", "  64 MiB "] {
        let rows = report.lines().filter(|line| line.starts_with(length));
        assert_eq!(rows.count(), 3, "{length} in {report}");
    }
    store.run(&["reproduce", "halloc", "--keys", "5"]).failed(2, "halloc has no keys");
    store.run(&["reproduce", "caches", "--keys", "5"]).failed(2, "--keys 5: at least 100");
    store.run(&["reproduce", "relsm-ycsb", "--size", "5"]).failed(2, "--size 5: at least 1048576");
}

/// A row for each number of threads, of throughput and of latency, and where it stops growing.
#[test]
fn reproduce_finds_where_more_writers_gain_nothing() {
    let report = store().run(&["reproduce", "xengine-ror", "--quick"]).ok().text();
    for threads in [1, 2, 4, 8, 16, 32] {
        let begin = format!("{threads:>14} ");
        let rows = report.lines().filter(|line| line.starts_with(&begin));
        let cells = rows.map(|row| row.split_whitespace().filter(|cell| *cell != "0").count());
        assert_eq!(cells.collect::<Vec<_>>(), [10, 10], "{threads} in {report}");
    }
    assert!(report.contains("Throughput stops growing"), "{report}");
}

/// A row for each of the deck's, with the log on SSD and in both forms of persistent memory.
#[test]
fn reproduce_puts_the_log_into_persistent_memory() {
    let report = store().run(&["reproduce", "intel-wal", "--quick"]).ok().text();
    let rows = report.lines().filter(|line| line.matches("x)").count() == 3);
    assert_eq!(rows.count(), 6, "{report}");
    assert!(report.starts_with("Figures: emulated where "), "{report}");
    assert!(report.contains("Emulated: log and tables on nvme-tlc"), "{report}");
}

/// A row for each way to place tables, with what it was measured on and which of the deck's gains it reaches.
#[test]
fn reproduce_puts_upper_levels_on_a_faster_device() {
    let report = store().run(&["reproduce", "intel-paths", "--quick"]).ok().text();
    let lines = |of: &dyn Fn(&str) -> bool| report.lines().filter(|line| of(line)).count();
    assert_eq!(lines(&|line| line.starts_with("by ") && line.matches("x)").count() == 2), 5);
    assert_eq!(lines(&|line| line.starts_with("one path ") && line.contains("(1.00x)")), 1);
    assert_eq!(lines(&|line| line.contains("their p99")), 5, "{report}");
    assert_eq!(lines(&|line| line.contains(": emulated (ssd: nvme-tlc,")), 6, "{report}");
    assert_eq!(lines(&|line| line.contains("/fast: optane-dax,read=")), 5, "{report}");
    assert!(report.contains("The deck's "), "{report}");
}

/// Two lengths of values, in both layouts.
#[test]
fn reproduce_puts_values_apart() {
    let report = store().run(&["reproduce", "intel-values", "--quick"]).ok().text();
    for layout in ["  together ", "  apart "] {
        let rows = report.lines().filter(|line| line.starts_with(layout));
        let cells: Vec<usize> = rows.map(|row| row.matches("x)").count()).collect();
        assert_eq!(cells, [8, 8], "{report}");
    }
    assert!(report.contains("Overwrites gain ") && report.contains("emulated (ssd: "), "{report}");
}

#[test]
fn stats_tells_of_the_device_of_a_tier() {
    let store = Store::filled(2000, &[]);
    let fast = store.dir().join("fast");
    let tiers = |model: &str| format!("{}:1G{model}", fast.display());
    store.run(&["compact", "--tiers", &tiers("@optane-ssd,read=1us")]).ok();
    let json = store.run(&["stats", "--json", "--tiers", &tiers("@optane-ssd,read=1us")]).json();
    let tier = &json["ssd"]["tiers"][0];
    assert_eq!(tier["device"]["model"], "optane-ssd,read=1us", "{json}");
    assert!(tier["device"]["reads"].as_u64() > Some(0), "{json}");
    let text = store.run(&["stats", "--tiers", &tiers("@optane-ssd")]).ok().text();
    let line = format!("device of {}, emulated (optane-ssd)", fast.display());
    assert!(text.contains(&line), "{line} in {text}");
    let json = store.run(&["stats", "--json"]).ok().json();
    assert_eq!(json["ssd"]["tiers"][0]["device"], Value::Null, "not remembered: {json}");
    store.run(&["stats", "--tiers", &tiers("@floppy")]).failed(2, "no model floppy");
}

/// Two lengths of values: files, and four lengths of blocks with three models each.
#[test]
fn reproduce_reads_tables_in_their_place() {
    let report = store().run(&["reproduce", "intel-fine-reads", "--quick"]).ok().text();
    for (name, count) in [("  files ", 2), ("  in place, ", 24)] {
        let rows = report.lines().filter(|line| line.starts_with(name));
        assert_eq!(rows.count(), count, "{report}");
    }
    assert!(report.contains("The deck"), "{report}");
}

/// For each form of persistent memory a row for each draw and size of the cache.
#[test]
fn reproduce_gives_blocks_of_persistent_memory_low_priority() {
    let report = store().run(&["reproduce", "intel-priority", "--quick"]).ok().text();
    for (draw, count) in [("  uniform ", 4), ("  zipf ", 4)] {
        let rows = report.lines().filter(|line| line.starts_with(draw));
        let cells = rows.map(|row| row.matches("x)").count()).collect::<Vec<_>>();
        assert_eq!(cells, vec![2; count], "{report}");
    }
    assert_eq!(report.matches("% of the gain by the reads, ").count(), 4, "{report}");
    assert!(report.contains("The deck") && report.contains("Our bar"), "{report}");
}

/// A row for each part of the data that is cached, and what each is to lose at most.
#[test]
fn reproduce_puts_the_block_cache_into_persistent_memory() {
    let report = store().run(&["reproduce", "intel-cache", "--quick"]).ok().text();
    for percent in ["100 %", " 80 %", " 50 %", " 30 %"] {
        let rows = report.lines().filter(|line| line.starts_with(percent) && line.contains(" to "));
        assert_eq!(rows.count(), 1, "{percent} in {report}");
    }
    assert!(report.contains("3800702 (20.9 %)"), "the deck's: {report}");
    assert_eq!(report.matches(" % lost: delta ").count(), 4, "{report}");
    assert!(report.contains("emulated (pm: optane-100x6-ratio, ssd: nvme-tlc"), "{report}");
}

/// Seven rows of three mixes and two draws, with the paper's figures, and what is kept of them over time.
#[test]
fn reproduce_runs_the_scenarios_of_mcgill() {
    let store = Store::new();
    let out = store.dir().join("figures");
    let shown = out.display().to_string();
    let report = store.run(&["reproduce", "mcgill", "--quick", "--out", &shown]).ok().text();
    let rows = |name: &str| -> Vec<Vec<f64>> {
        let rows = report.lines().filter_map(|line| line.strip_prefix(name));
        let cells = |row: &str| {
            row.split_whitespace()
                .filter_map(|cell| cell.trim_end_matches(',').parse().ok())
                .collect()
        };
        rows.filter(|row| row.contains(" % ")).map(cells).collect()
    };
    for name in [
        "both in DRAM  ",
        "cache in PM, delta ",
        "both in PM, delta ",
        "cache in PM, ratio ",
        "both in PM, ratio ",
    ] {
        let rows = rows(name);
        assert_eq!(rows.len(), 6, "{name} in {report}");
        for row in rows {
            let [rate, .., read, written, _copied, _waited] = row[..] else { panic!("{row:?}") };
            assert!(rate > 0.0, "{row:?}");
            assert_eq!(read + written > 0.0, !name.contains("DRAM"), "{name}: {row:?}");
        }
    }
    assert_eq!(rows("hybrid, half ").len() + rows("hybrid, a tenth ").len(), 12, "{report}");
    for paper in ["253 MB/s in DRAM; cache in PM 77 (70 % lost)", "57 MB/s", "30 MB/s"] {
        assert_eq!(report.matches(paper).count(), 2, "{paper} in {report}");
    }
    let csv = std::fs::read_to_string(out.join("mcgill.csv")).expect("figures over time");
    for (scenario, dram, pm) in [
        ("both in DRAM", true, false),
        ("cache in PM, delta", true, true),
        ("both in PM, delta", false, true),
    ] {
        let named = format!("\"{scenario}\"");
        let rows: Vec<Vec<&str>> = csv
            .lines()
            .filter(|line| line.starts_with("uniform,50,") && line.contains(&named))
            .map(|line| line.rsplit(',').collect())
            .collect();
        assert!(rows.len() > 1, "{csv}");
        let sum = |at: usize| {
            rows.iter().map(|row| row[at].parse::<f64>().expect("a number")).sum::<f64>()
        };
        assert_eq!((sum(2) + sum(3) > 0.0, sum(0) + sum(1) > 0.0), (dram, pm), "{scenario}: {csv}");
    }
    for picture in ["mcgill-90-uniform.svg", "mcgill-1-zipf.svg"] {
        let svg = std::fs::read_to_string(out.join(picture)).expect("a picture");
        assert!(svg.contains("<polyline") && svg.ends_with("</svg>\n"), "{picture}");
    }
    store.run(&["reproduce", "halloc", "--quick", "--out", &shown]).failed(2, "halloc has no out");
}

/// The paper's line, but for sizes and times, in its third scenario.
#[test]
fn bench_takes_the_line_of_mcgill() {
    let store = Store::new();
    let line = "bench --benchmarks=readrandomwriterandom,stats --value_size=1024 --disable_wal=true --cache_size=512000000 \
                --compression_ratio=1 --readwritepercent=50 --use_existing_db=0 --histogram=1 --statistics=1 \
                --read_random_exp_range=0.0 --max_write_buffer_number=1 --memtable_use_huge_page=true \
                --enable_pipelined_write=false --allow_concurrent_memtable_write=false --write_buffer_size=10485760 \
                --num=1000000000 --duration=900 --stats_interval_seconds=1 --key_size=16 --threads=16 \
                --use_cache_memkind_kmem_allocator --preset=mcgill-both --duration=0.3 --cache_size=4M --pm_size=64M";
    let mut words: Vec<&str> = line.split_whitespace().collect();
    let place = store.dir().join("memory");
    std::fs::create_dir(&place).expect("a folder");
    let db = format!("--db={}", store.dir().join("bench").display());
    let places = ["memtable_memory", "block_cache_memory"]
        .map(|name| format!("--{name}={}", place.display()));
    words.extend([&*db, &*places[0], &*places[1]]);
    let ran = store.run(&words).ok();
    let (text, err) = (ran.text(), ran.err.clone());
    for name in ["memtables", "block cache"] {
        let told = format!("{} has ", place.display());
        let row = text.lines().find(|line| line.contains(name) && line.contains(&told));
        assert!(row.is_some(), "{name} in {text}");
    }
    for note in [
        "--enable_pipelined_write=false: ",
        "--use_cache_memkind_kmem_allocator=true: ",
        "--disable_wal: ",
    ] {
        assert_eq!(err.matches(note).count(), 1, "{note} in {err}");
    }
    assert!(text.contains("readrandomwriterandom"), "{text}");
    let left = std::fs::read_dir(&place).expect("the folder").count();
    assert_eq!(left, 0);
}

#[test]
fn reproduce_compares_the_memtables_index() {
    let report = store().run(&["reproduce", "xengine-memtable", "--keys", "3000"]).ok().text();
    assert!(report.contains("3000 keys of 8 bytes") && report.contains("The paper"), "{report}");
    for name in ["radix tree", "skip list", "B-tree, locked"] {
        let rows: Vec<&str> = report.lines().filter(|line| line.starts_with(name)).collect();
        assert_eq!(rows.len(), 4, "{name} in {report}");
        let figures = rows.iter().flat_map(|row| row[name.len()..].split_whitespace());
        let rates: Vec<f64> = figures.filter_map(|figure| figure.parse().ok()).collect();
        assert!(rates.len() == 12 && rates.iter().all(|rate| *rate > 0.0), "{rows:?}");
    }
}

/// The rule that the block cache has hits more often than what it had before, on skewed reads and beside a scan.
#[test]
fn reproduce_compares_rules_of_replacement() {
    let report = store().run(&["reproduce", "caches", "--quick"]).ok().text();
    let rows = |of: &str| report.lines().filter(|line| line.starts_with(of)).collect::<Vec<_>>();
    for trace in ["zipf 0.99  ", "zipf 0.99, a scan beside", "a loop of"] {
        let rows = rows(trace);
        assert_eq!(rows.len(), 3, "{trace} in {report}");
        for row in rows {
            let shares: Vec<f64> =
                row.split_whitespace().rev().take(5).filter_map(|cell| cell.parse().ok()).collect();
            let [_library, _sieve, lru, clock, ours] = shares[..] else { panic!("{row}") };
            assert!(ours > clock && ours > lru && ours <= 100.0, "{row}");
        }
    }
    assert_eq!(rows("threads ").len(), 2, "{report}");
}

#[test]
fn reproduce_grows_level_0() {
    let store = Store::new();
    let pm = store.dir().display().to_string();
    let report = store.run(&["reproduce", "xengine-l0", "--quick", "--memory", &pm]).ok().text();
    assert!(report.contains(&format!("Persistent memory is {pm},")), "{report}");
    for size in ["256 KiB ", "8 MiB "] {
        let rows: Vec<&str> = report.lines().filter(|line| line.starts_with(size)).collect();
        let figures = rows.iter().flat_map(|row| row[size.len()..].split_whitespace());
        let rates: Vec<f64> = figures.map(|figure| figure.parse().expect("a rate")).collect();
        assert!(rates.len() == 9 && rates.iter().all(|rate| *rate > 0.0), "{report}");
    }
    assert_eq!(report.matches("the last slice is at").count(), 3, "{report}");
    assert_eq!(report.matches("Global Index to it").count(), 2, "{report}");
}

#[test]
fn reproduce_climbs_the_ladder() {
    for (name, rows) in [("relsm-ladder", 7), ("relsm-values", 21), ("relsm-sizes", 12)] {
        let report = Store::new().run(&["reproduce", name, "--quick"]).ok().text();
        let steps = report.lines().filter(|line| {
            ["classic  ", "l0l1-pm  ", "wal-to-sst  ", "re-lsm, "]
                .iter()
                .any(|step| line.starts_with(step))
        });
        let steps: Vec<&str> = steps.collect();
        assert_eq!(steps.len(), rows, "{report}");
        for step in steps {
            let cells: Vec<&str> = step[22..].split_whitespace().collect();
            assert!(cells[0].parse::<f64>().expect("a rate") > 0.0, "{step}");
            let in_pm: f64 = cells[cells.len() - 3].parse().expect("bytes per byte");
            assert_eq!(in_pm == 0.0, step.starts_with("classic"), "{step}");
        }
        assert!(report.contains("measured") && report.contains("The paper"), "{report}");
    }
}

#[test]
fn reproduce_leaves_nothing_behind_when_it_fails() {
    let store = Store::new();
    let spawned = store.spawn(&["reproduce", "relsm-ladder", "--quick", "--disk", "nowhere"]);
    let folders = format!("strandline-bench-{}-", spawned.id());
    let ended = spawned.wait_with_output().expect("the command ends");
    assert_eq!(ended.status.code(), Some(3), "{}", String::from_utf8_lossy(&ended.stderr));
    for parent in ["/dev/shm".into(), std::env::temp_dir()] {
        let entries = std::fs::read_dir(parent).into_iter().flatten().flatten();
        let mut names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        assert_eq!(names.find(|name| name.starts_with(&folders)), None);
    }
    store.run(&["reproduce", "relsm-ladder", "--keys", "5"]).failed(2, "has no keys");
    store
        .run(&["reproduce", "halloc", "--quick", "--memory", "nowhere"])
        .failed(3, "give --memory");
}

#[test]
fn pool_and_zone_tell_the_same() {
    let store = store();
    let text = store.run(&["pool"]).ok().text();
    assert!(text.starts_with("pool ") && text.contains("slot A"));
    let pool = store.run(&["pool", "--json"]).ok().json();
    let zones = store.run(&["zone", "--json"]).ok().json();
    assert_eq!(pool["zones"], zones["zones"]);
    assert!(text.contains("\nwear\n  least"), "{text}");
    let wear = |name: &str| pool["wear"][name].as_f64().unwrap_or_else(|| panic!("{pool}"));
    assert!(wear("most") >= 1.0 && wear("spread") >= 1.0 && wear("mean") > 0.0, "{pool}");
    assert_eq!(pool["wear"]["unknown"], 0);
    assert!(zones["headers"][0]["wear"].as_f64() >= Some(1.0), "{zones}");
    let first = &zones["headers"][0];
    let no = first["zone"].to_string();
    assert_eq!(first["keyspace"], "default");
    let one = store.run(&["zone", &no, "--json"]).ok().json();
    assert_eq!(&one["headers"][0], first);
    let all = store.run(&["zone", "--all", "--json"]).ok().json();
    assert_eq!(all["headers"].as_array().map(|all| all.len() as u64), zones["zones"].as_u64());
    let row = store.run(&["zone", &no]).ok().text();
    assert!(row.lines().next().is_some_and(|head| head.starts_with("zone")), "{row}");
    assert_eq!(row.lines().count(), 2);
    store.run(&["zone", "100000"]).failed(2, "zone 100000");
}

#[test]
fn explain_lists_probes() {
    let store = store();
    let ran = store.run(&["explain", "get", "key00001"]).ok();
    let text = ran.text();
    let lines: Vec<&str> = text.lines().collect();
    let heads: Vec<&str> = lines[0].split_whitespace().collect();
    assert_eq!(heads, ["source", "tier", "filter", "found", "bytes", "ns"]);
    assert!(lines[1].starts_with("memtable "), "{text}");
    assert!(lines[1].contains("DRAM index, PM records"), "{text}");
    assert!(lines.iter().any(|line| line.starts_with("run ") && line.contains("yes")), "{text}");
    assert!(lines.last().is_some_and(|last| last.starts_with("total: ")), "{text}");
    let json = store.run(&["explain", "get", "key00001", "--json"]).ok().json();
    let probes = json["probes"].as_array().expect("probes");
    assert_eq!(probes.len() + 2, lines.len());
    assert_eq!((&json["found"], &json["value_bytes"]), (&true.into(), &7.into()));
    assert_eq!(probes.last().map(|probe| &probe["found"]), Some(&true.into()));
    let missing = store.run(&["explain", "get", "nothing", "--json"]);
    assert_eq!((missing.code, &missing.json()["found"]), (1, &false.into()));
}

#[test]
fn events_are_told_on_standard_error() {
    let store = Store::filled(2000, &[]);
    let told = store.run(&["compact", "--events"]).ok().err;
    for begin in ["event: flush_begun job=1 keyspace=default ", "event: compaction_completed job="]
    {
        assert!(told.lines().any(|line| line.starts_with(begin)), "{begin} in {told}");
    }
    store.run(&["put", "k", "v"]).ok();
    let told = store.run(&["--events", "--json", "compact"]).ok().err;
    let events: Vec<Value> =
        told.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let named = |name: &str| events.iter().find(|event| event["event"] == name);
    assert_eq!(named("flush_completed").expect("told")["entries"], 1);
    assert!(named("table_created").expect("told")["bytes"].as_u64() > Some(0));
    assert_eq!(store.run(&["compact"]).ok().err, "");
    assert_eq!(store.run(&["sst", "--events", "x"]).code, 2);
}

#[test]
fn events_of_bench_are_told_on_standard_error() {
    let store = Store::new();
    let bench = ["bench", "--benchmarks=fillseq,flush", "--num=1000", "--pm=heap", "--pm_size=32M"];
    let run =
        |before: &[&str], after: &[&str]| store.run(&[before, &bench[..], after].concat()).ok().err;
    let told = run(&[], &["--events"]);
    assert!(told.lines().any(|line| line.starts_with("event: flush_begun job=1 ")), "{told}");
    for told in [run(&["--events", "--json"], &[]), run(&[], &["--json", "--events=true"])] {
        let events = told.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        let mut ended = events.filter(|event| event["event"] == "flush_completed");
        assert_eq!(ended.next().expect("told")["entries"], 1000);
    }
    for told in [run(&[], &[]), run(&[], &["--noevents"])] {
        assert!(!told.contains("event"), "{told}");
    }
}
