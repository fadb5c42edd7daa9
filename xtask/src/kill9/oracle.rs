//! What may be in the store after a kill.
//!
//! Each lane commits one after the other, so when its process dies all its commits but the last were
//! acknowledged, and the last is there whole or not at all. That settles every key that one lane alone
//! writes. A shared key may hold what any lane wrote to it, unless another commit of that key began after
//! this one was acknowledged. A commit that was not there after a kill may never come back; its number is not
//! used again, so that it would be noticed.

use std::collections::{BTreeMap, BTreeSet};

use super::message::Message;
use super::plan::{Change, Key, OWN_KEYS, Plan, SHARED_KEYS, SPACES, Version};

/// Everything in the store, by keyspace.
pub type Contents = [BTreeMap<Vec<u8>, Vec<u8>>; SPACES.len()];

/// What the parent knows.
#[derive(Clone)]
pub struct Oracle {
    plan: Plan,
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
    pub fn new(plan: Plan) -> Oracle {
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
            return Err(format!("a key that nobody wrote: {unknown:?}"));
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
            return format!("{} bytes that nobody wrote, {head:?}...", found.len());
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
