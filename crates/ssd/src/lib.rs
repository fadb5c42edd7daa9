//! Files that last: what the engine asks of an SSD, on real ones and on one that loses power.
//!
//! ```text
//! Fs ─ create ─► Append   written once, from front to back; sync
//!    ─ overwrite ► Overwrite  in place, anywhere; sync
//!    ─ open ───► Read     anywhere, several ranges at once
//!    ─ rename, link, remove, sync_dir
//!
//! durable_install         write, sync, rename, sync the directory
//! durable_dir             make, sync the directory above, from the top down
//! ```
//!
//! | back end | what it is for |
//! |---|---|
//! | [`Posix`] | ordinary calls, through the page cache or past it |
//! | [`Uring`] | the same files; ranges are read at the same time, direct writes are queued; see [`best`] |
//! | [`Memory`] | tests: deterministic, and its [`Disk`] tells what a power cut would leave |
//! | [`Faulty`] | tests: any of these, with calls that fail by [`Rule`] |
//! | [`Metered`] | any of these, on a [`Device`] that is counted, and perhaps [slower](SsdModel) than the host's |
//!
//! # What lasts
//!
//! | after | the process dies | power fails |
//! |---|---|---|
//! | [`append`](Append::append) | through the page cache, kept | any part may be kept, zeros may stand for the rest, the length may be any it had |
//! | [`write_at`](Overwrite::write_at) | through the page cache, kept | each sector is any that it was since the last sync |
//! | the same, after [`map`](Overwrite::map) | kept | the same, and of what is being written any mixture; the file may be longer, by zeros |
//! | [`sync`](Append::sync) of the file | kept | bytes and length kept; whether the file has its name is open |
//! | [`create`](Fs::create), [`rename`](Fs::rename), [`link`](Fs::link), [`remove`](Fs::remove) | kept | happened or not, each whole; of one name in their order |
//! | [`sync_dir`](Fs::sync_dir) | kept | names of that directory kept, not the directory's own |
//! | [`durable_dir`] | kept | kept, and so are those above it |
//! | [`durable_install`] | kept | kept; before it returns, the old file or the new one, never part of one |
//!
//! # What goes wrong, and what is told
//!
//! | what | error | and then |
//! |---|---|---|
//! | device or quota full (`ENOSPC`, `EDQUOT`) | `NoSpace` | free space and write a new file |
//! | name missing, name taken | `NotFound`, `Exists` | |
//! | file shorter than what is read | `Corruption`, with path and offset | |
//! | `append` or `sync` failed | `Io`, `NoSpace` | the handle answers `Closed` from then on: see [`Append`] |
//! | call interrupted, write or read cut short | none | repeated until it is whole; a write without progress is `Io` |
//! | anything else | `Io`, with the operating system's reason | |
//! | a mapped file is cut short by others, or its file system fails behind a page that was asked for | none: `SIGBUS` ends the process | |
#![deny(unsafe_code)]

mod aligned;
mod append;
mod call;
mod disk;
mod faulty;
mod forward;
mod fs;
mod gather;
mod install;
mod mapped;
mod memory;
mod model;
mod overwrite;
mod posix;
mod refused;
mod rule;
mod uring;
mod watch;
mod whole;

use std::sync::Arc;

pub use call::Call;
pub use disk::{Disk, Doubt, Heed, Survivors};
pub use faulty::Faulty;
pub use fs::{Append, Fs, Overwrite, PendingRead, Read};
pub use install::{durable_dir, durable_install};
pub use memory::Memory;
pub use model::{Device, DeviceFigures, Metered, SSD_PRESETS, SsdModel, SsdPreset};
pub use posix::{PageCache, Posix};
pub use rule::{Failure, Rule};
pub use uring::Uring;
pub use watch::Watch;

/// The best back end that this machine has: io_uring, or ordinary calls where the kernel refuses that, as it
/// does in many containers.
pub fn best(page_cache: PageCache) -> Arc<dyn Fs> {
    match Uring::new(page_cache) {
        Ok(uring) => Arc::new(uring),
        Err(_) => Arc::new(Posix::new(page_cache)),
    }
}
