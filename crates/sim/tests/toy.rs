//! The explorer, proven on a toy: right code is found clean, every planted mistake is found.

#[path = "toy/mod.rs"]
mod toy;

use pmem::Site;
use sim::{
    Case, Counters, CutLimits, Explorer, Fault, Floors, Lazily, Limits, Mode, Op, Rule, Sabotage,
    Shape, Value, Verdict, Write, campaign, hunt,
};
use toy::{Bug, Toy};

const CLEAN: Toy = Toy { len: 1024, bug: None };

fn shape() -> Shape {
    Shape { batches: 25, abandons: 10, value_lens: vec![8, 9, 60], ..Shape::default() }
}

fn limits() -> Limits {
    Limits { levels: 3, dive_one_in: 20, continue_one_in: 5, kill_one_in: 3, ..Limits::default() }
}

fn put(thread: u8, key: &str, id: u32, len: u32) -> Op {
    let write = Write::Put { keyspace: 0, key: key.into(), value: Value { id, len } };
    Op::Commit { thread, writes: vec![write], abandon: false }
}

#[test]
fn three_writers_in_flight_are_clean_in_every_image() {
    let ops = vec![put(0, "a", 1, 8), put(1, "a", 2, 8), put(2, "b", 3, 8)];
    let exhaustive = CutLimits { exhaustive: 1 << 20, ..CutLimits::default() };
    let limits = Limits { top: exhaustive, deep: exhaustive, levels: 1, ..Limits::default() };
    for mode in [Mode::Adr, Mode::Eadr] {
        let mut explorer = Explorer::new(&CLEAN, limits.clone());
        for seed in 0..6 {
            let case = Case::with_ops(seed, ops.clone(), mode);
            explorer.run(&case).unwrap_or_else(|failure| panic!("{failure}"));
        }
        let totals = explorer.counters.totals;
        assert_eq!(totals.points, totals.exhaustive_points);
        assert_eq!(totals.truncated, 0);
        println!("{mode:?}\n{}", explorer.counters);
    }
}

#[test]
fn a_campaign_is_clean_and_above_its_floors() {
    for mode in [Mode::Adr, Mode::Eadr] {
        let counters = campaign(&CLEAN, &shape(), mode, 0..60, &limits())
            .unwrap_or_else(|failure| panic!("{failure}"));
        println!("{mode:?}\n{counters}");
        let mut least = vec![
            ("cases", 60),
            ("points", 500),
            ("continuations", 100),
            ("kills", 100),
            ("double_crashes", 2_000),
            ("distinct_cuts", 4),
        ];
        if mode == Mode::Adr {
            least.extend([("images", 50_000), ("images_in_flight", 10_000)]);
            least.extend([("crashes_in_recovery", 1_000), ("cuts_below_survivor", 100)]);
        }
        let sites = vec![Site::Record, Site::Format, Site::RecoverAccepted, Site::RecoverManifest];
        Floors { least, sites, ..Floors::default() }
            .check(&counters)
            .unwrap_or_else(|low| panic!("{low}"));
    }
}

#[test]
fn lazy_recovery_covers_what_cannot_be_enumerated() {
    let ops = vec![put(0, "a", 1, 60), put(1, "a", 2, 60), put(2, "b", 3, 60)];
    let limits = Limits { lazily: Lazily::Instead(100_000), levels: 1, ..Limits::default() };
    let mut explorer = Explorer::new(&CLEAN, limits);
    let case = Case::with_ops(1, ops, Mode::Adr);
    explorer.run(&case).unwrap_or_else(|failure| panic!("{failure}"));
    let totals = explorer.counters.totals;
    println!("{} leaves for {} images", totals.lazy_leaves, totals.lazy_states);
    assert!(totals.lazy_states > 1000 * totals.lazy_leaves);
}

#[test]
fn the_same_seed_does_the_same() {
    let run = || campaign(&CLEAN, &shape(), Mode::Adr, 5..8, &limits()).unwrap();
    let (a, b) = (run(), run());
    assert_eq!((a.totals, a.cuts), (b.totals, b.cuts));
}

