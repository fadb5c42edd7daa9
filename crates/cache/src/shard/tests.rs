use super::*;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Numbered {
    group: u32,
    no: u32,
}

impl Key for Numbered {
    type Group = u32;

    fn hash(&self) -> u64 {
        let key = u64::from(self.group) << 32 | u64::from(self.no);
        (key + 1)
            .wrapping_mul(0x9E37_79B9_7F4A_7C15)
            .rotate_left(29)
            .wrapping_mul(0xD6E8_FEB8_6659_FD93)
    }

    fn group(&self) -> u32 {
        self.group
    }
}

fn insert(shard: &mut Shard<Numbered, u32>, key: Numbered, place: Place) {
    vote_of(shard, key, place);
}

/// Inserts it, as brought in a microsecond from where what is of low priority lies, in fifty from elsewhere.
fn vote_of(shard: &mut Shard<Numbered, u32>, key: Numbered, place: Place) -> Option<Vote> {
    let (value, ns) = (Arc::new(key.no), if place == Place::Low { 1000 } else { 50_000 });
    shard.insert(Newcomer { key, hash: key.hash(), value, cost: 1, place, ns }).vote
}

fn has(shard: &Shard<Numbered, u32>, key: Numbered) -> bool {
    shard.contains(key, key.hash())
}

fn use_it(shard: &mut Shard<Numbered, u32>, key: Numbered) {
    assert_eq!(shard.get(key, key.hash()).as_deref(), Some(&key.no));
}

/// Evicts until so many are left.
fn shrink(shard: &mut Shard<Numbered, u32>, len: usize) {
    while shard.len() > len {
        assert_eq!(shard.evict(&LowShare::default()).map(|evicted| evicted.cost), Some(1));
    }
}

#[test]
fn what_is_used_on_probation_stays_and_what_came_back_soon_too() {
    let key = |no| Numbered { group: 1, no };
    let mut shard = Shard::new();
    (0..100).for_each(|no| insert(&mut shard, key(no), Place::Probation));
    (0..100).step_by(2).for_each(|no| use_it(&mut shard, key(no)));
    shrink(&mut shard, 56);
    assert!((0..100).step_by(2).all(|no| has(&shard, key(no))));
    assert!((0..80).skip(1).step_by(2).all(|no| !has(&shard, key(no))));
    // Two of those that went come back: as if they had been used. A long scan passes by.
    insert(&mut shard, key(41), Place::Probation);
    insert(&mut shard, key(77), Place::Probation);
    for no in 1000..3000 {
        insert(&mut shard, key(no), Place::Probation);
        shrink(&mut shard, 60);
    }
    assert!((0..100).step_by(2).chain([41, 77]).all(|no| has(&shard, key(no))));
    assert!(!has(&shard, key(43)));
}

#[test]
fn what_is_used_no_more_goes_from_the_main_queue() {
    let key = |no| Numbered { group: 1, no };
    let mut shard = Shard::new();
    (0..50).for_each(|no| insert(&mut shard, key(no), Place::Main));
    for no in 1000..1800 {
        insert(&mut shard, key(no), Place::Probation);
        use_it(&mut shard, key(no));
        shrink(&mut shard, 60);
        use_it(&mut shard, key(7));
    }
    assert!(has(&shard, key(7)), "used all the time");
    assert!((0..50).filter(|no| *no != 7).all(|no| !has(&shard, key(no))));
}

#[test]
fn what_is_held_is_passed_over() {
    let key = |no| Numbered { group: 1, no };
    let mut shard = Shard::new();
    (0..40).for_each(|no| insert(&mut shard, key(no), Place::Probation));
    let held: Vec<_> = (0..40).step_by(4).map(|no| shard.get(key(no), key(no).hash())).collect();
    shrink(&mut shard, 10);
    assert!(shard.evict(&LowShare::default()).is_none(), "all that is left is held");
    assert!((0..40).all(|no| has(&shard, key(no)) == (no % 4 == 0)));
    drop(held);
    shrink(&mut shard, 0);
    assert!(shard.evict(&LowShare::default()).is_none());
}

