//! Vacancies: ranges of keys that have no live version, so that a scan need not walk what is gone.
//!
//! They are learnt in two ways: a range deletion vacates its range, and a scan that has walked many deleted keys says
//! so. They are in DRAM only, and by key, not by source: no flush, merge, compaction, split or join changes them.
//!
//! **I-VAC-1** No key in a known vacancy has a version that is live at a snapshot from its `since` on. Whatever makes a
//! key live (a put, an operand, a table taken in) takes the key out of the vacancies between W2 and W5. A reader takes
//! its snapshot first and looks here then, so all that it sees has been taken out. What is left is to make none known
//! that a change looked for too early:
//! - A range deletion announces its range before W2. Changes with higher numbers look behind their W2 and so find it;
//!   those with lower numbers are deleted.
//! - A scan announces what it has walked and then reads the next number. Changes from that number on find it. Those
//!   between the scan's snapshot and that number may not; so the range is known to be vacant when a scan has walked it
//!   whose snapshot covers them. With no writer beside, that is the same scan.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwap;
use base::Seq;
use base::planted::{self, Bug};

/// Deleted keys that a scan must have walked to announce them: a step costs less than what looks here. Few where bugs
/// are planted, whose worlds are small.
pub(crate) const WORTH_A_VACANCY: u64 = if cfg!(feature = "planted") { 1 } else { 32 };
/// Vacancies of a keyspace at most; the least worth go first.
const VACANCIES_MAX: usize = 128;
/// Bytes of their keys at most.
const KEY_BYTES_MAX: usize = 1 << 20;
/// Ranges announced at a time, by all.
const ANNOUNCED_MAX: usize = 128;
/// Ranges announced by one commit.
const ANNOUNCED_BY_ONE: usize = 32;
/// What a vacancy is worth less for each key taken out of it, in entries that scans need not walk: cutting it costs
/// about as much as walking these.
const CUT_COST: u64 = 64;
/// What a range deletion is taken to be worth: no scan has counted what it covers.
const UNCOUNTED: u64 = 16 * CUT_COST;

/// The keys from `begin` on, up to before `end`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Range {
    begin: Arc<[u8]>,
    end: Arc<[u8]>,
}

#[derive(Clone, Debug)]
struct Vacancy {
    range: Range,
    since: Seq,
    /// Entries that scans need not walk, about.
    worth: u64,
}

/// A range that may be vacant.
#[derive(Clone, Debug)]
struct Announced {
    range: Range,
    by: By,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    /// A commit with range deletions that is not published yet.
    Commit(u64),
    /// A scan; changes numbered lower than this may have looked before.
    Scan { unseen_below: Seq },
}

/// What is known at a moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Known {
    /// Disjoint, in key order.
    vacancies: Vec<Vacancy>,
    announced: Vec<Announced>,
}

/// The vacancies of a keyspace.
#[derive(Default)]
pub(crate) struct Vacancies {
    /// Whether there is any, or one is announced: all that most writes and scans look at.
    any: AtomicBool,
    known: ArcSwap<Known>,
    /// Serialises changes; counts commits that announced something.
    change: Mutex<u64>,
}

/// What a scan has walked: none of these keys was live at its snapshot.
pub(crate) struct Walked<'k> {
    pub begin: &'k [u8],
    pub end: &'k [u8],
    /// The scan's snapshot.
    pub snapshot: Seq,
    /// Entries that it passed.
    pub entries: u64,
}

/// Ranges that a commit has announced.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Token(u64);

