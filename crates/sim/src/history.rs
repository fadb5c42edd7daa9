//! What was asked of a store, in which order it counts, and when the callers were told.

use crate::beside::{Beside, Fact, Kind};
use crate::check::{Accepted, Expect, Fold, Rule, Violation};
use crate::notes::During;
use crate::op::{Op, Write};
use crate::state::{EntryKey, State, apply, fold_of, touches};

#[derive(Clone, Debug)]
struct PastCommit {
    writes: Vec<Write>,
    abandon: bool,
    /// Whether its number alone tells nothing: what it does takes effect by an edit behind its record, or has none.
    loose: bool,
    /// Whether it has no number of its own, but that of the commit before it.
    placed: bool,
    number: u64,
    /// Event indices.
    reserved: usize,
    acked: usize,
    gave_up: usize,
    source: Option<Source>,
}

/// A file that is taken in.
#[derive(Clone, Copy, Debug)]
struct Source {
    id: u32,
    moves: bool,
    shows: Fold,
    /// From this event on it is durable.
    made: usize,
}

/// A copy of the store.
#[derive(Clone, Copy, Debug)]
struct PastCopy {
    id: u32,
    begun: usize,
    done: usize,
    /// The last number in it.
    cut: u64,
}

/// Later than every event.
const NEVER: usize = usize::MAX;

#[derive(Clone, Debug)]
struct PastRead {
    keyspace: u8,
    key: Vec<u8>,
    invoked: usize,
    /// What was reserved later cannot be what it returned.
    fixed: usize,
    found: usize,
    value: Option<Vec<u8>>,
}

#[derive(Clone, Copy, Debug)]
struct Demand {
    event: usize,
    required: usize,
    because: Rule,
}

/// The history of one open store, from the state in which it was opened.
#[derive(Clone, Debug, Default)]
pub struct History {
    base: State,
    base_cut: u64,
    /// The event at which the store was open.
    born: usize,
    commits: Vec<PastCommit>,
    reads: Vec<PastRead>,
    /// Sorted by number: which commits count for a cut. Filled by [`finish`](Self::finish), as is what
    /// follows.
    numbers: Vec<u64>,
    folds: Vec<Vec<Fold>>,
    demands: Vec<Demand>,
    /// Commits that the cut does not decide, by index: abandoned ones that were never
    /// acknowledged, and those that are loose by nature.
    loose: Vec<usize>,
    copies: Vec<PastCopy>,
    /// Commits that were turned away.
    refused: usize,
    /// What was beside the store when it was opened.
    base_facts: Vec<Fact>,
    /// The same, with what came since.
    facts: Vec<Fact>,
}

impl History {
    /// The history of a store that opens at event `born` with `base`, everything up to `base_cut`.
    pub fn new(base: State, base_cut: u64, born: usize) -> Self {
        Self { base, base_cut, born, ..Self::default() }
    }

    /// The history of the store that a recovery opened at event `born` of its own log, after accepting
    /// `accepted` of this one and reporting `cut`, with what is known of the things beside it. Everything else never
    /// was.
    pub(crate) fn branch(
        &self,
        accepted: Accepted,
        cut: u64,
        born: usize,
        base_facts: Vec<Fact>,
    ) -> Self {
        Self { base_facts, ..Self::new(self.state(accepted), cut, born) }
    }

    /// The event at which the store was open.
    pub fn born(&self) -> usize {
        self.born
    }

    /// The cut that was reported when the store was opened.
    pub fn base_cut(&self) -> u64 {
        self.base_cut
    }

    /// Notes that an operation begins; returns its entry for the other notes.
    pub fn invoke(&mut self, op: &Op, event: usize) -> usize {
        match op {
            Op::Commit { writes, abandon, .. } => {
                self.begin(PastCommit { abandon: *abandon, ..PastCommit::new(writes) })
            }
            Op::Keyspace { write, .. } => {
                let writes = std::slice::from_ref(write);
                self.begin(PastCommit { loose: true, placed: true, ..PastCommit::new(writes) })
            }
            Op::Ingest { writes, source, moves, .. } => {
                let (id, moves) = (*source, *moves);
                let source = Some(Source { id, moves, shows: Fold::default(), made: NEVER });
                self.begin(PastCommit { loose: true, source, ..PastCommit::new(writes) })
            }
            Op::Checkpoint { copy, .. } => {
                self.copies.push(PastCopy { id: *copy, begun: NEVER, done: NEVER, cut: 0 });
                self.copies.len() - 1
            }
            Op::Read { keyspace, key, .. } => {
                self.reads.push(PastRead {
                    keyspace: *keyspace,
                    key: key.clone(),
                    invoked: event,
                    fixed: NEVER,
                    found: NEVER,
                    value: None,
                });
                self.reads.len() - 1
            }
            Op::Background { .. } | Op::Reopen => 0,
        }
    }

