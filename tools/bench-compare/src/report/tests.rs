//! Rows of runs that never happened.

use std::path::Path;

use super::{BEST, Report, costs, json, table};
use crate::crew::Rate;
use crate::data::Filling;
use crate::flags::Flags;
use crate::kept::Kept;
use crate::measure::bytes::ProcessBytes;
use crate::measure::latency::Latency;
use crate::measure::misses::Hits;
use crate::promise::{Promise, UNEQUAL};
use crate::report::docs;
use crate::sample::{Load, Sample};
use crate::stages::{self, Group};
use crate::work::{Conflicts, Measured, OfKind};
use bench::data::draw::Draw;

/// Three runs of `benchmark` on an engine that does `rate`, and a tenth more or less.
fn runs(benchmark: &str, engine: &'static str, promise: Promise, rate: f64) -> Vec<Sample> {
    let cases = stages::all().flat_map(|stage| stage.cases.iter().map(move |case| (stage, case)));
    let mut named = cases.filter(|(_, case)| case.name == benchmark);
    let (stage, case) = named.next().unwrap();
    let sample = |(run, part): (usize, f64)| Sample {
        engine,
        run,
        stage,
        case,
        load: Load::default(),
        keys: 10,
        promise,
        durability: format!("as {engine} says"),
        measured: Measured {
            rate: Rate { ops: (rate * part) as u64, seconds: 1.0 },
            ..Measured::default()
        },
    };
    [1.0, 0.9, 1.1].into_iter().enumerate().map(sample).collect()
}

fn report(samples: Vec<Sample>) -> Report {
    let mut kept = Kept::default();
    samples.into_iter().for_each(|sample| kept.add(sample).unwrap());
    Report::of(kept)
}

/// What is synced, what is not, and what is neither.
fn mixed() -> Report {
    let mut samples = runs("disk-sync", "strandline", Promise::Synced, 1000.0);
    samples.extend(runs("disk-sync", "rocksdb", Promise::Synced, 500.0));
    samples.extend(runs("disk-sync", "redb", Promise::Nothing, 4000.0));
    samples.extend(runs("synccommit", "strandline", Promise::ProcessCrash, 9000.0));
    samples.extend(runs("synccommit", "rocksdb", Promise::Synced, 10.0));
    report(samples)
}

#[test]
fn every_row_names_both_promises_and_has_no_ratio_where_they_differ() {
    let report = mixed();
    let (text, page) = (table::text(&report), docs::page(&report, ""));
    for row in report.rows() {
        let [ours, theirs] = row.ratio.promises();
        for text in [&text, &page] {
            let ratio = row.ratio.to_string();
            let line = text.lines().find(|line| {
                line.contains(row.case.benchmark)
                    && line.contains(row.rival)
                    && line.contains(&ratio)
            });
            let line = line.unwrap_or_else(|| panic!("{row:?} in {text}"));
            assert!(line.contains(ours.words()) && line.contains(theirs.words()), "{line}");
            assert_eq!(line.contains(UNEQUAL), ours != theirs, "{line}");
        }
    }
    assert_eq!(report.rows().len(), 3);
    let unequal: Vec<&str> = page.lines().filter(|line| line.contains("- (promises")).collect();
    assert_eq!(unequal.len(), 2, "{page}");
}

#[test]
fn the_best_loop_of_each_run_has_a_row() {
    let mut samples = runs("disk-sync", "strandline", Promise::Synced, 1000.0);
    samples.extend(runs("disk-sync", "bare-append", Promise::Synced, 500.0));
    samples.extend(runs("disk-sync", "bare-direct", Promise::Synced, 2000.0));
    let rows = report(samples).rows();
    let best = rows.iter().find(|row| row.rival == BEST).unwrap();
    assert_eq!(best.ratio.figures(), Some([0.5; 3]));
    assert!(best.durability[1].starts_with("bare-direct"), "{best:?}");
}

#[test]
fn a_group_has_a_table_of_its_own() {
    let page = docs::page(&mixed(), "");
    let (disk, split) = (page.find(Group::Disk.about()), page.find(Group::Split.about()));
    let (sync, commit) = (page.find("| disk-sync |"), page.find("| synccommit |"));
    assert!(disk < sync && sync < split && split < commit, "{page}");
    assert!(page.contains("Not measured yet: `--group=tmpfs`"), "{page}");
}

#[test]
fn a_ratio_is_of_runs_of_the_same_turn() {
    let mut samples = runs("disk-sync", "strandline", Promise::Synced, 1000.0);
    samples.extend(runs("disk-sync", "fjall", Promise::Synced, 500.0));
    assert_eq!(report(samples).rows()[0].ratio.figures(), Some([2.0, 2.0, 2.0]));
}