fn expect_killed(name: &str, verdict: &Verdict) {
    match verdict {
        Verdict::Killed(failure) => println!("{name}\n{failure}\n"),
        other => panic!("{name}: {other:?}"),
    }
}

#[test]
fn every_persist_mutant_is_killed() {
    let mut counters = Counters::default();
    for (site, what) in [
        (Site::Record, Fault::DropFlush),
        (Site::Record, Fault::DropFence),
        (Site::Record, Fault::ShortFlushFirst),
        (Site::Record, Fault::ShortFlushLast),
        (Site::Record, Fault::PlainInsteadOfNt),
        (Site::Record, Fault::FenceOnOtherThread),
        (Site::Void, Fault::DropFlush),
        (Site::Void, Fault::DropFence),
        (Site::RecoverAccepted, Fault::DropFlush),
        (Site::RecoverAccepted, Fault::ShortFlushLast),
        (Site::RecoverManifest, Fault::DropFlush),
        (Site::RecoverManifest, Fault::ShortFlushLast),
    ] {
        let sabotage = Sabotage { site, what };
        let shape = Shape { abandons: 20, ..shape() };
        let verdict =
            hunt(&CLEAN, &shape, Mode::Adr, 0..300, &limits(), Some(sabotage), &mut counters);
        expect_killed(&sabotage.to_string(), &verdict);
    }
    assert_eq!(counters.totals.killed, counters.totals.mutants);
}

#[test]
fn every_bug_is_found() {
    let mut counters = Counters::default();
    for (bug, rules) in [
        (Bug::PublishBeforeFence, &[Rule::N1][..]),
        (Bug::PublishOutOfOrder, &[Rule::N1, Rule::N5][..]),
        (Bug::NoChecksum, &[Rule::N2, Rule::N3][..]),
        (Bug::ChecksumOfFirstLine, &[Rule::N3][..]),
        (Bug::AcceptOverHole, &[Rule::N2][..]),
        (Bug::NoWipe, &[Rule::N2, Rule::N4][..]),
        (Bug::NoAcceptedFlush, &[Rule::N6][..]),
        (Bug::ForgetDeletes, &[Rule::N4][..]),
        (Bug::FirstOfBatch, &[Rule::N2][..]),
        (Bug::Leak, &[Rule::N7][..]),
        (Bug::Endless, &[Rule::N8][..]),
        (Bug::VoidNotDurable, &[Rule::N2][..]),
        (Bug::ReadBeforeDurable, &[Rule::N5][..]),
        (Bug::NumbersRestart, &[Rule::N2][..]),
    ] {
        let toy = Toy { bug: Some(bug), ..CLEAN };
        let limits = Limits { fuel: 20_000, ..limits() };
        let abandons = if bug == Bug::VoidNotDurable { 20 } else { 0 };
        let shape = Shape { reads: 20, abandons, ..shape() };
        let verdict =
            hunt(&toy, &shape, Mode::Adr, 0..300, &limits, None::<Sabotage>, &mut counters);
        expect_killed(&format!("{bug:?}"), &verdict);
        let Verdict::Killed(failure) = verdict else { unreachable!("expected above") };
        assert!(rules.contains(&failure.violation.rule), "{bug:?} is not {rules:?}");
    }
    Floors::default().check(&counters).unwrap();
}

#[test]
fn failures_shrink_to_a_short_text() {
    let toy = Toy { bug: Some(Bug::PublishOutOfOrder), ..CLEAN };
    let shape = Shape { ops: 10, ..shape() };
    let failure = campaign(&toy, &shape, Mode::Adr, 0..100, &limits()).unwrap_err();
    println!("{failure}");
    assert!(failure.case.ops.len() <= 3, "{failure}");
    // What is printed fails again.
    assert!(Explorer::new(&toy, limits()).run(&failure.case).is_err());
}

#[test]
fn reopening_is_part_of_workloads() {
    let shape = Shape { reopens: 20, ops: 8, ..shape() };
    campaign(&CLEAN, &shape, Mode::Adr, 0..20, &limits()).unwrap_or_else(|f| panic!("{f}"));
    let toy = Toy { bug: Some(Bug::NumbersRestart), ..CLEAN };
    campaign(&toy, &shape, Mode::Adr, 0..20, &limits()).unwrap_err();
}
