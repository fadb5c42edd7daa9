//! Which files move to other tiers: one look at all of them plans many moves, so that bringing `n` files home costs about as
//! much as sorting them. A file moves once in a plan; what follows from that is seen by the next look.
//!
//! First what a tier that is to be emptied has, then what a full tier has too much of, then strays, then what is read much, and
//! then what found no room where its level belongs.

use super::tiering::{FileFacts, TierFacts};

/// Looks at what waits for room that other moves of the same plan make.
const PASSES: usize = 16;

/// A file that moves, by its position, and the tier that it moves to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TierMove {
    pub file: usize,
    pub to: usize,
}

/// The moves that are due, in their order.
pub(crate) fn plan_moves(tiers: &[TierFacts], files: &[FileFacts<'_>]) -> Vec<TierMove> {
    let mut plan = Plan { tiers: tiers.to_vec(), files: files.to_vec(), moves: Vec::new() };
    plan.leave();
    plan.relieve();
    plan.come_home();
    plan.promote();
    plan.return_up();
    plan.moves
}

/// Tiers and files as they are once `moves` are made. What is to move is busy.
struct Plan<'f> {
    tiers: Vec<TierFacts>,
    files: Vec<FileFacts<'f>>,
    moves: Vec<TierMove>,
}

impl Plan<'_> {
    fn go(&mut self, file: usize, to: usize) {
        let moving = &mut self.files[file];
        moving.busy = true;
        shift(&mut self.tiers, moving, to);
        moving.rank = to;
        self.moves.push(TierMove { file, to });
    }

    /// Positions of files.
    fn those(&self, are: impl Fn(&FileFacts<'_>) -> bool) -> Vec<usize> {
        (0..self.files.len()).filter(|at| are(&self.files[*at])).collect()
    }

    /// What may move away from a tier: what is worth least comes first.
    fn coldest_first(&self, rank: usize) -> Vec<usize> {
        let mut there = self.those(|file| file.rank == rank && !file.busy);
        there.sort_by(|a, b| self.files[*a].stays_before(&self.files[*b]));
        there
    }

    /// Out of a tier that is to be emptied, to the fastest with room; first of those that it is to lie in.
    fn leave(&mut self) {
        for at in self.those(|file| file.goes()) {
            let (tiers, file) = (&self.tiers, &self.files[at]);
            if tiers.get(file.rank).is_some_and(|tier| tier.open) {
                continue;
            }
            let ranks = || 0..tiers.len();
            let takes = |rank: &usize| tiers[*rank].takes(file.bytes);
            let room = |rank: &usize| tiers[*rank].open && tiers[*rank].left() >= file.bytes;
            let own = ranks().find(|rank| file.may(*rank) && takes(rank));
            let to = own
                .or_else(|| ranks().rfind(|rank| file.may(*rank) && room(rank)))
                .or_else(|| ranks().find(takes))
                .or_else(|| ranks().rfind(room));
            to.into_iter().for_each(|to| self.go(at, to));
        }
    }

    /// Down from tiers that are full: first what has a tier of its own below, if that has room.
    fn relieve(&mut self) {
        for rank in 0..self.tiers.len() {
            let is_full = |tier: &TierFacts| tier.open && tier.stays() > tier.full();
            if !is_full(&self.tiers[rank]) {
                continue;
            }
            let there = self.coldest_first(rank);
            for which in [Below::Own, Below::Any] {
                for at in &there {
                    if self.files[*at].busy || !is_full(&self.tiers[rank]) {
                        continue;
                    }
                    match (below(&self.tiers, &self.files[*at], which), which) {
                        (Some(to), _) if self.files[*at].wants => self.go(*at, to),
                        (None, Below::Own) => {}
                        // What is worth more does not go in its place.
                        _ => break,
                    }
                }
            }
        }
    }

    /// To tiers that files are to lie in, from others; first what has elsewhere to go gives way.
    fn come_home(&mut self) {
        let mut strays = self.those(|file| file.goes() && !file.may(file.rank));
        if strays.is_empty() {
            return;
        }
        for _ in 0..PASSES {
            let before = strays.len();
            strays.retain(|at| {
                let (tiers, file) = (&self.tiers, &self.files[*at]);
                let takes = |rank: &usize| file.may(*rank) && tiers[*rank].takes(file.bytes);
                let to = file.belongs.filter(takes).or_else(|| (0..tiers.len()).find(takes));
                to.into_iter().for_each(|to| self.go(*at, to));
                to.is_none()
            });
            if strays.len() == before {
                break;
            }
        }
        // Where the smallest finds no room, none does.
        strays.sort_by_key(|at| self.files[*at].bytes);
        for rank in (0..self.tiers.len()).rev() {
            if !self.tiers[rank].open {
                continue;
            }
            let mut giving = Giving { there: self.coldest_first(rank), next: 0 };
            // Those that are not to lie there themselves first.
            giving.there.sort_by_key(|at| self.files[*at].may(rank));
            for at in &strays {
                let FileFacts { bytes, busy, .. } = self.files[*at];
                if busy || !self.files[*at].may(rank) {
                    continue;
                }
                if !self.make_room(&mut giving, rank, bytes, |_| true) {
                    break;
                }
                if self.tiers[rank].takes(bytes) {
                    self.go(*at, rank);
                }
            }
        }
    }

    /// Up, what is read much more than what lies above; first what is in its way moves down.
    fn promote(&mut self) {
        for rank in 0..self.tiers.len() {
            if !self.tiers[rank].open {
                continue;
            }
            let full = self.tiers[rank].full();
            let waits = |file: &FileFacts<'_>| {
                let may_go = file.rank > rank && file.may(rank) && file.goes();
                may_go && file.pays() && file.bytes <= full
            };
            let mut hot = self.those(waits);
            if hot.is_empty() {
                continue;
            }
            hot.sort_by(|a, b| self.files[*b].worth(&self.files[*a]));
            let mut giving = Giving { there: self.coldest_first(rank), next: 0 };
            for at in hot {
                let hot = self.files[at];
                let gives_way =
                    |file: &FileFacts<'_>| !file.is_settled() && hot.is_much_hotter(file);
                let takes = |plan: &Self| plan.tiers[rank].takes(hot.bytes);
                let made = takes(self) || self.make_room(&mut giving, rank, hot.bytes, gives_way);
                if !made || !takes(self) {
                    break;
                }
                self.go(at, rank);
            }
        }
    }

    /// Up, to the tier of its level.
    fn return_up(&mut self) {
        for at in self.those(|file| file.goes()) {
            let file = &self.files[at];
            if let Some(to) = file.belongs.filter(|to| *to < file.rank)
                && self.tiers[to].takes(file.bytes)
            {
                self.go(at, to);
            }
        }
    }

    /// Moves down what is worth least of what gives way in a tier to so many bytes: only if all that may, one after the other, makes
    /// room for them, else it would come back, and go again.
    fn make_room(
        &mut self,
        giving: &mut Giving,
        rank: usize,
        bytes: u64,
        gives_way: impl Fn(&FileFacts<'_>) -> bool,
    ) -> bool {
        let has_room = |tier: &TierFacts| tier.stays().saturating_add(bytes) <= tier.full();
        let (mut tiers, mut going) = (self.tiers.clone(), Vec::new());
        let mut next = giving.next;
        while !has_room(&tiers[rank]) {
            let Some(at) = giving.there.get(next) else { return false };
            next += 1;
            let file = &self.files[*at];
            if file.busy || !gives_way(file) {
                continue;
            }
            if let Some(to) = below(&tiers, file, Below::Own).or_else(|| aside(&tiers, file)) {
                shift(&mut tiers, file, to);
                going.push((*at, to));
            }
        }
        giving.next = next;
        going.into_iter().for_each(|(at, to)| self.go(at, to));
        true
    }
}