#[test]
fn what_is_left_of_many_goes_on_as_before_with_less_bookkeeping() {
    let key = |no| Numbered { group: no % 7, no };
    let shelves: Vec<_> = (0..2).map(|_| Arc::new(Shelf::new(20_000))).collect();
    // The same values twice: of both priorities, some used, some on a shelf.
    let [mut shrunk, mut other] = [0, 1].map(|which: usize| {
        let mut shard = Shard::new();
        for no in 0..20_000 {
            let place = [Place::Probation, Place::Main, Place::Low][no as usize % 3];
            insert(&mut shard, key(no), place);
            if no % 5 == 0 {
                use_it(&mut shard, key(no));
            }
            if no % 7 == 3 {
                let hash = key(no).hash();
                shard.shelve(key(no), hash, &shelves[which], no as usize);
            }
        }
        shrink(&mut shard, 1000);
        shard
    });
    let (slots, _) = shrunk.room();
    shrunk.shrink();
    assert_eq!(other.room().0, slots);
    assert!(shrunk.room().0 <= 4096 && shrunk.room().1 == 1000, "{:?}", shrunk.room());
    assert_eq!((shrunk.len(), shrunk.low_bytes()), (1000, other.low_bytes()));
    assert!((0..20_000).all(|no| has(&shrunk, key(no)) == has(&other, key(no))));
    assert_eq!(shrunk.purge(5), other.purge(5));
    let stands = |shelf: &Arc<Shelf<u32>>| {
        (0..20_000).filter(|at| shelf.get(*at).is_some()).collect::<Vec<_>>()
    };
    let standing = stands(&shelves[0]);
    assert!(!standing.is_empty() && standing == stands(&shelves[1]));
    // The next ones to go are the same, down to the last.
    for _ in 0..shrunk.len() {
        let gone = [&mut shrunk, &mut other].map(|shard| {
            let evicted = shard.evict(&LowShare::default()).expect("not held");
            (evicted.victim.key, evicted.victim.place)
        });
        assert_eq!(gone[0], gone[1]);
    }
    shrunk.shrink();
    assert_eq!((shrunk.len(), shrunk.room()), (0, (SLOTS_MIN, 0)));
    insert(&mut shrunk, key(1), Place::Low);
    assert!(has(&shrunk, key(1)) && stands(&shelves[0]).is_empty());
}

#[test]
fn a_purge_looks_at_its_own_group_only() {
    let mut shard = Shard::new();
    let key = |group, no| Numbered { group, no };
    for no in 0..5000 {
        insert(&mut shard, key(no % 100, no), Place::Probation);
    }
    assert_eq!(shard.purge(17), Gone { values: 50, bytes: 50 });
    assert_eq!((shard.looked_at, shard.len()), (50, 4950));
    assert_eq!(shard.purge(17), Gone::default());
    assert_eq!(shard.purge(1 << 20), Gone::default());
    assert_eq!(shard.looked_at, 50);
    assert!((0..5000).all(|no| has(&shard, key(no % 100, no)) == (no % 100 != 17)));
    for group in 0..100 {
        let _ = shard.purge(group);
    }
    assert_eq!((shard.looked_at, shard.len()), (5000, 0));
    assert!(shard.evict(&LowShare::default()).is_none());
    // Numbers are used again.
    (0..5000).for_each(|no| insert(&mut shard, key(3, no), Place::Main));
    assert_eq!(shard.members.len(), 5000);
}

