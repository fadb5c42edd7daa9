//! How segments are written, and which way the next one is: by what the device was seen to do.
//!
//! Whether synced writes are quicker through the page cache or past it depends on the device, the file system and the load. So
//! one way is tried against the other while the log is written, a whole segment at a time, and takes its place after several
//! clear wins.

use std::time::Duration;

use base::LINE;

use crate::options::{Options, WalIo, WalSync};
use crate::wal::installer::Blocks;

/// How a log is to be written, as the options say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogMode {
    pub sync: WalSync,
    pub io: WalIo,
}

impl LogMode {
    pub fn of(options: &Options) -> LogMode {
        LogMode { sync: options.wal_sync, io: options.wal_io }
    }

    /// Whether many writes share a sync, so that nothing is done for the sake of that.
    pub fn syncs_are_rare(self) -> bool {
        self.sync != WalSync::Always
    }
}

/// How a segment is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Over blocks that are there already, whole pages at a time, so that a sync has little to do.
    Over,
    /// The same past the page cache, whole blocks at a time. The last one is written again with what follows.
    Direct,
    /// No more than frames: blocks that are there are worth nothing.
    Append,
    /// To persistent memory: durable when it is written.
    Streamed,
    /// By stores to memory, once it is worth it and if the file can be mapped; else as `Append`. Syncs are rare.
    Mapped,
}

impl Way {
    /// Writes begin and end at a multiple of this; past the page cache the device says it.
    pub fn block(self) -> u64 {
        if self == Way::Streamed { LINE as u64 } else { 1 }
    }
}

/// Chooses how each segment is written.
pub(crate) enum WayChoice {
    Fixed(Way),
    ByTrial(Trial),
}

impl WayChoice {
    /// Where files keep their blocks there is something to choose.
    pub fn new(mode: LogMode, blocks: Blocks) -> WayChoice {
        match mode.io {
            _ if blocks == Blocks::Streamed => WayChoice::Fixed(Way::Streamed),
            _ if mode.syncs_are_rare() => WayChoice::Fixed(Way::Mapped),
            _ if blocks == Blocks::Moved => WayChoice::Fixed(Way::Append),
            WalIo::Cached => WayChoice::Fixed(Way::Over),
            WalIo::Direct => WayChoice::Fixed(Way::Direct),
            WalIo::Auto => WayChoice::ByTrial(Trial::default()),
        }
    }

    /// How the first segment of an open is written. It does not begin at its front, so not in whole blocks.
    pub fn first(&self) -> Way {
        match self {
            WayChoice::Fixed(way) if *way != Way::Direct => *way,
            WayChoice::Fixed(_) | WayChoice::ByTrial(_) => Way::Over,
        }
    }

    /// How the next segment is written.
    pub fn next(&self) -> Way {
        match self {
            WayChoice::Fixed(way) => *way,
            WayChoice::ByTrial(trial) => trial.next(),
        }
    }

    /// The file system cannot go past its page cache.
    pub fn rule_out_direct(&mut self) {
        *self = WayChoice::Fixed(Way::Over);
    }

    /// Whether [`note`](Self::note) is of use.
    pub fn is_open(&self) -> bool {
        matches!(self, WayChoice::ByTrial(_))
    }

    /// A segment is full that was written so. If it was not timed, it says nothing.
    pub fn note(&mut self, way: Way, times: Option<SegmentTimes>) {
        if let WayChoice::ByTrial(trial) = self {
            trial.note(way, times.unwrap_or_default().rounds);
        }
    }
}

/// What writes to a segment took, and syncs of it.
#[derive(Debug, Default)]
pub(crate) struct SegmentTimes {
    rounds: RoundTimes,
    /// Bytes written since the last sync, and the time of that. A write past the page cache takes itself the time that otherwise
    /// the next sync takes.
    bytes: u64,
    time: Duration,
}

impl SegmentTimes {
    pub fn wrote(&mut self, bytes: u64, time: Duration) {
        self.bytes += bytes;
        self.time += time;
    }

    pub fn synced(&mut self, time: Duration) {
        let nanos = u64::try_from((self.time + time).as_nanos()).unwrap_or(u64::MAX);
        self.rounds.join(RoundTimes { count: 1, bytes: self.bytes, nanos });
        (self.bytes, self.time) = (0, Duration::ZERO);
    }
}

/// What rounds took: each of them a sync, and all writes since the one before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct RoundTimes {
    count: u64,
    bytes: u64,
    nanos: u64,
}

