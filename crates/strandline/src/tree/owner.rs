//! The file `OWNER` in a directory of tables: which pool the tables there belong to, and which of its tiers they are. A store
//! removes tables that its manifest does not name, so two stores must not share a directory. It is text;
//! `docs/format/manifest.md` shows it.

use std::path::Path;

use base::planted::{self, Bug};
use base::{Error, ErrorKind, Result};
use ssd::Fs;

use super::tiers::OWN;

/// Name of the file, in the directory of the tables.
pub(crate) const NAME: &str = "OWNER";
const HEADER: &str = "strandline tables 1";
/// Longer than any such file is.
const LEN_MAX: u64 = 256;

/// What the file says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DirClaim {
    /// Identifier of the pool.
    pub pool: u64,
    /// The tier that the directory is.
    pub tier: u32,
}

impl DirClaim {
    fn encode(self) -> String {
        let DirClaim { pool, tier } = self;
        match tier {
            OWN => format!("{HEADER}\npool {pool:016x}\n"),
            tier => format!("{HEADER}\npool {pool:016x}\ntier {tier}\n"),
        }
    }

    fn decode(text: &str) -> Option<DirClaim> {
        let says = text.strip_prefix(HEADER)?.strip_prefix("\npool ")?.strip_suffix('\n')?;
        let (pool, tier) = match says.split_once("\ntier ") {
            Some((pool, tier)) => (pool, tier.parse().ok()?),
            None => (says, OWN),
        };
        let claim = DirClaim { pool: u64::from_str_radix(pool, 16).ok()?, tier };
        // In one form only: a changed letter is not passed over.
        (claim.encode() == text).then_some(claim)
    }
}

/// What the tables in `dir` belong to, if any store has claimed them.
///
/// # Errors
/// `Corruption` where it cannot be told.
pub(crate) fn read(fs: &dyn Fs, dir: &Path) -> Result<Option<DirClaim>> {
    let path = dir.join(NAME);
    let file = match fs.open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut bytes = vec![0; file.len().min(LEN_MAX) as usize];
    file.read_at(0, &mut bytes)?;
    match std::str::from_utf8(&bytes).ok().and_then(DirClaim::decode) {
        Some(claim) => Ok(Some(claim)),
        None => Err(Error::corruption(
            "open",
            format!(
                "{} is damaged; if the tables beside it are this store's, write it anew, as docs/format/manifest.md shows, or \
                 remove it where the store has no other directory of tables, and an open writes it anew",
                path.display()
            ),
        )),
    }
}

/// The claim of `pool` to the tables in `dir`, if they are claimed.
///
/// # Errors
/// `InvalidArgument` where another pool has them, `Corruption` where it cannot be told.
pub(crate) fn claim_of(fs: &dyn Fs, dir: &Path, pool: Option<u64>) -> Result<Option<DirClaim>> {
    match read(fs, dir)? {
        Some(DirClaim { pool: owner, .. }) if Some(owner) != pool => Err(Error::new(
            ErrorKind::InvalidArgument,
            "open",
            format!(
                "{} is for the tables of another store, that of pool {owner:016x} ({NAME} in it says so); name an empty \
                 directory, or remove this one if that store is gone",
                dir.display()
            ),
        )),
        found => Ok(found),
    }
}

/// Whether the tables in `dir` are claimed for `pool`.
///
/// # Errors
/// As [`claim_of`].
pub(crate) fn is_claimed(fs: &dyn Fs, dir: &Path, pool: Option<u64>) -> Result<bool> {
    claim_of(fs, dir, pool).map(|claim| claim.is_some())
}

/// Refuses a directory that any store has claimed: a new one has no tables yet.
pub(crate) fn refuse_claimed(fs: &dyn Fs, dir: &Path) -> Result<()> {
    is_claimed(fs, dir, None).map(drop)
}

/// Claims the tables in `dir`, durably, unless they are claimed so. Of several that try, one succeeds.
///
/// # Errors
/// `InvalidArgument` where the directory is another store's, or another tier.
pub(crate) fn claim(fs: &dyn Fs, dir: &Path, claim: DirClaim) -> Result<()> {
    let (path, staged) = (dir.join(NAME), dir.join(format!("{NAME}.{:016x}", claim.pool)));
    let claimed = is_claimed_as(fs, dir, claim)?;
    // A claim that was killed may have left it.
    let _in_nobodys_way = fs.remove(&staged);
    if claimed {
        // The process that claimed it may have been killed before the name was durable.
        return fs.sync_dir(dir);
    }
    write_claim(fs, &staged, claim)?;
    let named = match fs.link(&staged, &path) {
        // Without links the file is written under its name. Nothing that replaces a file will do: it would replace the
        // claim of another store that was quicker.
        Err(error) if error.kind() == ErrorKind::NotSupported => write_claim(fs, &path, claim),
        linked => linked,
    };
    let _gone_at_the_next_open = fs.remove(&staged);
    match named {
        // If another store was first, the check below says which.
        Err(error) if error.kind() != ErrorKind::Exists => return Err(error),
        _ => is_claimed_as(fs, dir, claim)?,
    };
    fs.sync_dir(dir)
}

