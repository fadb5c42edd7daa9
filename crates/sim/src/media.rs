//! What the media may hold: the durable bytes, and per line the stores that power could still take away.
//!
//! # The rules
//!
//! - A store is visible at once and durable at no particular time: its line may be evicted whenever the
//!   hardware likes. So what a crash leaves of a line is the durable content plus a **prefix** of the
//!   line's pending stores in their order (x86 keeps stores to one line in order).
//! - A word store is all or nothing. The last surviving copy may be **any subset of its 8-byte atoms**,
//!   because nothing orders the stores inside a copy.
//! - A flush is a snapshot of its lines, taken by one thread; a fence makes durable the snapshots of
//!   **its own thread**, nothing else. A non-temporal copy counts as flushed by its thread.
//! - With eADR the caches survive: an ordinary store is durable as soon as anything happens after it.
//!   Non-temporal copies still wait for their fence, since the buffers they sit in are not caches.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use base::LINE;

use crate::hash;
use crate::log::{Event, Log, StoreKind};

/// The bytes of one line.
pub type LineBytes = [u8; LINE];

/// What survives a power cut besides what was fenced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Mode {
    /// Caches are lost: flush and fence decide.
    #[default]
    Adr,
    /// Caches survive: the order of stores decides.
    Eadr,
}

/// A store to one line that is not durable yet.
#[derive(Clone, Copy, Debug)]
struct Pending {
    tick: u64,
    atomic: bool,
    /// One bit per byte of the line.
    mask: u64,
    data: LineBytes,
}

impl Pending {
    fn apply(&self, line: &mut LineBytes, atoms: u8) {
        for atom in 0..8 {
            let mask = self.mask >> (atom * 8) & 0xff;
            if atoms >> atom & 1 == 0 || mask == 0 {
                continue;
            }
            let at = atom * 8;
            if mask == 0xff {
                line[at..at + 8].copy_from_slice(&self.data[at..at + 8]);
            } else {
                (at..at + 8)
                    .filter(|i| self.mask >> i & 1 == 1)
                    .for_each(|i| line[i] = self.data[i]);
            }
        }
    }
}

#[derive(Clone, Debug, Default)]
struct Line {
    stores: Vec<Pending>,
    candidates: Option<Arc<Candidates>>,
}

/// Everything one line may hold after a power cut.
#[derive(Debug)]
pub struct Candidates {
    /// Distinct contents; the first is the durable one.
    pub contents: Vec<LineBytes>,
    /// Which of them holds every store.
    pub kept: usize,
    /// What choosing each changes in the hash of the image.
    pub deltas: Vec<u64>,
    /// When the oldest pending store was made.
    pub oldest: u64,
    /// When the newest pending store was made.
    pub newest: u64,
}

/// A line whose content a power cut would decide.
#[derive(Clone, Debug)]
pub struct Torn {
    /// Index of the line in the region.
    pub line: u32,
    /// What it may hold.
    pub candidates: Arc<Candidates>,
}

impl Torn {
    /// Number of contents to choose from, at least two.
    pub fn count(&self) -> usize {
        self.candidates.contents.len()
    }
}

#[derive(Clone, Copy, Debug)]
struct Snapshot {
    thread: u16,
    line: u32,
    tick: u64,
}

/// Work that made nothing durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waste {
    /// Lines flushed.
    pub flushed_lines: u64,
    /// Of these, lines with nothing to flush or flushed by the same thread already.
    pub redundant_flushes: u64,
    /// Fences.
    pub fences: u64,
    /// Of these, fences with nothing flushed before them.
    pub redundant_fences: u64,
}

impl Waste {
    /// Adds another's counts.
    pub fn add(&mut self, other: &Waste) {
        self.flushed_lines += other.flushed_lines;
        self.redundant_flushes += other.redundant_flushes;
        self.fences += other.fences;
        self.redundant_fences += other.redundant_fences;
    }
}

/// Memory at one moment, as far as power cuts are concerned.
#[derive(Clone, Debug)]
pub struct Media {
    mode: Mode,
    durable: Vec<u8>,
    hash: u64,
    lines: BTreeMap<u32, Line>,
    snapshots: Vec<Snapshot>,
    tick: u64,
    /// Lines of the ordinary store that is being executed; eADR only.
    tail: Range<u32>,
    waste: Waste,
}

