//! What may be in the store after a kill.
//!
//! Each lane commits one after the other, so when its process dies all its commits but the last were
//! acknowledged, and the last is there whole or not at all. That settles every key that one lane alone
//! writes. A shared key may hold what any lane wrote to it, unless another commit of that key began after
//! this one was acknowledged. A commit that was not there after a kill may never come back; its number is not
//! used again, so that it would be noticed.

use std::collections::{BTreeMap, BTreeSet};

use super::message::Message;
use super::plan::{Change, Key, KillPlan, OWN_KEYS, SHARED_KEYS, SPACES, Version};

/// Everything in the store, by keyspace.
pub type Contents = [BTreeMap<Vec<u8>, Vec<u8>>; SPACES.len()];

/// What the parent knows.
#[derive(Clone)]
pub struct Oracle {
    plan: KillPlan,
    lanes: Vec<Lane>,
    /// What may be the last word on each shared key.
    shared: BTreeMap<Key, Vec<Word>>,
    /// Messages read so far.
    clock: u64,
    /// Whether the store was open once.
    pub opened: bool,
    pub acknowledged: u64,
    /// Commits that were there although they had not been acknowledged.
    pub beyond: u64,
    /// Values that readers reported.
    pub seen: u64,
}

#[derive(Clone)]
struct Lane {
    /// Number after the last that was intended.
    next: u64,
    under_way: Option<UnderWay>,
    /// Commits that were lost in a kill, which is right, and must stay so.
    lost: BTreeSet<u64>,
    /// Last word on each own key.
    own: Vec<Option<Version>>,
}

#[derive(Clone, Copy)]
struct UnderWay {
    number: u64,
    begun: u64,
    /// A reader saw it.
    seen: bool,
}

/// A change of a shared key, and when its commit ended.
#[derive(Clone, Copy, Debug)]
struct Word {
    lane: usize,
    put: Option<Version>,
    ended: u64,
}

/// What [`Oracle::judge`] concluded.
pub struct Verdict {
    /// For each lane, whether its commit under way is there.
    there: Vec<bool>,
    contents: Contents,
}

fn own_at(key: &Key) -> usize {
    key.space * OWN_KEYS as usize + key.number as usize
}

impl Oracle {
    pub fn new(plan: KillPlan) -> Oracle {
        let lane = Lane {
            next: 0,
            under_way: None,
            lost: BTreeSet::new(),
            own: vec![None; SPACES.len() * OWN_KEYS as usize],
        };
        let mut oracle = Oracle {
            plan,
            lanes: vec![lane; plan.lanes],
            shared: BTreeMap::new(),
            clock: 0,
            opened: false,
            acknowledged: 0,
            beyond: 0,
            seen: 0,
        };
        oracle.emptied();
        oracle
    }

    /// The store is empty: everything was deleted, or it was made anew. Numbers go on.
    pub fn emptied(&mut self) {
        for lane in &mut self.lanes {
            lane.own.fill(None);
        }
        let nothing = Word { lane: 0, put: None, ended: 0 };
        let spaces = 0..SPACES.len();
        let keys = spaces.flat_map(|space| {
            (0..SHARED_KEYS).map(move |number| Key { space, lane: None, number })
        });
        self.shared = keys.map(|key| (key, vec![nothing])).collect();
    }

    /// The number with which each lane goes on.
    pub fn next(&self) -> Vec<u64> {
        self.lanes.iter().map(|lane| lane.next).collect()
    }

    /// Takes in what a child told.
    pub fn hear(&mut self, message: Message) -> Result<(), String> {
        self.clock += 1;
        match message {
            Message::Opened => self.opened = true,
            Message::Opening | Message::Count { .. } => {}
            Message::Intend { lane, number } => {
                let lane = self.lanes.get_mut(lane).ok_or("no such lane")?;
                if lane.under_way.is_some() || number != lane.next {
                    return Err(format!("commit {number} intended out of turn"));
                }
                lane.next = number + 1;
                lane.under_way = Some(UnderWay { number, begun: self.clock, seen: false });
            }
            Message::Acknowledged { lane, number } => {
                let state = self.lanes.get_mut(lane).ok_or("no such lane")?;
                let under_way = state.under_way.take().filter(|u| u.number == number);
                let begun = under_way.ok_or("acknowledged what was not intended")?.begun;
                self.acknowledged += 1;
                self.apply(lane, number, begun);
            }
            Message::Saw { lane, number } => {
                let state = self.lanes.get_mut(lane).ok_or("no such lane")?;
                self.seen += 1;
                if number >= state.next {
                    return Err(format!(
                        "lane {lane}: a reader saw commit {number}, never intended"
                    ));
                }
                if state.lost.contains(&number) {
                    return Err(format!("lane {lane}: a reader saw commit {number}, lost before"));
                }
                if let Some(under_way) = state.under_way.as_mut().filter(|u| u.number == number) {
                    under_way.seen = true;
                }
            }
        }
        Ok(())
    }

