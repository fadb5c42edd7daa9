use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use base::Seq;
use sst::RangeDelete;
use testkit::Rng;

use super::tree::steps;
use super::*;
use crate::ring::{Durably, Ring};

/// As many range deletions as a memtable should take without a sweat.
const MANY: u64 = 100_000;

fn key(no: u64) -> Vec<u8> {
    format!("{no:08}").into_bytes()
}

fn delete(begin: u64, end: u64, seq: u64) -> RangeDelete {
    RangeDelete { begin: key(begin), end: key(end), seq: Seq::new(seq) }
}

/// What each deletion covers, by its number.
type Form = fn(u64) -> (u64, u64);

const FORMS: [(&str, Form); 5] = [
    ("disjoint", |no| (10 * no, 10 * no + 5)),
    ("disjoint, backward", |no| (10 * (MANY - no), 10 * (MANY - no) + 5)),
    ("nested, ever smaller", |no| (no, 2 * MANY - no)),
    ("identical", |_| (3, 30)),
    ("a growing prefix of each of 200 series", |no| {
        (no % 200 * 10_000, no % 200 * 10_000 + 1 + no / 200)
    }),
];

/// Every range deletion cut all the others anew: 22 ms each at 2,048 nested ones, 90 s for retention in 200 series.
#[test]
fn a_range_deletion_costs_a_few_steps_whatever_it_overlaps() {
    for (name, form) in FORMS {
        let deletes = Deletes::default();
        let mut most = 0;
        let all = steps::of(|| {
            for no in 0..MANY {
                let (begin, end) = form(no);
                most = most.max(steps::of(|| deletes.add(vec![delete(begin, end, no + 1)])));
            }
        });
        assert!(all < 600 * MANY, "{name}: {} steps each", all / MANY);
        assert!(most < 3000, "{name}: {most} steps at once");
        assert!(deletes.dram_bytes() < 1024 * MANY, "{name}: {} bytes", deletes.dram_bytes());
        let mut rng = Rng::new(1);
        let read = steps::of(|| {
            for _ in 0..1000 {
                deletes.newest(&key(rng.below(2 * MANY)), Seq::new(1 + rng.below(MANY)));
            }
        });
        assert!(read < 1000 * 120, "{name}: {} steps a look-up", read / 1000);
        let needed = deletes.needed(&Horizon::only(Seq::new(MANY)));
        assert!(needed.len() as u64 <= 2 * MANY, "{name}: {} pieces", needed.len());
    }
}

#[test]
fn a_batch_of_old_numbers_goes_in_at_once() {
    let deletes = Deletes::default();
    deletes.add((MANY / 2..MANY).map(|no| delete(no, 2 * MANY - no, no + 1)).collect());
    let steps = steps::of(|| {
        deletes.add((0..MANY / 2).rev().map(|no| delete(no, 2 * MANY - no, no + 1)).collect());
    });
    assert!(steps < 600 * MANY, "{} steps each", steps / MANY);
    assert_eq!(deletes.newest(&key(MANY / 4), Seq::new(10)), Seq::new(10));
    assert_eq!(deletes.newest(&key(MANY / 4), Seq::MAX), Seq::new(MANY / 4 + 1));
}

fn newest(all: &[RangeDelete], key: &[u8], snapshot: Seq) -> Seq {
    let covers = |delete: &&RangeDelete| {
        &delete.begin[..] <= key && key < &delete.end[..] && delete.seq <= snapshot
    };
    all.iter().filter(covers).map(|delete| delete.seq).max().unwrap_or(Seq::ZERO)
}

/// Each query is answered as by a look at all deletions one by one.
fn check(deletes: &Deletes, all: &[RangeDelete], snapshot: Seq, keys: u64) {
    for no in 0..keys {
        let key = key(no);
        let expected = newest(all, &key, snapshot);
        assert_eq!(deletes.newest(&key, snapshot), expected, "key {no} snapshot {snapshot}");
        match deletes.covering(&key, snapshot) {
            None => assert_eq!(expected, Seq::ZERO),
            Some(Stretch { begin, end, seq }) => {
                assert!(begin <= &key[..] && &key[..] < end && seq == expected);
                let same =
                    (0..keys).map(self::key).filter(|key| begin <= &key[..] && &key[..] < end);
                same.for_each(|key| assert_eq!(newest(all, &key, snapshot), seq));
            }
        }
        let far = self::key(no + 2);
        let touched = (no..=no + 2).any(|no| newest(all, &self::key(no), snapshot) > Seq::ZERO);
        assert_eq!(deletes.touches(&key, &far, snapshot + 1), touched, "keys {no} to {}", no + 2);
    }
}

