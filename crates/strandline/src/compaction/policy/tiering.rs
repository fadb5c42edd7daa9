//! Which tier a file belongs in, and which one moves next: pure functions from sizes and reads.
//!
//! By *benefit*, tables are worth their reads for their bytes; of those that are read alike, upper levels are worth more, as they are
//! rewritten sooner. The fastest tier is filled with what is worth most. New tables go to the fastest tier that has room, or in
//! which something is worth less. A part of each tier stays free for them: beyond that, what is worth least moves down. What is
//! much hotter than the coldest above it moves up, where that pays for being copied.
//!
//! By *level*, upper levels lie in the fastest tiers as far as these have room for whole levels, as `GetPathId` of RocksDB's
//! `LevelCompactionPicker` decides. Tables that found no room there, or whose level had none, move up once there is.

use std::cmp::Ordering;

use crate::tree::desc::LEVELS;

/// Moves fill so many eighths of a tier; the rest is for what is written next.
const FULL_EIGHTHS: u64 = 7;
/// A table takes another's place if it is read so many times as much: else they would change places for ever.
const HOTTER: u128 = 2;
/// Bytes that a read brings, about.
pub(crate) const BLOCK: u64 = 4 << 10;
/// Moving up pays once one of so many bytes was read lately: it is read, and written, once.
const READ_SHARE: u64 = 4;

/// A tier; the fastest comes first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TierFacts {
    pub limit: u64,
    pub taken: u64,
    /// Of these, bytes of files that go with their last readers.
    pub going: u64,
    /// New files go there; else all that is there moves away.
    pub open: bool,
}

impl TierFacts {
    fn left(&self) -> u64 {
        self.limit.saturating_sub(self.taken)
    }

    /// Bytes up to which moves fill it.
    fn full(&self) -> u64 {
        self.limit / 8 * FULL_EIGHTHS
    }

    fn takes(&self, bytes: u64) -> bool {
        self.open && self.stays().saturating_add(bytes) <= self.full() && self.left() >= bytes
    }

    /// Bytes of files that stay.
    fn stays(&self) -> u64 {
        self.taken.saturating_sub(self.going)
    }
}

/// A table in a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FileFacts {
    /// Its tier, by its position.
    pub rank: usize,
    pub level: usize,
    pub bytes: u64,
    /// Blocks of it that were read lately, past the caches; 0 where tables go by their levels.
    pub reads: u64,
    /// The tier of its level, where tables go by that.
    pub belongs: Option<usize>,
    /// A job reads it.
    pub busy: bool,
}

impl FileFacts {
    /// Which of two is worth more.
    fn worth(&self, other: &FileFacts) -> Ordering {
        let (a, b) = (u128::from(self.reads), u128::from(other.reads));
        let by_reads = (a * u128::from(other.bytes)).cmp(&(b * u128::from(self.bytes)));
        by_reads.then(other.level.cmp(&self.level))
    }

    fn is_much_hotter(&self, other: &FileFacts) -> bool {
        let (a, b) = (u128::from(self.reads), u128::from(other.reads));
        a * u128::from(other.bytes) > HOTTER * b * u128::from(self.bytes)
    }

    fn pays(&self) -> bool {
        self.reads.saturating_mul(BLOCK) >= self.bytes / READ_SHARE && self.reads > 0
    }
}

/// A file that moves, by its position, and the tier that it moves to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TierMove {
    pub file: usize,
    pub to: usize,
}

/// The tier for new files of a compaction: `new` is one of them, as if it lay there.
pub(crate) fn rank_of_new(tiers: &[TierFacts], files: &[FileFacts], new: &FileFacts) -> usize {
    let last = tiers.len().saturating_sub(1);
    let belongs = |rank: usize| {
        let tier = &tiers[rank];
        let coldest = coldest(files, rank).map(|at| &files[at]);
        let displaces = || coldest.is_some_and(|coldest| new.worth(coldest).is_gt());
        tier.takes(new.bytes) || tier.open && tier.left() >= new.bytes && displaces()
    };
    (0..last).find(|rank| belongs(*rank)).unwrap_or(last)
}

/// The tier for tables of `level` where levels have these sizes.
pub(crate) fn rank_of_level(tiers: &[TierFacts], sizes: &[u64; LEVELS], level: usize) -> usize {
    let last = tiers.len().saturating_sub(1);
    let room_of = |rank: usize| if tiers[rank].open { tiers[rank].limit } else { 0 };
    let (mut rank, mut room) = (0, room_of(0));
    for size in &sizes[..level] {
        while rank < last && *size > room {
            rank += 1;
            room = room_of(rank);
        }
        room = room.saturating_sub(*size);
    }
    // One that has nothing yet goes where there may be some.
    while rank < last && room_of(rank) == 0 {
        rank += 1;
    }
    rank
}

