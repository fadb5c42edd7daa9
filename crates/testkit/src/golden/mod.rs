//! Golden stores: which there are, and what each holds.
//!
//! `cargo xtask golden` writes them, and a test of the engine reads those that older builds wrote. What they hold follows
//! from the rules here, key by key, and never from a store. A store that was written stays, so that the rules must not
//! change; more of them may come.

pub mod pack;
mod stores;

pub use stores::{Form, Life, Rounds, STORES, Shape, Store, Then};

use std::collections::BTreeMap;

/// The keyspaces of every store but for one that is made and dropped again, with the number of their numbered keys.
pub const KEYSPACES: [(&str, u64); 2] = [("default", 300), ("stock", 60)];
/// The keyspace that is made, filled and dropped.
pub const DROPPED: &str = "dropped";
/// Keys that an ingested table brings.
pub const INGESTED: u64 = 40;

/// What a store holds: by keyspace, then by key.
pub type Contents = BTreeMap<&'static str, BTreeMap<Vec<u8>, Vec<u8>>>;

/// A change of a round.
#[derive(Clone, Debug)]
pub enum GoldenChange {
    /// Key, value.
    Put(Vec<u8>, Vec<u8>),
    /// Key.
    Delete(Vec<u8>),
    /// First key, and the first that stays.
    DeleteRange(Vec<u8>, Vec<u8>),
    /// Key, operand.
    Merge(Vec<u8>, Vec<u8>),
}

/// Rounds of changes, from 0. Round 6 repeats what round 0 puts beside the numbered keys. In round 2 the keyspace [`DROPPED`]
/// comes and goes, too.
pub const ROUNDS: usize = 7;

/// A numbered key.
pub fn key(i: u64) -> Vec<u8> {
    format!("key{i:05}").into_bytes()
}

/// The value that a round puts: its length depends on all of these.
pub fn value(keyspace: &str, i: u64, round: usize) -> Vec<u8> {
    let text = format!("{keyspace} {i} in round {round}; ");
    text.bytes().cycle().take(10 + (i as usize * 7 + round * 31) % 90).collect()
}

/// What is merged into a key.
pub fn operand(i: u64) -> Vec<u8> {
    format!("operand {i}").into_bytes()
}

/// What a merge makes of a value, if there is one, and operands, oldest first.
pub fn merged<'o>(existing: Option<&[u8]>, operands: impl Iterator<Item = &'o [u8]>) -> Vec<u8> {
    let mut value = existing.unwrap_or(b"nothing").to_vec();
    for operand in operands {
        value.push(b'+');
        value.extend_from_slice(operand);
    }
    value
}

/// A key that an ingested table brings, and its value.
pub fn ingested(i: u64) -> (Vec<u8>, Vec<u8>) {
    (format!("table{i:05}").into_bytes(), value("a table", i, ROUNDS))
}

fn overwritten(i: u64) -> bool {
    i.is_multiple_of(3)
}

fn deleted(i: u64) -> bool {
    i % 7 == 3
}

/// Numbers from 40 to 52 of each hundred go by one range deletion.
fn in_a_deleted_range(i: u64) -> bool {
    (40..52).contains(&(i % 100))
}

fn merged_into(i: u64) -> bool {
    i % 5 == 1
}

fn put_again(i: u64) -> bool {
    i % 11 == 4
}

/// Keys and values of unusual lengths. The longest values are long enough for an extent of their own.
fn odd(keyspace: &str) -> Vec<(Vec<u8>, Vec<u8>)> {
    let cycled = |text: &str, len: usize| text.bytes().cycle().take(len).collect::<Vec<u8>>();
    vec![
        (b"a".to_vec(), Vec::new()),
        (cycled("a long key, ", 700), value(keyspace, 0, 6)),
        (cycled("a long key, ", 701), value(keyspace, 1, 6)),
        (b"long value".to_vec(), cycled(keyspace, 9000)),
        (b"longer value".to_vec(), cycled(&format!("{keyspace} "), 40_000)),
        (vec![0xff; 16], b"the last key".to_vec()),
    ]
}

/// The changes of a round to the first `keys` numbered keys of a keyspace.
pub fn changes(round: usize, keyspace: &str, keys: u64) -> Vec<GoldenChange> {
    let put = |i| GoldenChange::Put(key(i), value(keyspace, i, round));
    let put_odd = || odd(keyspace).into_iter().map(|(key, value)| GoldenChange::Put(key, value));
    let numbers = 0..keys;
    match round {
        0 => numbers.map(put).chain(put_odd()).collect(),
        1 => numbers.filter(|i| overwritten(*i)).map(put).collect(),
        2 => numbers.filter(|i| deleted(*i)).map(|i| GoldenChange::Delete(key(i))).collect(),
        3 => (0..keys.div_ceil(100))
            .map(|hundred| {
                GoldenChange::DeleteRange(key(hundred * 100 + 40), key(hundred * 100 + 52))
            })
            .collect(),
        4 => numbers
            .filter(|i| merged_into(*i))
            .map(|i| GoldenChange::Merge(key(i), operand(i)))
            .collect(),
        5 => numbers.filter(|i| put_again(*i)).map(put).collect(),
        _ => put_odd().collect(),
    }
}

/// The value of a numbered key after all rounds. Told from the rules of the rounds, the last first.
fn last_value(keyspace: &str, i: u64) -> Option<Vec<u8>> {
    if put_again(i) {
        return Some(value(keyspace, i, 5));
    }
    let gone = deleted(i) || in_a_deleted_range(i);
    let put = (!gone).then(|| value(keyspace, i, usize::from(overwritten(i))));
    if merged_into(i) {
        return Some(merged(put.as_deref(), [&operand(i)[..]].into_iter()));
    }
    put
}

/// What a store holds.
pub fn contents(store: &Store) -> Contents {
    let mut all = Contents::new();
    for (name, keys) in KEYSPACES {
        let numbered = (0..keys).filter_map(|i| Some((key(i), last_value(name, i)?)));
        all.insert(name, numbered.chain(odd(name)).collect());
    }
    if store.ingested {
        let default = all.entry("default").or_default();
        default.extend((0..INGESTED).map(ingested));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Applies the rounds one after the other, as a store does.
    fn applied(keyspace: &str, keys: u64) -> BTreeMap<Vec<u8>, Vec<u8>> {
        let mut all = BTreeMap::new();
        for change in (0..ROUNDS).flat_map(|round| changes(round, keyspace, keys)) {
            match change {
                GoldenChange::Put(key, value) => _ = all.insert(key, value),
                GoldenChange::Delete(key) => _ = all.remove(&key),
                GoldenChange::DeleteRange(from, to) => {
                    all.retain(|key, _| *key < from || *key >= to)
                }
                GoldenChange::Merge(key, operand) => {
                    let existing = all.get(&key).map(|value| &value[..]);
                    let value = merged(existing, [&operand[..]].into_iter());
                    all.insert(key, value);
                }
            }
        }
        all
    }

    #[test]
    fn rounds_come_to_the_contents() {
        for (name, keys) in KEYSPACES {
            assert_eq!(contents(&STORES[0])[name], applied(name, keys), "{name}");
        }
    }

    #[test]
    fn names_differ_and_say_what_is_ingested() {
        let names: std::collections::BTreeSet<&str> =
            STORES.iter().map(|store| store.name).collect();
        assert_eq!(names.len(), STORES.len());
        for store in STORES {
            let default = &contents(store)["default"];
            assert_eq!(default.contains_key(&ingested(0).0), store.ingested, "{}", store.name);
        }
    }
}
