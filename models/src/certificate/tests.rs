use super::*;
use crate::walk::walk;

const A: Keys = 1;
const B: Keys = 2;
const C: Keys = 4;

fn reads_and_writes(reads: Keys, writes: Keys, level: Level) -> Process {
    Process::Transaction { reads, writes, level }
}

fn snapshot(reads: Keys, writes: Keys) -> Process {
    reads_and_writes(reads, writes, Level::Snapshot)
}

fn serializable(reads: Keys, writes: Keys) -> Process {
    reads_and_writes(reads, writes, Level::Serializable)
}

fn put(keys: Keys) -> Process {
    Process::Put { keys, written: Written::Values }
}

fn delete(keys: Keys) -> Process {
    Process::Put { keys, written: Written::Deletions }
}

fn void(keys: Keys) -> Process {
    Process::Put { keys, written: Written::Void }
}

/// What runs beside each other.
fn worlds() -> Vec<Vec<Process>> {
    vec![
        vec![snapshot(A, A), snapshot(A, A), snapshot(A, A), put(A)],
        vec![snapshot(A | B, A), put(A), put(A | B)],
        vec![serializable(A, B), put(A), put(B)],
        vec![serializable(A | B, A), serializable(A | B, B), put(C)],
        vec![serializable(A, B), serializable(B, C), serializable(C, A), put(B)],
        vec![serializable(A | B, A), serializable(B, A | B), put(A | B)],
        vec![serializable(A | B, A), put(B), Process::Switch, put(A)],
        vec![serializable(A | B, A), Process::Ingest { keys: A | B }, put(C)],
        vec![snapshot(A | B, A | B), snapshot(A | B, A | B), void(A), void(B)],
        vec![snapshot(B, B), Process::Ingest { keys: A | B }],
        vec![serializable(A | B, C), delete(A), Process::Merge, put(B)],
        vec![snapshot(A | B, A), void(A), put(B), put(A)],
        vec![serializable(A | B, A | B), put(A), Process::Split, put(B)],
        vec![serializable(A | B, A | B), serializable(A | B, A | B), put(A), put(B)],
    ]
}

fn all(bug: Option<Bug>) -> Vec<Certificates> {
    let both = |processes: Vec<Process>| {
        let splits = processes.iter().any(|process| matches!(process, Process::Split));
        let worlds =
            [false, true].map(|split| Certificates { processes: processes.clone(), split, bug });
        worlds.into_iter().filter(move |world| !(splits && world.split))
    };
    worlds().into_iter().flat_map(both).collect()
}

#[test]
fn no_order_breaks_the_promise() {
    for world in all(None) {
        let walked = walk(&world);
        assert!(walked.broken.is_none(), "{world:?}: {:?}", walked.broken);
        assert!(walked.ends > 0 && walked.states > 8, "{world:?}: {walked:?}");
    }
}

#[test]
fn each_rule_is_needed() {
    for bug in Bug::ALL {
        let broken = all(Some(bug)).into_iter().find_map(|world| walk(&world).broken);
        let Some(broken) = broken else { panic!("{bug:?} breaks nothing") };
        let waits = broken.what == "all processes wait";
        assert_eq!(waits, bug == Bug::HeldOneByOne, "{bug:?}: {broken:?}");
    }
}

/// A transaction beside writers of other keys always gets its number.
#[test]
fn others_keys_stop_no_transaction() {
    let processes = vec![serializable(A, A), put(B), put(B), put(C)];
    let walked = walk(&Certificates { processes, split: false, bug: None });
    assert!(walked.broken.is_none(), "{walked:?}");
}