impl Vacancies {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        // Relaxed is enough: a thread that must not miss an announcement went through the gate after it was made.
        !self.any.load(Ordering::Relaxed)
    }

    /// What is known now, if anything is. The caller has taken its snapshot already.
    #[inline]
    pub(crate) fn known(&self) -> Option<Arc<Known>> {
        if self.is_empty() { None } else { Some(self.known.load_full()) }
    }

    /// A change numbered behind W2 makes `key` live; it is not published yet.
    #[cold]
    pub(crate) fn fill(&self, key: &[u8]) {
        if planted::is(Bug::VacancyKept) || !self.known.load().concerns(key, key) {
            return;
        }
        let behind = after(key);
        self.take_out(&Range { begin: key.into(), end: behind.into() });
    }

    /// As [`Vacancies::fill`], of all keys from `low` to `high`, both included.
    pub(crate) fn fill_range(&self, low: &[u8], high: &[u8]) {
        if !self.is_empty() && self.known.load().concerns(low, high) {
            self.take_out(&Range { begin: low.into(), end: after(high).into() });
        }
    }

    fn take_out(&self, filled: &Range) {
        let _change = self.lock();
        let mut known = (**self.known.load()).clone();
        known.take_out(filled);
        self.publish(known);
    }

    /// Announces the ranges that a commit is about to delete. It has no number yet.
    pub(crate) fn announce<'k>(
        &self,
        ranges: impl Iterator<Item = (&'k [u8], &'k [u8])>,
    ) -> Option<Token> {
        let mut ranges = ranges.filter(|(begin, end)| begin < end).peekable();
        ranges.peek()?;
        let mut commits = self.lock();
        *commits += 1;
        let by = By::Commit(*commits);
        let mut known = (**self.known.load()).clone();
        let room = ANNOUNCED_MAX.saturating_sub(known.announced.len()).min(ANNOUNCED_BY_ONE);
        known.announced.extend(ranges.take(room).map(|(begin, end)| Announced {
            range: Range { begin: begin.into(), end: end.into() },
            by,
        }));
        self.publish(known);
        Some(Token(*commits))
    }

    /// What was announced is deleted as of number `since`, which is not published yet. `oldest` is the oldest snapshot.
    pub(crate) fn vacate(&self, token: Token, since: Seq, oldest: Seq) {
        self.settle(token, |known, range| {
            known.add(range, since, UNCOUNTED);
            known.tidy(oldest);
        });
    }

    /// The commit was given up; its number is not published yet.
    pub(crate) fn withdraw(&self, token: Token) {
        self.settle(token, |_, _| ());
    }

    fn settle(&self, token: Token, each: impl Fn(&mut Known, Range)) {
        let _change = self.lock();
        let mut known = (**self.known.load()).clone();
        let is_its = |announced: &Announced| announced.by == By::Commit(token.0);
        let (own, others) = known.announced.into_iter().partition::<Vec<_>, _>(is_its);
        known.announced = others;
        own.into_iter().for_each(|announced| each(&mut known, announced.range));
        self.publish(known);
    }

    /// Takes in what a scan has walked. `next_seq` reads the next number inside the gate; `oldest` is the oldest snapshot.
    pub(crate) fn walked(&self, walked: &Walked<'_>, oldest: Seq, next_seq: impl FnOnce() -> Seq) {
        if walked.begin >= walked.end || !self.known.load().has_room(walked) {
            return;
        }
        let _change = self.lock();
        let mut known = (**self.known.load()).clone();
        let range = Range { begin: walked.begin.into(), end: walked.end.into() };
        let rest = known.confirm(range, walked);
        if !rest.is_empty() {
            known.announce_walk(rest);
            // A thread that enters the gate from here on finds it.
            self.publish(known.clone());
            known.number_walk(next_seq(), walked);
        }
        known.tidy(oldest);
        self.publish(known);
    }

    fn lock(&self) -> MutexGuard<'_, u64> {
        self.change.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts `known` in the place of what was known. The caller holds the lock.
    fn publish(&self, known: Known) {
        let any = !known.vacancies.is_empty() || !known.announced.is_empty();
        self.known.store(known.into());
        self.any.store(any, Ordering::Release);
    }
}

impl Known {
    /// Whether a key from `low` to `high`, both included, is in a vacancy or an announced range.
    fn concerns(&self, low: &[u8], high: &[u8]) -> bool {
        let first = self.vacancies.partition_point(|vacancy| &*vacancy.range.end <= low);
        let vacant = self.vacancies.get(first).is_some_and(|vacancy| &*vacancy.range.begin <= high);
        let touches = |range: &Range| &*range.begin <= high && low < &*range.end;
        vacant || self.announced.iter().any(|announced| touches(&announced.range))
    }

    /// Whether a walk is worth more than what would make way for it, or makes a vacancy longer.
    fn has_room(&self, walked: &Walked<'_>) -> bool {
        let Walked { begin, end, entries, .. } = *walked;
        let makes_way = |vacancy: &Vacancy| {
            vacancy.worth < entries || &*vacancy.range.end == begin || &*vacancy.range.begin == end
        };
        self.vacancies.len() < VACANCIES_MAX || self.vacancies.iter().any(makes_way)
    }