#[test]
fn every_snapshot_sees_what_it_should_in_whatever_order_deletions_come() {
    for seed in 0..60 {
        let mut rng = Rng::new(seed);
        let keys = 4 + rng.below(30);
        let deletes = Deletes::default();
        let mut all = Vec::new();
        let mut seq = 0;
        for _ in 0..30 {
            // Commits that are in flight together, in any order; some of them are given up.
            let mut commits = Vec::new();
            for _ in 0..1 + rng.below(4) {
                let len = 1 + rng.below(3);
                let any = |rng: &mut Rng, seq| delete(rng.below(keys), rng.below(keys), seq);
                commits
                    .push((seq + 1..=seq + len).map(|seq| any(&mut rng, seq)).collect::<Vec<_>>());
                seq += len;
            }
            while !commits.is_empty() {
                let commit = commits.swap_remove(rng.below(commits.len() as u64) as usize);
                let (first, last) = (commit[0].seq, commit[commit.len() - 1].seq);
                deletes.add(commit.clone());
                if rng.chance(1, 4) {
                    deletes.remove(first..=last);
                } else {
                    all.extend(commit);
                }
            }
        }
        for _ in 0..8 {
            check(&deletes, &all, Seq::new(rng.below(seq + 2)), keys);
        }
        check(&deletes, &all, Seq::MAX - 1, keys);
        let covered = (0..keys).filter(|no| newest(&all, &key(*no), Seq::MAX) > Seq::ZERO);
        let ends = covered.clone().min().zip(covered.max());
        let bounds = ends.map(|(first, last)| (key(first), key(last + 1)));
        let found = deletes.bounds().map(|(begin, end)| (begin.to_vec(), end.to_vec()));
        assert_eq!(found, bounds);
    }
}

#[test]
fn needed_pieces_answer_every_reader_and_name_no_more() {
    for seed in 0..60 {
        let mut rng = Rng::new(seed);
        let keys = 4 + rng.below(30);
        let deletes = Deletes::default();
        let seqs = 1 + rng.below(40);
        let all: Vec<RangeDelete> =
            (1..=seqs).map(|seq| delete(rng.below(keys), rng.below(keys), seq)).collect();
        deletes.add(all.clone());
        let ring = Ring::new(Seq::new(seqs), Durably::AtOnce);
        let snapshots = crate::snapshot::Snapshots::default();
        let mut readers = vec![Seq::new(seqs)];
        for _ in 0..rng.below(4) {
            let reader = Seq::new(rng.below(seqs));
            snapshots.again(reader);
            readers.push(reader);
        }
        let needed = deletes.needed(&snapshots.horizon(&ring));
        for (reader, no) in readers.iter().flat_map(|reader| (0..keys).map(move |no| (*reader, no)))
        {
            assert_eq!(needed.newest(&key(no), reader), newest(&all, &key(no), reader), "{reader}");
        }
        for stretch in needed.stretches() {
            let sees = |reader: &&Seq| newest(&all, stretch.begin, **reader) == stretch.seq;
            assert!(readers.iter().any(|reader| sees(&reader)), "{stretch:?} for no reader");
        }
    }
}

#[test]
fn readers_see_whole_moments_while_writers_race() {
    const WRITERS: u64 = 3;
    const EACH: u64 = 3000;
    let deletes = Deletes::default();
    let next = AtomicU64::new(1);
    // Numbers up to which all that was begun is in.
    let done: Vec<AtomicU64> = (0..=WRITERS * EACH).map(|_| AtomicU64::new(0)).collect();
    let stop = AtomicBool::new(false);
    let visible = || {
        let in_it = done[1..].iter().take_while(|seq| seq.load(Ordering::Acquire) == 1);
        in_it.count() as u64
    };
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|_| {
                scope.spawn(|| {
                    for _ in 0..EACH {
                        let seq = next.fetch_add(1, Ordering::Relaxed);
                        deletes.add(vec![delete(seq % 100, seq % 100 + 50, seq)]);
                        if seq.is_multiple_of(7) {
                            deletes.remove(Seq::new(seq)..=Seq::new(seq));
                        }
                        done[seq as usize].store(1, Ordering::Release);
                    }
                })
            })
            .collect();
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let at = visible();
                for no in 0..150 {
                    let covers = |seq: &u64| {
                        (seq % 100..seq % 100 + 50).contains(&no) && !seq.is_multiple_of(7)
                    };
                    let expected = (1..=at).rev().find(covers).unwrap_or(0);
                    let found = deletes.newest(&key(no), Seq::new(at));
                    assert_eq!(found, Seq::new(expected), "key {no} at {at}");
                }
            }
        });
        writers.into_iter().for_each(|writer| writer.join().expect("a writer"));
        stop.store(true, Ordering::Relaxed);
    });
}
