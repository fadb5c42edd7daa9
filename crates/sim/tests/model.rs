//! The rules of the model, one by one: what may and what may not be left when power goes.

use pmem::{Region, Site};
use sim::{Event, Fault, Media, Mode, Sabotage, SimPm, StoreKind};

const LEN: usize = 512;

/// The contents that the word at `at` may have after a power cut now, in ascending order.
fn words(pm: &SimPm, at: usize) -> Vec<u64> {
    let mut media = pm.media_at(usize::MAX);
    let word = |bytes: &[u8]| u64::from_le_bytes(bytes[at % 64..at % 64 + 8].try_into().unwrap());
    let torn = media.torn();
    let mut words: Vec<u64> = match torn.iter().find(|t| t.line as usize == at / 64) {
        Some(t) => t.candidates.contents.iter().map(|c| word(c)).collect(),
        None => vec![word(&media.durable()[at / 64 * 64..][..64])],
    };
    words.sort_unstable();
    words.dedup();
    words
}

fn images(media: &mut Media) -> usize {
    media.torn().iter().map(|t| t.candidates.contents.len()).product()
}

fn set(region: &Region, at: u64, value: u64) {
    let _ = region.store_u64(Site::Record, at, value);
}

#[test]
fn a_store_alone_may_be_kept_or_lost() {
    let (pm, region) = SimPm::new(Mode::Adr, LEN as u64);
    set(&region, 64, 7);
    assert_eq!(words(&pm, 64), [0, 7], "evicted or not");
    let _ = region.flush_range(Site::Record, 64, 8);
    assert_eq!(words(&pm, 64), [0, 7], "a flush promises nothing");
}

#[test]
fn a_fence_covers_the_flushes_of_its_own_thread_only() {
    let (pm, region) = SimPm::new(Mode::Adr, LEN as u64);
    set(&region, 64, 7);
    pm.set_thread(1);
    let ours = region.flush_range(Site::Record, 64, 8);
    pm.set_thread(2);
    let theirs = region.flush_range(Site::Record, 128, 8);
    let _ = region.fence(theirs);
    assert_eq!(words(&pm, 64), [0, 7], "the fence of another thread");
    pm.set_thread(1);
    let _ = region.fence(ours);
    assert_eq!(words(&pm, 64), [7]);
}

#[test]
fn a_flush_is_a_snapshot_whoever_stored() {
    let (pm, region) = SimPm::new(Mode::Adr, LEN as u64);
    set(&region, 64, 1);
    pm.set_thread(1);
    let flight = region.flush_range(Site::Record, 64, 8);
    pm.set_thread(0);
    set(&region, 64, 2);
    pm.set_thread(1);
    let _ = region.fence(flight);
    assert_eq!(words(&pm, 64), [1, 2], "what was stored after the flush may be lost");
}

#[test]
fn stores_to_one_line_are_kept_in_order() {
    let (pm, region) = SimPm::new(Mode::Adr, LEN as u64);
    set(&region, 64, 1);
    set(&region, 72, 2);
    let mut media = pm.media_at(usize::MAX);
    let torn = media.torn();
    let pairs: Vec<(u8, u8)> = torn[0].candidates.contents.iter().map(|c| (c[0], c[8])).collect();
    assert_eq!(pairs, [(0, 0), (1, 0), (1, 2)], "never the second without the first");
    set(&region, 128, 3);
    assert_eq!(images(&mut pm.media_at(usize::MAX)), 6, "lines are independent");
}

#[test]
fn a_copy_may_keep_any_of_its_atoms() {
    let (pm, region) = SimPm::new(Mode::Adr, LEN as u64);
    let _ = region.copy(Site::Record, 64, &[9; 24]);
    assert_eq!(images(&mut pm.media_at(usize::MAX)), 8);
    // Atoms that the copy does not change are no choice; bytes outside of it are never touched.
    let _ = region.copy(Site::Record, 84, &[9; 8]);
    let mut media = pm.media_at(usize::MAX);
    assert_eq!(images(&mut media), 9);
    assert!(media.torn()[0].candidates.contents.iter().all(|c| c[28..] == [0; 36]));
    // Across a line's end: each line on its own.
    let (pm, region) = SimPm::new(Mode::Adr, LEN as u64);
    let _ = region.copy(Site::Record, 120, &[9; 16]);
    assert_eq!(images(&mut pm.media_at(usize::MAX)), 4);
}