    fn begin(&mut self, commit: PastCommit) -> usize {
        self.commits.push(commit);
        self.commits.len() - 1
    }

    /// Notes that the file of an ingest is there for good, and what it shows.
    pub fn made(&mut self, entry: usize, shows: Fold, event: usize) {
        if let Some(source) = &mut self.commits[entry].source {
            (source.shows, source.made) = (shows, event);
        }
    }

    /// Notes what was done in one go: it has this number, or, of a copy, goes up to it.
    pub fn at(
        &mut self,
        op: &Op,
        entry: usize,
        number: u64,
        during: During,
    ) -> Result<(), Violation> {
        let During { begun, done } = during;
        match op {
            Op::Checkpoint { .. } => {
                let copy = &mut self.copies[entry];
                (copy.begun, copy.done, copy.cut) = (begun, done, number);
                return Ok(());
            }
            Op::Keyspace { .. } => {
                let numbers = self.commits.iter().map(|c| c.number);
                let newest = numbers.max().unwrap_or(0).max(self.base_cut);
                let commit = &mut self.commits[entry];
                (commit.number, commit.reserved) = (newest, begun);
            }
            _ => self.reserve(entry, number, begun)?,
        }
        self.ack(entry, done)
    }

    /// Notes a commit's number.
    pub fn reserve(&mut self, entry: usize, number: u64, event: usize) -> Result<(), Violation> {
        if number <= self.base_cut || self.commits.iter().any(|c| c.number == number) {
            let what = format!("commit number {number} is given out again");
            return Err(Violation::new(Rule::N2, what));
        }
        (self.commits[entry].number, self.commits[entry].reserved) = (number, event);
        Ok(())
    }

    /// Notes an acknowledgement.
    pub fn ack(&mut self, entry: usize, event: usize) -> Result<(), Violation> {
        if self.commits[entry].reserved == NEVER {
            let what = "a commit is acknowledged that has no number".to_string();
            return Err(Violation::new(Rule::N2, what));
        }
        self.commits[entry].acked = event;
        Ok(())
    }

    /// Notes that a commit's failure was reported.
    pub fn give_up(&mut self, entry: usize, event: usize) {
        self.commits[entry].gave_up = event;
    }

    /// Notes that a commit was turned away.
    pub fn refuse(&mut self) {
        self.refused += 1;
    }

    /// Whether commits were turned away, and none was taken.
    pub(crate) fn took_nothing(&self) -> bool {
        self.refused > 0 && self.commits.iter().all(|commit| commit.reserved == NEVER)
    }

    /// Notes that a read has settled which moment it shows.
    pub fn fixed(&mut self, entry: usize, event: usize) {
        self.reads[entry].fixed = event;
    }

    /// Notes what a read returned.
    pub fn found(&mut self, entry: usize, value: Option<Vec<u8>>, event: usize) {
        (self.reads[entry].found, self.reads[entry].value) = (event, value);
    }

    /// Puts the commits in order and works out what each moment demands. Fails if a read returned what
    /// no moment explains.
    pub fn finish(&mut self) -> Result<(), Violation> {
        self.commits.retain(|c| c.reserved != NEVER);
        self.commits.sort_by_key(|c| (c.number, c.placed, c.reserved));
        self.numbers = self.commits.iter().map(|c| c.number).collect();
        let failed = |c: &PastCommit| c.acked == NEVER && (c.abandon || c.gave_up != NEVER);
        let loose = |i: &usize| self.commits[*i].loose || failed(&self.commits[*i]);
        self.loose = (0..self.commits.len()).filter(loose).collect();
        assert!(self.loose.len() <= 7, "each of them doubles what is possible");
        self.folds = (0..self.variants()).map(|variant| self.folds_of(variant)).collect();
        self.demand()?;
        self.facts = self.base_facts.clone();
        for i in 0..self.copies.len() {
            let copy = self.copies[i];
            if copy.done != NEVER {
                let shows = self.fold(self.in_by(copy.begun), self.commits_in(&copy)?);
                let is = Beside { kind: Kind::Copy, id: copy.id, shows };
                let fact = Fact { is, from: copy.begun, must: copy.done, unless: None };
                let staged = Beside { kind: Kind::Staged, ..is };
                self.facts.extend([fact, Fact { is: staged, must: NEVER, ..fact }]);
            }
        }
        for (i, commit) in self.commits.iter().enumerate() {
            if let Some(Source { id, moves, shows, made }) = commit.source {
                let is = Beside { kind: Kind::Source, id, shows };
                self.facts.push(Fact { is, from: made, must: made, unless: moves.then_some(i) });
            }
        }
        Ok(())
    }