#[test]
fn values_and_draws_have_rows_of_their_own() {
    let load = Load { filling: Filling::Random, draw: Draw::Zipf };
    let mut samples = Vec::new();
    for (load, rate) in [(Load::default(), 1000.0), (load, 3000.0)] {
        for (engine, rate) in [("strandline", rate), ("strandline-apart-130", 500.0)] {
            let runs = runs("disk-worn-overwrite", engine, Promise::ProcessCrash, rate);
            samples.extend(runs.into_iter().map(|sample| Sample { load, ..sample }));
        }
    }
    let report = report(samples);
    let ratios: Vec<_> = report.rows().iter().map(|row| row.ratio.figures().unwrap()[0]).collect();
    assert_eq!(ratios, [2.0, 6.0]);
    let page = docs::page(&report, "");
    for row in [
        "| disk-worn-overwrite | strandline-apart-130 | 1 | 100 | ",
        "| disk-worn-overwrite zipf | strandline-apart-130 | 1 | 100 random | ",
    ] {
        assert!(page.contains(row), "{row} in {page}");
    }
    let json = json::object(&report);
    for of in ["rows", "runs"] {
        let last = json[of].as_array().unwrap().last().unwrap();
        assert_eq!((&last["filling"], &last["draw"]), (&"random".into(), &"zipf".into()));
    }
}

#[test]
fn a_row_tells_bytes_to_the_ssd_and_space() {
    let cost = |benchmark: &str| {
        let mut samples = runs(benchmark, "strandline", Promise::ProcessCrash, 1000.0);
        for sample in &mut samples {
            sample.measured.user_bytes = 1000;
            sample.measured.moved = ProcessBytes { given: 2000, dirtied: 2500, read: 0 };
            sample.measured.space = Some(1740);
        }
        costs::of(&samples.iter().collect::<Vec<_>>())
    };
    let told = cost("disk-worn-overwrite");
    // Ten keys of 16 B with values of 100 B.
    for figure in ["2.00 bytes to files", "2.50 to the SSD", "1.50 times the data on the disk"] {
        assert!(told.contains(figure), "{told}");
    }
    assert!(cost("disk-worn-scan").contains("1.50 times the data on the disk"));
    assert!(!cost("disk-sync").contains("times the data"));
    assert!(!cost("overwrite").contains("to the SSD"));
}

#[test]
fn a_row_tells_what_was_found_without_the_disk_and_scanned_beside() {
    let sides = [("strandline", 80, 1000), ("rocksdb-second", 60, 500)];
    let samples = sides.iter().flat_map(|(engine, found, scanned)| {
        let mut samples = runs("hybrid-get-zipf-scan", engine, Promise::ProcessCrash, 1000.0);
        for sample in &mut samples {
            sample.measured.hits = Some(Hits { looked: 100, found: *found });
            sample.measured.aside = Some(Rate { ops: *scanned, seconds: 1.0 });
            // Most of it by the scan.
            sample.measured.moved = ProcessBytes { read: 1 << 30, ..ProcessBytes::default() };
        }
        samples
    });
    let report = report(samples.collect());
    let rows = report.rows();
    let [ours, theirs] = &rows[0].costs;
    assert!(ours.contains("1.0 k entries/s scanned beside, 80.0 % without the disk"), "{ours}");
    assert!(theirs.contains("500 entries/s scanned beside, 60.0 % without the disk"), "{theirs}");
    assert!(!ours.contains("puts/s") && !ours.contains("KiB from the disk"), "{ours}");
    assert!(rows[0].ratio.to_string().contains("scans differ"), "{}", rows[0].ratio);
    let json = json::object(&report);
    let run = &json["runs"][0];
    assert_eq!(
        (&run["hit_percent"], &run["scanned_aside_per_sec"]),
        (&80.0.into(), &1000.0.into())
    );
    assert!(run["puts_aside_per_sec"].is_null());
}