    /// The commit is in the store for good; it was made between `begun` and now.
    fn apply(&mut self, lane: usize, number: u64, begun: u64) {
        for change in last_words(self.plan.commit(lane, number)) {
            match self.shared.get_mut(&change.key) {
                Some(words) => {
                    // What had ended before this began is not the last word any more.
                    words.retain(|word| word.ended >= begun);
                    words.push(Word { lane, put: change.put, ended: self.clock });
                }
                None => self.lanes[lane].own[own_at(&change.key)] = change.put,
            }
        }
    }

    /// Whether `contents` is what may be in the store now.
    pub fn judge(&self, contents: Contents) -> Result<Verdict, String> {
        let mut there = Vec::new();
        for lane in 0..self.lanes.len() {
            there.push(self.judge_under_way(lane, &contents)?);
        }
        let mut after = self.clone();
        after.settle(&there);
        let mut known = 0;
        for key in self.plan.keys() {
            let found = contents[key.space].get(&key.bytes());
            known += usize::from(found.is_some());
            after.judge_key(&key, found.map(Vec::as_slice))?;
        }
        if known != contents.iter().map(BTreeMap::len).sum::<usize>() {
            let mut all = contents.iter().flat_map(BTreeMap::keys);
            let keys: BTreeSet<Vec<u8>> = self.plan.keys().map(|key| key.bytes()).collect();
            let unknown = all.find(|key| !keys.contains(*key));
            return Err(format!("a key that was never written: {unknown:?}"));
        }
        Ok(Verdict { there, contents })
    }

    /// Whether the commit that `lane` had under way is there; an error if it is there in part.
    fn judge_under_way(&self, lane: usize, contents: &Contents) -> Result<bool, String> {
        let Some(under_way) = self.lanes[lane].under_way else { return Ok(false) };
        let number = under_way.number;
        let (mut new, mut old) = (Vec::new(), Vec::new());
        for Change { key, put } in last_words(self.plan.commit(lane, number)) {
            if key.lane.is_none() {
                continue;
            }
            let before = self.lanes[lane].own[own_at(&key)];
            let found = contents[key.space].get(&key.bytes()).map(Vec::as_slice);
            match (self.is(lane, &key, put, found), self.is(lane, &key, before, found)) {
                (true, false) => new.push(key),
                (false, true) => old.push(key),
                (true, true) => {}
                (false, false) => {
                    return Err(format!(
                        "lane {lane}: {key:?} holds {}; commit {number}, under way, puts {put:?} over \
                         {before:?}",
                        self.describe(&key, found)
                    ));
                }
            }
        }
        if !new.is_empty() && !old.is_empty() {
            return Err(format!(
                "lane {lane}: commit {number} is torn: {new:?} have it, {old:?} have not"
            ));
        }
        // Where nothing tells, it only deleted what was not there.
        if under_way.seen && new.is_empty() && !old.is_empty() {
            return Err(format!("lane {lane}: commit {number} was seen by a reader and is gone"));
        }
        Ok(!new.is_empty())
    }

    /// Takes in which commits under way are there. There are none afterwards.
    fn settle(&mut self, there: &[bool]) {
        self.clock += 1;
        for (lane, there) in there.iter().enumerate() {
            let Some(under_way) = self.lanes[lane].under_way.take() else { continue };
            if *there {
                self.beyond += 1;
                self.apply(lane, under_way.number, under_way.begun);
            } else {
                self.lanes[lane].lost.insert(under_way.number);
            }
        }
    }

