//! [`Asked`]: what a thread has asked a device for. No other thread sees it, so that most accesses share nothing.

use std::cell::RefCell;

use super::bandwidth::{Bandwidth, SETTLE};

/// Blocks that a thread has just read, whose other lines come sooner.
pub(super) const NEAR_BLOCKS: usize = 4;
/// Lines that a core fetches ahead at a time.
pub(super) const FETCHES: usize = 16;
/// Devices that a thread remembers; beyond that it forgets the oldest.
const DEVICES: usize = 8;

/// What a thread has asked a device for.
pub(super) struct Asked {
    device: u64,
    pub near: [u64; NEAR_BLOCKS],
    pub reads: Owed,
    pub writes: Owed,
    /// When the first line was flushed behind the last fence; 0: none was.
    pub flushed_at: u64,
    /// When lines that were fetched ahead are there, the last ones only.
    pub fetches: [u64; FETCHES],
    /// How many blocks and lines took their places there.
    pub blocks_read: usize,
    pub lines_fetched: usize,
    random: u64,
}

impl Asked {
    /// A number that says nothing about the next (Marsaglia's xorshift).
    pub fn random(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }
}

/// Bytes that are not settled yet, and since when.
#[derive(Default)]
pub(super) struct Owed {
    bytes: u64,
    since: u64,
}

impl Owed {
    pub fn add(&mut self, bytes: u64, now: u64) {
        if self.bytes == 0 {
            self.since = now;
        }
        self.bytes += bytes;
    }

    /// Settles if there is enough for it. Tells when all is through.
    pub fn settle(&mut self, of: &Bandwidth) -> u64 {
        if self.bytes < SETTLE {
            return 0;
        }
        let through = of.take(self.bytes, self.since);
        self.bytes = 0;
        through
    }
}

thread_local! {
    static OWN: RefCell<Vec<Asked>> = const { RefCell::new(Vec::new()) };
}

/// What this thread has asked the device of that number for. Destructors of a thread that ends ask for nothing.
pub(super) fn with_own<T: Default>(device: u64, act: impl FnOnce(&mut Asked) -> T) -> T {
    let of_this_device = |own: &RefCell<Vec<Asked>>| {
        let mut all = own.borrow_mut();
        let at = all.iter().position(|asked| asked.device == device).unwrap_or_else(|| {
            if all.len() == DEVICES {
                all.remove(0);
            }
            all.push(Asked {
                device,
                near: [u64::MAX; NEAR_BLOCKS],
                reads: Owed::default(),
                writes: Owed::default(),
                flushed_at: 0,
                fetches: [0; FETCHES],
                blocks_read: 0,
                lines_fetched: 0,
                random: 0x2545_f491_4f6c_dd1d,
            });
            all.len() - 1
        });
        act(&mut all[at])
    };
    OWN.try_with(of_this_device).unwrap_or_default()
}