    /// How many commits a copy holds: all that its caller was told of before, and none that was asked for only later.
    fn commits_in(&self, copy: &PastCopy) -> Result<usize, Violation> {
        let least = self.required_at(copy.begun).0;
        let commits = self.commits_up_to(copy.cut, self.reserved_by(copy.begun));
        let most = self.reserved_by(copy.done);
        commits.filter(|commits| (least..=most).contains(commits)).ok_or_else(|| {
            let what = format!("checkpoint {} goes up to {}, which it must not", copy.id, copy.cut);
            Violation::new(Rule::N5, what)
        })
    }

    fn folds_of(&self, variant: u8) -> Vec<Fold> {
        let mut state = self.base.clone();
        let mut fold = fold_of(&state);
        let mut folds = vec![fold];
        for i in 0..self.commits.len() {
            self.apply(i, variant, &mut state, &mut fold);
            folds.push(fold);
        }
        folds
    }

    fn apply(&self, i: usize, variant: u8, state: &mut State, fold: &mut Fold) {
        let bit = self.loose.iter().position(|&a| a == i);
        if bit.is_none_or(|bit| variant >> bit & 1 == 1) {
            self.commits[i].writes.iter().for_each(|w| apply(state, fold, w));
        }
    }

    fn demand(&mut self) -> Result<(), Violation> {
        enum Note {
            Ack(usize),
            Read(usize),
            Copy(usize),
        }
        let acks = self.commits.iter().enumerate().map(|(i, c)| (c.acked, Note::Ack(i)));
        let reads = self.reads.iter().enumerate().map(|(i, r)| (r.found, Note::Read(i)));
        let copies = self.copies.iter().enumerate().map(|(i, c)| (c.done, Note::Copy(i)));
        let mut notes: Vec<_> = acks.chain(reads).chain(copies).filter(|n| n.0 != NEVER).collect();
        notes.sort_by_key(|n| n.0);
        self.demands.clear();
        let mut now = 0;
        for (event, note) in notes {
            let (required, because) = match note {
                Note::Ack(i) => (i + 1, Rule::N1),
                Note::Read(i) => (self.explained_by(&self.reads[i])?, Rule::N5),
                Note::Copy(i) => (self.commits_in(&self.copies[i])?, Rule::N5),
            };
            if required > now {
                now = required;
                self.demands.push(Demand { event, required, because });
            }
        }
        Ok(())
    }

    /// The fewest commits that explain a read, given what was demanded when it began.
    fn explained_by(&self, read: &PastRead) -> Result<usize, Violation> {
        let least = self.required_at(read.invoked).0;
        let variant = self.in_by(NEVER);
        let mut state = self.base.clone();
        let mut fold = fold_of(&state);
        for k in 0..=self.commits.len() {
            if k > 0 {
                self.apply(k - 1, variant, &mut state, &mut fold);
            }
            let value = state.get(&EntryKey::new(read.keyspace, &read.key));
            if k >= least && value == read.value.as_ref() {
                return Ok(k);
            }
            if k < self.commits.len() && self.commits[k].reserved > read.found.min(read.fixed) {
                break;
            }
        }
        let key = String::from_utf8_lossy(&read.key);
        let value = read.value.as_deref().map(crate::op::Value::identify);
        let what =
            format!("a read of {}/{key} returned {value:?}, which it must not", read.keyspace);
        Err(Violation::new(Rule::N5, what))
    }

    fn required_at(&self, event: usize) -> (usize, Rule) {
        let past = self.demands.partition_point(|d| d.event < event);
        past.checked_sub(1)
            .map_or((0, Rule::N1), |i| (self.demands[i].required, self.demands[i].because))
    }

