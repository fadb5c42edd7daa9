//! Which value files a merge collects: a pure function from sizes to a choice.
//!
//! Bytes of a value file that no table refers to are garbage until all that is live in it was written anew. Files with the least
//! live part cost least for each byte that comes back, so they go first (as in the cleaning of segments by Rosenblum and
//! Ousterhout, 1991, without their ages: the tables of a merge are one range of keys).

use std::collections::BTreeSet;

/// Small value files that are joined in one merge, at least.
const JOINED: usize = 4;
/// A file is small that has less than one of so many parts of what a file is cut at: what a memtable of a small store gives is not, else
/// all values of a fill would be written twice.
const SMALL: u64 = 32;

/// What is known of a value file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ValueFileFacts {
    pub id: u64,
    /// Bytes of its records, and of those that tables refer to.
    pub bytes: u64,
    pub live: u64,
    /// All tables that refer to it are among the inputs of the merge, so that it goes with them.
    pub ends: bool,
    /// It lies in persistent memory.
    pub in_memory: bool,
}

impl ValueFileFacts {
    fn garbage(&self) -> u64 {
        self.bytes.saturating_sub(self.live)
    }
}

/// Limits of a choice.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CollectionLimits {
    /// Percent of what is live that files may take.
    pub space: u32,
    /// Bytes that there is room for in files.
    pub room: u64,
    /// Bytes of values in persistent memory that may go elsewhere: as many as there is room for that nothing else will need.
    pub spare: u64,
    /// Bytes of values that there is room for in persistent memory, where they go first.
    pub memory: u64,
    /// Bytes that one merge should write anew at most.
    pub at_once: u64,
    /// Bytes at which a value file is cut.
    pub file_bytes: u64,
}

impl CollectionLimits {
    /// Whether there is room for these values, and so many bytes of tables.
    pub(crate) fn fits(&self, values: RewrittenValues, tables: u64) -> bool {
        let beyond = values.all().saturating_sub(self.memory);
        beyond.saturating_add(tables) <= self.room && values.in_memory <= self.spare
    }
}

/// Bytes of live values that are written anew, by where they lie.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RewrittenValues {
    pub in_memory: u64,
    in_files: u64,
}

impl RewrittenValues {
    /// So many bytes, which lie in persistent memory or in a file.
    pub(crate) fn of(bytes: u64, in_memory: bool) -> RewrittenValues {
        match in_memory {
            true => RewrittenValues { in_memory: bytes, in_files: 0 },
            false => RewrittenValues { in_memory: 0, in_files: bytes },
        }
    }

    /// The same with what is live in a file.
    fn with(self, file: &ValueFileFacts) -> RewrittenValues {
        self.and(RewrittenValues::of(file.live, file.in_memory))
    }

    pub(crate) fn and(self, other: RewrittenValues) -> RewrittenValues {
        RewrittenValues {
            in_memory: self.in_memory + other.in_memory,
            in_files: self.in_files + other.in_files,
        }
    }

    pub(crate) fn all(self) -> u64 {
        self.in_memory + self.in_files
    }
}

/// Bytes of garbage beyond what is allowed.
pub(crate) fn excess(files: &[ValueFileFacts], space: u32) -> u64 {
    let bytes: u64 = files.iter().map(|file| file.bytes).sum();
    let live: u64 = files.iter().map(|file| file.live).sum();
    bytes.saturating_sub(allowed(live, space))
}

/// Bytes of garbage in those files that are `chosen`.
pub(crate) fn garbage(files: &[ValueFileFacts], chosen: &BTreeSet<u64>) -> u64 {
    files.iter().filter(|file| chosen.contains(&file.id)).map(ValueFileFacts::garbage).sum()
}

fn allowed(live: u64, space: u32) -> u64 {
    u64::try_from(u128::from(live) * u128::from(space) / 100).unwrap_or(u64::MAX)
}

/// The files among the inputs of a merge that it collects: the worst, until garbage is within what is allowed of all `files`; and
/// small ones, if there are several.
pub(crate) fn of_merge(files: &[ValueFileFacts], limits: CollectionLimits) -> BTreeSet<u64> {
    let ending: Vec<ValueFileFacts> = files.iter().copied().filter(|file| file.ends).collect();
    let mut chosen = worst(&ending, excess(files, limits.space), limits);
    let small = ending.iter().filter(|file| file.bytes < limits.file_bytes / SMALL);
    let small: Vec<&ValueFileFacts> = small.collect();
    if small.len() >= JOINED {
        let before = ending.iter().filter(|file| chosen.contains(&file.id));
        let mut written = before.fold(RewrittenValues::default(), |sum, file| sum.with(file));
        chosen.extend(small.iter().map_while(|file| {
            written = written.with(file);
            (written.all() <= limits.at_once && limits.fits(written, 0)).then_some(file.id)
        }));
    }
    chosen
}

/// The files that end with a merge, whatever garbage they have, as far as there is room for what is live in them.
pub(crate) fn all_within(files: &[ValueFileFacts], limits: CollectionLimits) -> BTreeSet<u64> {
    // These values go to their tables.
    let limits = CollectionLimits { memory: 0, ..limits };
    let mut written = RewrittenValues::default();
    let ending = files.iter().filter(|file| file.ends);
    let fits = ending.take_while(|file| {
        written = written.with(file);
        limits.fits(written, 0)
    });
    fits.map(|file| file.id).collect()
}

