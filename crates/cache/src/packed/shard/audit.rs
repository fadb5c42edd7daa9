//! What has to hold in a shard between any two calls, by a look at all of it.

use std::collections::HashMap;

use super::*;

impl<K: Key, P: PageBytes> PackedShard<K, P> {
    /// Counts everything again.
    pub fn audit(&self) {
        let (mut live_of, mut purged) = (vec![0; self.pages.len()], 0);
        let mut has = HashMap::<u32, Gone>::new();
        for place in &self.places {
            let page = self.pages[place.page as usize].as_ref().expect("a place leads to a page");
            let head = page.head(place.at.into()).expect("and there to a value");
            assert_eq!(place.hash, head.name.short_hash());
            live_of[place.page as usize] += head.size();
            match self.numbers.contains_key(&head.name.group) {
                true => {
                    let has = has.entry(head.name.group).or_default();
                    (has.values, has.bytes) = (has.values + 1, has.bytes + u64::from(head.len));
                }
                false => purged += head.size(),
            }
        }
        let mut dead = 0;
        for (no, page) in self.pages.iter().enumerate() {
            let Some(page) = page else { continue };
            assert_eq!(page.live, live_of[no], "page {no}");
            assert!(page.live > 0 && page.live <= page.filled && page.filled <= PAGE_BYTES);
            dead += if page.stage == Stage::Main { page.filled - page.live } else { 0 };
        }
        assert_eq!((self.live, self.purged, self.dead), (live_of.iter().sum(), purged, dead));
        for (number, PackedGroup { group, has: counted }) in &self.numbers {
            assert_eq!(
                has.get(number),
                Some(counted),
                "a group has what it says, and that is not nothing"
            );
            assert_eq!(self.groups.get(group), Some(number));
        }
        assert_eq!(self.groups.len(), self.numbers.len());
        self.audit_queues();
    }

    fn audit_queues(&self) {
        let PageQueues { probation, main } = &self.queues;
        let mut seen = vec![false; self.pages.len()];
        for (stage, queue) in [(Stage::Probation, probation), (Stage::Main, main)] {
            let first = queue.pages.first();
            let listed: Vec<u32> =
                std::iter::successors(first, |no| self.queued.behind(*no)).collect();
            assert_eq!(listed.len(), queue.len);
            assert!(queue.open.is_none_or(|open| listed.contains(&open)));
            for no in listed {
                let page = self.pages[no as usize].as_ref().expect("a page in a queue");
                assert!(page.stage == stage && !std::mem::replace(&mut seen[no as usize], true));
            }
        }
        for no in &self.vacant {
            assert!(self.pages[*no as usize].is_none());
            assert!(!std::mem::replace(&mut seen[*no as usize], true));
        }
        assert!(seen.iter().all(|seen| *seen), "every number has a page or is vacant");
        assert!(self.ghost_room >= self.places.len());
    }

    /// Numbers that pages have or had.
    pub fn page_numbers(&self) -> usize {
        self.pages.len()
    }

    /// Groups that it knows.
    pub fn group_count(&self) -> usize {
        self.groups.len()
    }
}
