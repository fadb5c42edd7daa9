//! Merge operators that the library has.

use std::sync::Arc;

use crate::common::{TempDir, kind_of, numbered};
use strandline::operators::{BuiltInOperator, encode_set};
use strandline::{
    Batch, Db, ErrorKind, Hooks, Keyspace, KeyspaceOptions, Options, ReadOptions, SsdSource,
};

fn options(ssd: SsdSource) -> Options {
    Options::default()
        .ssd(ssd)
        .pm_size(4 << 20)
        .zone_size(16 << 10)
        .memtable_bytes(32 << 10)
        .background_threads(0)
}

fn with(operator: &BuiltInOperator) -> Hooks {
    Hooks::default().merge_operator(Arc::new(operator.clone()))
}

/// Operands of the key of number `key`, and what they come to.
fn case(name: &str, key: u64) -> (Vec<Vec<u8>>, Vec<u8>) {
    let words: Vec<String> = (0..9).map(|n| format!("{:03}", (key * 31 + n * 57) % 1000)).collect();
    let bytes = || words.iter().map(|word| word.clone().into_bytes()).collect();
    match name {
        "add" => {
            let numbers = (0..9).map(|n| (key << 60).wrapping_add(n));
            let sum = numbers.clone().fold(0_u64, u64::wrapping_add);
            (numbers.map(|n| n.to_le_bytes().to_vec()).collect(), sum.to_le_bytes().to_vec())
        }
        "max" => (bytes(), words.iter().max().expect("words").clone().into_bytes()),
        "min" => (bytes(), words.iter().min().expect("words").clone().into_bytes()),
        "append" => (bytes(), words.join(",").into_bytes()),
        "append:" => (bytes(), words.concat().into_bytes()),
        _ => (words.iter().map(|word| encode_set([word])).collect(), encode_set(&words)),
    }
}

#[test]
fn operands_come_to_what_the_operator_says_in_memtables_runs_tables_and_after_an_open() {
    for name in ["add", "max", "min", "append", "append:", "set-union"] {
        for ssd in [SsdSource::Auto, SsdSource::None] {
            let operator = BuiltInOperator::named(name).expect(name);
            let dir = TempDir::new("operators");
            let open =
                || Db::open_with(dir.path(), options(ssd.clone()), with(&operator)).expect("open");
            let mut db = open();
            let check = |db: &Db, when: &str| {
                for key in 0..50 {
                    let (_, merged) = case(name, key);
                    let got = db.get(key.to_be_bytes()).expect("get");
                    assert_eq!(got, Some(merged), "{name}, key {key}, {when}");
                }
            };
            for round in 0..9 {
                for key in 0..50_u64 {
                    db.merge(key.to_be_bytes(), &case(name, key).0[round]).expect("merge");
                }
                if round % 4 == 3 {
                    db.flush().expect("flush");
                }
            }
            check(&db, "as merged");
            db.close().expect("close");
            db = open();
            check(&db, "after an open");
            db.compact().expect("compact");
            check(&db, "compacted");
            db.close().expect("close");
        }
    }
}

#[test]
fn an_operand_that_is_no_number_is_refused_and_a_value_that_is_none_is_named() {
    let dir = TempDir::new("operators-length");
    let hooks = with(&BuiltInOperator::Add);
    let db = Db::open_with(dir.path(), options(SsdSource::Auto), hooks).expect("open");
    let refused = db.merge("hits", "5").expect_err("one byte is no number");
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    let said = refused.to_string();
    assert!(said.contains("add: an operand has 1 bytes") && said.contains("hits"), "{said}");
    let mut batch = Batch::new();
    batch.put(db.default_keyspace(), "other", "1");
    batch.merge(db.default_keyspace(), "hits", "123456789");
    assert_eq!(kind_of(db.write(&batch)), ErrorKind::InvalidArgument);
    assert_eq!(db.get("other").expect("get"), None, "nothing of the batch was written");

    // A put is not the operator's business: what it makes of the value shows when it is read.
    db.put("hits", "seven").expect("put");
    db.merge("hits", 1_u64.to_le_bytes()).expect("merge");
    let failed = db.get("hits").expect_err("five bytes are no number");
    assert_eq!(failed.kind(), ErrorKind::Hook);
    let said = failed.to_string();
    assert!(said.contains("add: the value has 5 bytes, a number has 8"), "{said}");
    assert!(said.contains("put the key anew"), "{said}");
    db.put("hits", 7_u64.to_le_bytes()).expect("put");
    db.merge("hits", 1_u64.to_le_bytes()).expect("merge");
    assert_eq!(db.get("hits").expect("get").as_deref(), Some(&8_u64.to_le_bytes()[..]));
}

const KEYS: u64 = 300;