#[test]
fn a_copy_comes_after_what_was_stored_before() {
    let (pm, region) = SimPm::new(Mode::Adr, LEN as u64);
    set(&region, 64, 1);
    let _ = region.copy(Site::Record, 72, &[9; 16]);
    let mut media = pm.media_at(usize::MAX);
    let torn = media.torn();
    // Durable, the word, and the word with one, the other or both atoms.
    assert_eq!(torn[0].candidates.contents.len(), 5);
    assert!(torn[0].candidates.contents[1..].iter().all(|c| c[0] == 1));
}

#[test]
fn a_streaming_copy_needs_a_fence_and_no_flush() {
    for mode in [Mode::Adr, Mode::Eadr] {
        let (pm, region) = SimPm::new(mode, LEN as u64);
        let flight = region.copy_nt(Site::Record, 64, &[9; 64]);
        assert_eq!(words(&pm, 64).len(), 2, "{mode:?}");
        let _ = region.fence(flight);
        assert_eq!(words(&pm, 64).len(), 1, "{mode:?}");
    }
}

#[test]
fn with_eadr_only_the_last_store_is_open() {
    let (pm, region) = SimPm::new(Mode::Eadr, LEN as u64);
    set(&region, 64, 1);
    assert_eq!(words(&pm, 64), [0, 1], "it may be under way");
    set(&region, 128, 2);
    assert_eq!((words(&pm, 64), words(&pm, 128)), (vec![1], vec![0, 2]));
    pm.mark();
    assert_eq!(words(&pm, 128), [2], "what was told to the caller is done");
}

#[test]
fn a_killed_process_leaves_bytes_that_power_can_still_take() {
    let (pm, region) = SimPm::new(Mode::Adr, LEN as u64);
    set(&region, 64, 7);
    let flight = region.flush_range(Site::Record, 64, 8);
    let (pm, region) = {
        let next = pm.kill();
        // The dead thread's fence does not come; if it did, it would not count in the next process.
        drop(flight);
        next
    };
    assert_eq!(region.load_u64(64), 7, "visible to the next process");
    assert_eq!(words(&pm, 64), [0, 7], "not durable for that");
    let other = region.flush_range(Site::Record, 128, 8);
    let _ = region.fence(other);
    assert_eq!(words(&pm, 64), [0, 7], "the old flush lost its thread");
    let again = region.flush_range(Site::RecoverAccepted, 64, 8);
    let _ = region.fence(again);
    assert_eq!(words(&pm, 64), [7]);
    let (pm, region) = SimPm::survivor(Mode::Adr, pm.media_at(usize::MAX).durable());
    assert_eq!((region.load_u64(64), pm.events()), (7, 0));
}

#[test]
fn any_earlier_moment_can_be_had_again() {
    let (pm, region) = SimPm::new(Mode::Adr, LEN as u64);
    set(&region, 64, 1);
    let flight = region.flush_range(Site::Record, 64, 8);
    let _ = region.fence(flight);
    let open: Vec<usize> = (0..=3).map(|i| pm.media_at(i).torn().len()).collect();
    assert_eq!(open, [0, 1, 1, 0]);
    assert_eq!(pm.media_at(1).visible()[64], 1);
}

#[test]
fn work_that_makes_nothing_durable_is_counted() {
    let (pm, region) = SimPm::new(Mode::Adr, LEN as u64);
    set(&region, 64, 1);
    let first = region.flush_range(Site::Record, 64, 8);
    let again = region.flush_range(Site::Record, 64, 8);
    let _ = region.fence(first.and(again));
    let none = region.flush_range(Site::Record, 64, 8);
    let _ = region.fence(none);
    let waste = pm.media_at(usize::MAX).waste();
    assert_eq!((waste.flushed_lines, waste.redundant_flushes), (3, 2));
    assert_eq!((waste.fences, waste.redundant_fences), (2, 1));
}