fn split(at: u32, len: u32) -> impl Iterator<Item = (u32, Range<usize>)> {
    let (first, last) = (at / LINE as u32, (at + len - 1) / LINE as u32);
    (first..=last).map(move |line| {
        let start = line * LINE as u32;
        let from = at.max(start) - start;
        let to = (at + len).min(start + LINE as u32) - start;
        (line, from as usize..to as usize)
    })
}

impl Media {
    /// Memory that holds `image`, all of it durable.
    pub fn new(mode: Mode, image: &[u8]) -> Self {
        Self::with_hash(mode, image, hash::image(image))
    }

    /// As [`new`](Self::new), where the hash of `image` is known.
    pub fn with_hash(mode: Mode, image: &[u8], hash: u64) -> Self {
        assert!(image.len().is_multiple_of(LINE), "a region is made of whole lines");
        Self {
            mode,
            durable: image.to_vec(),
            hash,
            lines: BTreeMap::new(),
            snapshots: Vec::new(),
            tick: 0,
            tail: 0..0,
            waste: Waste::default(),
        }
    }

    /// Events replayed so far.
    pub fn tick(&self) -> u64 {
        self.tick
    }

    /// The mode it was made with.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// The durable bytes: what is left if power takes everything it may.
    pub fn durable(&self) -> &[u8] {
        &self.durable
    }

    /// Hash of [`durable`](Self::durable).
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// Flushes and fences that did nothing, so far.
    pub fn waste(&self) -> Waste {
        self.waste
    }

    /// The bytes that loads see: every store, durable or not.
    pub fn visible(&self) -> Vec<u8> {
        let mut bytes = self.durable.clone();
        for (&line, state) in &self.lines {
            let content = content_of(&mut bytes, line);
            state.stores.iter().for_each(|s| s.apply(content, 0xff));
        }
        bytes
    }

    /// Lines with stores that are not durable.
    pub fn pending_lines(&self) -> usize {
        self.lines.len()
    }

    /// The process dies, memory lives on: stores stay visible and pending, and flushes that were not
    /// fenced lose the thread that could have fenced them.
    pub fn kill(&mut self) {
        self.settle();
        self.snapshots.clear();
    }

    /// Replays events `from` of a log.
    pub fn replay(&mut self, log: &Log, from: Range<usize>) {
        log.events[from].iter().for_each(|event| self.apply(event, &log.bytes));
    }

    /// Replays one event; `bytes` are those of its log.
    pub fn apply(&mut self, event: &Event, bytes: &[u8]) {
        self.settle();
        self.tick += 1;
        match *event {
            Event::Store { at, len, data, kind, thread, .. } => {
                self.store(at, &bytes[data as usize..(data + len) as usize], kind, thread);
            }
            Event::Flush { at, len, thread, .. } => self.flush(at, len, thread),
            Event::Fence { thread, .. } => self.fence(thread),
            Event::Disk { .. } | Event::Mark => {}
        }
    }

    fn store(&mut self, at: u32, bytes: &[u8], kind: StoreKind, thread: u16) {
        let (tick, atomic) = (self.tick, kind == StoreKind::Word);
        let mut rest = bytes;
        for (line, range) in split(at, bytes.len() as u32) {
            let mut data = [0; LINE];
            let mask = (!0 >> (LINE - range.len())) << range.start;
            let (now, later) = rest.split_at(range.len());
            data[range].copy_from_slice(now);
            rest = later;
            let state = self.lines.entry(line).or_default();
            state.stores.push(Pending { tick, atomic, mask, data });
            state.candidates = None;
            if kind == StoreKind::NonTemporal {
                self.snapshot(thread, line);
            }
        }
        if self.mode == Mode::Eadr && kind != StoreKind::NonTemporal {
            self.tail = at / LINE as u32..(at + bytes.len() as u32).div_ceil(LINE as u32);
        }
    }

    /// Takes or renews a thread's snapshot of a line; false if it had this one already.
    fn snapshot(&mut self, thread: u16, line: u32) -> bool {
        let tick = self.tick;
        let Some(newest) = self.lines.get(&line).and_then(|l| l.stores.last()).map(|s| s.tick)
        else {
            return false;
        };
        match self.snapshots.iter_mut().find(|s| s.thread == thread && s.line == line) {
            Some(old) => {
                let news = old.tick < newest;
                old.tick = tick;
                news
            }
            None => {
                self.snapshots.push(Snapshot { thread, line, tick });
                true
            }
        }
    }