    fn judge_key(&self, key: &Key, found: Option<&[u8]>) -> Result<(), String> {
        let right = match (key.lane, self.shared.get(key)) {
            (Some(lane), _) => self.is(lane, key, self.lanes[lane].own[own_at(key)], found),
            (None, Some(words)) => {
                words.iter().any(|word| self.is(word.lane, key, word.put, found))
            }
            (None, None) => false,
        };
        if right {
            return Ok(());
        }
        let expected = match (key.lane, self.shared.get(key)) {
            (Some(lane), _) => format!("{:?}", self.lanes[lane].own[own_at(key)]),
            (None, words) => format!("one of {words:?}"),
        };
        Err(format!("{key:?} holds {}; expected {expected}", self.describe(key, found)))
    }

    fn is(&self, lane: usize, key: &Key, put: Option<Version>, found: Option<&[u8]>) -> bool {
        match (put, found) {
            (None, None) => true,
            (Some(version), Some(found)) => self.plan.value(lane, key, version) == found,
            _ => false,
        }
    }

    fn describe(&self, key: &Key, found: Option<&[u8]>) -> String {
        let Some(found) = found else { return "nothing".into() };
        let Some((lane, version)) = self.plan.writer(key, found) else {
            let head = &found[..found.len().min(24)];
            return format!("{} bytes that were never written, {head:?}...", found.len());
        };
        let lost = self.lanes[lane].lost.contains(&version.commit());
        let lost = if lost { ", which was lost before" } else { "" };
        format!("{version:?} of commit {} of lane {lane}{lost}", version.commit())
    }

    /// Takes in a verdict: from now on what was found is what must stay.
    pub fn accept(&mut self, verdict: &Verdict) {
        self.settle(&verdict.there);
        let (plan, clock) = (self.plan, self.clock);
        for (key, words) in &mut self.shared {
            let found = verdict.contents[key.space].get(&key.bytes());
            let writer = found.and_then(|value| plan.writer(key, value));
            let (lane, put) = writer.map_or((0, None), |(lane, version)| (lane, Some(version)));
            *words = vec![Word { lane, put, ended: clock }];
        }
    }
}

