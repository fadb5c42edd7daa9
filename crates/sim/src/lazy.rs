//! Recovery on memory that has not decided yet: a line gets its content when it is first read.
//!
//! Enumerating images wastes most of them on lines that recovery never looks at. Here the region begins
//! with the durable bytes, and the run forks only where recovery loads bytes that differ between the
//! candidates of a line: once per distinct value of just these bytes. The fork is made by running the
//! recovery again with the next decision, depth first; nothing is snapshotted.
//!
//! This is the one file of the crate with `unsafe` in it, for [`Region::rewrite`].
#![allow(unsafe_code)]

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;

use base::LINE;
use pmem::{Domain, Region, Site, StoreMode};
use ssd::{Call, Heed, Watch};

use crate::hash;
use crate::media::{LineBytes, Torn};

/// Memory whose torn lines are decided as they are read.
pub struct LazyPm {
    owner: ThreadId,
    muted: AtomicBool,
    fuel: AtomicU64,
    state: Mutex<LazyLines>,
}

#[derive(Default)]
struct LazyLines {
    lines: Vec<Undecided>,
    decisions: Vec<Decision>,
    depth: usize,
    scratch: Vec<(u64, u16)>,
}

struct Undecided {
    torn: Torn,
    /// Bytes that were read or overwritten: they never change by decision again.
    known: u64,
    /// Candidates that agree with what was read.
    alive: Vec<u16>,
}

#[derive(Clone, Copy)]
struct Decision {
    choice: u16,
    choices: u16,
}

/// One way in which a recovery went.
#[derive(Debug)]
pub struct Leaf {
    /// Images on which it goes this way, saturating.
    pub states: u128,
    /// The candidate of each torn line in one of these images.
    pub choice: Vec<u16>,
}

impl LazyPm {
    /// A machine for the exploring thread; no other may touch its regions.
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            owner: std::thread::current().id(),
            muted: AtomicBool::new(false),
            fuel: AtomicU64::new(u64::MAX),
            state: Mutex::default(),
        })
    }

    /// Begins with the first way for these torn lines.
    pub fn begin(&self, torn: &[Torn]) {
        let mut state = self.state();
        state.decisions.clear();
        state.lines.clear();
        state.lines.extend(torn.iter().map(|t| Undecided {
            torn: t.clone(),
            known: 0,
            alive: Vec::new(),
        }));
    }

    /// A region for one way: the durable bytes, the torn lines undecided. `reuse` is one of this
    /// machine's to which nothing refers any more.
    ///
    /// # Panics
    /// If memory is short.
    pub fn region(self: &Arc<Self>, durable: &[u8], fuel: u64, reuse: Option<Region>) -> Region {
        let region = reuse.filter(|r| r.len() == durable.len() as u64).unwrap_or_else(|| {
            Region::heap(durable.len() as u64, Some(Arc::clone(self) as Arc<dyn Domain>))
                .expect("a small heap region")
        });
        self.muted.store(true, Relaxed);
        let _ = region.copy(Site::Format, 0, durable);
        self.muted.store(false, Relaxed);
        self.fuel.store(fuel, Relaxed);
        let mut state = self.state();
        state.depth = 0;
        for line in &mut state.lines {
            line.known = 0;
            line.alive.clear();
            line.alive.extend(0..line.torn.count() as u16);
        }
        region
    }

    /// What the way just run stands for.
    pub fn leaf(&self) -> Leaf {
        let state = self.state();
        let states = state.lines.iter().fold(1u128, |n, l| n.saturating_mul(l.alive.len() as u128));
        Leaf { states, choice: state.lines.iter().map(|l| l.alive[0]).collect() }
    }

    /// Turns to the next way; false if there is none.
    pub fn advance(&self) -> bool {
        let mut state = self.state();
        // A run that ended early (by a panic, say) left deeper decisions of the run before it.
        let depth = state.depth;
        state.decisions.truncate(depth);
        while let Some(last) = state.decisions.last_mut() {
            last.choice += 1;
            if last.choice < last.choices {
                return true;
            }
            state.decisions.pop();
        }
        false
    }

    fn state(&self) -> MutexGuard<'_, LazyLines> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn enter(&self) -> bool {
        if self.muted.load(Relaxed) {
            return false;
        }
        assert!(std::thread::current().id() == self.owner, "the lazy machine has one thread");
        let left = self.fuel.load(Relaxed);
        assert!(left > 0, "the run does not end: its budget of memory accesses is spent");
        self.fuel.store(left - 1, Relaxed);
        true
    }
}