    /// Where a scan at `snapshot` that comes to `key` going up may go on instead.
    pub(crate) fn behind<'s>(&'s self, key: &[u8], snapshot: Seq) -> Option<&'s [u8]> {
        let mut place = self.vacancies.partition_point(|vacancy| &*vacancy.range.end <= key);
        let mut behind: Option<&'s [u8]> = None;
        while let Some(Vacancy { range, since, .. }) = self.vacancies.get(place)
            && &*range.begin <= behind.unwrap_or(key)
            && *since <= snapshot
        {
            behind = Some(&range.end);
            place += 1;
        }
        behind
    }

    /// Below which key a scan at `snapshot` that goes down from below `bound` may go on instead.
    pub(crate) fn before<'s>(&'s self, bound: &[u8], snapshot: Seq) -> Option<&'s [u8]> {
        let below = self.vacancies.partition_point(|vacancy| &*vacancy.range.begin < bound);
        let mut before: Option<&'s [u8]> = None;
        for Vacancy { range, since, .. } in self.vacancies[..below].iter().rev() {
            if &*range.end < before.unwrap_or(bound) || *since > snapshot {
                break;
            }
            before = Some(&range.begin);
        }
        before
    }

    fn take_out(&mut self, filled: &Range) {
        if self.vacancies.iter().any(|vacancy| vacancy.range.overlaps(filled)) {
            let cut = |vacancy: &Vacancy| {
                if !vacancy.range.overlaps(filled) {
                    return vec![vacancy.clone()];
                }
                let worth = vacancy.worth.saturating_sub(CUT_COST);
                let left = vacancy.range.without(filled).into_iter().filter(|_| worth > 0);
                left.map(|range| Vacancy { range, since: vacancy.since, worth }).collect()
            };
            self.vacancies = self.vacancies.iter().flat_map(cut).collect();
            self.trim();
        }
        if self.announced.iter().any(|announced| announced.range.overlaps(filled)) {
            self.cut_announced(filled, |_| true);
        }
    }

    /// Takes `range` out of what was announced by those that `whose` picks.
    fn cut_announced(&mut self, range: &Range, whose: impl Fn(By) -> bool) {
        let cut = |announced: &Announced| {
            let (by, left) = match whose(announced.by) {
                true => (announced.by, announced.range.without(range)),
                false => (announced.by, vec![announced.range.clone()]),
            };
            left.into_iter().map(move |range| Announced { range, by })
        };
        self.announced = self.announced.iter().flat_map(cut).collect();
        self.announced.truncate(ANNOUNCED_MAX);
    }

    /// Adds a vacancy; what is known already stays as it is, for the sake of older readers.
    fn add(&mut self, range: Range, since: Seq, worth: u64) {
        let covered = self.vacancies.iter().map(|vacancy| &vacancy.range);
        let parts = range.without_all(covered);
        let each = worth / parts.len().max(1) as u64;
        for range in parts {
            let place = self.vacancies.partition_point(|other| other.range.begin < range.begin);
            self.vacancies.insert(place, Vacancy { range, since, worth: each.max(1) });
        }
    }

    /// Makes known what this scan has walked and another announced, if all that the other might have missed is visible to
    /// this one. Returns what is left, neither known nor confirmed.
    fn confirm(&mut self, range: Range, walked: &Walked<'_>) -> Vec<Range> {
        let sees =
            |by: By| matches!(by, By::Scan { unseen_below } if unseen_below <= walked.snapshot + 1);
        let seen: Vec<Range> = self
            .announced
            .iter()
            .filter(|announced| sees(announced.by))
            .map(|announced| announced.range.clone())
            .collect();
        let confirmed: Vec<Range> = seen.iter().filter_map(|seen| seen.within(&range)).collect();
        for part in &confirmed {
            self.add(part.clone(), walked.snapshot, walked.entries / confirmed.len() as u64);
        }
        if !confirmed.is_empty() {
            self.cut_announced(&range, sees);
        }
        range.without_all(self.vacancies.iter().map(|vacancy| &vacancy.range))
    }

    /// Announces ranges that a scan has walked, but for what scans have announced before: the number that these wait for
    /// comes sooner.
    fn announce_walk(&mut self, ranges: Vec<Range>) {
        let walked = |announced: &&Announced| matches!(announced.by, By::Scan { .. });
        let before = || self.announced.iter().filter(walked).map(|announced| &announced.range);
        let fresh = ranges.into_iter().flat_map(|range| range.without_all(before()));
        let by = By::Scan { unseen_below: Seq::MAX };
        let fresh: Vec<Announced> = fresh.map(|range| Announced { range, by }).collect();
        self.announced.extend(fresh);
        // The oldest go: no scan has come again.
        let mut over = self.announced.len().saturating_sub(ANNOUNCED_MAX);
        self.announced.retain(|announced| {
            let goes = over > 0 && matches!(announced.by, By::Scan { .. });
            over -= usize::from(goes);
            !goes
        });
    }

    /// Notes the next number, read after the walk was announced. Where the scan sees all below it, its keys are vacant.
    fn number_walk(&mut self, next_seq: Seq, walked: &Walked<'_>) {
        let unconfirmed = planted::is(Bug::VacancyUnconfirmed);
        let is_new = |announced: &Announced| announced.by == By::Scan { unseen_below: Seq::MAX };
        let (mut new, others) =
            std::mem::take(&mut self.announced).into_iter().partition::<Vec<_>, _>(is_new);
        self.announced = others;
        if next_seq <= walked.snapshot + 1 || unconfirmed {
            let each = walked.entries / new.len().max(1) as u64;
            new.drain(..).for_each(|announced| self.add(announced.range, walked.snapshot, each));
        }
        let by = By::Scan { unseen_below: next_seq };
        self.announced.extend(new.into_iter().map(|announced| Announced { by, ..announced }));
    }

    /// Joins neighbours that no open snapshot tells apart, and drops what is too much.
    fn tidy(&mut self, oldest: Seq) {
        self.join(|left, right| left.since.max(right.since) <= oldest);
        self.trim();
    }

    fn join(&mut self, joins: impl Fn(&Vacancy, &Vacancy) -> bool) {
        self.vacancies.dedup_by(|right, left| {
            let joined = left.range.end == right.range.begin && joins(left, right);
            if joined {
                left.range.end = Arc::clone(&right.range.end);
                left.since = left.since.max(right.since);
                left.worth = left.worth.saturating_add(right.worth);
            }
            joined
        });
    }

    fn trim(&mut self) {
        let key_bytes = |vacancy: &Vacancy| vacancy.range.begin.len() + vacancy.range.end.len();
        let is_too_much = |known: &Known| {
            known.vacancies.len() > VACANCIES_MAX
                || known.vacancies.iter().map(key_bytes).sum::<usize>() > KEY_BYTES_MAX
        };
        if is_too_much(self) {
            // Readers at older snapshots walk then, so that all others do not have to.
            self.join(|_, _| true);
        }
        while is_too_much(self) {
            let places = self.vacancies.iter().enumerate();
            let least = places.min_by_key(|(_, vacancy)| (vacancy.worth, vacancy.since));
            let Some((place, _)) = least else { return };
            self.vacancies.remove(place);
        }
    }
}