#[test]
fn sabotage_shortens_at_the_edges() {
    let durable_after = |what: Fault, kind: StoreKind| {
        let (pm, region) = SimPm::new(Mode::Adr, LEN as u64);
        pm.set_sabotage(Some(Sabotage { site: Site::Record, what }));
        let flight = if kind == StoreKind::NonTemporal {
            region.copy_nt(Site::Record, 64, &[9; 192])
        } else {
            region.flush(region.copy(Site::Record, 70, &[9; 160]))
        };
        let _ = region.fence(flight);
        assert_eq!(pm.struck(), 1, "{what:?}");
        let media = pm.media_at(usize::MAX);
        [100, 140, 200].map(|at| media.durable()[at] == 9)
    };
    for kind in [StoreKind::Bulk, StoreKind::NonTemporal] {
        assert_eq!(durable_after(Fault::ShortFlushFirst, kind), [false, true, true]);
        assert_eq!(durable_after(Fault::ShortFlushLast, kind), [true, true, false]);
        assert_eq!(durable_after(Fault::DropFlush, kind), [false; 3]);
        assert_eq!(durable_after(Fault::DropFence, kind), [false; 3]);
        assert_eq!(durable_after(Fault::FenceOnOtherThread, kind), [false; 3]);
    }
    assert_eq!(durable_after(Fault::PlainInsteadOfNt, StoreKind::NonTemporal), [false; 3]);
}

#[test]
fn a_torn_word_has_halves() {
    let (pm, region) = SimPm::new(Mode::Adr, LEN as u64);
    pm.set_sabotage(Some(Sabotage { site: Site::Record, what: Fault::TornWord }));
    set(&region, 64, 3 << 32 | 1);
    assert_eq!(words(&pm, 64), [0, 1, 3 << 32 | 1]);
}

#[test]
#[should_panic(expected = "does not end")]
fn endless_runs_are_stopped() {
    let (pm, region) = SimPm::new(Mode::Adr, LEN as u64);
    pm.set_fuel(1000);
    loop {
        region.load_u64(0);
    }
}

#[test]
fn memory_and_disk_stand_in_one_record() {
    use sim::log::DiskCall;
    use ssd::{Call, Disk, Fs, Memory};

    let (pm, region) = SimPm::new(Mode::Adr, 128);
    let fs = Memory::watched(Disk::new(64), pm.clone());
    let _ = region.store_u64(Site::Record, 0, 1);
    pm.set_thread(3);
    let mut file = fs.create("d7.sst".as_ref()).unwrap();
    let _ = region.store_u64(Site::Record, 64, 2);
    file.append(&[1; 100]).unwrap();
    let mut log = sim::Log::default();
    pm.swap_log(&mut log);
    let calls: Vec<_> = log.calls.iter().map(|c| (c.call, c.kind().to_string())).collect();
    assert_eq!(calls, [(Call::Create, ".sst".into()), (Call::Append, ".sst".into())]);
    let kind = |path: &str| {
        let call = DiskCall { call: Call::SyncDir, path: path.into(), disk: Default::default() };
        call.kind().to_string()
    };
    assert_eq!(["/db/MANIFEST-000012", "db/wal", "/"].map(kind), ["MANIFEST-", "wal", ""]);
    assert!(matches!(log.events[1], Event::Disk { thread: 3, .. }));
    assert_eq!(log.describe(&log.events[3]), "T3 made the call: append d7.sst");
    // What is in doubt is as old on the disk as what was done to memory beside it.
    let mut media = Media::new(Mode::Adr, &[0; 128]);
    media.replay(&log, 0..log.len());
    let memory: Vec<u64> = media.torn().iter().map(|t| t.candidates.newest).collect();
    let disk = log.disk_after(0..log.len()).unwrap();
    let disk: Vec<u64> = disk.doubts().iter().map(|d| d.newest).collect();
    assert_eq!((memory, disk), (vec![1, 3], vec![4, 4, 4, 2]));
    assert!(log.disk_after(0..1).is_none());
    assert_eq!(log.disk_after(0..3).unwrap().doubts().len(), 1);
}
