//! Memory and disk lose power together: right code is found clean, every planted mistake is found.

#[path = "tables/mod.rs"]
mod tables;

use pmem::Site;
use sim::{
    Case, Counters, CutLimits, Explorer, Fault, Floors, Lazily, Lie, Limits, Mode, Planted,
    Sabotage, Shape, Verdict, campaign, hunt,
};
use ssd::Call;
use tables::{Bug, Tables};

const CLEAN: Tables = Tables { bug: None };

fn shape() -> Shape {
    Shape { ops: 5, batches: 25, value_lens: vec![8, 60], reopens: 5, ..Shape::default() }
}

fn limits() -> Limits {
    Limits { levels: 3, dive_one_in: 20, continue_one_in: 5, kill_one_in: 3, ..Limits::default() }
}

#[test]
fn right_code_survives_every_image() {
    for mode in [Mode::Adr, Mode::Eadr] {
        let counters = campaign(&CLEAN, &shape(), mode, 0..40, &limits())
            .unwrap_or_else(|failure| panic!("{failure}"));
        println!("{mode:?}\n{counters}");
        let least = vec![
            ("cases", 40),
            ("disk_images", 20_000),
            ("mixed_images", if mode == Mode::Adr { 500 } else { 0 }),
            ("double_crashes", 10_000),
            ("crashes_in_recovery", 2_000),
            ("kills_cut", 50),
            ("distinct_cuts", 4),
        ];
        let calls = vec![
            (Call::CreateDir, "db"),
            (Call::Create, ".tmp"),
            (Call::Append, ".tmp"),
            (Call::Sync, ".tmp"),
            (Call::Rename, ".tab"),
            (Call::SyncDir, "db"),
            (Call::Remove, ".tab"),
        ];
        Floors { least, calls, ..Floors::default() }
            .check(&counters)
            .unwrap_or_else(|low| panic!("{low}"));
    }
}

#[test]
fn one_small_case_is_clean_in_literally_every_image() {
    let exhaustive = CutLimits { exhaustive: 1 << 20, ..CutLimits::default() };
    let limits = Limits { top: exhaustive, deep: exhaustive, levels: 1, ..Limits::default() };
    let mut explorer = Explorer::new(&CLEAN, limits);
    let shape = Shape { ops: 3, value_lens: vec![8], reads: 0, ..Shape::default() };
    for seed in 0..10 {
        let case = Case::new(seed, &shape, Mode::Adr);
        explorer.run(&case).unwrap_or_else(|failure| panic!("{failure}"));
    }
    let totals = explorer.counters.totals;
    assert_eq!((totals.points, totals.truncated), (totals.exhaustive_points, 0));
}

#[test]
fn recoveries_that_decide_as_they_read_see_several_disks() {
    let limits = Limits { lazily: Lazily::Instead(2_000), levels: 1, ..Limits::default() };
    let run = |bug| campaign(&Tables { bug }, &shape(), Mode::Adr, 0..20, &limits);
    let counters = run(None).unwrap_or_else(|failure| panic!("{failure}"));
    assert!(counters.totals.lazy_leaves > 1_000);
    let failure = run(Some(Bug::CommitBeforeSync)).unwrap_err();
    println!("{failure}");
}

#[test]
fn the_same_seed_does_the_same() {
    let run = || campaign(&CLEAN, &shape(), Mode::Adr, 5..8, &limits()).unwrap();
    let (a, b) = (run(), run());
    assert_eq!((a.totals, a.cuts, a.calls), (b.totals, b.cuts, b.calls));
}

fn expect_killed(name: &str, verdict: &Verdict) {
    match verdict {
        Verdict::Killed(failure) => println!("{name}\n{failure}\n"),
        other => panic!("{name}: {other:?}"),
    }
}

#[test]
fn every_bug_is_found() {
    let mut counters = Counters::default();
    for bug in [
        Bug::NoSync,
        Bug::NoDirSync,
        Bug::DirSyncTooEarly,
        Bug::CommitBeforeSync,
        Bug::CommitBeforeDirSync,
        Bug::RemoveTooEarly,
        Bug::NoParentSync,
        Bug::NoSweep,
        Bug::NoFlush,
    ] {
        let system = Tables { bug: Some(bug) };
        let none = None::<Planted>;
        let verdict = hunt(&system, &shape(), Mode::Adr, 0..100, &limits(), none, &mut counters);
        expect_killed(&format!("{bug:?}"), &verdict);
    }
    Floors::default().check(&counters).unwrap();
}

/// The checksum is a second line of defence: without it right code is still right, and only a disk that lies
/// brings damaged tables before recovery.
#[test]
fn unchecked_tables_are_wrong_on_a_disk_that_lies() {
    let system = Tables { bug: Some(Bug::NoChecksum) };
    campaign(&system, &shape(), Mode::Adr, 0..10, &limits()).unwrap_or_else(|f| panic!("{f}"));
    let lie = Lie { on: ".tmp", ..Lie::all("", "")[2] };
    let mut counters = Counters::default();
    let lied_to = hunt(&system, &shape(), Mode::Adr, 0..50, &limits(), Some(lie), &mut counters);
    expect_killed("NoChecksum", &lied_to);
}

#[test]
fn every_lie_and_persist_mutant_is_noticed() {
    let mut counters = Counters::default();
    let lies = Lie::all("", "").into_iter().map(Planted::from);
    let sabotages = [Fault::DropFlush, Fault::DropFence].map(|what| {
        [Site::ManifestEdit, Site::RecoverManifest].map(|site| Sabotage { site, what }.into())
    });
    for planted in lies.chain(sabotages.into_iter().flatten()) {
        let planted: Planted = planted;
        let verdict =
            hunt(&CLEAN, &shape(), Mode::Adr, 0..100, &limits(), Some(planted), &mut counters);
        expect_killed(&planted.to_string(), &verdict);
    }
    assert_eq!(counters.totals.killed, 9);
    // A lie about files that are never written does not strike.
    let lie = Lie { on: ".none", ..Lie::all("", "")[0] };
    let verdict = hunt(&CLEAN, &shape(), Mode::Adr, 0..2, &limits(), Some(lie), &mut counters);
    assert!(matches!(verdict, Verdict::NeverStruck));
}