fn is_claimed_as(fs: &dyn Fs, dir: &Path, claim: DirClaim) -> Result<bool> {
    match claim_of(fs, dir, Some(claim.pool))? {
        Some(found) if found.tier != claim.tier => Err(Error::new(
            ErrorKind::InvalidArgument,
            "open",
            format!(
                "{} is tier {} of this store ({NAME} in it says so), not tier {}; name each directory once, in `tiers`",
                dir.display(),
                found.tier,
                claim.tier
            ),
        )),
        found => Ok(found.is_some()),
    }
}

/// Creates the file at `path`, which says whose the tables beside it are. If it cannot be written whole, it is removed again.
fn write_claim(fs: &dyn Fs, path: &Path, claim: DirClaim) -> Result<()> {
    let unsynced = planted::is(Bug::ClaimUnsynced);
    let mut file = fs.create(path)?;
    let written = file.append(claim.encode().as_bytes());
    let written = if unsynced { written } else { written.and_then(|()| file.sync()) };
    drop(file);
    written.inspect_err(|_| {
        let _told_by_the_first_error = fs.remove(path);
    })
}

/// Gives up the claim of `pool`, if no open will find its tables again.
pub(crate) fn give_up(fs: &dyn Fs, dir: &Path, pool: u64) {
    if is_claimed(fs, dir, Some(pool)).unwrap_or(false) {
        let _best_effort = fs.remove(&dir.join(NAME));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, OnceLock};

    use ssd::{Call, Disk, Failure, Faulty, Heed, Memory, Rule, Watch};

    use super::*;

    const DIR: &str = "/dir";

    fn claim(fs: &dyn Fs, dir: &Path, pool: u64) -> Result<()> {
        super::claim(fs, dir, DirClaim { pool, tier: OWN })
    }

    fn pool_of(fs: &dyn Fs) -> Option<u64> {
        read(fs, Path::new(DIR)).expect("read").map(|claim| claim.pool)
    }

    fn dir() -> (ssd::Memory, &'static Path) {
        let fs = ssd::Memory::default();
        fs.create_dir_all(Path::new(DIR)).expect("directory");
        (fs, Path::new(DIR))
    }

    #[test]
    fn one_store_has_a_directory() {
        let (fs, dir) = dir();
        assert!(!is_claimed(&fs, dir, Some(7)).expect("no owner"));
        claim(&fs, dir, 7).expect("claimed");
        claim(&fs, dir, 7).expect("again");
        assert!(is_claimed(&fs, dir, Some(7)).expect("ours"));
        for other in [Some(8), None] {
            let refused = is_claimed(&fs, dir, other).expect_err("another's");
            assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
            assert!(refused.context().contains("0000000000000007"), "{refused}");
        }
        assert_eq!(claim(&fs, dir, 8).expect_err("taken").kind(), ErrorKind::InvalidArgument);
        assert_eq!(fs.list(dir).expect("list"), [NAME]);
    }

    #[test]
    fn of_several_that_claim_one_succeeds() {
        for _ in 0..100 {
            let (fs, dir) = dir();
            let barrier = std::sync::Barrier::new(2);
            let claim = |pool| {
                barrier.wait();
                claim(&fs, dir, pool).is_ok()
            };
            let won = std::thread::scope(|scope| {
                let other = scope.spawn(|| claim(8));
                (claim(7), other.join().expect("thread"))
            });
            let owner = pool_of(&fs);
            assert!(won == (true, false) || won == (false, true), "{won:?}");
            assert_eq!(owner, Some(if won.0 { 7 } else { 8 }));
            assert_eq!(fs.list(dir).expect("list"), [NAME]);
        }
    }

    /// Claims the directory for store 8 at the moment when store 7 begins to write its claim.
    #[derive(Default)]
    struct Rival(OnceLock<Memory>);

    impl Watch for Rival {
        fn before(&self, call: Call, path: &Path) -> Heed {
            if call == Call::Create && path.ends_with(format!("{NAME}.{:016x}", 7)) {
                let fs = self.0.get().expect("set before the race");
                claim(fs, Path::new(DIR), 8).expect("the rival is first");
            }
            Heed::Whole
        }
    }

    /// Another store claims the directory after this one saw that it is free, and the file system then fails this one's
    /// link. The claim was renamed over the other's: two stores in one directory, each of which removes the tables of the
    /// other.
    #[test]
    fn a_refused_link_does_not_replace_a_rivals_claim() {
        for failure in Failure::ALL {
            let rival = Arc::new(Rival::default());
            let memory = Memory::watched(Disk::default(), Arc::clone(&rival) as Arc<dyn Watch>);
            memory.create_dir_all(Path::new(DIR)).expect("directory");
            let _once = rival.0.set(memory.clone());
            let fs = Faulty::new(memory);
            fs.set_rules(vec![Rule::new(1, failure).of(Call::Link).for_ever()]);
            let refused = claim(&fs, Path::new(DIR), 7).expect_err("the rival was quicker");
            assert_eq!(
                refused.kind() == ErrorKind::InvalidArgument,
                failure == Failure::Unsupported
            );
            assert_eq!(pool_of(&fs), Some(8), "{failure:?}");
            assert_eq!(fs.list(Path::new(DIR)).expect("list"), [NAME], "{failure:?}");
        }
    }

    #[test]
    fn without_links_one_store_has_a_directory_too() {
        for other in [Failure::Io, Failure::NoSpace] {
            let (fs, dir) = dir();
            let fs = Faulty::new(fs);
            let no_links = || Rule::new(1, Failure::Unsupported).of(Call::Link).for_ever();
            for call in [Call::Append, Call::Sync] {
                fs.set_rules(vec![no_links(), Rule::new(2, other).of(call)]);
                claim(&fs, dir, 7).expect_err("not written");
                assert!(fs.list(dir).expect("list").is_empty(), "nothing is left in the way");
            }
            fs.set_rules(vec![no_links()]);
            claim(&fs, dir, 7).expect("claimed");
            claim(&fs, dir, 7).expect("again");
            assert_eq!(claim(&fs, dir, 8).expect_err("taken").kind(), ErrorKind::InvalidArgument);
            assert_eq!(fs.list(dir).expect("list"), [NAME]);
        }
    }

    #[test]
    fn what_is_given_up_is_anybodys() {
        let (fs, dir) = dir();
        claim(&fs, dir, 7).expect("claimed");
        give_up(&fs, dir, 8);
        assert!(is_claimed(&fs, dir, Some(7)).expect("still"));
        give_up(&fs, dir, 7);
        claim(&fs, dir, 8).expect("claimed");
    }

    #[test]
    fn what_a_killed_claim_left_is_in_nobodys_way() {
        let (fs, dir) = dir();
        fs.create(&dir.join(format!("{NAME}.{:016x}", 7))).expect("left");
        claim(&fs, dir, 7).expect("claimed");
        assert_eq!(fs.list(dir).expect("list"), [NAME]);
    }

    #[test]
    fn a_directory_is_one_tier() {
        let (fs, dir) = dir();
        let tier = DirClaim { pool: 7, tier: 3 };
        super::claim(&fs, dir, tier).expect("claimed");
        super::claim(&fs, dir, tier).expect("again");
        assert_eq!(read(&fs, dir).expect("read"), Some(tier));
        let refused = claim(&fs, dir, 7).expect_err("another tier");
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
        assert!(refused.context().contains("is tier 3"), "{refused}");
    }

    #[test]
    fn any_change_is_damage_or_another_store() {
        for tier in [OWN, 12] {
            let right = DirClaim { pool: 0x0123_4567_89ab_cdef, tier };
            let good = right.encode();
            assert_eq!(DirClaim::decode(&good), Some(right));
            for at in 0..good.len() {
                // Without its last line it is the own directory's.
                let cut = DirClaim::decode(&good[..at]);
                assert!(cut.is_none_or(|claim| claim.tier == OWN && tier != OWN), "cut at {at}");
                for bit in 0..7 {
                    let mut bad = good.clone().into_bytes();
                    bad[at] ^= 1 << bit;
                    let found = std::str::from_utf8(&bad).ok().and_then(DirClaim::decode);
                    assert_ne!(found, Some(right), "bit {bit} at {at}");
                }
            }
            assert_eq!(DirClaim::decode(&format!("{good} ")), None);
        }
    }
}