/// The next move, if one is due.
pub(crate) fn pick_move(tiers: &[TierFacts], files: &[FileFacts]) -> Option<TierMove> {
    leave(tiers, files)
        .or_else(|| relieve(tiers, files))
        .or_else(|| promote(tiers, files))
        .or_else(|| return_up(tiers, files))
}

/// Up, to the tier of its level.
fn return_up(tiers: &[TierFacts], files: &[FileFacts]) -> Option<TierMove> {
    files.iter().enumerate().find_map(|(at, file)| {
        let to = file.belongs.filter(|to| *to < file.rank && !file.busy)?;
        tiers[to].takes(file.bytes).then_some(TierMove { file: at, to })
    })
}

/// Out of a tier that is to be emptied, to the fastest with room.
fn leave(tiers: &[TierFacts], files: &[FileFacts]) -> Option<TierMove> {
    let leaves =
        |file: &FileFacts| !file.busy && tiers.get(file.rank).is_none_or(|tier| !tier.open);
    files.iter().enumerate().filter(|(_, file)| leaves(file)).find_map(|(at, file)| {
        let room = |tier: &TierFacts| tier.open && tier.left() >= file.bytes;
        let to = tiers.iter().position(|tier| tier.takes(file.bytes));
        to.or_else(|| tiers.iter().rposition(room)).map(|to| TierMove { file: at, to })
    })
}

/// Down from a tier that is full.
fn relieve(tiers: &[TierFacts], files: &[FileFacts]) -> Option<TierMove> {
    (0..tiers.len()).find_map(|rank| {
        if !tiers[rank].open || tiers[rank].stays() <= tiers[rank].full() {
            return None;
        }
        down(tiers, files, coldest(files, rank)?)
    })
}

/// Up, what is read much more than what lies above; first what is in its way moves down.
fn promote(tiers: &[TierFacts], files: &[FileFacts]) -> Option<TierMove> {
    (0..tiers.len()).filter(|rank| tiers[*rank].open).find_map(|rank| {
        let waits = |file: &&FileFacts| file.rank > rank && !file.busy && file.pays();
        let (at, hot) = files
            .iter()
            .enumerate()
            .filter(|(_, file)| waits(file) && file.bytes <= tiers[rank].full())
            .max_by(|(_, a), (_, b)| a.worth(b))?;
        if tiers[rank].takes(hot.bytes) {
            return Some(TierMove { file: at, to: rank });
        }
        // Only if all that it may displace makes room for it: else that would come back, and go again.
        let gives_way =
            |file: &&FileFacts| file.rank == rank && !file.busy && hot.is_much_hotter(file);
        let room: u64 = files.iter().filter(gives_way).map(|file| file.bytes).sum();
        if tiers[rank].stays().saturating_sub(room) + hot.bytes > tiers[rank].full() {
            return None;
        }
        down(tiers, files, coldest(files, rank)?)
    })
}

/// A file to the next slower tier with room.
fn down(tiers: &[TierFacts], files: &[FileFacts], at: usize) -> Option<TierMove> {
    let file = &files[at];
    let room = |to: &usize| tiers[*to].open && tiers[*to].left() >= file.bytes;
    (file.rank + 1..tiers.len()).find(room).map(|to| TierMove { file: at, to })
}