    fn flush(&mut self, at: u32, len: u32, thread: u16) {
        for (line, _) in split(at, len) {
            self.waste.flushed_lines += 1;
            self.waste.redundant_flushes += u64::from(!self.snapshot(thread, line));
        }
    }

    fn fence(&mut self, thread: u16) {
        self.waste.fences += 1;
        let mut any = false;
        let snapshots = std::mem::take(&mut self.snapshots);
        for s in snapshots.iter().filter(|s| s.thread == thread) {
            any = true;
            self.commit(s.line, s.tick);
        }
        self.snapshots = snapshots;
        self.snapshots.retain(|s| s.thread != thread);
        self.waste.redundant_fences += u64::from(!any);
    }

    /// Makes the stores of a line up to `tick` durable.
    fn commit(&mut self, line: u32, tick: u64) {
        let Some(state) = self.lines.get_mut(&line) else { return };
        let done = state.stores.partition_point(|s| s.tick <= tick);
        if done == 0 {
            return;
        }
        let content = content_of(&mut self.durable, line);
        self.hash ^= hash::line(line, content);
        state.stores.drain(..done).for_each(|s| s.apply(content, 0xff));
        self.hash ^= hash::line(line, content);
        state.candidates = None;
        if state.stores.is_empty() {
            self.lines.remove(&line);
        }
    }

    fn settle(&mut self) {
        for line in std::mem::take(&mut self.tail) {
            self.commit(line, u64::MAX);
        }
    }

    /// The bytes that a power cut leaves that decides over the `torn` lines as `choice` says.
    pub fn survivor(&self, torn: &[Torn], choice: &[u16]) -> Vec<u8> {
        let mut image = self.durable.clone();
        patch(&mut image, torn, choice);
        image
    }

    /// Every line whose content a power cut now would decide, by ascending index.
    pub fn torn(&mut self) -> Vec<Torn> {
        let durable = &self.durable;
        let torn = self.lines.iter_mut().map(|(&line, state)| {
            let start = line as usize * LINE;
            let candidates = state.candidates.get_or_insert_with(|| {
                Arc::new(candidates(line, &durable[start..], &state.stores))
            });
            Torn { line, candidates: Arc::clone(candidates) }
        });
        torn.filter(|t| t.count() > 1).collect()
    }
}

/// The line `index` of an image.
pub(crate) fn content_of(image: &mut [u8], index: u32) -> &mut LineBytes {
    &mut image.as_chunks_mut::<LINE>().0[index as usize]
}

/// Writes the image that a choice stands for over `image`, which holds the durable bytes.
pub(crate) fn patch(image: &mut [u8], torn: &[Torn], choice: &[u16]) {
    for (t, &c) in torn.iter().zip(choice) {
        *content_of(image, t.line) = t.candidates.contents[usize::from(c)];
    }
}

/// Takes a [`patch`] back.
pub(crate) fn unpatch(image: &mut [u8], torn: &[Torn]) {
    torn.iter().for_each(|t| *content_of(image, t.line) = t.candidates.contents[0]);
}

fn candidates(line: u32, durable: &[u8], stores: &[Pending]) -> Candidates {
    let mut current: LineBytes = std::array::from_fn(|i| durable[i]);
    let before = hash::line(line, &current);
    let mut seen = hash::HashSet64::default();
    seen.insert(before);
    let (mut contents, mut deltas) = (vec![current], vec![0]);
    let mut add = |content: &LineBytes| {
        let h = hash::line(line, content);
        if seen.insert(h) {
            contents.push(*content);
            deltas.push(h ^ before);
        }
    };
    for store in stores {
        let mut after = current;
        store.apply(&mut after, 0xff);
        if !store.atomic {
            let changed = (0..8).filter(|a| current[a * 8..a * 8 + 8] != after[a * 8..a * 8 + 8]);
            let changed = changed.fold(0u8, |set, a| set | 1 << a);
            // Every proper, non-empty subset of the atoms that the copy changes.
            let mut subset = changed & changed.wrapping_sub(1);
            while subset != 0 {
                let mut content = current;
                store.apply(&mut content, changed & !subset);
                add(&content);
                subset = (subset - 1) & changed;
            }
        }
        add(&after);
        current = after;
    }
    let newest = hash::line(line, &current) ^ before;
    let kept = deltas.iter().position(|&d| d == newest).unwrap_or(0);
    let tick = |s: Option<&Pending>| s.map_or(0, |s| s.tick);
    Candidates { contents, deltas, kept, oldest: tick(stores.first()), newest: tick(stores.last()) }
}
