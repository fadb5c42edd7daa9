//! The model: what a store must answer, with every version that some open snapshot may see.

use std::collections::BTreeMap;
use std::ops::Bound;

use crate::op::{Change, Move};
use crate::value::Value;

/// A moment of the model, as [`Model::snapshot`] gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(u64);

/// Versions of one key, oldest first.
type Versions = Vec<(u64, Option<Value>)>;

#[derive(Clone, Debug, Default)]
struct Space {
    keys: BTreeMap<Vec<u8>, Versions>,
}

/// Which way a walk looks for the nearest key.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Forward,
    Backward,
}

/// A store that is a sorted map of version lists.
#[derive(Clone, Debug)]
pub struct Model {
    spaces: BTreeMap<u32, Space>,
    now: u64,
    open: BTreeMap<u64, usize>,
}

impl Default for Model {
    fn default() -> Model {
        Model::new()
    }
}

impl Model {
    /// An empty model with keyspace 0.
    pub fn new() -> Model {
        Model { spaces: BTreeMap::from([(0, Space::default())]), now: 0, open: BTreeMap::new() }
    }

    /// Makes a keyspace; `false` if there is one already.
    pub fn create(&mut self, space: u32) -> bool {
        let missing = !self.spaces.contains_key(&space);
        self.spaces.entry(space).or_default();
        missing
    }

    /// Drops a keyspace; `false` if there is none.
    pub fn drop_space(&mut self, space: u32) -> bool {
        self.spaces.remove(&space).is_some()
    }

    /// Whether there is such a keyspace.
    pub fn has(&self, space: u32) -> bool {
        self.spaces.contains_key(&space)
    }

    /// The keyspaces there are.
    pub fn spaces(&self) -> Vec<u32> {
        self.spaces.keys().copied().collect()
    }

    /// Commits `changes` as one; the last change of a key counts. Changes to missing keyspaces do nothing.
    pub fn write(&mut self, changes: &[Change]) {
        self.now += 1;
        for change in changes {
            let Some(space) = self.spaces.get_mut(&change.space) else { continue };
            if let Some(versions) = space.keys.get_mut(&change.key) {
                if versions.last().is_some_and(|(seq, _)| *seq == self.now) {
                    versions.pop();
                }
                versions.push((self.now, change.value));
                trim(versions, &self.open);
            } else {
                space.keys.insert(change.key.clone(), vec![(self.now, change.value)]);
            }
        }
    }

    /// Merges `operand` into the value of `key`, as [`Value::merged`] does.
    pub fn merge(&mut self, space: u32, key: &[u8], operand: Value) {
        let base = self.get(space, key, None).map(|value| value.bytes());
        let value = Some(Value::merged(base.as_deref(), &operand.bytes()));
        self.write(&[Change { space, key: key.to_vec(), value }]);
    }

    /// Deletes all keys from `begin` up to before `end`.
    pub fn delete_range(&mut self, space: u32, begin: &[u8], end: &[u8]) {
        self.now += 1;
        let Some(space) = self.spaces.get_mut(&space) else { return };
        let range = (Bound::Included(begin), Bound::Excluded(end));
        if begin >= end {
            return;
        }
        for (_, versions) in space.keys.range_mut::<[u8], _>(range) {
            versions.push((self.now, None));
            trim(versions, &self.open);
        }
    }

    /// Opens a snapshot.
    pub fn snapshot(&mut self) -> Moment {
        *self.open.entry(self.now).or_default() += 1;
        Moment(self.now)
    }

    /// Opens a snapshot that is open already once more.
    pub fn again(&mut self, moment: Moment) -> Moment {
        *self.open.entry(moment.0).or_default() += 1;
        moment
    }

    /// Closes a snapshot.
    pub fn release(&mut self, moment: Moment) {
        if let Some(count) = self.open.get_mut(&moment.0) {
            *count -= 1;
            if *count == 0 {
                self.open.remove(&moment.0);
            }
        }
    }

    /// The value of `key` at `at`, or now.
    pub fn get(&self, space: u32, key: &[u8], at: Option<Moment>) -> Option<Value> {
        let at = at.map_or(self.now, |moment| moment.0);
        visible(self.spaces.get(&space)?.keys.get(key)?, at)
    }

    /// Keys with their values at `at`, or now, in order.
    pub fn entries(
        &self,
        space: u32,
        at: Option<Moment>,
    ) -> impl DoubleEndedIterator<Item = (&[u8], Value)> {
        let at = at.map_or(self.now, |moment| moment.0);
        let keys = self.spaces.get(&space).map(|space| space.keys.iter());
        keys.into_iter()
            .flatten()
            .filter_map(move |(key, versions)| Some((&key[..], visible(versions, at)?)))
    }

    /// Live keys and bytes of keys and values in all keyspaces now.
    pub fn live(&self) -> (usize, usize) {
        let all = self.spaces.keys().flat_map(|space| self.entries(*space, None));
        all.fold((0, 0), |(keys, bytes), (key, value)| (keys + 1, bytes + key.len() + value.len()))
    }

