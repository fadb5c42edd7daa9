//! [`System`]: what a store must offer to be run in the world that loses power.

use std::sync::Arc;

use base::Result;
use pmem::Region;
use ssd::{Disk, Fs};

use crate::beside::Beside;
use crate::campaign::Probe;
use crate::check::Fold;
use crate::op::Op;

/// How far an operation came with one step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Further steps are needed.
    More,
    /// A commit took its place in the order of commits, under this number.
    Reserved(u64),
    /// Nothing can be done until another thread has gone further; the step had no effect.
    Blocked,
    /// A read fixed its moment: what it finds must have been so by now. Reads that do not say so may find
    /// what came later.
    Fixed,
    /// A read found this.
    Found(Option<Vec<u8>>),
    /// The file of an ingest is durable; this tells its bytes from others.
    Made(Fold),
    /// The operation, one of the whole store, was begun and completed by this step; no commit was in flight, except
    /// that of a checkpoint any may be. An ingest has this number; a checkpoint holds everything up to it. With a
    /// keyspace it says nothing: what is made or dropped stands behind every commit before it.
    At(u64),
    /// The operation is complete. For a commit this is its acknowledgement.
    Done,
    /// The commit failed after it was reserved: nothing of it is visible, ever.
    GaveUp,
    /// Turned away without any effect, as when space is short; not allowed once reserved.
    Refused,
}

/// Takes one visible entry: keyspace, key, value.
pub type Show<'a> = dyn FnMut(u8, &[u8], &[u8]) + 'a;

/// A store in one region and on one disk, whose operations can be taken apart into steps.
///
/// Everything runs on one real thread. Several operations are under way at once; a scheduler chooses
/// which takes the next step, so the finer the steps, the more interleavings are tried. Memory may be
/// reached through the region only, files through `fs` only, and whatever is done must follow from the calls alone: no clocks, no
/// random state, no threads.
pub trait System {
    /// An open store.
    type Store;
    /// An operation under way.
    type Task<'s>
    where
        Self: 's;

    /// Length of the region in bytes, in whole lines.
    fn region_len(&self) -> u64;

    /// The disk before the store is made; the size of its sectors decides how finely files are torn.
    fn disk(&self) -> Disk {
        Disk::default()
    }

    /// Makes an empty store in a zeroed region, or one in which none was completely made, with its files in `fs`, and opens
    /// it. When this returns, the store is durable; power failure before that leaves none or a whole one. Stores without
    /// files ignore `fs`.
    fn create(&self, region: Region, fs: Arc<dyn Fs>) -> Result<Self::Store>;

    /// Recovers the store in the region and `fs`, and opens it. Where none was completely made the error is
    /// `NotFound`: then, and only then, may it be made again.
    fn open(&self, region: Region, fs: Arc<dyn Fs>) -> Result<Self::Store>;

    /// Drops the store with every handle of a file; handing the region back saves an allocation per crash image.
    fn close(&self, store: Self::Store) -> Option<Region>;

    /// Begins an operation; never [`Op::Reopen`].
    fn begin<'s>(&'s self, store: &'s Self::Store, op: &Op) -> Result<Self::Task<'s>>;

    /// Takes one step. Not called again after `Found`, `Done`, `At`, `GaveUp` or `Refused`. An error means that
    /// the store is broken: without damage no operation may fail.
    fn step<'s>(&'s self, store: &'s Self::Store, task: &mut Self::Task<'s>) -> Result<Progress>;

    /// Shows every visible entry once, in any order.
    fn visit(&self, store: &Self::Store, each: &mut Show<'_>) -> Result<()>;

    /// Whether background work makes room in a store that turns commits away. One that only grows may refuse them for ever.
    fn makes_room(&self) -> bool {
        true
    }

    /// The number up to which recovery accepted commits: every commit whose number is not above it
    /// counts. Only asked of a store that was just opened.
    fn cut(&self, store: &Self::Store) -> u64;

    /// Objects allocated that nothing reaches; zero unless space is leaked.
    fn leaks(&self, store: &Self::Store) -> u64;

    /// Pieces of space that have no owner, or two, in a store that has come to rest. Nothing may be written.
    fn misplaced(&self, _store: &Self::Store) -> u64 {
        0
    }

    /// The directory of what lies beside the store, if it ever has any.
    fn beside_dir(&self) -> Option<&'static str> {
        None
    }

    /// What lies beside the store on this disk. It must follow from what is in [`beside_dir`](Self::beside_dir), and
    /// fails if something there that is whole by its name is not.
    fn beside(&self, _disk: &Disk) -> Result<Vec<Beside>> {
        Ok(Vec::new())
    }

    /// What happened inside since the store was opened.
    fn probe(&self, _store: &Self::Store) -> Probe {
        Probe::default()
    }
}