#[test]
fn low_priority_leaves_first_down_to_its_share_and_what_is_used_there_stays_longer() {
    let key = |no| Numbered { group: 1, no };
    let mut shard = Shard::new();
    (0..100).for_each(|no| insert(&mut shard, key(no), Place::Low));
    (1000..1100).for_each(|no| insert(&mut shard, key(no), Place::Probation));
    (0..100).step_by(10).for_each(|no| use_it(&mut shard, key(no)));
    assert_eq!(shard.low_hits, 10);
    let share = LowShare::default();
    share.set_percent(10);
    let out =
        |shard: &mut Shard<Numbered, u32>| shard.evict(&share).map(|evicted| evicted.victim.place);
    (0..89).for_each(|_| assert_eq!(out(&mut shard), Some(Place::Low)));
    assert!((0..100).step_by(10).all(|no| has(&shard, key(no))), "they were used");
    assert_eq!(out(&mut shard), Some(Place::Probation), "its share is left");
    // All usual ones are held: then the others go, whatever their share.
    let held: Vec<_> = (1000..1100).map(|no| shard.get(key(no), key(no).hash())).collect();
    (0..shard.low_bytes()).for_each(|_| assert_eq!(out(&mut shard), Some(Place::Low)));
    assert_eq!((out(&mut shard), shard.low_bytes()), (None, 0));
    drop(held);
    while out(&mut shard).is_some() {}
    assert_eq!(shard.len(), 0);
}

#[test]
fn what_comes_back_soon_votes_for_its_priority() {
    let key = |no| Numbered { group: 1, no };
    let mut shard = Shard::new();
    (0..200).for_each(|no| insert(&mut shard, key(no), Place::Probation));
    shrink(&mut shard, 190);
    assert_eq!(vote_of(&mut shard, key(9), Place::Probation), None, "there are no others");
    (1000..1200).for_each(|no| insert(&mut shard, key(no), Place::Low));
    shrink(&mut shard, 380);
    let low = vote_of(&mut shard, key(1010), Place::Low).map(|vote| vote.by);
    assert_eq!(low, Some(Priority::Low));
    assert_eq!(vote_of(&mut shard, key(5000), Place::Low), None, "never here");
    let share = LowShare::default();
    share.set_percent(100);
    (0..20).for_each(|_| assert!(shard.evict(&share).is_some()));
    let gone = (10..200).find(|no| !has(&shard, key(*no))).expect("some left");
    assert_eq!(vote_of(&mut shard, key(gone), Place::Low), None, "it was none of them");
    shard.purge(1);
    insert(&mut shard, key(1), Place::Low);
    assert_eq!((shard.len(), shard.low_bytes()), (1, 1));
}

#[test]
fn an_eviction_takes_few_turns_however_many_there_are_of_each_priority() {
    for count in [1000, 16_000] {
        let key = |no| Numbered { group: no % 7, no };
        let mut shard = Shard::new();
        let share = LowShare::default();
        for no in 0..4 * count {
            let place = if no % 2 == 0 { Place::Low } else { Place::Probation };
            insert(&mut shard, key(no), place);
            let earlier = key(no - no.min(count / 2));
            let _used = shard.get(earlier, earlier.hash());
            share.set_percent(u64::from(no % 100));
            if shard.len() > count as usize {
                assert!(shard.evict(&share).is_some());
            }
        }
        let (evicted, turns) = (3 * u64::from(count), shard.turns);
        assert!(turns < 6 * evicted, "{turns} turns for {evicted}");
    }
}

#[test]
fn where_low_priority_has_its_share_only_what_came_back_comes_in() {
    let key = |no| Numbered { group: 1, no };
    let mut shard = Shard::new();
    let share = LowShare::default();
    let lets_in = |shard: &mut Shard<Numbered, u32>, share: &LowShare, no: u32| {
        shard.lets_in(key(no).hash(), share)
    };
    assert!(lets_in(&mut shard, &share, 1), "nothing is known yet");
    (0..100).for_each(|no| insert(&mut shard, key(no), Place::Low));
    (1000..1100).for_each(|no| insert(&mut shard, key(no), Place::Probation));
    share.set_percent(60);
    assert!(lets_in(&mut shard, &share, 200));
    share.set_percent(40);
    assert!(!lets_in(&mut shard, &share, 201) && lets_in(&mut shard, &share, 201));
    assert!(lets_in(&mut shard, &share, 201), "until it comes");
    let vote = vote_of(&mut shard, key(201), Place::Low);
    assert_eq!(vote.map(|vote| vote.by), Some(Priority::Low));
    assert!(!lets_in(&mut shard, &share, 201), "it is forgotten by that");
    // It stays longer than those that came once.
    (0..100).for_each(|_| assert!(shard.evict(&share).is_some()));
    assert!(has(&shard, key(201)));
}