    /// What must hold at `event`: after the events before it, before it itself.
    pub fn expect(&self, event: usize) -> Expect<'_> {
        let (required, because) = self.required_at(event);
        Expect {
            history: self,
            at: event,
            required,
            allowed: self.reserved_by(event),
            must: self.in_by(event),
            must_not: self.out_by(event),
            because,
            created: event > self.born,
        }
    }

    /// Commits in flight at `event`: in the order of commits, their caller not told.
    pub fn in_flight(&self, event: usize) -> usize {
        let open = |c: &&PastCommit| c.reserved < event && c.acked >= event && c.gave_up >= event;
        self.commits.iter().filter(open).count()
    }

    /// Number of commits that count up to `cut`; none if the cut is below that of the open. Beyond those `allowed` the
    /// cut does not tell of what has no number of its own.
    pub(crate) fn commits_up_to(&self, cut: u64, allowed: usize) -> Option<usize> {
        let mut commits = self.numbers.partition_point(|&n| n <= cut);
        while commits > allowed && self.commits[commits - 1].placed {
            commits -= 1;
        }
        (cut >= self.base_cut).then_some(commits)
    }

    pub(crate) fn number(&self, commit: usize) -> u64 {
        self.numbers.get(commit).copied().unwrap_or(0)
    }

    fn reserved_by(&self, event: usize) -> usize {
        self.commits.iter().rposition(|c| c.reserved < event).map_or(0, |i| i + 1)
    }

    fn bits(&self, of: impl Fn(&PastCommit) -> bool) -> u8 {
        let bits = self.loose.iter().enumerate().filter(|(_, i)| of(&self.commits[**i]));
        bits.fold(0, |set, (bit, _)| set | 1 << bit)
    }

    /// The loose commits, as bits, that must be out: their failure had been reported, or they had not begun.
    fn out_by(&self, event: usize) -> u8 {
        self.bits(|c| c.gave_up < event || c.reserved >= event)
    }

    /// The loose commits, as bits, that must be in: they were acknowledged.
    fn in_by(&self, event: usize) -> u8 {
        self.bits(|c| c.acked < event)
    }

    /// The loose commits, as bits, that an edit decides over, which is there or not.
    pub(crate) fn by_edit(&self) -> u8 {
        self.bits(|c| c.loose)
    }

    /// Whether a commit is among those accepted.
    pub(crate) fn counts(&self, commit: usize, accepted: Accepted) -> bool {
        let bit = self.loose.iter().position(|&i| i == commit);
        commit < accepted.commits && bit.is_none_or(|bit| accepted.loose >> bit & 1 == 1)
    }

    pub(crate) fn facts(&self) -> &[Fact] {
        &self.facts
    }

    pub(crate) fn variants(&self) -> u8 {
        1 << self.loose.len()
    }

    pub(crate) fn fold(&self, variant: u8, commits: usize) -> Fold {
        self.folds[usize::from(variant)][commits]
    }

    /// The fold of everything, once no operation is under way.
    pub fn final_fold(&self) -> Fold {
        self.fold(self.in_by(NEVER), self.commits.len())
    }

    /// All of it, as a run without a crash leaves it.
    pub(crate) fn everything(&self) -> Accepted {
        Accepted { commits: self.commits.len(), loose: self.in_by(NEVER) }
    }

    /// The state after the accepted commits.
    pub fn state(&self, accepted: Accepted) -> State {
        let mut state = self.base.clone();
        let mut fold = fold_of(&state);
        (0..accepted.commits).for_each(|i| {
            self.apply(i, accepted.loose, &mut state, &mut fold);
        });
        state
    }

    /// Whether commits invoked before `event`, with the base, wrote this very value. What was merged is put together of
    /// several.
    pub(crate) fn was_written(&self, event: usize, keyspace: u8, key: &[u8], value: &[u8]) -> bool {
        let commits = self.commits.iter().filter(|c| c.reserved < event);
        let writes = commits.flat_map(|c| &c.writes).filter(|w| touches(w, keyspace, key));
        let base = self.base.get(&EntryKey::new(keyspace, key)).map(Vec::as_slice);
        let (mut first, mut parts) = (Vec::from_iter(base.map(<[u8]>::to_vec)), Vec::new());
        for write in writes {
            match write {
                Write::Put { value, .. } => first.push(value.bytes()),
                Write::Merge { operand, .. } => parts.push(operand.bytes()),
                Write::Make { .. } => first.push(Vec::new()),
                _ => {}
            }
        }
        let mut rests = first.iter().filter_map(|first| value.strip_prefix(&first[..]));
        is_made_of(value, &parts) && !value.is_empty()
            || rests.any(|rest| rest.is_empty() || is_made_of(rest, &parts))
    }

    /// Whether the newest change of a key among the first `commits` removes it.
    pub(crate) fn was_removed(&self, commits: usize, keyspace: u8, key: &[u8]) -> bool {
        let writes = self.commits[..commits].iter().rev().flat_map(|c| c.writes.iter().rev());
        writes.into_iter().find(|w| touches(w, keyspace, key)).is_some_and(|w| {
            !matches!(w, Write::Put { .. } | Write::Merge { .. } | Write::Make { .. })
        })
    }
}

impl PastCommit {
    fn new(writes: &[Write]) -> PastCommit {
        PastCommit {
            writes: writes.to_vec(),
            abandon: false,
            loose: false,
            placed: false,
            number: 0,
            reserved: NEVER,
            acked: NEVER,
            gave_up: NEVER,
            source: None,
        }
    }
}

/// Whether a value is some of the parts, one behind the other.
fn is_made_of(value: &[u8], parts: &[Vec<u8>]) -> bool {
    let rest =
        parts.iter().find_map(|part| value.strip_prefix(&part[..]).filter(|_| !part.is_empty()));
    value.is_empty() || rest.is_some_and(|rest| is_made_of(rest, parts))
}
