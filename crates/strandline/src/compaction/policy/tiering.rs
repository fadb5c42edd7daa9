//! Which tier a file belongs in: pure functions from sizes and reads. What moves there is planned in [`super::tier_plan`].
//!
//! By *benefit*, files are worth their reads for their bytes; of those that are read alike, upper levels are worth more, as they are
//! rewritten sooner. The fastest tier is filled with what is worth most. New ones go to the fastest tier that has room, or in
//! which something is worth less. A part of each tier stays free for them: beyond that, what is worth least moves down. What is
//! much hotter than the coldest above it moves up, where that pays for being copied.
//!
//! By *level*, upper levels lie in the fastest tiers as far as these have room for whole levels, as `GetPathId` of RocksDB's
//! `LevelCompactionPicker` decides. Tables that found no room there, or whose level had none, move up once there is.
//!
//! A keyspace may name the tiers that its files lie in. Files that have elsewhere to go give way to those that have not. What is
//! full is not left for that: files then lie in other tiers, until there is room again.

use std::cmp::Ordering;

use crate::tree::desc::LEVELS;
use crate::tree::heat::BLOCK;

/// Moves fill so many eighths of a tier; the rest is for what is written next.
const FULL_EIGHTHS: u64 = 7;
/// A table takes another's place if it is read so many times as much: else they would change places for ever.
const HOTTER: u128 = 2;
/// Moving up pays once one of so many bytes was read lately: it is read, and written, once.
const READ_SHARE: u64 = 4;

/// A tier; the fastest comes first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TierFacts {
    pub limit: u64,
    pub taken: u64,
    /// Bytes that files which are being written will take besides.
    pub coming: u64,
    /// Of these, bytes of files that go with their last readers.
    pub going: u64,
    /// New files go there; else all that is there moves away.
    pub open: bool,
}

impl TierFacts {
    /// Bytes that more files may take.
    pub(super) fn left(&self) -> u64 {
        self.limit.saturating_sub(self.taken).saturating_sub(self.coming)
    }

    /// Bytes up to which moves fill it.
    pub(super) fn full(&self) -> u64 {
        self.limit / 8 * FULL_EIGHTHS
    }

    pub(super) fn takes(&self, bytes: u64) -> bool {
        self.open && self.stays().saturating_add(bytes) <= self.full() && self.left() >= bytes
    }

    /// Bytes of files that stay.
    pub(super) fn stays(&self) -> u64 {
        self.taken.saturating_sub(self.going)
    }
}

/// A table or value file that is a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FileFacts<'f> {
    /// Its tier, by its position.
    pub rank: usize,
    /// Of a value file, that of the deepest table that refers to it.
    pub level: usize,
    pub bytes: u64,
    /// Blocks of it that were read lately, past the caches; 0 where files go by their levels.
    pub reads: u64,
    /// The tier of its level, where files go by that.
    pub belongs: Option<usize>,
    /// Of each tier, whether it is to lie there; empty: in all of them.
    pub allowed: &'f [bool],
    /// A job reads it.
    pub busy: bool,
    /// It moves where it belongs; else it only makes room for others.
    pub wants: bool,
}

impl FileFacts<'_> {
    /// Whether it is to lie in a tier.
    pub(super) fn may(&self, rank: usize) -> bool {
        #[cfg(test)]
        LOOKS.set(LOOKS.get() + 1);
        self.allowed.get(rank).copied().unwrap_or(true)
    }

    /// It lies where its level belongs, which what is read of others does not change.
    pub(super) fn is_settled(&self) -> bool {
        self.belongs == Some(self.rank)
    }

    /// Which of two stays rather.
    pub(super) fn stays_before(&self, other: &FileFacts<'_>) -> Ordering {
        self.is_settled().cmp(&other.is_settled()).then_with(|| self.worth(other))
    }

    /// Which of two is worth more.
    pub(super) fn worth(&self, other: &FileFacts<'_>) -> Ordering {
        #[cfg(test)]
        LOOKS.set(LOOKS.get() + 1);
        let (a, b) = (u128::from(self.reads), u128::from(other.reads));
        let by_reads = (a * u128::from(other.bytes)).cmp(&(b * u128::from(self.bytes)));
        by_reads.then(other.level.cmp(&self.level))
    }

    pub(super) fn is_much_hotter(&self, other: &FileFacts<'_>) -> bool {
        let (a, b) = (u128::from(self.reads), u128::from(other.reads));
        a * u128::from(other.bytes) > HOTTER * b * u128::from(self.bytes)
    }

    /// Whether it may move for its own sake.
    pub(super) fn goes(&self) -> bool {
        self.wants && !self.busy
    }

    pub(super) fn pays(&self) -> bool {
        self.reads.saturating_mul(BLOCK) >= self.bytes / READ_SHARE && self.reads > 0
    }
}