    fn nearest(&self, walk: &Walk, from: Bound<&[u8]>, way: Way) -> Option<(Vec<u8>, Value)> {
        let space = self.spaces.get(&walk.space)?;
        let within = |key: &[u8]| {
            let low = match &walk.lower {
                Bound::Included(bound) => key >= &bound[..],
                Bound::Excluded(bound) => key > &bound[..],
                Bound::Unbounded => true,
            };
            let high = match &walk.upper {
                Bound::Included(bound) => key <= &bound[..],
                Bound::Excluded(bound) => key < &bound[..],
                Bound::Unbounded => true,
            };
            low && high
        };
        let seen = |(key, versions): (&Vec<u8>, &Versions)| {
            let value = visible(versions, walk.at.0).filter(|_| within(key))?;
            Some((key.clone(), value))
        };
        let own = |bound: &Bound<Vec<u8>>| match bound {
            Bound::Included(key) => Bound::Included(key.clone()),
            Bound::Excluded(key) => Bound::Excluded(key.clone()),
            Bound::Unbounded => Bound::Unbounded,
        };
        let from = match from {
            Bound::Included(key) => Bound::Included(key.to_vec()),
            Bound::Excluded(key) => Bound::Excluded(key.to_vec()),
            Bound::Unbounded if way == Way::Forward => own(&walk.lower),
            Bound::Unbounded => own(&walk.upper),
        };
        match way {
            Way::Forward => space.keys.range((from, Bound::Unbounded)).find_map(seen),
            Way::Backward => space.keys.range((Bound::Unbounded, from)).rev().find_map(seen),
        }
    }
}

/// The newest version not younger than `at`.
fn visible(versions: &Versions, at: u64) -> Option<Value> {
    versions.iter().rev().find(|(seq, _)| *seq <= at).and_then(|(_, value)| *value)
}

/// Drops what no open snapshot and no later one can see.
fn trim(versions: &mut Versions, open: &BTreeMap<u64, usize>) {
    let mut kept = 0;
    for i in 0..versions.len() {
        let seq = versions[i].0;
        let needed =
            versions.get(i + 1).is_none_or(|(next, _)| open.range(seq..*next).next().is_some());
        if needed {
            versions[kept] = versions[i];
            kept += 1;
        }
    }
    versions.truncate(kept);
}

/// An iterator over the model: a position and what it may see.
#[derive(Clone, Debug)]
pub struct Walk {
    /// Keyspace it goes over.
    pub space: u32,
    /// Moment it sees.
    pub at: Moment,
    /// It yields no key below this.
    pub lower: Bound<Vec<u8>>,
    /// It yields no key above this.
    pub upper: Bound<Vec<u8>>,
    /// Where it stands.
    pub current: Option<(Vec<u8>, Value)>,
}

impl Walk {
    /// A walk that stands nowhere.
    pub fn new(space: u32, at: Moment, lower: Bound<Vec<u8>>, upper: Bound<Vec<u8>>) -> Walk {
        Walk { space, at, lower, upper, current: None }
    }

    /// Makes a move.
    pub fn go(&mut self, model: &Model, to: &Move) {
        self.current = match to {
            Move::First => model.nearest(self, Bound::Unbounded, Way::Forward),
            Move::Last => model.nearest(self, Bound::Unbounded, Way::Backward),
            Move::Seek(key) => model.nearest(self, Bound::Included(key), Way::Forward),
            Move::SeekForPrev(key) => model.nearest(self, Bound::Included(key), Way::Backward),
            Move::Next | Move::Prev => {
                let Some((key, _)) = self.current.take() else { return };
                let way = if *to == Move::Next { Way::Forward } else { Way::Backward };
                model.nearest(self, Bound::Excluded(&key), way)
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(key: &str, seed: u64) -> Change {
        Change { space: 0, key: key.into(), value: Some(Value::new(seed, 4)) }
    }

    #[test]
    fn snapshots_see_their_moment_after_trimming() {
        let mut model = Model::new();
        let mut moments = Vec::new();
        for seed in 0..50 {
            model.write(&[put("k", seed), put("k", seed + 1000)]);
            if seed % 7 == 0 {
                moments.push((model.snapshot(), seed + 1000));
            }
        }
        for (moment, seed) in &moments {
            assert_eq!(model.get(0, b"k", Some(*moment)), Some(Value::new(*seed, 4)));
        }
        assert!(model.spaces[&0].keys[&b"k"[..]].len() <= moments.len() + 1);
        moments.drain(..).for_each(|(moment, _)| model.release(moment));
        model.write(&[put("k", 7)]);
        assert_eq!(model.spaces[&0].keys[&b"k"[..]].len(), 1);
    }

    #[test]
    fn walks_stay_within_their_bounds() {
        let mut model = Model::new();
        for key in ["a", "b", "c", "d"] {
            model.write(&[put(key, 1)]);
        }
        let at = model.snapshot();
        model.write(&[Change { space: 0, key: b"b".to_vec(), value: None }]);
        let bounds = (Bound::Excluded(b"a".to_vec()), Bound::Included(b"c".to_vec()));
        let mut walk = Walk::new(0, at, bounds.0, bounds.1);
        let mut seen = Vec::new();
        for to in
            [Move::First, Move::Next, Move::Next, Move::Last, Move::Prev, Move::Seek(b"0".to_vec())]
        {
            walk.go(&model, &to);
            seen.push(walk.current.as_ref().map(|(key, _)| key[0]));
        }
        assert_eq!(seen, [Some(b'b'), Some(b'c'), None, Some(b'c'), Some(b'b'), Some(b'b')]);
    }
}
