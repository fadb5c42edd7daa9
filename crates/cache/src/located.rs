//! Where values lie that this crate does not hold: places in regions that are filled from front to back and go whole, as zones of
//! persistent memory do. A value is found by its key, leaves with its group, and leaves with its region; either costs as much as there
//! is to leave.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasherDefault, Hash, Hasher};

use crate::chain::{Links, List};
use crate::ghosts::Ghosts;
use crate::{Gone, Key};

/// Where a value lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Location {
    /// The region, by the number that its owner gave it.
    pub region: u32,
    /// Where in the region it begins.
    pub at: u32,
    /// Bytes.
    pub len: u32,
}

/// A value and where it lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Located<K> {
    /// Its key.
    pub key: K,
    /// Where it lies.
    pub location: Location,
    /// How often it was found there, 255 times at most.
    pub uses: u8,
}

/// How much a directory has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DirectorySize {
    /// Values.
    pub values: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Places for values; they stay when values go.
    pub places: u64,
}

/// Locations by key.
pub struct Directory<K: Key> {
    numbers: HashMap<ByHash<K>, u32, BuildHasherDefault<Passed>>,
    /// By number; what stands under a vacant one means nothing.
    members: Vec<Located<K>>,
    vacant: Vec<u32>,
    grouped: Links,
    groups: HashMap<K::Group, List>,
    in_regions: Links,
    regions: HashMap<u32, List>,
    bytes: u64,
    /// Keys that were offered and not taken in.
    offered: Ghosts,
}

impl<K: Key> Default for Directory<K> {
    fn default() -> Self {
        Self {
            numbers: HashMap::default(),
            members: Vec::new(),
            vacant: Vec::new(),
            grouped: Links::default(),
            groups: HashMap::new(),
            in_regions: Links::default(),
            regions: HashMap::new(),
            bytes: 0,
            offered: Ghosts::default(),
        }
    }
}

impl<K: Key> Directory<K> {
    /// Bytes of DRAM for each place, about.
    pub const OVERHEAD: u64 = ((size_of::<(ByHash<K>, u32)>() + 1) * 16 / 11
        + size_of::<Located<K>>() * 4 / 3
        + 4 * size_of::<u32>()
        + 2 * Ghosts::BYTES) as u64;

    /// Values here.
    pub fn len(&self) -> usize {
        self.numbers.len()
    }

    /// Whether nothing is here.
    pub fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }

    /// How much is here.
    pub fn size(&self) -> DirectorySize {
        let places = self.members.len() as u64;
        DirectorySize { values: self.len() as u64, bytes: self.bytes, places }
    }

    /// The value of `key` and where it lies; it is used by that.
    pub fn find(&mut self, key: K) -> Option<Located<K>> {
        let number = *self.numbers.get(&ByHash(key))?;
        let member = &mut self.members[number as usize];
        member.uses = member.uses.saturating_add(1);
        Some(*member)
    }

    /// Where the value of `key` lies; it is not used by that.
    pub fn location(&self, key: K) -> Option<Location> {
        self.numbers.get(&ByHash(key)).map(|number| self.members[*number as usize].location)
    }

    /// Whether the value of `key` is here; it is not used by that.
    pub fn contains(&self, key: K) -> bool {
        self.numbers.contains_key(&ByHash(key))
    }

    /// Whether `key` was offered before, among the last as many as there are values here. If not, it is noted.
    pub fn offer(&mut self, key: K) -> bool {
        self.offered.offer(key.hash(), self.len())
    }

    /// The value of `key` lies at `location` from now on, wherever it lay before.
    pub fn insert(&mut self, key: K, location: Location) {
        self.remove(key);
        self.add(Located { key, location, uses: 0 });
    }

    fn add(&mut self, member: Located<K>) {
        let Located { key, location, .. } = member;
        let number = match self.vacant.pop() {
            Some(number) => {
                self.members[number as usize] = member;
                number
            }
            None => {
                self.members.push(member);
                if self.members.len().is_power_of_two() {
                    self.offered.resize(2 * self.members.len());
                }
                (self.members.len() - 1) as u32
            }
        };
        self.numbers.insert(ByHash(key), number);
        self.grouped.push(self.groups.entry(key.group()).or_insert(List::EMPTY), number);
        self.in_regions.push(self.regions.entry(location.region).or_insert(List::EMPTY), number);
        self.bytes += u64::from(location.len);
    }

    /// The value of `key` is gone.
    pub fn remove(&mut self, key: K) -> Option<Located<K>> {
        let number = self.numbers.remove(&ByHash(key))?;
        let member = self.members[number as usize];
        leave(&mut self.grouped, self.groups.entry(key.group()), number);
        leave(&mut self.in_regions, self.regions.entry(member.location.region), number);
        self.vacant.push(number);
        self.bytes -= u64::from(member.location.len);
        Some(member)
    }

    /// All values of `group` are gone.
    pub fn purge(&mut self, group: K::Group) -> Gone {
        let mut gone = Gone::default();
        while let Some(number) = self.groups.get(&group).and_then(List::first) {
            let Some(member) = self.remove(self.members[number as usize].key) else { break };
            let bytes = gone.bytes + u64::from(member.location.len);
            gone = Gone { values: gone.values + 1, bytes };
        }
        gone
    }

    /// The value of `region` that came first is gone, if there is one.
    pub fn leave_first(&mut self, region: u32) -> Option<Located<K>> {
        let number = self.regions.get(&region).and_then(List::first)?;
        self.remove(self.members[number as usize].key)
    }

    /// All values of `region` are gone.
    pub fn leave(&mut self, region: u32) {
        while self.leave_first(region).is_some() {}
    }
}

