//! Which tier a file belongs in, and which one moves next: pure functions from sizes and reads.
//!
//! By *benefit*, tables are worth their reads for their bytes; of those that are read alike, upper levels are worth more, as they are
//! rewritten sooner. The fastest tier is filled with what is worth most. New tables go to the fastest tier that has room, or in
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
pub(crate) struct FileFacts<'f> {
    /// Its tier, by its position.
    pub rank: usize,
    pub level: usize,
    pub bytes: u64,
    /// Blocks of it that were read lately, past the caches; 0 where tables go by their levels.
    pub reads: u64,
    /// The tier of its level, where tables go by that.
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
    fn may(&self, rank: usize) -> bool {
        self.allowed.get(rank).copied().unwrap_or(true)
    }

    /// It lies where its level belongs, which what is read of others does not change.
    fn is_settled(&self) -> bool {
        self.belongs == Some(self.rank)
    }

    /// Which of two stays rather.
    fn stays_before(&self, other: &FileFacts<'_>) -> Ordering {
        self.is_settled().cmp(&other.is_settled()).then_with(|| self.worth(other))
    }

    /// Which of two is worth more.
    fn worth(&self, other: &FileFacts<'_>) -> Ordering {
        let (a, b) = (u128::from(self.reads), u128::from(other.reads));
        let by_reads = (a * u128::from(other.bytes)).cmp(&(b * u128::from(self.bytes)));
        by_reads.then(other.level.cmp(&self.level))
    }

    fn is_much_hotter(&self, other: &FileFacts<'_>) -> bool {
        let (a, b) = (u128::from(self.reads), u128::from(other.reads));
        a * u128::from(other.bytes) > HOTTER * b * u128::from(self.bytes)
    }

    /// Whether it may move for its own sake.
    fn goes(&self) -> bool {
        self.wants && !self.busy
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
pub(crate) fn rank_of_new(
    tiers: &[TierFacts],
    files: &[FileFacts<'_>],
    new: &FileFacts<'_>,
) -> usize {
    let ranks = || (0..tiers.len()).filter(|rank| new.may(*rank));
    let last = ranks().next_back().unwrap_or(0);
    let belongs = |rank: &usize| {
        let tier = &tiers[*rank];
        let coldest = coldest(files, *rank, |_| true).map(|at| &files[at]);
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

/// The next move, if one is due.
pub(crate) fn pick_move(tiers: &[TierFacts], files: &[FileFacts<'_>]) -> Option<TierMove> {
    leave(tiers, files)
        .or_else(|| relieve(tiers, files))
        .or_else(|| come_home(tiers, files))
        .or_else(|| promote(tiers, files))
        .or_else(|| return_up(tiers, files))
}

/// Up, to the tier of its level.
fn return_up(tiers: &[TierFacts], files: &[FileFacts<'_>]) -> Option<TierMove> {
    files.iter().enumerate().find_map(|(at, file)| {
        let to = file.belongs.filter(|to| *to < file.rank && file.goes())?;
        tiers[to].takes(file.bytes).then_some(TierMove { file: at, to })
    })
}

/// Out of a tier that is to be emptied, to the fastest with room; first of those that it is to lie in.
fn leave(tiers: &[TierFacts], files: &[FileFacts<'_>]) -> Option<TierMove> {
    let leaves =
        |file: &FileFacts<'_>| file.goes() && tiers.get(file.rank).is_none_or(|tier| !tier.open);
    files.iter().enumerate().filter(|(_, file)| leaves(file)).find_map(|(at, file)| {
        let ranks = || 0..tiers.len();
        let takes = |rank: &usize| tiers[*rank].takes(file.bytes);
        let room = |rank: &usize| tiers[*rank].open && tiers[*rank].left() >= file.bytes;
        let own = ranks().find(|rank| file.may(*rank) && takes(rank));
        let to = own
            .or_else(|| ranks().rfind(|rank| file.may(*rank) && room(rank)))
            .or_else(|| ranks().find(takes))
            .or_else(|| ranks().rfind(room));
        to.map(|to| TierMove { file: at, to })
    })
}

/// Down from a tier that is full: first what has a tier of its own below, if that has room.
fn relieve(tiers: &[TierFacts], files: &[FileFacts<'_>]) -> Option<TierMove> {
    (0..tiers.len()).find_map(|rank| {
        if !tiers[rank].open || tiers[rank].stays() <= tiers[rank].full() {
            return None;
        }
        let own = coldest(files, rank, |file| below(tiers, file, Below::Own).is_some());
        let own = own.and_then(|at| down(tiers, files, at, Below::Own));
        let next = own.or_else(|| down(tiers, files, coldest(files, rank, |_| true)?, Below::Any));
        next.filter(|next| files[next.file].wants)
    })
}

/// To a tier that it is to lie in, from another one; first what has elsewhere to go gives way.
fn come_home(tiers: &[TierFacts], files: &[FileFacts<'_>]) -> Option<TierMove> {
    let strays = || {
        let all = files.iter().enumerate();
        all.filter(|(_, file)| file.goes() && !file.may(file.rank))
    };
    let homes = |file: &FileFacts<'_>, rank: usize| file.may(rank) && tiers[rank].open;
    let at_once = strays().find_map(|(at, file)| {
        let takes = |rank: &usize| homes(file, *rank) && tiers[*rank].takes(file.bytes);
        let to = file.belongs.filter(takes).or_else(|| (0..tiers.len()).find(takes));
        to.map(|to| TierMove { file: at, to })
    });
    at_once.or_else(|| {
        (0..tiers.len()).rev().find_map(|rank| {
            // Where the smallest finds no room, none does.
            let here = strays().map(|(_, file)| file).filter(|file| homes(file, rank));
            let smallest = here.min_by_key(|file| file.bytes)?;
            make_room(tiers, files, rank, smallest.bytes, |_| true)
        })
    })
}

/// Up, what is read much more than what lies above; first what is in its way moves down.
fn promote(tiers: &[TierFacts], files: &[FileFacts<'_>]) -> Option<TierMove> {
    (0..tiers.len()).filter(|rank| tiers[*rank].open).find_map(|rank| {
        let waits =
            |file: &FileFacts<'_>| file.rank > rank && file.may(rank) && file.goes() && file.pays();
        let (at, hot) = files
            .iter()
            .enumerate()
            .filter(|(_, file)| waits(file) && file.bytes <= tiers[rank].full())
            .max_by(|(_, a), (_, b)| a.worth(b))?;
        if tiers[rank].takes(hot.bytes) {
            return Some(TierMove { file: at, to: rank });
        }
        let gives_way = |file: &FileFacts<'_>| !file.is_settled() && hot.is_much_hotter(file);
        make_room(tiers, files, rank, hot.bytes, gives_way)
    })
}

/// Moves down what is worth least of what gives way in a tier to so many bytes: only if all that may, one after the other, makes room
/// for them, else it would come back, and go again.
fn make_room(
    tiers: &[TierFacts],
    files: &[FileFacts<'_>],
    rank: usize,
    bytes: u64,
    gives_way: impl Fn(&FileFacts<'_>) -> bool,
) -> Option<TierMove> {
    let gives =
        |(_, file): &(usize, &FileFacts<'_>)| file.rank == rank && !file.busy && gives_way(file);
    let mut giving: Vec<_> = files.iter().enumerate().filter(gives).collect();
    giving.sort_by(|(_, a), (_, b)| a.stays_before(b));
    let (mut tiers, mut first) = (tiers.to_vec(), None);
    for (at, file) in giving {
        let Some(to) = below(&tiers, file, Below::Own) else { continue };
        first.get_or_insert(TierMove { file: at, to });
        tiers[to].taken += file.bytes;
        tiers[rank].taken = tiers[rank].taken.saturating_sub(file.bytes);
        if tiers[rank].stays().saturating_add(bytes) <= tiers[rank].full() {
            return first;
        }
    }
    None
}

/// Which slower tiers count.
#[derive(Clone, Copy)]
enum Below {
    /// Those that the file is to lie in, and stays in: beyond what moves fill, it would go on to one where it is not to lie, and come
    /// back from there.
    Own,
    Any,
}

/// The next slower tier with room for a file.
fn below(tiers: &[TierFacts], file: &FileFacts<'_>, which: Below) -> Option<usize> {
    let last = tiers.iter().rposition(|tier| tier.open);
    let room = |rank: &usize| tiers[*rank].open && tiers[*rank].left() >= file.bytes;
    let own = |rank: &usize| file.may(*rank) && room(rank);
    let stays = |rank: &usize| {
        let goes_on = Some(*rank) == last || (*rank + 1..tiers.len()).any(|next| own(&next));
        own(rank) && (goes_on || tiers[*rank].takes(file.bytes))
    };
    let mut slower = file.rank + 1..tiers.len();
    match which {
        Below::Own => slower.find(stays),
        Below::Any => slower.find(room),
    }
}

/// A file to the next slower tier with room.
fn down(tiers: &[TierFacts], files: &[FileFacts<'_>], at: usize, which: Below) -> Option<TierMove> {
    below(tiers, &files[at], which).map(|to| TierMove { file: at, to })
}

/// What is worth least in a tier, of those that count and that no job reads.
fn coldest(
    files: &[FileFacts<'_>],
    rank: usize,
    counts: impl Fn(&FileFacts<'_>) -> bool,
) -> Option<usize> {
    let there = files.iter().enumerate();
    let there = there.filter(|(_, file)| file.rank == rank && !file.busy && counts(file));
    there.min_by(|(_, a), (_, b)| a.stays_before(b)).map(|(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tier(limit: u64, taken: u64) -> TierFacts {
        TierFacts { limit, taken, going: 0, open: true }
    }

    fn file(rank: usize, level: usize, reads: u64) -> FileFacts<'static> {
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

    #[test]
    fn files_lie_in_the_tiers_of_their_keyspace_while_these_have_room() {
        let of = |rank, allowed| FileFacts { allowed, ..file(rank, 6, 0) };
        let (first, second): (&[bool], &[bool]) = (&[true, false, false], &[false, true, false]);
        let roomy = [tier(1000, 300), tier(1000, 300), tier(u64::MAX, 0)];
        let new = |allowed| rank_of_new(&roomy, &[], &of(9, allowed));
        assert_eq!((new(first), new(second), new(&[false, true, true])), (0, 1, 1));
        let files = [of(1, first), of(0, &[]), FileFacts { reads: 99, ..of(1, second) }];
        let up = Some(TierMove { file: 0, to: 0 });
        assert_eq!(
            pick_move(&roomy, &files),
            up,
            "home, and no hot one up to where it is not to be"
        );
        let full = [tier(1000, 850), tier(1000, 300), tier(u64::MAX, 0)];
        let down = Some(TierMove { file: 1, to: 1 });
        assert_eq!(pick_move(&full, &files), down, "what has elsewhere to go gives way");
        let files = [of(1, first), of(0, first)];
        assert_eq!(pick_move(&full, &files), None, "what has not does not");
        // Beyond what moves fill, those with a tier of their own below go first, then all.
        let over = [tier(1000, 900), tier(1000, 300), tier(u64::MAX, 0)];
        let hot = FileFacts { reads: 99, ..of(0, &[]) };
        assert_eq!(pick_move(&over, &[of(0, first), hot]), Some(TierMove { file: 1, to: 1 }));
        assert_eq!(pick_move(&over, &[of(0, first)]), Some(TierMove { file: 0, to: 1 }));
        let left = [TierFacts { open: false, ..tier(1000, 100) }, over[1], over[2]];
        assert_eq!(pick_move(&left, &[of(0, &[false, false, true])]).map(|next| next.to), Some(2));
    }

    #[test]
    fn what_is_not_asked_for_only_makes_room() {
        let of = |rank, allowed| FileFacts { allowed, ..file(rank, 6, 0) };
        let first: &[bool] = &[true, false];
        let asked = |wants, file| FileFacts { wants, ..file };
        let full = [tier(1000, 850), tier(1000, 300)];
        let files = [asked(false, of(1, first)), asked(false, of(0, &[]))];
        assert_eq!(pick_move(&full, &files), None);
        let files = [asked(true, of(1, first)), asked(false, of(0, &[]))];
        assert_eq!(pick_move(&full, &files), Some(TierMove { file: 1, to: 1 }));
        let closed = [tier(1000, 100), TierFacts { open: false, ..tier(1000, 200) }];
        let files = [asked(false, of(1, &[])), asked(true, of(1, &[]))];
        assert_eq!(pick_move(&closed, &files), Some(TierMove { file: 1, to: 0 }));
    }

    #[test]
    fn what_is_read_does_not_displace_what_lies_where_its_level_belongs() {
        let full = [tier(1000, 800), tier(1000, 200)];
        let settled = FileFacts { belongs: Some(0), ..file(0, 1, 0) };
        let files = [settled, file(1, 6, 99)];
        assert_eq!(pick_move(&full, &files), None);
        let files = [settled, file(0, 6, 9), file(1, 6, 99)];
        assert_eq!(pick_move(&full, &files), Some(TierMove { file: 1, to: 1 }));
        let over = [tier(1000, 900), tier(1000, 200)];
        assert_eq!(pick_move(&over, &files[..2]), Some(TierMove { file: 1, to: 1 }));
    }

    /// However files are read, and wherever their keyspaces want them, moves come to an end.
    #[test]
    fn moves_settle() {
        let mut rng = base::random::Rng::new(7);
        for _ in 0..3000 {
            let mut tiers = [tier(500, 0), tier(900, 0), tier(5000, 0)];
            // All alike, or each keyspace its own way.
            let ways = 1 + rng.below(4);
            let spaces: Vec<(bool, [bool; 3])> = (0..ways)
                .map(|_| (rng.below(2) == 0, [(); 3].map(|()| ways == 1 || rng.below(2) == 0)))
                .collect();
            let mut files: Vec<FileFacts<'_>> = (0..20)
                .map(|_| {
                    let (by_level, named) = &spaces[rng.below(ways) as usize];
                    let allowed = if named.contains(&true) { &named[..] } else { &[] };
                    let bytes = 20 + rng.below(101);
                    let level = 1 + rng.below(6) as usize;
                    let reads = if *by_level { 0 } else { rng.below(4) * rng.below(30) };
                    let rank = level / 3;
                    let may = |rank: &usize| allowed.get(*rank).copied().unwrap_or(true);
                    let slower = (rank..3).find(may).or_else(|| (0..rank).rfind(may));
                    let belongs = slower.filter(|_| *by_level);
                    let file = file(rng.below(3) as usize, level, reads);
                    FileFacts { bytes, belongs, allowed, ..file }
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