/// The bytes of `line` inside a range, as a mask.
fn mask_of(line: u32, at: u64, len: usize) -> u64 {
    let start = u64::from(line) * LINE as u64;
    let from = at.max(start) - start;
    let to = (at + len as u64).min(start + LINE as u64) - start;
    (!0 >> (LINE as u64 - (to - from))) << from
}

/// A key that tells contents apart by their bytes under `mask`.
fn masked(content: &LineBytes, mask: u64) -> u64 {
    let atoms = content.as_chunks::<8>().0.iter().enumerate();
    atoms.fold(0, |key, (i, atom)| {
        let bits = mask >> (i * 8) & 0xff;
        // Spreads the eight bits over the bytes of a word.
        let bytes = (0..8).fold(0, |m, b| m | ((bits >> b & 1) * 0xff) << (b * 8));
        let word = u64::from_le_bytes(*atom) & bytes;
        if bits == 0 { key } else { hash::mix(key, word) }
    })
}

impl LazyLines {
    fn touched(&mut self, at: u64, len: usize) -> &mut [Undecided] {
        if len == 0 {
            return &mut [];
        }
        let (first, last) = (at / LINE as u64, (at + len as u64 - 1) / LINE as u64);
        let from = self.lines.partition_point(|l| u64::from(l.torn.line) < first);
        let to = self.lines.partition_point(|l| u64::from(l.torn.line) <= last);
        &mut self.lines[from..to]
    }

    fn decide(&mut self, choices: usize) -> usize {
        let depth = self.depth;
        self.depth += 1;
        if depth == self.decisions.len() {
            self.decisions.push(Decision { choice: 0, choices: choices as u16 });
        }
        let decision = self.decisions[depth];
        assert!(
            usize::from(decision.choices) == choices,
            "the recovery is not deterministic: the same bytes were read in another way"
        );
        decision.choice.into()
    }
}

impl Undecided {
    /// Pairs the living candidates with a key of their bytes under `mask`; equal keys stand together.
    fn group(&self, mask: u64, into: &mut Vec<(u64, u16)>) {
        into.clear();
        if self.known == 0 && mask == !0 {
            // All of the line: candidates are distinct, so each is a group.
            into.extend(self.alive.iter().map(|&c| (u64::from(c), c)));
            return;
        }
        let contents = &self.torn.candidates.contents;
        into.extend(self.alive.iter().map(|&c| (masked(&contents[usize::from(c)], mask), c)));
        into.sort_unstable();
    }
}

impl Domain for LazyPm {
    fn store(&self, _region: &Region, _site: Site, at: u64, len: usize, _mode: StoreMode) {
        if !self.enter() {
            return;
        }
        for line in self.state().touched(at, len) {
            line.known |= mask_of(line.torn.line, at, len);
        }
    }

    fn flush(&self, _region: &Region, _site: Site, _at: u64, _len: usize) {
        self.enter();
    }

    fn fence(&self, _region: &Region, _site: Site) {
        self.enter();
    }