/// What reads say of a keyspace of counters in which one key cannot be read.
fn all_but(counts: &Keyspace, bad: &[u8], when: &str) {
    let failed = counts.get(bad).expect_err(when);
    assert_eq!(failed.kind(), ErrorKind::Hook, "{when}");
    let said = failed.to_string();
    for part in ["add: the value has 5 bytes, a number has 8", "key000100", "counts", "delete it"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let one = 1_u64.to_le_bytes();
    for back in [false, true] {
        let items: Vec<_> =
            if back { counts.iter().rev().collect() } else { counts.iter().collect() };
        assert_eq!(items.len() as u64, KEYS, "{when}");
        for (at, item) in items.into_iter().enumerate() {
            let no = if back { KEYS - 1 - at as u64 } else { at as u64 };
            match item {
                Ok((key, value)) => assert!(key == numbered(no) && value == one, "{when}: {no}"),
                Err(error) => {
                    assert!(error.to_string().contains("key000100"), "{error}");
                    assert_eq!((error.kind(), &numbered(no)[..]), (ErrorKind::Hook, bad));
                }
            }
        }
    }
    assert_eq!(counts.keys().filter(Result::is_ok).count() as u64, KEYS, "keys need no value");
    let mut cursor = counts.cursor(&ReadOptions::default()).expect("cursor");
    cursor.seek(bad).expect("a cursor stands there");
    assert_eq!(cursor.key(), Some(bad));
    assert_eq!(kind_of(cursor.value().map(drop)), ErrorKind::Hook);
    cursor.next().expect("and goes on");
    assert_eq!(cursor.value().expect("value"), Some(&one[..]));
    cursor.prev().expect("and back");
    assert_eq!(cursor.key(), Some(bad));
}

/// A put of what the operator cannot take, then one merge: gets, scans and all that is made of them ended at that key for ever,
/// and a check said nothing.
#[test]
fn a_key_that_cannot_be_merged_costs_no_other() {
    for ssd in [SsdSource::Auto, SsdSource::None] {
        let dir = TempDir::new("operators-refused");
        let open = || Db::open(dir.path(), options(ssd.clone())).expect("open");
        let mut db = open();
        let add = KeyspaceOptions::new().merge_operator("add");
        let counts = db.create_keyspace_with("counts", add).expect("create");
        let (bad, one) = (numbered(100), 1_u64.to_le_bytes());
        (0..KEYS).for_each(|no| counts.merge(numbered(no), one).expect("merge"));
        counts.put(&bad, "seven").expect("put");
        // Enough of them to be combined.
        (0..8).for_each(|_| counts.merge(&bad, one).expect("merge"));
        all_but(&counts, &bad, "in a memtable");
        db.flush().expect("a flush passes it on");
        all_but(&counts, &bad, "in a run");
        counts.merge(&bad, one).expect("merge");
        db.flush().expect("flush");
        db.compact().expect("a compaction passes it on");
        while !db.work(1000).expect("work").is_idle() {}
        all_but(&counts, &bad, "compacted");
        drop(counts);
        db.close().expect("close");
        db = open();
        let counts = db.keyspace("counts").expect("keyspace");
        all_but(&counts, &bad, "after an open");

        let report = db.check().expect("check");
        assert!(report.damage.is_empty(), "{:?}", report.damage);
        let [unmerged] = &report.unmerged[..] else { panic!("{:?}", report.unmerged) };
        assert_eq!((&unmerged.keyspace[..], &unmerged.key[..]), ("counts", &bad[..]));
        assert!(unmerged.what.contains("a number has 8"), "{}", unmerged.what);

        // What was merged is still there: a snapshot from before the cure is as it was.
        let before = db.snapshot();
        counts.put(&bad, 7_u64.to_le_bytes()).expect("put");
        counts.merge(&bad, one).expect("merge");
        assert_eq!(counts.get(&bad).expect("get").as_deref(), Some(&8_u64.to_le_bytes()[..]));
        assert!(db.check().expect("check").unmerged.is_empty());
        assert_eq!(kind_of(counts.get_with(&bad, &ReadOptions::at(&before))), ErrorKind::Hook);
        counts.delete(&bad).expect("delete");
        assert_eq!(counts.iter().filter(|item| item.is_ok()).count() as u64, KEYS - 1);
    }
}

#[test]
fn a_long_key_is_named_by_its_front() {
    let dir = TempDir::new("operators-long-key");
    let db = Db::open_with(dir.path(), options(SsdSource::Auto), with(&BuiltInOperator::Add));
    let refused = db.expect("open").merge([b'k'; 5000], "5").expect_err("no number");
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    let said = refused.to_string();
    assert!(said.contains("kkk... (5000 bytes)") && said.len() < 400, "{said}");
}
