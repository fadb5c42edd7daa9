//! Doubly linked lists whose members have numbers. Many lists share one [`Links`], as long as each number is in one of them.

/// No member.
const NONE: u32 = u32::MAX;

/// What stands before and behind each number in its list.
#[derive(Default)]
pub(crate) struct Links(Vec<Link>);

#[derive(Clone, Copy)]
struct Link {
    before: u32,
    behind: u32,
}

/// The ends of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct List {
    first: u32,
    last: u32,
}

impl List {
    pub(crate) const EMPTY: List = List { first: NONE, last: NONE };

    pub(crate) fn is_empty(&self) -> bool {
        self.first == NONE
    }

    pub(crate) fn first(&self) -> Option<u32> {
        (!self.is_empty()).then_some(self.first)
    }
}

impl Links {
    /// What stands behind `number` in its list.
    pub(crate) fn behind(&self, number: u32) -> Option<u32> {
        Some(self.0[number as usize].behind).filter(|behind| *behind != NONE)
    }

    /// Puts `number`, which is in no list, behind the last of `list`.
    pub(crate) fn push(&mut self, list: &mut List, number: u32) {
        let at = number as usize;
        if self.0.len() <= at {
            self.0.resize(at + 1, Link { before: NONE, behind: NONE });
        }
        self.0[at] = Link { before: list.last, behind: NONE };
        match list.last {
            NONE => list.first = number,
            last => self.0[last as usize].behind = number,
        }
        list.last = number;
    }

    /// Puts `number`, which was in a list before and is in none, before the first of `list`.
    pub(crate) fn push_first(&mut self, list: &mut List, number: u32) {
        self.0[number as usize] = Link { before: NONE, behind: list.first };
        match list.first {
            NONE => list.last = number,
            first => self.0[first as usize].before = number,
        }
        list.first = number;
    }

    /// Takes `number` out of `list`, which it is in.
    pub(crate) fn remove(&mut self, list: &mut List, number: u32) {
        let Link { before, behind } = self.0[number as usize];
        match before {
            NONE => list.first = behind,
            before => self.0[before as usize].behind = behind,
        }
        match behind {
            NONE => list.last = before,
            behind => self.0[behind as usize].before = before,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    fn members(links: &Links, list: &List) -> Vec<u32> {
        std::iter::successors(list.first(), |number| links.behind(*number)).collect()
    }

    #[test]
    fn two_lists_over_the_same_links_are_as_two_deques() {
        let (mut links, mut lists) = (Links::default(), [List::EMPTY; 2]);
        let mut wanted: [VecDeque<u32>; 2] = Default::default();
        let mut state = 7_u32;
        for _ in 0..10_000 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let number = state >> 24;
            let into = (state >> 8 & 1) as usize;
            match wanted.iter().position(|list| list.contains(&number)) {
                Some(list) => {
                    links.remove(&mut lists[list], number);
                    wanted[list].retain(|other| *other != number);
                    if state & 1 << 9 != 0 {
                        links.push_first(&mut lists[into], number);
                        wanted[into].push_front(number);
                    }
                }
                None => {
                    links.push(&mut lists[into], number);
                    wanted[into].push_back(number);
                }
            }
            for (list, wanted) in lists.iter().zip(&wanted) {
                assert!(members(&links, list).iter().eq(wanted));
                assert_eq!(list.is_empty(), wanted.is_empty());
            }
        }
    }
}