impl RoundTimes {
    fn join(&mut self, other: RoundTimes) {
        self.count += other.count;
        self.bytes += other.bytes;
        self.nanos = self.nanos.saturating_add(other.nanos);
    }

    /// Whether the mean round of this takes at most so many percent of the other's time.
    fn is_within(&self, percent: u64, other: &RoundTimes) -> bool {
        let product = |one: u64, two: u64| u128::from(one) * u128::from(two);
        100 * product(self.nanos, other.count)
            <= u128::from(percent) * product(other.nanos, self.count)
    }

    /// Whether the mean rounds may be compared: of long ones the longer takes more time either way.
    fn is_like(&self, other: &RoundTimes) -> bool {
        let is_short = |rounds: &RoundTimes| rounds.bytes <= SHORT * rounds.count;
        let product = |one: u64, two: u64| u128::from(one) * u128::from(two);
        let (one, two) = (product(self.bytes, other.count), product(other.bytes, self.count));
        is_short(self) && is_short(other) || 4 * one.max(two) <= 5 * one.min(two)
    }
}

/// Of rounds of so many bytes the sync takes most of the time, however long they are.
const SHORT: u64 = 16 << 10;
/// Rounds of each way that a comparison takes, at least.
const ROUNDS_LEAST: u64 = 512;
/// A win is a time of at most so many percent.
const WINS_WITHIN: u64 = 85;
/// Wins in a row after which the other way takes the place of this one.
const WINS: u32 = 3;
/// Segments that one turn takes, at most: else the other way would be kept to by a load without syncs.
const SEGMENTS_MOST: u32 = 8;
/// After a loss so many times [`ROUNDS_LEAST`] pass before the other way is tried again, at first, and at most: twice as many
/// after each.
const PAUSES: (u32, u32) = (2, 128);

/// One way, and another that is tried now and then. First come rounds of the one, then as many of the other.
pub(crate) struct Trial {
    way: Way,
    other: Way,
    /// What the way took last, before the other is tried.
    before: RoundTimes,
    /// What the other takes. It is its turn once `before` is complete.
    tried: RoundTimes,
    /// Segments of it.
    tries: u32,
    wins: u32,
    /// Comparisons' worth of rounds that still pass without one.
    pause: u32,
    next_pause: u32,
}

impl Default for Trial {
    fn default() -> Trial {
        Trial {
            way: Way::Over,
            other: Way::Direct,
            before: RoundTimes::default(),
            tried: RoundTimes::default(),
            tries: 0,
            wins: 0,
            pause: 0,
            next_pause: PAUSES.0,
        }
    }
}

impl Trial {
    fn next(&self) -> Way {
        let is_tried = self.pause == 0 && self.before.count >= ROUNDS_LEAST;
        if is_tried { self.other } else { self.way }
    }

    fn note(&mut self, way: Way, rounds: RoundTimes) {
        if way == self.other {
            self.tried.join(rounds);
            self.tries += 1;
            if self.tried.count >= ROUNDS_LEAST || self.tries == SEGMENTS_MOST {
                self.compare();
            }
            return;
        }
        self.before.join(rounds);
        if self.before.count >= ROUNDS_LEAST && self.pause > 0 {
            self.pause -= 1;
            self.before = RoundTimes::default();
        }
    }