/// The worst files, so many that `excess` bytes of garbage go with them, and no more is written anew than the limits allow. One
/// file is chosen however large it is, if there is room for it.
pub(crate) fn worst(
    files: &[ValueFileFacts],
    excess: u64,
    limits: CollectionLimits,
) -> BTreeSet<u64> {
    let mut files: Vec<&ValueFileFacts> = files.iter().filter(|file| file.garbage() > 0).collect();
    let part =
        |file: &ValueFileFacts| (u128::from(file.live) << 32) / u128::from(file.bytes.max(1));
    files.sort_by_key(|file| (part(file), file.id));
    let (mut freed, mut written) = (0, RewrittenValues::default());
    let mut chosen = BTreeSet::new();
    for file in files {
        let all = written.with(file);
        if freed >= excess {
            break;
        }
        let too_much = !chosen.is_empty() && all.all() > limits.at_once;
        if too_much || !limits.fits(all, 0) {
            // A smaller one may have room.
            continue;
        }
        freed += file.garbage();
        written = all;
        chosen.insert(file.id);
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(id: u64, bytes: u64, live: u64) -> ValueFileFacts {
        ValueFileFacts { id, bytes, live, ends: true, in_memory: false }
    }

    fn limits(space: u32) -> CollectionLimits {
        let (room, spare, at_once) = (u64::MAX, u64::MAX, u64::MAX);
        CollectionLimits { space, room, spare, memory: 0, at_once, file_bytes: 416 }
    }

    fn chosen(files: &[ValueFileFacts], limits: CollectionLimits) -> Vec<u64> {
        of_merge(files, limits).into_iter().collect()
    }

    #[test]
    fn the_worst_go_until_garbage_is_within_the_bound() {
        let files = [file(1, 100, 90), file(2, 100, 10), file(3, 100, 50), file(4, 100, 100)];
        // 250 live of 400.
        assert_eq!(excess(&files, 150), 25);
        assert_eq!(chosen(&files, limits(150)), [2]);
        assert_eq!(chosen(&files, limits(110)), [2, 3]);
        assert_eq!(chosen(&files, limits(100)), [1, 2, 3], "one without garbage stays");
        assert_eq!(chosen(&files, limits(160)), [0; 0]);
        // A large file may have more that is live, and less for each byte that comes back.
        let unequal = [file(1, 1000, 300), file(2, 100, 90), file(3, 2000, 2000)];
        assert_eq!(chosen(&unequal, limits(125)), [1]);
    }

    #[test]
    fn no_more_than_there_is_room_for_is_written() {
        let files = [file(1, 100, 90), file(2, 100, 10), file(3, 100, 50)];
        let within = |room| chosen(&files, CollectionLimits { room, ..limits(100) });
        assert_eq!((within(9), within(59), within(60)), (vec![], vec![2], vec![2, 3]));
        let at_once = |at_once| chosen(&files, CollectionLimits { at_once, ..limits(100) });
        assert_eq!((at_once(0), at_once(60)), (vec![2], vec![2, 3]), "one in any case");
    }

    #[test]
    fn values_need_no_room_in_files_as_far_as_persistent_memory_has_some() {
        let files = [file(1, 100, 90), file(2, 100, 10), file(3, 100, 50)];
        let within =
            |room, memory| chosen(&files, CollectionLimits { room, memory, ..limits(100) });
        assert_eq!((within(0, 9), within(0, 10), within(0, 60)), (vec![], vec![2], vec![2, 3]));
        assert_eq!((within(49, 10), within(50, 10)), (vec![2], vec![2, 3]));
        let back = CollectionLimits { room: 0, memory: 200, ..limits(100) };
        assert_eq!(
            all_within(&files, back),
            BTreeSet::new(),
            "values that come back to tables need room in files"
        );
    }

    #[test]
    fn values_leave_persistent_memory_only_for_room_that_nothing_else_will_need() {
        let there = |id, live| ValueFileFacts { in_memory: true, ..file(id, 100, live) };
        let files = [there(1, 10), file(2, 100, 90), there(3, 50)];
        let within =
            |spare, memory| chosen(&files, CollectionLimits { spare, memory, ..limits(100) });
        assert_eq!(
            (within(9, 0), within(10, 0), within(60, 0)),
            (vec![2], vec![1, 2], vec![1, 2, 3])
        );
        assert_eq!(within(10, 60), [1, 2], "others may take what persistent memory has");
    }

    #[test]
    fn what_does_not_go_with_the_merge_is_left_alone() {
        let files = [ValueFileFacts { ends: false, ..file(1, 100, 1) }, file(2, 100, 50)];
        assert_eq!(chosen(&files, limits(150)), [2]);
        let within = |room| all_within(&files, CollectionLimits { room, ..limits(150) });
        assert_eq!((within(u64::MAX), within(49)), (BTreeSet::from([2]), BTreeSet::new()));
    }

    #[test]
    fn small_files_are_joined_once_there_are_several() {
        let mut files = vec![file(1, 12, 12), file(2, 11, 11), file(3, 12, 12), file(4, 100, 100)];
        assert_eq!(chosen(&files, limits(150)), [0; 0]);
        files.push(file(5, 1, 1));
        files.push(file(6, 20, 20));
        assert_eq!(chosen(&files, limits(150)), [1, 2, 3, 5]);
    }
}