impl Range {
    fn new(begin: &Arc<[u8]>, end: &Arc<[u8]>) -> Option<Range> {
        (begin < end).then(|| Range { begin: Arc::clone(begin), end: Arc::clone(end) })
    }

    fn overlaps(&self, other: &Range) -> bool {
        self.begin < other.end && other.begin < self.end
    }

    /// The part that is in `other`, too.
    fn within(&self, other: &Range) -> Option<Range> {
        Range::new((&self.begin).max(&other.begin), (&self.end).min(&other.end))
    }

    /// What is left without `other`.
    fn without(&self, other: &Range) -> Vec<Range> {
        if !self.overlaps(other) {
            return vec![self.clone()];
        }
        let parts = [Range::new(&self.begin, &other.begin), Range::new(&other.end, &self.end)];
        parts.into_iter().flatten().collect()
    }

    /// What is left without `others`.
    fn without_all<'r>(self, others: impl Iterator<Item = &'r Range>) -> Vec<Range> {
        let mut left = vec![self];
        for other in others {
            if left.iter().any(|range| range.overlaps(other)) {
                left = left.iter().flat_map(|range| range.without(other)).collect();
            }
        }
        left
    }
}

/// The first key behind `key`.
pub(crate) fn after(key: &[u8]) -> Vec<u8> {
    [key, &[0]].concat()
}

#[cfg(test)]
mod tests;