/// The tier for new files of a compaction: `new` is one of them, as if it lay there.
pub(crate) fn rank_of_new(
    tiers: &[TierFacts],
    files: &[FileFacts<'_>],
    new: &FileFacts<'_>,
) -> usize {
    let ranks = || (0..tiers.len()).filter(|rank| new.may(*rank));
    let last = ranks().next_back().unwrap_or(0);
    let belongs = |rank: &usize| {
        let tier = &tiers[*rank];
        let coldest = coldest(files, *rank);
        let displaces = || coldest.is_some_and(|coldest| new.stays_before(coldest).is_gt());
        tier.takes(new.bytes) || tier.open && tier.left() >= new.bytes && displaces()
    };
    ranks().filter(|rank| *rank < last).find(belongs).unwrap_or(last)
}

/// The tier for tables of `level` where levels have these sizes, of those that `allowed` names; of all, if it is empty.
pub(crate) fn rank_of_level(
    tiers: &[TierFacts],
    allowed: &[bool],
    sizes: &[u64; LEVELS],
    level: usize,
) -> usize {
    let is_allowed = |rank: usize| allowed.get(rank).copied().unwrap_or(true);
    let last = (0..tiers.len()).rfind(|rank| is_allowed(*rank)).unwrap_or(0);
    let room_of =
        |rank: usize| if tiers[rank].open && is_allowed(rank) { tiers[rank].limit } else { 0 };
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

/// What is worth least in a tier, of what no job reads.
fn coldest<'f>(files: &'f [FileFacts<'f>], rank: usize) -> Option<&'f FileFacts<'f>> {
    let there = files.iter().filter(|file| file.rank == rank && !file.busy);
    there.min_by(|a, b| a.stays_before(b))
}

#[cfg(test)]
thread_local! {
    /// Looks at files, for tests that count them.
    pub(crate) static LOOKS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(crate) fn tier(limit: u64, taken: u64) -> TierFacts {
        TierFacts { limit, taken, coming: 0, going: 0, open: true }
    }

    pub(crate) fn file(rank: usize, level: usize, reads: u64) -> FileFacts<'static> {
        let (busy, wants) = (false, true);
        FileFacts { rank, level, bytes: 100, reads, belongs: None, allowed: &[], busy, wants }
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
        let ranks = (1..=6).map(|level| rank_of_level(&tiers, &[], &sizes, level));
        assert_eq!(ranks.collect::<Vec<_>>(), [0, 0, 0, 0, 1, 2]);
        let one = [tier(10, 0)];
        assert_eq!(rank_of_level(&one, &[], &sizes, 6), 0);
        let small = [tier(5, 0), tier(u64::MAX, 0)];
        assert_eq!(rank_of_level(&small, &[], &sizes, 3), 1, "no whole level fits");
        let of = |allowed: &[bool], level| rank_of_level(&tiers, allowed, &sizes, level);
        let slower = [false, true, true];
        assert_eq!((of(&slower, 1), of(&slower, 5), of(&slower, 6)), (1, 1, 2));
        assert_eq!((of(&[false, true, false], 6), of(&[true, false, true], 5)), (1, 2));
    }

    #[test]
    fn new_files_go_to_the_tiers_of_their_keyspace() {
        let roomy = [tier(1000, 300), tier(1000, 300), tier(u64::MAX, 0)];
        let new = |allowed: &'static [bool]| {
            rank_of_new(&roomy, &[], &FileFacts { allowed, ..file(9, 6, 0) })
        };
        let (first, second) = (&[true, false, false], &[false, true, false]);
        assert_eq!((new(first), new(second), new(&[false, true, true])), (0, 1, 1));
    }
}
