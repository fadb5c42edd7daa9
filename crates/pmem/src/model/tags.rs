//! [`Tags`]: which lines of a region the processor's caches are taken to hold.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::cacheline::{LINE, prefetch};

/// Lines of a set: of any of them the next newcomer takes the place.
const WAYS: usize = 8;
/// Nanoseconds of the unit in which due times are kept.
const UNIT: u64 = 16;
/// A line that was fetched ahead comes within so many units; what seems to come later came long ago.
const SOON: u32 = 1 << 27;

/// What is known of a line.
pub(super) enum Held {
    Yes,
    /// It was fetched ahead: from that time on.
    From(u64),
    No,
}

/// One line of the host's cache.
#[derive(Default)]
#[repr(align(64))]
struct Set([AtomicU64; WAYS]);

/// A cache of so many sets, shared by all threads as the last level is. Entries are read and written without order: a wrong
/// guess costs or saves one wait.
pub(super) struct Tags {
    sets: Box<[Set]>,
    /// A bit for each page that a line was ever held of, and for others of the same place: what is only streamed to, as a log is,
    /// has nothing to be forgotten.
    pages: Box<[AtomicU64]>,
}

/// Lines of a page.
const PAGE: u64 = 4096 / LINE as u64;
/// Words of bits for pages.
const PAGE_WORDS: usize = 1024;

/// The line, plus one, above its due time in units; 0 for none. Lines that are 256 GiB apart look the same.
fn pack(line: u64, due: u64) -> u64 {
    let units = match due {
        0 => 0,
        due => (due / UNIT) as u32 | 1,
    };
    (name(line) << 32) | u64::from(units)
}

fn name(line: u64) -> u64 {
    1 + line % u64::from(u32::MAX)
}

impl Tags {
    /// For `bytes` bytes of lines, rounded down to a power of two of sets.
    pub fn new(bytes: u64) -> Tags {
        let sets = (bytes as usize / LINE / WAYS).max(1);
        let sets = 1 << sets.ilog2();
        Tags {
            sets: (0..sets).map(|_| Set::default()).collect(),
            pages: (0..PAGE_WORDS).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// Bytes of the lines that there is room for.
    pub fn bytes(&self) -> u64 {
        (self.sets.len() * WAYS * LINE) as u64
    }

    fn set(&self, line: u64) -> &[AtomicU64; WAYS] {
        let at = (line ^ (line >> 16)) as usize & (self.sets.len() - 1);
        &self.sets[at].0
    }

    /// Brings what is known of a line nearer, before it is asked for.
    pub fn fetch(&self, line: u64) {
        prefetch(self.set(line).as_ptr().cast());
    }

    /// The bit of a line's page, in its word.
    fn page(&self, line: u64) -> (&AtomicU64, u64) {
        let page = line / PAGE;
        (&self.pages[(page / 64) as usize % PAGE_WORDS], 1 << (page % 64))
    }

    /// Puts a line in one of its ways.
    fn put(&self, line: u64, due: u64, way: &AtomicU64) {
        let (word, bit) = self.page(line);
        if word.load(Relaxed) & bit == 0 {
            word.fetch_or(bit, Relaxed);
        }
        way.store(pack(line, due), Relaxed);
    }

    fn find(&self, line: u64) -> Option<&AtomicU64> {
        self.set(line).iter().find(|way| way.load(Relaxed) >> 32 == name(line))
    }

    /// What is known of a line; `now` is asked only if that was fetched ahead.
    pub fn look(&self, line: u64, now: impl FnOnce() -> u64) -> Held {
        let Some(way) = self.find(line) else { return Held::No };
        let units = way.load(Relaxed) as u32;
        if units == 0 {
            return Held::Yes;
        }
        let now = now();
        // Units wrap each 69 s, so they only tell how long it is until then.
        let left = units.wrapping_sub((now / UNIT) as u32);
        way.store(pack(line, 0), Relaxed);
        if left < SOON { Held::From(now + u64::from(left) * UNIT) } else { Held::Yes }
    }

    /// As [`look`](Self::look), and puts a line in that is not held: one walk does for both.
    pub fn take(&self, line: u64, random: u64, now: impl FnOnce() -> u64) -> Held {
        let (set, wanted) = (self.set(line), name(line));
        let (mut free, mut found) = (random as usize % WAYS, None);
        // Without a branch for each.
        for (at, way) in set.iter().enumerate() {
            let held = way.load(Relaxed);
            free = if held == 0 { at } else { free };
            found = if held >> 32 == wanted { Some(at) } else { found };
        }
        let Some(found) = found else {
            self.put(line, 0, &set[free]);
            return Held::No;
        };
        if set[found].load(Relaxed) as u32 == 0 { Held::Yes } else { self.look(line, now) }
    }

    /// Puts a line in, which is there from `due` on; 0: now. `random` chooses who goes.
    pub fn insert(&self, line: u64, due: u64, random: u64) {
        let set = self.set(line);
        let free = set.iter().find(|way| way.load(Relaxed) == 0);
        self.put(line, due, free.unwrap_or(&set[random as usize % WAYS]));
    }

    /// Takes lines out.
    pub fn forget(&self, lines: Range<u64>) {
        let mut at = lines.start;
        while at < lines.end {
            let behind = ((at / PAGE + 1) * PAGE).min(lines.end);
            let (word, bit) = self.page(at);
            if word.load(Relaxed) & bit != 0 {
                let held = (at..behind).filter_map(|line| self.find(line));
                held.for_each(|way| way.store(0, Relaxed));
            }
            at = behind;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(tags: &Tags, line: u64) -> bool {
        !matches!(tags.look(line, || 0), Held::No)
    }

    #[test]
    fn it_holds_as_many_lines_as_it_is_large() {
        let tags = Tags::new(64 << 10);
        assert_eq!(tags.bytes(), 64 << 10);
        let lines = 1024;
        (0..lines).for_each(|line| tags.insert(line, 0, line));
        assert!((0..lines).all(|line| holds(&tags, line)));
        (lines..2 * lines).for_each(|line| tags.insert(line, 0, line / 8));
        let kept = (0..2 * lines).filter(|line| holds(&tags, *line)).count();
        assert_eq!(kept as u64, lines);
        tags.forget(2 * lines - 1..2 * lines + 100);
        assert!(!holds(&tags, 2 * lines - 1) && (0..2 * lines).any(|line| holds(&tags, line)));
    }

    #[test]
    fn a_line_that_was_fetched_ahead_is_waited_for_once() {
        let tags = Tags::new(4096);
        let now = 1 << 40;
        tags.insert(7, now + 1600, 0);
        let Held::From(due) = tags.look(7, || now + 100) else { panic!("on its way") };
        assert!((now + 1550..=now + 1650).contains(&due), "{due}");
        assert!(matches!(tags.look(7, || unreachable!("it is there")), Held::Yes));
        tags.insert(9, now + 1600, 0);
        assert!(matches!(tags.look(9, || now + 5_000_000_000), Held::Yes), "long there");
    }
}