/// Out of a list, which goes once nothing is in it.
fn leave<N>(links: &mut Links, list: Entry<'_, N, List>, number: u32) {
    if let Entry::Occupied(mut list) = list {
        links.remove(list.get_mut(), number);
        if list.get().is_empty() {
            list.remove();
        }
    }
}

/// A key that is hashed by what it says itself.
#[derive(PartialEq, Eq)]
struct ByHash<K: Key>(K);

impl<K: Key> Hash for ByHash<K> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.0.hash());
    }
}

/// The hash is what was written.
#[derive(Default)]
struct Passed(u64);

impl Hasher for Passed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = self.0.rotate_left(8) ^ u64::from(*byte));
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    struct Page(u64);

    impl Key for Page {
        type Group = u64;

        fn hash(&self) -> u64 {
            (self.0 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29)
        }

        fn group(&self) -> u64 {
            self.0 % 8
        }
    }

    #[test]
    fn what_was_offered_lately_is_known_once() {
        let mut directory = Directory::default();
        (0..256).for_each(|no| directory.insert(Page(no), Location { region: 0, at: 0, len: 1 }));
        assert!(!(1000..1200).any(|no| directory.offer(Page(no))));
        let known = (1000..1200).filter(|no| directory.offer(Page(*no))).count();
        assert!(known > 190, "{known}: full sets forget a few");
        assert!(!(0..256).any(|no| directory.offer(Page(no))), "never offered");
    }

    #[test]
    fn it_is_as_a_plain_map() {
        let (mut directory, mut wanted) =
            (Directory::default(), BTreeMap::<u64, Located<Page>>::new());
        let mut state = 11_u64;
        for step in 0..40_000_u32 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let (page, region) = ((state >> 33) % 300, (state >> 20) as u32 % 9);
            let key = Page(page);
            match (state >> 50) % 100 {
                0 => {
                    let gone = directory.purge(page % 8);
                    let before = wanted.len();
                    wanted.retain(|other, _| other % 8 != page % 8);
                    assert_eq!(gone.values, (before - wanted.len()) as u64);
                }
                1 => {
                    let mut gone: Vec<_> =
                        std::iter::from_fn(|| directory.leave_first(region)).collect();
                    let mut of_region: Vec<_> = wanted.values().copied().collect();
                    of_region.retain(|located| located.location.region == region);
                    of_region.sort_by_key(|located| located.location.at);
                    assert!(gone.is_sorted_by_key(|located| located.location.at), "as they came");
                    gone.sort_by_key(|located| located.location.at);
                    assert_eq!(gone, of_region);
                    wanted.retain(|_, located| located.location.region != region);
                }
                2..10 => assert_eq!(directory.remove(key), wanted.remove(&page)),
                10..50 => {
                    let location = Location { region, at: step, len: 1 + page as u32 };
                    directory.insert(key, location);
                    wanted.insert(page, Located { key, location, uses: 0 });
                }
                _ => {
                    let found = wanted.get_mut(&page).map(|located| {
                        located.uses = located.uses.saturating_add(1);
                        *located
                    });
                    assert_eq!(directory.location(key), found.map(|found| found.location));
                    assert_eq!(directory.find(key), found);
                    assert_eq!(directory.contains(key), found.is_some());
                }
            }
            let bytes = wanted.values().map(|located| u64::from(located.location.len)).sum::<u64>();
            let size = directory.size();
            assert_eq!((size.values, size.bytes), (wanted.len() as u64, bytes));
            assert_eq!(directory.is_empty(), wanted.is_empty());
        }
        (0..9).for_each(|region| directory.leave(region));
        assert!(
            directory.is_empty() && directory.groups.is_empty() && directory.regions.is_empty()
        );
        assert_eq!(directory.members.len(), directory.vacant.len());
    }
}
