//! What is written is read, under every option and by every way of reading.

mod common;

use std::cmp::Reverse;

use base::Seq;

use common::{Key, Model, all, entry, open, options, write};
use proptest::prelude::*;
use sst::{EntryKind, SEQ_MAX, Writer, WriterOptions};

fn keys() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => proptest::collection::vec(prop_oneof![Just(0_u8), Just(97), Just(255)], 0..6),
        2 => "key[0-9]{4}".prop_map(String::into_bytes),
        1 => proptest::collection::vec(any::<u8>(), 0..300),
    ]
}

fn kinds() -> impl Strategy<Value = EntryKind> {
    prop_oneof![
        6 => Just(EntryKind::Value),
        1 => Just(EntryKind::Delete),
        1 => Just(EntryKind::Merge),
        1 => Just(EntryKind::SingleDelete),
    ]
}

fn models() -> impl Strategy<Value = Model> {
    let seqs = prop_oneof![0..20_u64, Just(SEQ_MAX.get()), any::<u32>().prop_map(u64::from)]
        .prop_map(Seq::new);
    let values = prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..20),
        (0..400_usize).prop_map(|len| vec![7; len]),
    ];
    let entry = (keys(), seqs, kinds(), values)
        .prop_map(|(key, seq, kind, value)| ((key, Reverse(seq)), (kind, value)));
    proptest::collection::vec(entry, 0..200).prop_map(Model::from_iter)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn reads_what_was_written(
        model in models(),
        pick in any::<u64>(),
        probes in proptest::collection::vec((keys(), (0..25_u64).prop_map(Seq::new)), 20),
    ) {
        let (bytes, summary) = write(&model, options(pick));
        prop_assert_eq!(summary.len, bytes.len() as u64);
        prop_assert_eq!(summary.entries, model.len() as u64);
        let table = open(bytes).unwrap();
        let wanted: Vec<_> = model.clone().into_iter().collect();
        prop_assert_eq!(&all(&table).unwrap(), &wanted);
        prop_assert_eq!(table.verify().unwrap(), vec![]);

        let mut newest = wanted.clone();
        newest.dedup_by(|next, before| next.0.0 == before.0.0);
        let mut by_keys = Vec::new();
        let mut cursor = table.cursor();
        cursor.first().unwrap();
        while cursor.valid() {
            by_keys.push(entry(&cursor));
            cursor.next_key().unwrap();
        }
        prop_assert_eq!(&by_keys, &newest);

        let mut back = Vec::new();
        let mut cursor = table.cursor();
        cursor.last().unwrap();
        while cursor.valid() {
            back.push(entry(&cursor));
            cursor.prev().unwrap();
        }
        back.reverse();
        prop_assert_eq!(&back, &wanted);

        let stored = model.keys().map(|(key, seq)| (key.clone(), seq.0));
        for (key, seq) in stored.chain(probes) {
            let place: Key = (key.clone(), Reverse(seq));
            let behind = model.range(place.clone()..).next();
            cursor.seek(&key, seq).unwrap();
            let there = cursor.valid().then(|| entry(&cursor));
            prop_assert_eq!(there, behind.map(|(k, v)| (k.clone(), v.clone())));

            let before = model.range(..=place).next_back();
            cursor.seek_for_prev(&key, seq).unwrap();
            let there = cursor.valid().then(|| entry(&cursor));
            prop_assert_eq!(there, before.map(|(k, v)| (k.clone(), v.clone())));

            let hit = table.get(&key, seq).unwrap();
            let hit = hit.map(|hit| (hit.seq, hit.kind, hit.value().to_vec()));
            let wanted = behind.filter(|((found, _), _)| *found == key);
            prop_assert_eq!(hit, wanted.map(|((_, seq), (kind, value))| (seq.0, *kind, value.clone())));
        }
    }
}

#[test]
fn disorder_is_refused() {
    let add = |steps: &[(&[u8], u64)]| {
        let mut writer = Writer::new(Vec::new(), WriterOptions::default());
        steps
            .iter()
            .try_for_each(|(key, seq)| writer.add(key, Seq::new(*seq), EntryKind::Value, b""))
    };
    assert!(add(&[(b"a", 5), (b"a", 4), (b"b", 9)]).is_ok());
    for steps in [
        &[(&b"b"[..], 1_u64), (&b"a"[..], 1)][..],
        &[(b"a", 4), (b"a", 5)],
        &[(b"a", 4), (b"a", 4)],
        &[(b"a", SEQ_MAX.get() + 1)],
    ] {
        assert_eq!(add(steps).unwrap_err().kind(), base::ErrorKind::InvalidArgument);
    }
    let external = WriterOptions { external: true, ..WriterOptions::default() };
    let mut writer = Writer::new(Vec::new(), external);
    assert!(writer.add(b"a", Seq::new(1), EntryKind::Value, b"").is_err());
    assert!(writer.add(b"a", Seq::ZERO, EntryKind::Value, b"").is_ok());
    assert!(writer.add_range_delete(b"b", b"b", Seq::ZERO).is_err());
}