/// What gives way in a tier; those before `next` have been asked.
struct Giving {
    there: Vec<usize>,
    next: usize,
}

/// Counts a file where it goes.
fn shift(tiers: &mut [TierFacts], file: &FileFacts<'_>, to: usize) {
    if let Some(from) = tiers.get_mut(file.rank) {
        from.taken = from.taken.saturating_sub(file.bytes);
    }
    tiers[to].taken = tiers[to].taken.saturating_add(file.bytes);
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

/// Where a file waits that lies where it is not to lie: in any tier with room, a slower one rather. So keyspaces can change full
/// tiers with each other.
fn aside(tiers: &[TierFacts], file: &FileFacts<'_>) -> Option<usize> {
    let takes = |rank: &usize| *rank != file.rank && tiers[*rank].takes(file.bytes);
    let any = || (file.rank + 1..tiers.len()).chain(0..file.rank).find(takes);
    if file.may(file.rank) { None } else { any() }
}

#[cfg(test)]
mod tests {
    use super::super::tiering::LOOKS;
    use super::super::tiering::tests::{file, tier};
    use super::*;

    fn first_move(tiers: &[TierFacts], files: &[FileFacts<'_>]) -> Option<TierMove> {
        plan_moves(tiers, files).first().copied()
    }

    #[test]
    fn what_is_to_be_emptied_is_emptied_first() {
        let tiers = [TierFacts { open: false, ..tier(1000, 200) }, tier(1000, 950), tier(1000, 0)];
        let files = [file(1, 6, 0), file(0, 6, 5), FileFacts { busy: true, ..file(0, 1, 0) }];
        assert_eq!(first_move(&tiers, &files), Some(TierMove { file: 1, to: 2 }));
        let nowhere = [tiers[0], tier(1000, 950), tier(1000, 950)];
        assert_eq!(first_move(&nowhere, &files), None);
    }

    #[test]
    fn a_full_tier_gives_away_what_is_worth_least() {
        let tiers = [tier(800, 750), tier(1000, 0)];
        let files = [file(0, 3, 4), file(0, 2, 0), file(0, 5, 0), file(1, 6, 0)];
        assert_eq!(first_move(&tiers, &files), Some(TierMove { file: 2, to: 1 }));
        assert_eq!(
            first_move(&[tier(800, 700), tiers[1]], &files),
            None,
            "no more than it may have"
        );
    }

    #[test]
    fn what_is_hot_moves_up_and_does_not_come_back() {
        let roomy = [tier(1000, 200), tier(1000, 200)];
        let files = [file(0, 3, 8), file(1, 6, 20), file(1, 6, 30), file(1, 6, 0)];
        assert_eq!(first_move(&roomy, &files), Some(TierMove { file: 2, to: 0 }));
        let full = [tier(1000, 800), tier(1000, 200)];
        assert_eq!(first_move(&full, &files), Some(TierMove { file: 0, to: 1 }), "makes room");
        let after = [tier(1000, 700), tier(1000, 300)];
        let mut files = files;
        files[0].rank = 1;
        assert_eq!(first_move(&after, &files), Some(TierMove { file: 2, to: 0 }));
        files[2].rank = 0;
        assert_eq!(first_move(&full, &files), None, "the next is not much hotter than the coldest");
        let cold = [file(1, 1, 0)];
        assert_eq!(first_move(&roomy, &cold), None, "it would not pay");
    }

    #[test]
    fn tables_move_up_to_the_tier_of_their_level() {
        let belongs = |rank, to| FileFacts { belongs: Some(to), ..file(rank, 4, 0) };
        let files = [belongs(1, 1), belongs(0, 1), belongs(1, 0)];
        let tiers = [tier(1000, 100), tier(1000, 200)];
        assert_eq!(first_move(&tiers, &files), Some(TierMove { file: 2, to: 0 }));
        let full = [tier(1000, 800), tier(1000, 200)];
        assert_eq!(first_move(&full, &files), None);
    }

    #[test]
    fn what_is_not_asked_for_only_makes_room() {
        let of = |rank, allowed| FileFacts { allowed, ..file(rank, 6, 0) };
        let first: &[bool] = &[true, false];
        let asked = |wants, file| FileFacts { wants, ..file };
        let full = [tier(1000, 850), tier(1000, 300)];
        let files = [asked(false, of(1, first)), asked(false, of(0, &[]))];
        assert_eq!(first_move(&full, &files), None);
        let files = [asked(true, of(1, first)), asked(false, of(0, &[]))];
        assert_eq!(first_move(&full, &files), Some(TierMove { file: 1, to: 1 }));
        let closed = [tier(1000, 100), TierFacts { open: false, ..tier(1000, 200) }];
        let files = [asked(false, of(1, &[])), asked(true, of(1, &[]))];
        assert_eq!(first_move(&closed, &files), Some(TierMove { file: 1, to: 0 }));
    }

    #[test]
    fn what_is_read_does_not_displace_what_lies_where_its_level_belongs() {
        let full = [tier(1000, 800), tier(1000, 200)];
        let settled = FileFacts { belongs: Some(0), ..file(0, 1, 0) };
        let files = [settled, file(1, 6, 99)];
        assert_eq!(first_move(&full, &files), None);
        let files = [settled, file(0, 6, 9), file(1, 6, 99)];
        assert_eq!(first_move(&full, &files), Some(TierMove { file: 1, to: 1 }));
        let over = [tier(1000, 900), tier(1000, 200)];
        assert_eq!(first_move(&over, &files[..2]), Some(TierMove { file: 1, to: 1 }));
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
            loop {
                let plan = plan_moves(&tiers, &files);
                if plan.is_empty() {
                    break;
                }
                for TierMove { file, to } in plan {
                    tiers[files[file].rank].taken -= files[file].bytes;
                    tiers[to].taken += files[file].bytes;
                    files[file].rank = to;
                    moves += 1;
                    assert!(moves < 200, "moves go on: {files:?}");
                }
            }
        }
    }

    #[test]
    fn keyspaces_change_full_tiers_with_each_other() {
        let only: [&[bool]; 3] =
            [&[true, false, false], &[false, true, false], &[false, false, true]];
        let full_at = |full: [usize; 2]| {
            [0, 1, 2].map(|rank| tier(1000, if full.contains(&rank) { 800 } else { 0 }))
        };
        let of = |rank, home: usize| FileFacts { allowed: only[home], ..file(rank, 6, 0) };
        for [one, other] in [[0, 1], [1, 2], [2, 0]] {
            let mut tiers = full_at([one, other]);
            let mut files = [[of(one, other); 8], [of(other, one); 8]].concat();
            for _ in 0..8 {
                for TierMove { file, to } in plan_moves(&tiers, &files) {
                    tiers[files[file].rank].taken -= 100;
                    tiers[to].taken += 100;
                    files[file].rank = to;
                }
            }
            assert!(files.iter().all(|file| file.may(file.rank)), "{one} and {other}: {files:?}");
            assert_eq!(first_move(&tiers, &files), None, "that is all");
        }
        let none_free = [tier(1000, 800), tier(1000, 800), tier(1000, 850)];
        assert_eq!(first_move(&none_free, &[of(0, 1), of(1, 0)]), None, "nowhere to wait");
    }

    #[test]
    fn files_lie_in_the_tiers_of_their_keyspace_while_these_have_room() {
        let of = |rank, allowed| FileFacts { allowed, ..file(rank, 6, 0) };
        let (first, second): (&[bool], &[bool]) = (&[true, false, false], &[false, true, false]);
        let roomy = [tier(1000, 300), tier(1000, 300), tier(u64::MAX, 0)];
        let files = [of(1, first), of(0, &[]), FileFacts { reads: 99, ..of(1, second) }];
        let up = Some(TierMove { file: 0, to: 0 });
        assert_eq!(
            first_move(&roomy, &files),
            up,
            "home, and no hot one up to where it is not to be"
        );
        let full = [tier(1000, 850), tier(1000, 300), tier(u64::MAX, 0)];
        let down = Some(TierMove { file: 1, to: 1 });
        assert_eq!(first_move(&full, &files), down, "what has elsewhere to go gives way");
        let files = [of(1, first), of(0, first)];
        assert_eq!(first_move(&full, &files), None, "what has not does not");
        // Beyond what moves fill, those with a tier of their own below go first, then all.
        let over = [tier(1000, 900), tier(1000, 300), tier(u64::MAX, 0)];
        let hot = FileFacts { reads: 99, ..of(0, &[]) };
        assert_eq!(first_move(&over, &[of(0, first), hot]), Some(TierMove { file: 1, to: 1 }));
        assert_eq!(first_move(&over, &[of(0, first)]), Some(TierMove { file: 0, to: 1 }));
        let left = [TierFacts { open: false, ..tier(1000, 100) }, over[1], over[2]];
        assert_eq!(first_move(&left, &[of(0, &[false, false, true])]).map(|next| next.to), Some(2));
    }

    /// Each move looked at all files, and sorted them.
    #[test]
    fn a_plan_costs_little_more_than_its_files() {
        let home: &[bool] = &[true, false];
        let steps = |count: usize, full: bool| {
            let bytes = 100 * count as u64;
            // Strays below, and as many above that have elsewhere to go.
            let limit = if full { bytes / 7 * 8 + 64 } else { 4 * bytes };
            let tiers = [tier(limit, bytes), tier(u64::MAX, bytes)];
            let reads = |at: usize| (at * 7919 % 1000) as u64;
            let strays = (0..count).map(|at| FileFacts { allowed: home, ..file(1, 6, reads(at)) });
            let files: Vec<_> = strays.chain((0..count).map(|at| file(0, 5, reads(at)))).collect();
            LOOKS.set(0);
            let moves = plan_moves(&tiers, &files).len();
            assert!(moves >= count * (1 + usize::from(full)), "{moves} of {count}");
            LOOKS.get()
        };
        for full in [false, true] {
            let (few, many) = (steps(500, full), steps(4000, full));
            assert!(many < 16 * few, "{few} for 500, {many} for 4000");
        }
    }
}
