//! What a store holds, and what a change makes of it.

use std::collections::BTreeMap;

use crate::check::Fold;
use crate::hash;
use crate::op::Write;

/// Where an entry is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EntryKey {
    /// In which keyspace.
    pub keyspace: u8,
    /// Its key there.
    pub key: Vec<u8>,
}

impl EntryKey {
    /// The entry of `key` in `keyspace`.
    pub fn new(keyspace: u8, key: &[u8]) -> EntryKey {
        EntryKey { keyspace, key: key.to_vec() }
    }
}

/// Visible entries.
pub type State = BTreeMap<EntryKey, Vec<u8>>;

/// Tells a state from others.
pub(crate) fn fold_of(state: &State) -> Fold {
    let share = |(at, value): (&EntryKey, &Vec<u8>)| hash::entry(at.keyspace, &at.key, value);
    let sum = state.iter().map(share).fold(0, u64::wrapping_add);
    Fold { sum, count: state.len() as u64 }
}

fn remove(state: &mut State, fold: &mut Fold, at: &EntryKey) {
    if let Some(old) = state.remove(at) {
        fold.sum = fold.sum.wrapping_sub(hash::entry(at.keyspace, &at.key, &old));
        fold.count -= 1;
    }
}

pub(crate) fn set(state: &mut State, fold: &mut Fold, at: EntryKey, bytes: Vec<u8>) {
    remove(state, fold, &at);
    fold.sum = fold.sum.wrapping_add(hash::entry(at.keyspace, &at.key, &bytes));
    fold.count += 1;
    state.insert(at, bytes);
}

/// Changes a state, and its fold.
pub(crate) fn apply(state: &mut State, fold: &mut Fold, write: &Write) {
    match write {
        Write::Put { keyspace, key, value } => {
            set(state, fold, EntryKey::new(*keyspace, key), value.bytes());
        }
        Write::Merge { keyspace, key, operand } => {
            let at = EntryKey::new(*keyspace, key);
            let mut bytes = state.get(&at).cloned().unwrap_or_default();
            bytes.extend(operand.bytes());
            set(state, fold, at, bytes);
        }
        Write::Make { keyspace } => {
            set(state, fold, EntryKey::new(*keyspace, b""), Vec::new());
        }
        Write::Drop { keyspace } => {
            let all: Vec<_> = state.keys().filter(|at| at.keyspace == *keyspace).cloned().collect();
            all.iter().for_each(|at| remove(state, fold, at));
        }
        Write::Delete { keyspace, key } => remove(state, fold, &EntryKey::new(*keyspace, key)),
        Write::DeleteRange { keyspace, from, to } => {
            let range = EntryKey::new(*keyspace, from)..EntryKey::new(*keyspace, to.max(from));
            let all: Vec<_> = state.range(range).map(|(at, _)| at.clone()).collect();
            all.iter().for_each(|at| remove(state, fold, at));
        }
    }
}

/// Those of the keys of `map` that a change touches.
pub(crate) fn touched<'m, V>(
    map: &'m mut BTreeMap<EntryKey, V>,
    write: &Write,
) -> Vec<(&'m EntryKey, &'m mut V)> {
    let keyspace = write.keyspace();
    let range = match write {
        Write::Put { key, .. } | Write::Merge { key, .. } | Write::Delete { key, .. } => {
            EntryKey::new(keyspace, key)..=EntryKey::new(keyspace, key)
        }
        Write::DeleteRange { from, to, .. } if from < to => {
            EntryKey::new(keyspace, from)..=EntryKey::new(keyspace, to)
        }
        Write::DeleteRange { .. } => return Vec::new(),
        Write::Make { .. } | Write::Drop { .. } => {
            return map.iter_mut().filter(|(at, _)| at.keyspace == keyspace).collect();
        }
    };
    map.range_mut(range).collect()
}

pub(crate) fn touches(write: &Write, in_keyspace: u8, at_key: &[u8]) -> bool {
    match write {
        Write::Put { keyspace, key, .. }
        | Write::Merge { keyspace, key, .. }
        | Write::Delete { keyspace, key } => *keyspace == in_keyspace && key == at_key,
        Write::Make { keyspace } => *keyspace == in_keyspace && at_key.is_empty(),
        Write::Drop { keyspace } => *keyspace == in_keyspace,
        Write::DeleteRange { keyspace, from, to } => {
            *keyspace == in_keyspace && (from.as_slice()..to.as_slice()).contains(&at_key)
        }
    }
}