#[test]
fn range_deletions_come_back_sorted() {
    let mut writer = Writer::new(Vec::new(), WriterOptions::default());
    writer.add(b"m", Seq::new(9), EntryKind::Value, b"v").unwrap();
    for (begin, end, seq) in [("p", "q", 3), ("a", "c", 5), ("a", "z", 8), ("a", "b", 5)] {
        writer.add_range_delete(begin.as_bytes(), end.as_bytes(), Seq::new(seq)).unwrap();
    }
    let (bytes, summary) = writer.finish().unwrap();
    assert_eq!((summary.smallest.as_slice(), summary.largest.as_slice()), (&b"a"[..], &b"z"[..]));
    assert_eq!(
        (summary.min_seq, summary.max_seq, summary.range_deletes),
        (Seq::new(3), Seq::new(9), 3)
    );
    let table = open(bytes.clone()).unwrap();
    let found = table.layout().range_deletes(&bytes).unwrap();
    let found: Vec<_> =
        found.iter().map(|range| (range.begin[0], range.end[0], range.seq.get())).collect();
    assert_eq!(found, [(b'a', b'z', 8), (b'a', b'c', 5), (b'p', b'q', 3)]);
}

#[test]
fn a_global_number_stands_for_all() {
    let model = Model::from_iter(
        ["a", "b", "c"]
            .map(|key| ((key.into(), Reverse(Seq::ZERO)), (EntryKind::Value, key.into()))),
    );
    let external = WriterOptions { external: true, ..WriterOptions::default() };
    let (bytes, _) = write(&model, external);
    let layout = sst::Layout::open(&bytes).unwrap();
    assert_eq!(layout.global_seq(), Some(Seq::new(0)));
    let layout = std::sync::Arc::new(layout.with_global_seq(Seq::new(50)));
    let table = std::sync::Arc::new(sst::Table::new(layout, sst::Uncached(bytes)));
    assert!(table.get(b"b", Seq::new(49)).unwrap().is_none());
    assert_eq!(table.get(b"b", Seq::new(50)).unwrap().unwrap().seq, Seq::new(50));
    let mut cursor = table.cursor();
    let mut at = |key: &[u8], seq, back: bool| {
        let seq = Seq::new(seq);
        if back { cursor.seek_for_prev(key, seq) } else { cursor.seek(key, seq) }.unwrap();
        cursor.valid().then(|| cursor.key()[0])
    };
    assert_eq!(at(b"b", 50, false), Some(b'b'));
    assert_eq!(at(b"b", 49, false), Some(b'c'));
    assert_eq!(at(b"c", 49, false), None);
    assert_eq!(at(b"b", 50, true), Some(b'b'));
    assert_eq!(at(b"b", 51, true), Some(b'a'));
    assert_eq!(at(b"zz", 51, true), Some(b'c'));
}

#[test]
fn without_entries() {
    for options in [WriterOptions::default(), options(!0)] {
        let (bytes, summary) = write(&Model::new(), options.clone());
        assert_eq!((summary.entries, summary.smallest.len()), (0, 0));
        let table = open(bytes).unwrap();
        assert_eq!(all(&table).unwrap(), []);
        assert!(table.get(b"a", SEQ_MAX).unwrap().is_none());
        assert_eq!(table.verify().unwrap(), []);

        let mut writer = Writer::new(Vec::new(), options);
        writer.add_range_delete(b"a", b"b", Seq::new(1)).unwrap();
        let table = open(writer.finish().unwrap().0).unwrap();
        assert_eq!(all(&table).unwrap(), []);
        assert_eq!(table.range_deletes().unwrap().len(), 1);
        assert_eq!(table.verify().unwrap(), []);
    }
}

/// Tables are written and read by background threads.
#[test]
fn threads_may_share() {
    fn shared<T: Send + Sync>() {}
    fn sent<T: Send>() {}
    shared::<sst::Layout>();
    shared::<sst::Table<sst::Uncached<Vec<u8>>>>();
    shared::<sst::Block>();
    sent::<sst::Cursor<sst::Uncached<Vec<u8>>>>();
    sent::<Writer<Vec<u8>>>();
}

#[test]
fn in_files() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("table.sst");
    let mut writer = Writer::new(sst::FileSink::create(&path).unwrap(), WriterOptions::default());
    writer.add(b"key", Seq::new(1), EntryKind::Value, b"value").unwrap();
    let (sink, summary) = writer.finish().unwrap();
    sink.sync().unwrap();
    assert!(sst::FileSink::create(&path).is_err(), "never over something else");
    let file = sst::FileReader::open(&path).unwrap();
    let layout = std::sync::Arc::new(sst::Layout::open(&file).unwrap());
    assert_eq!(layout.name(), path.display().to_string());
    let table = sst::Table::new(layout.clone(), sst::Uncached(file));
    assert_eq!(table.get(b"key", Seq::new(1)).unwrap().unwrap().value(), b"value");
    // The file shrinks while it is open: an error of the system, not of the table.
    std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(10).unwrap();
    assert_eq!(table.get(b"key", Seq::new(1)).unwrap_err().kind(), base::ErrorKind::Io);
    assert!(sst::Layout::open(&sst::FileReader::open(&path).unwrap()).is_err());
    assert!(summary.len > 10);
    std::fs::remove_file(&path).unwrap();
    assert_eq!(sst::FileReader::open(&path).unwrap_err().kind(), base::ErrorKind::Io);
}