/// The changes of a commit without those that a later one of the same key replaces.
fn last_words(changes: Vec<Change>) -> Vec<Change> {
    let replaced = |at: usize| changes[at + 1..].iter().any(|later| later.key == changes[at].key);
    (0..changes.len()).filter(|at| !replaced(*at)).map(|at| changes[at]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: KillPlan = KillPlan { seed: 5, lanes: 2 };

    /// A store as it should be, with its oracle.
    struct World {
        oracle: Oracle,
        contents: Contents,
    }

    impl World {
        fn new() -> World {
            World { oracle: Oracle::new(PLAN), contents: Contents::default() }
        }

        fn intend(&mut self, lane: usize, number: u64) {
            self.oracle.hear(Message::Intend { lane, number }).unwrap();
        }

        fn acknowledge(&mut self, lane: usize, number: u64) {
            self.oracle.hear(Message::Acknowledged { lane, number }).unwrap();
        }

        fn change(&mut self, lane: usize, change: &Change) {
            let bytes = change.key.bytes();
            match change.put {
                Some(version) => {
                    let value = PLAN.value(lane, &change.key, version);
                    self.contents[change.key.space].insert(bytes, value);
                }
                None => _ = self.contents[change.key.space].remove(&bytes),
            }
        }

        fn commit(&mut self, lane: usize, number: u64) {
            PLAN.commit(lane, number).iter().for_each(|change| self.change(lane, change));
        }

        /// Commits 0 to `to` of a lane, in the store and acknowledged.
        fn through(&mut self, lane: usize, to: u64) {
            for number in 0..to {
                self.intend(lane, number);
                self.commit(lane, number);
                self.acknowledge(lane, number);
            }
        }

        fn judge(&self) -> Result<Verdict, String> {
            self.oracle.judge(self.contents.clone())
        }
    }

    /// The first commit of lane 0 with several own keys, and its changes of them.
    fn batch() -> (u64, Vec<Change>) {
        (0..)
            .map(|number| {
                let mut changes = last_words(PLAN.commit(0, number));
                changes.retain(|change| change.key.lane.is_some() && change.put.is_some());
                (number, changes)
            })
            .find(|(_, own)| own.len() > 2)
            .unwrap()
    }

    #[test]
    fn a_commit_under_way_may_be_there_or_not_but_not_in_part() {
        let (number, own) = batch();
        let mut world = World::new();
        world.through(0, number);
        world.through(1, 40);
        world.intend(0, number);
        assert!(!world.judge().unwrap().there[0]);
        world.change(0, &own[0]);
        assert!(world.judge().err().unwrap().contains("torn"));
        world.commit(0, number);
        let verdict = world.judge().unwrap();
        assert_eq!(verdict.there, [true, false]);
        world.oracle.accept(&verdict);
        assert_eq!(world.oracle.beyond, 1);
        world.judge().unwrap();
        // From now on it must stay.
        world.contents[own[0].key.space].remove(&own[0].key.bytes());
        assert!(world.judge().is_err());
    }

    #[test]
    fn what_was_lost_does_not_come_back() {
        let (number, _) = batch();
        let mut world = World::new();
        world.through(0, number);
        world.intend(0, number);
        let verdict = world.judge().unwrap();
        world.oracle.accept(&verdict);
        world.commit(0, number);
        assert!(world.judge().err().unwrap().contains("lost before"));
        assert!(world.oracle.hear(Message::Saw { lane: 0, number }).is_err());
    }

    #[test]
    fn what_was_seen_stays() {
        let (number, _) = batch();
        let mut world = World::new();
        world.through(0, number);
        world.intend(0, number);
        world.oracle.hear(Message::Saw { lane: 0, number }).unwrap();
        assert!(world.judge().err().unwrap().contains("seen"));
        world.commit(0, number);
        world.judge().unwrap();
        assert!(world.oracle.hear(Message::Saw { lane: 0, number: number + 1 }).is_err());
    }

    #[test]
    fn nothing_is_lost_invented_or_risen() {
        let mut world = World::new();
        world.through(0, 400);
        world.judge().unwrap();
        let right = world.contents.clone();
        for space in 0..SPACES.len() {
            for key in right[space].keys().take(50) {
                world.contents[space].remove(key);
                assert!(world.judge().is_err(), "lost {key:?}");
                world.contents = right.clone();
            }
        }
        world.contents[1].insert(b"stranger".to_vec(), vec![1]);
        assert!(world.judge().err().unwrap().contains("never written"));
        world.contents = right.clone();
        for number in 0..400 {
            for change in PLAN.commit(0, number).iter().filter(|change| change.put.is_some()) {
                world.change(0, change);
                assert_eq!(world.judge().is_ok(), world.contents == right, "{change:?} rose");
                world.contents = right.clone();
            }
        }
    }

    #[test]
    fn a_shared_key_holds_a_last_word() {
        let shared = |lane, from: u64| {
            (from..).find_map(|number| {
                let changes = last_words(PLAN.commit(lane, number));
                let put = |change: &Change| change.key.lane.is_none() && change.put.is_some();
                changes.into_iter().find(put).map(|change| (number, change.key))
            })
        };
        let (first, key) = shared(0, 0).unwrap();
        let writes =
            |number: &u64| last_words(PLAN.commit(1, *number)).iter().any(|c| c.key == key);
        let second = (0..).find(writes).unwrap();
        // One after the other: the later one counts.
        let mut world = World::new();
        world.through(0, first + 1);
        let early = world.contents.clone();
        world.through(1, second + 1);
        world.judge().unwrap();
        let found = early[key.space].get(&key.bytes()).unwrap();
        world.contents[key.space].insert(key.bytes(), found.clone());
        assert!(world.judge().is_err());
        // At the same time: either may.
        let mut world = World::new();
        world.through(1, second);
        world.through(0, first);
        world.intend(0, first);
        world.intend(1, second);
        world.commit(0, first);
        let early = world.contents.clone();
        world.commit(1, second);
        world.acknowledge(1, second);
        world.acknowledge(0, first);
        world.judge().unwrap();
        let found = early[key.space].get(&key.bytes()).unwrap();
        world.contents[key.space].insert(key.bytes(), found.clone());
        world.judge().unwrap();
    }
}