/// What is worth least in a tier, of what no job reads.
fn coldest(files: &[FileFacts], rank: usize) -> Option<usize> {
    let there = files.iter().enumerate().filter(|(_, file)| file.rank == rank && !file.busy);
    there.min_by(|(_, a), (_, b)| a.worth(b)).map(|(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tier(limit: u64, taken: u64) -> TierFacts {
        TierFacts { limit, taken, going: 0, open: true }
    }

    fn file(rank: usize, level: usize, reads: u64) -> FileFacts {
        FileFacts { rank, level, bytes: 100, reads, belongs: None, busy: false }
    }

    #[test]
    fn new_tables_go_to_the_fastest_tier_that_has_room_or_something_worth_less() {
        let tiers = [tier(1000, 700), tier(u64::MAX, 0)];
        let files = [file(0, 6, 0), file(0, 4, 9)];
        assert_eq!(rank_of_new(&tiers, &files, &file(9, 6, 0)), 0, "up to seven eighths");
        let tiers = [tier(1000, 800), tier(u64::MAX, 0)];
        assert_eq!(
            rank_of_new(&tiers, &files, &file(9, 6, 0)),
            1,
            "worth no more than what is there"
        );
        assert_eq!(rank_of_new(&tiers, &files, &file(9, 5, 0)), 0, "an upper level");
        assert_eq!(rank_of_new(&tiers, &files, &file(9, 6, 1)), 0, "read");
        let full = [tier(1000, 950), tier(u64::MAX, 0)];
        assert_eq!(rank_of_new(&full, &files, &file(9, 1, 50)), 1, "no room at all");
        let leaving = [TierFacts { open: false, ..tiers[0] }, tiers[1]];
        assert_eq!(rank_of_new(&leaving, &files, &file(9, 1, 50)), 1);
    }

    #[test]
    fn levels_fill_tiers_from_the_top() {
        let sizes = [0, 0, 10, 100, 1000, 10_000];
        let tiers = [tier(115, 0), tier(2000, 0), tier(u64::MAX, 0)];
        let ranks = (1..=6).map(|level| rank_of_level(&tiers, &sizes, level));
        assert_eq!(ranks.collect::<Vec<_>>(), [0, 0, 0, 0, 1, 2]);
        let one = [tier(10, 0)];
        assert_eq!(rank_of_level(&one, &sizes, 6), 0);
        let small = [tier(5, 0), tier(u64::MAX, 0)];
        assert_eq!(rank_of_level(&small, &sizes, 3), 1, "no whole level fits");
    }

    #[test]
    fn what_is_to_be_emptied_is_emptied_first() {
        let tiers = [TierFacts { open: false, ..tier(1000, 200) }, tier(1000, 950), tier(1000, 0)];
        let files = [file(1, 6, 0), file(0, 6, 5), FileFacts { busy: true, ..file(0, 1, 0) }];
        assert_eq!(pick_move(&tiers, &files), Some(TierMove { file: 1, to: 2 }));
        let nowhere = [tiers[0], tier(1000, 950), tier(1000, 950)];
        assert_eq!(pick_move(&nowhere, &files), None);
    }

    #[test]
    fn a_full_tier_gives_away_what_is_worth_least() {
        let tiers = [tier(800, 750), tier(1000, 0)];
        let files = [file(0, 3, 4), file(0, 2, 0), file(0, 5, 0), file(1, 6, 0)];
        assert_eq!(pick_move(&tiers, &files), Some(TierMove { file: 2, to: 1 }));
        assert_eq!(
            pick_move(&[tier(800, 700), tiers[1]], &files),
            None,
            "no more than it may have"
        );
    }

    #[test]
    fn what_is_hot_moves_up_and_does_not_come_back() {
        let roomy = [tier(1000, 200), tier(1000, 200)];
        let files = [file(0, 3, 8), file(1, 6, 20), file(1, 6, 30), file(1, 6, 0)];
        assert_eq!(pick_move(&roomy, &files), Some(TierMove { file: 2, to: 0 }));
        let full = [tier(1000, 800), tier(1000, 200)];
        assert_eq!(pick_move(&full, &files), Some(TierMove { file: 0, to: 1 }), "makes room");
        let after = [tier(1000, 700), tier(1000, 300)];
        let mut files = files;
        files[0].rank = 1;
        assert_eq!(pick_move(&after, &files), Some(TierMove { file: 2, to: 0 }));
        files[2].rank = 0;
        assert_eq!(pick_move(&full, &files), None, "the next is not much hotter than the coldest");
        let cold = [file(1, 1, 0)];
        assert_eq!(pick_move(&roomy, &cold), None, "it would not pay");
    }

    #[test]
    fn tables_move_up_to_the_tier_of_their_level() {
        let belongs = |rank, to| FileFacts { belongs: Some(to), ..file(rank, 4, 0) };
        let files = [belongs(1, 1), belongs(0, 1), belongs(1, 0)];
        let tiers = [tier(1000, 100), tier(1000, 200)];
        assert_eq!(pick_move(&tiers, &files), Some(TierMove { file: 2, to: 0 }));
        let full = [tier(1000, 800), tier(1000, 200)];
        assert_eq!(pick_move(&full, &files), None);
    }

    /// However files are read, moves come to an end.
    #[test]
    fn moves_settle() {
        let mut rng = base::random::Rng::new(7);
        for _ in 0..300 {
            let mut tiers = [tier(500, 0), tier(900, 0), tier(5000, 0)];
            let by_level = rng.below(2) == 0;
            let mut files: Vec<FileFacts> = (0..20)
                .map(|_| {
                    let bytes = 20 + rng.below(101);
                    let level = 1 + rng.below(6) as usize;
                    let reads = if by_level { 0 } else { rng.below(4) * rng.below(30) };
                    let belongs = by_level.then_some(level / 3);
                    FileFacts { bytes, belongs, ..file(rng.below(3) as usize, level, reads) }
                })
                .collect();
            files.iter().for_each(|file| tiers[file.rank].taken += file.bytes);
            let mut moves = 0;
            while let Some(TierMove { file, to }) = pick_move(&tiers, &files) {
                tiers[files[file].rank].taken -= files[file].bytes;
                tiers[to].taken += files[file].bytes;
                files[file].rank = to;
                moves += 1;
                assert!(moves < 200, "moves go on: {files:?}");
            }
        }
    }
}
