//! The tape of real threads, and the oracle of what they were told.

use std::sync::Arc;
use std::sync::mpsc::channel;

use pmem::Site;
use sim::check::Rule;
use sim::diary::{Base, Commit, During, Edit, Notes, Promise, Read, Shown};
use sim::state::EntryKey;
use sim::{Diary, Media, Mode, SimPm, Value, Write};

/// With one number for all threads the fence of the second would count for the flush of the first, and a table that one
/// thread wrote and another one fenced would pass for durable.
#[test]
fn a_fence_makes_durable_what_its_own_thread_flushed_and_nothing_else() {
    let (pm, region) = SimPm::boot_for_threads(Media::new(Mode::Adr, &[0; 4096]), 7);
    let region = Arc::new(region);
    let (flushed, fenced) = (channel(), channel());
    std::thread::scope(|scope| {
        let (pm, region) = (&pm, &region);
        scope.spawn(move || {
            let flight = region.flush(region.store_u64(Site::Run, 64, 5));
            flushed.0.send(()).expect("the other waits");
            fenced.1.recv().expect("the other fences");
            assert_eq!(pm.media_at(usize::MAX).pending_lines(), 1, "it was another's fence");
            let _durable = region.fence(flight);
            assert_eq!(pm.media_at(usize::MAX).pending_lines(), 0);
        });
        scope.spawn(move || {
            flushed.1.recv().expect("the other flushes");
            let _durable = region.fence(region.nothing_in_flight(Site::Run));
            fenced.0.send(()).expect("the other waits");
        });
    });
    assert_eq!(pm.schedule().names.len(), 2);
}

fn put(key: &str, id: u32) -> Write {
    Write::Put { keyspace: 0, key: key.into(), value: Value { id, len: 8 } }
}

fn commit(number: u64, writes: Vec<Write>, begun: usize, done: usize) -> Commit {
    Commit { writes, number, during: During { begun, done }, synced: false }
}

fn shows(cut: u64, values: &[(&str, u32)]) -> Shown {
    let entry = |(key, id): &(&str, u32)| {
        (EntryKey::new(0, key.as_bytes()), Value { id: *id, len: 8 }.bytes())
    };
    Shown { cut, state: values.iter().map(entry).collect(), leaks: 0 }
}

/// Two commits that overlap: 1 at events 1 to 10, 2 at events 3 to 6.
fn notes() -> Notes {
    let commits = vec![commit(2, vec![put("b", 2)], 3, 6), commit(1, vec![put("a", 1)], 1, 10)];
    Notes { commits, ..Notes::default() }
}

fn broken(diary: &Diary, event: usize, shown: &Shown) -> Option<Rule> {
    diary.check(event, 0, shown).err().map(|violation| violation.rule)
}

#[test]
fn what_was_told_must_be_there_and_what_was_not_asked_for_must_not() {
    let diary = Diary::new(Base::default(), Promise::Each, vec![notes()]).expect("explained");
    let (none, first) = (shows(0, &[]), shows(1, &[("a", 1)]));
    let (both, torn) = (shows(2, &[("a", 1), ("b", 2)]), shows(2, &[("b", 2)]));
    for (event, shown, wrong) in [
        (2, &none, None),
        (2, &first, None),
        (2, &both, Some(Rule::N3)),
        (5, &both, None),
        (5, &torn, Some(Rule::N2)),
        (7, &first, Some(Rule::N1)),
        (7, &both, None),
    ] {
        assert_eq!(broken(&diary, event, shown), wrong, "{event} {shown:?}");
    }
    assert_eq!(diary.in_flight(5), 2);
}

#[test]
fn a_prefix_is_promised_up_to_the_last_sync() {
    let synced = Notes { syncs: vec![During { begun: 7, done: 9 }], ..notes() };
    let diary = Diary::new(Base::default(), Promise::Prefix, vec![synced]).expect("explained");
    assert_eq!(broken(&diary, 8, &shows(0, &[])), None);
    assert_eq!(broken(&diary, 10, &shows(1, &[("a", 1)])), Some(Rule::N1));
    assert_eq!(broken(&diary, 8, &shows(2, &[("b", 2)])), Some(Rule::N2));
}

#[test]
fn a_read_is_explained_by_some_moment_or_is_wrong() {
    let read = |value: Option<u32>, begun, done| Notes {
        reads: vec![Read {
            keyspace: 0,
            key: b"a".to_vec(),
            value: value.map(|id| Value { id, len: 8 }.bytes()),
            during: During { begun, done },
        }],
        ..Notes::default()
    };
    let diary = |read| Diary::new(Base::default(), Promise::Each, vec![notes(), read]);
    // No caller was told of the first when this was read, but from then on it must stay.
    let seen = diary(read(Some(1), 2, 4)).expect("explained");
    assert_eq!(broken(&seen, 5, &shows(0, &[])), Some(Rule::N5));
    assert!(diary(read(None, 2, 4)).is_ok());
    assert!(diary(read(None, 7, 8)).is_err(), "the second was told, which the first stands before");
    assert!(diary(read(Some(9), 2, 4)).is_err(), "never written");
}

#[test]
fn what_an_edit_decides_over_is_in_or_out_while_its_call_lasts() {
    let make = Edit {
        writes: vec![Write::Make { keyspace: 2 }],
        number: 2,
        numbered: false,
        during: During { begun: 7, done: 9 },
    };
    let made = Notes { edits: vec![make], ..notes() };
    let diary = Diary::new(Base::default(), Promise::Each, vec![made]).expect("explained");
    let without = shows(2, &[("a", 1), ("b", 2)]);
    let mut with = without.clone();
    with.state.insert(EntryKey::new(2, b""), Vec::new());
    assert_eq!(broken(&diary, 7, &with), Some(Rule::N2));
    assert_eq!((broken(&diary, 8, &with), broken(&diary, 8, &without)), (None, None));
    assert_eq!(broken(&diary, 11, &without), Some(Rule::N2));
}
