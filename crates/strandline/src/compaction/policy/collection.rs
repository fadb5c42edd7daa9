//! Which value files a merge collects: a pure function from sizes to a choice.
//!
//! Bytes of a value file that no table refers to are garbage until all that is live in it was written anew. Files with the least
//! live part cost least for each byte that comes back, so they go first (as in the cleaning of segments by Rosenblum and
//! Ousterhout, 1991, without their ages: the tables of a merge are one range of keys).

use std::collections::BTreeSet;

/// Small value files that are joined in one merge, at least.
const JOINED: usize = 4;
/// A file is small that has less than one of so many parts of what a file is cut at.
const SMALL: u64 = 8;

/// What is known of a value file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ValueFileFacts {
    pub id: u64,
    /// Bytes of its records, and of those that tables refer to.
    pub bytes: u64,
    pub live: u64,
    /// All tables that refer to it are among the inputs of the merge, so that it goes with them.
    pub ends: bool,
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
    /// Bytes that there is room for.
    pub room: u64,
    /// Bytes that one merge should write anew at most.
    pub at_once: u64,
    /// Bytes at which a value file is cut.
    pub file_bytes: u64,
}

/// Bytes of garbage beyond what is allowed.
pub(crate) fn excess(files: &[ValueFileFacts], space: u32) -> u64 {
    let bytes: u64 = files.iter().map(|file| file.bytes).sum();
    let live: u64 = files.iter().map(|file| file.live).sum();
    bytes.saturating_sub(allowed(live, space))
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
        let written: u64 =
            ending.iter().filter(|file| chosen.contains(&file.id)).map(|file| file.live).sum();
        let left = limits.room.min(limits.at_once).saturating_sub(written);
        let mut more = 0;
        chosen.extend(small.iter().map_while(|file| {
            more += file.live;
            (more <= left).then_some(file.id)
        }));
    }
    chosen
}

/// The files that end with a merge, whatever garbage they have, as far as there is room for what is live in them.
pub(crate) fn all_within(files: &[ValueFileFacts], room: u64) -> BTreeSet<u64> {
    let mut written = 0;
    let ending = files.iter().filter(|file| file.ends);
    let fits = ending.take_while(|file| {
        written += file.live;
        written <= room
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
    let (mut freed, mut written) = (0, 0);
    let mut chosen = BTreeSet::new();
    for file in files {
        let all = written + file.live;
        let most = if chosen.is_empty() { limits.room } else { limits.room.min(limits.at_once) };
        if freed >= excess {
            break;
        }
        if all > most {
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
        ValueFileFacts { id, bytes, live, ends: true }
    }

    fn limits(space: u32) -> CollectionLimits {
        CollectionLimits { space, room: u64::MAX, at_once: u64::MAX, file_bytes: 104 }
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
    fn what_does_not_go_with_the_merge_is_left_alone() {
        let files = [ValueFileFacts { ends: false, ..file(1, 100, 1) }, file(2, 100, 50)];
        assert_eq!(chosen(&files, limits(150)), [2]);
        assert_eq!(all_within(&files, u64::MAX), BTreeSet::from([2]));
        assert_eq!(all_within(&files, 49), BTreeSet::new());
    }

    #[test]
    fn small_files_are_joined_once_there_are_several() {
        let mut files = vec![file(1, 12, 12), file(2, 11, 11), file(3, 12, 12), file(4, 100, 100)];
        assert_eq!(chosen(&files, limits(150)), [0; 0]);
        files.push(file(5, 1, 1));
        assert_eq!(chosen(&files, limits(150)), [1, 2, 3, 5]);
    }
}