    fn load(&self, region: &Region, at: u64, len: usize) {
        if !self.enter() {
            return;
        }
        let mut state = self.state();
        let count = state.touched(at, len).len();
        if count == 0 {
            return;
        }
        let mut scratch = std::mem::take(&mut state.scratch);
        for i in 0..count {
            let line = &mut state.touched(at, len)[i];
            let index = line.torn.line;
            let fresh = mask_of(index, at, len) & !line.known;
            if fresh == 0 {
                continue;
            }
            line.group(fresh, &mut scratch);
            line.known |= fresh;
            let groups = scratch.chunk_by(|a, b| a.0 == b.0).count();
            let pick = if groups > 1 { state.decide(groups) } else { 0 };
            let line = &mut state.touched(at, len)[i];
            let group = scratch.chunk_by(|a, b| a.0 == b.0).nth(pick).unwrap_or_default();
            line.alive.clear();
            line.alive.extend(group.iter().map(|g| g.1));
            let content = line.torn.candidates.contents[usize::from(line.alive[0])];
            for (from, to) in runs(fresh) {
                // SAFETY: `rewrite` wants that no slice over these bytes is alive and that no other
                // thread uses the region. A slice over a byte is made only by `Region::bytes`, which
                // comes here first, and `fresh` holds only bytes that were never loaded since the
                // region began, as every load before this one added what it loaded to `known`. The
                // slice that this load is for is made after it returns. The region of a machine
                // belongs to the thread that made it; every load, store, flush and fence of another
                // ends in the panic of `enter`.
                unsafe {
                    region.rewrite(u64::from(index) * LINE as u64 + from as u64, &content[from..to])
                };
            }
        }
        state.scratch = scratch;
    }
}

/// The disk is decided before the run begins; its calls only count.
impl Watch for LazyPm {
    fn before(&self, _call: Call, _path: &Path) -> Heed {
        self.enter();
        Heed::Whole
    }
}

/// The runs of ones in a mask, as ranges.
fn runs(mask: u64) -> impl Iterator<Item = (usize, usize)> {
    let mut rest = mask;
    let mut at = 0;
    std::iter::from_fn(move || {
        if rest == 0 {
            return None;
        }
        let skip = rest.trailing_zeros() as usize;
        rest >>= skip;
        let len = rest.trailing_ones() as usize;
        rest = rest.checked_shr(len as u32).unwrap_or(0);
        let from = at + skip;
        at = from + len;
        Some((from, at))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::{Event, StoreKind};
    use crate::media::{Media, Mode};

    fn torn() -> (Media, Vec<Torn>) {
        let mut media = Media::new(Mode::Adr, &[0; 256]);
        let store = |at, len| Event::Store {
            at,
            len,
            data: 0,
            kind: StoreKind::Bulk,
            thread: 0,
            site: Site::Record,
        };
        media.apply(&store(64, 64), &[7; 64]);
        media.apply(&store(128, 8), &[7; 64]);
        let torn = media.torn();
        (media, torn)
    }

    #[test]
    fn forks_only_on_what_is_read_and_covers_every_image() {
        let (media, torn) = torn();
        let doubts: Vec<_> = torn.iter().map(crate::cut::Doubt::from).collect();
        assert_eq!(crate::cut::states(&doubts), 512);
        let pm = LazyPm::new();
        pm.begin(&torn);
        let (mut leaves, mut states, mut seen) = (0, 0, Vec::new());
        let mut spare = None;
        loop {
            let region = pm.region(media.durable(), 1000, spare.take());
            let first = region.load_u64(64);
            let second = if first == 0 { 0 } else { region.load_u64(72) };
            seen.push((first != 0, second != 0));
            spare = Some(region);
            leaves += 1;
            states += pm.leaf().states;
            if !pm.advance() {
                break;
            }
        }
        assert_eq!((leaves, states), (3, 512));
        seen.sort();
        assert_eq!(seen, [(false, false), (true, false), (true, true)]);
    }

    #[test]
    fn overwritten_bytes_stay_overwritten() {
        let (media, torn) = torn();
        let pm = LazyPm::new();
        pm.begin(&torn);
        loop {
            let region = pm.region(media.durable(), 1000, None);
            let _ = region.store_u64(Site::Record, 64, 99);
            let line = region.bytes(64, 64);
            assert_eq!(line[0], 99);
            assert!(line[8..].iter().all(|&b| b == 0 || b == 7));
            if !pm.advance() {
                break;
            }
        }
        assert_eq!(runs(0b1011).collect::<Vec<_>>(), [(0, 2), (3, 4)]);
        assert_eq!(runs(!0).collect::<Vec<_>>(), [(0, 64)]);
    }
}