    /// Both have had their turn.
    fn compare(&mut self) {
        let (before, tried) = (std::mem::take(&mut self.before), std::mem::take(&mut self.tried));
        self.tries = 0;
        if tried.count < ROUNDS_LEAST || !tried.is_like(&before) {
            // That says nothing.
            self.pause = PAUSES.0;
        } else if tried.is_within(WINS_WITHIN, &before) {
            self.wins += 1;
            if self.wins == WINS {
                std::mem::swap(&mut self.way, &mut self.other);
                (self.wins, self.next_pause) = (0, PAUSES.0);
            }
        } else {
            (self.wins, self.pause) = (0, self.next_pause);
            self.next_pause = PAUSES.1.min(2 * self.next_pause);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(count: u64, bytes: u64, micros: u64) -> Option<SegmentTimes> {
        let mut times = SegmentTimes::default();
        for _ in 0..count {
            times.wrote(bytes / 2, Duration::from_micros(micros / 2));
            times.wrote(bytes / 2, Duration::ZERO);
            times.synced(Duration::from_micros(micros / 2));
        }
        Some(times)
    }

    /// Writes that many segments of 600 rounds of 1000 bytes, which take so many microseconds each way; tells the way of each.
    fn written(choice: &mut WayChoice, count: usize, over: u64, direct: u64) -> Vec<Way> {
        let mut ways = Vec::new();
        for _ in 0..count {
            let way = choice.next();
            let micros = if way == Way::Over { over } else { direct };
            choice.note(way, times(600, 1000, micros));
            ways.push(way);
        }
        ways
    }

    fn by_trial() -> WayChoice {
        WayChoice::new(LogMode { sync: WalSync::Always, io: WalIo::Auto }, Blocks::Kept)
    }

    const O: Way = Way::Over;
    const D: Way = Way::Direct;

    #[test]
    fn three_clear_wins_decide_and_no_fewer() {
        let mut choice = by_trial();
        assert_eq!(written(&mut choice, 6, 100, 80), [O, D, O, D, O, D]);
        let ways = written(&mut choice, 4, 100, 80);
        assert_eq!(ways, [D, O, D, D], "it has to show that it is still better");
        let mut choice = by_trial();
        assert_eq!(written(&mut choice, 4, 100, 80), [O, D, O, D]);
        assert_eq!(written(&mut choice, 6, 100, 94), [O, D, O, O, O, D], "wins are in a row");
    }

    #[test]
    fn what_is_no_better_is_tried_ever_more_rarely() {
        let mut choice = by_trial();
        let ways = written(&mut choice, 4000, 100, 88);
        let tried = ways.iter().filter(|way| **way == D).count();
        assert!((30..50).contains(&tried), "{tried}");
        let ways = written(&mut choice, 1000, 100, 50);
        let tried = ways[500..].iter().filter(|way| **way == O).count();
        assert!(tried < 20, "it does become better: {tried}");
    }

    #[test]
    fn long_rounds_of_other_lengths_are_not_compared() {
        for (bytes, is_compared) in [(1000, true), (100_000, false)] {
            let mut choice = by_trial();
            for _ in 0..300 {
                let way = choice.next();
                let (bytes, micros) = if way == O { (bytes, 100) } else { (7 * bytes / 10, 70) };
                choice.note(way, times(600, bytes, micros));
            }
            let WayChoice::ByTrial(trial) = choice else { unreachable!() };
            assert_eq!(trial.way == D, is_compared, "{bytes}");
            assert_eq!(trial.next_pause == PAUSES.0, !is_compared, "no result is no loss");
        }
    }

    #[test]
    fn few_rounds_make_no_turn() {
        let mut choice = by_trial();
        choice.note(O, times(511, 10, 100));
        assert_eq!(choice.next(), O);
        choice.note(O, None);
        assert_eq!(choice.next(), O, "it was not timed");
        choice.note(O, times(1, 10, 100));
        assert_eq!(choice.next(), D);
        choice.note(D, times(500, 10, 100));
        assert_eq!(choice.next(), D);
        choice.note(D, times(12, 10, 100));
        assert_eq!(choice.next(), O);
    }

    #[test]
    fn a_turn_that_does_not_end_is_cut_short() {
        let mut choice = by_trial();
        choice.note(O, times(600, 10, 100));
        for _ in 0..SEGMENTS_MOST {
            assert_eq!(choice.next(), D);
            choice.note(D, times(3, 10, 1));
        }
        assert_eq!(written(&mut choice, 4, 100, 80), [O, O, O, D]);
    }

    #[test]
    fn options_and_the_file_system_leave_no_choice() {
        let fixed = |sync, io, blocks| {
            let choice = WayChoice::new(LogMode { sync, io }, blocks);
            assert!(!choice.is_open());
            choice.next()
        };
        assert_eq!(fixed(WalSync::Always, WalIo::Direct, Blocks::Kept), D);
        assert_eq!(fixed(WalSync::Always, WalIo::Cached, Blocks::Kept), O);
        assert_eq!(fixed(WalSync::Always, WalIo::Direct, Blocks::Moved), Way::Append);
        assert_eq!(fixed(WalSync::Never, WalIo::Direct, Blocks::Kept), Way::Mapped);
        assert_eq!(fixed(WalSync::Never, WalIo::Direct, Blocks::Streamed), Way::Streamed);
        let mut choice = by_trial();
        choice.rule_out_direct();
        assert_eq!(written(&mut choice, 100, 100, 1), [O; 100]);
    }
}