#[test]
fn a_row_tells_what_transactions_lost_and_the_times_of_each_kind() {
    let times = |p99: f64| Latency {
        samples: 10,
        p50: p99 / 2.0,
        p99: Some(p99),
        p999: Some(2.0 * p99),
        p9999: Some(4.0 * p99),
        longest: 5.0 * p99,
    };
    let conflicts = Conflicts { lost: 30, retried: 20, most: 4 };
    let told = |benchmark: &str, rival: &'static str| {
        let mut samples = runs(benchmark, "strandline", Promise::ProcessCrash, 1000.0);
        samples.extend(runs(benchmark, rival, Promise::ProcessCrash, 500.0));
        for sample in &mut samples {
            let measured = &mut sample.measured;
            measured.conflicts = Some(conflicts);
            measured.commits = 2000;
            match benchmark {
                "tpcc-disk" => {
                    measured.kinds = ["payment", "delivery"]
                        .map(|name| OfKind {
                            name: name.into(),
                            count: 1000,
                            conflicts: Some(conflicts),
                            latency: Some(times(10.0)),
                            ..OfKind::default()
                        })
                        .into();
                }
                _ => measured.latency = Some(times(20.0)),
            }
        }
        let report = report(samples);
        (report.rows()[0].costs[0].clone(), json::object(&report))
    };
    let (costs, json) = told("tpcc-disk", "rocksdb-pessimistic");
    for part in [
        "tpmC 60 k, not audited, of 2.0 k transactions/s",
        "1.50 conflicts in 100 commits (at most 4 of one)",
        "payment p50 5.0 us, p99 10 us, p99.9 20 us, conflicts 30; delivery p50",
    ] {
        assert!(costs.contains(part), "{part} in {costs}");
    }
    assert!(!costs.contains("times the data"), "{costs}");
    let run = &json["runs"][0];
    assert_eq!((&run["tpmc"], &run["audited"]), (&60_000.0.into(), &false.into()));
    assert_eq!(run["kinds"]["payment"]["p9999_us"], 40.0);
    let (costs, json) = told("transaction-rmw-zipf", "rocksdb-optimistic");
    assert!(costs.contains("p99 20 us, p99.9 40 us, p99.99 80 us"), "{costs}");
    assert!(costs.contains("longest 100 us"), "{costs}");
    assert_eq!((&json["runs"][0]["retried"], &json["runs"][0]["tpmc"]), (&20.into(), &().into()));
    assert_eq!(json["rows"][0]["group"], "transaction");
}

/// A file of the repository.
fn file(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The cells of the lines that are in a table.
fn rows(page: &str) -> Vec<Vec<&str>> {
    let lines = page.lines().filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |"));
    lines.map(|line| line.split(" | ").collect()).collect()
}

#[test]
fn every_row_of_the_page_names_both_promises() {
    let page = file(docs::PAGE);
    let named = |cell: &str| Promise::named(cell).unwrap_or_else(|| panic!("{cell}: no promise"));
    let (mut figures, mut costs) = (0, 0);
    for cells in rows(&page) {
        match cells[..] {
            ["benchmark", ..] => {}
            [_, _, _, _, _, _, ratio, ours, theirs, _] => {
                let differ = named(ours) != named(theirs);
                assert_eq!(ratio.contains(UNEQUAL), differ, "{cells:?}");
                assert_eq!(ratio.starts_with('-'), differ || ratio.contains("keys"), "{cells:?}");
                figures += 1;
            }
            [_, _, _, _, ours, _, theirs, _] => {
                named(ours);
                named(theirs);
                costs += 1;
            }
            _ => {}
        }
    }
    assert!(figures > 0 && costs > 0, "no row was found: have the tables changed?");
}

#[test]
fn a_group_on_the_page_is_whole_or_says_what_it_lacks() {
    let page = file(docs::PAGE);
    for group in Group::ALL {
        let missing = format!("Not measured yet: `--group={}`", group.name());
        let lacks = docs::lacks(&page, group);
        let told = lacks.is_none_or(|lacks| page.contains(&lacks));
        assert!(told || page.contains(&missing), "{group:?}: run --report --write-docs");
    }
}

#[test]
fn commands_in_the_documents_are_understood() {
    let mut commands = 0;
    for name in [
        "README.md",
        "CONTRIBUTING.md",
        "docs/guide/values.md",
        "docs/guide/workloads.md",
        docs::PAGE,
    ] {
        let text = file(name).replace("\\\n", " ").replace("=DIR", "=/").replace("=FILE", "=file");
        let lines = text.lines().filter_map(|line| line.split_once("strandline-bench-compare -- "));
        let parts = text.lines().filter_map(|line| line.split_once("$B "));
        for (_, words) in lines.chain(parts) {
            let words = words.split(['`', '"', '|']).next().unwrap_or_default().split_whitespace();
            let words = words.chain(["--into=file"]).map(String::from).collect::<Vec<_>>();
            Flags::parse(&words).unwrap_or_else(|error| panic!("{name}: {words:?}: {error}"));
            commands += 1;
        }
    }
    assert!(commands > 2, "{commands}");
}
