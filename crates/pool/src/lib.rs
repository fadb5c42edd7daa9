//! Space in persistent memory: who owns which bytes of a pool, and the log that says so.
//!
//! ```text
//! | header page: slot A, slot B | zone table | wear table | manifest area 0 | manifest area 1 | zone 0 | zone 1 | …
//! ```
//!
//! A **zone** is filled from its start to its end and freed whole; an **extent** is a run of **grains**
//! (a sixteenth of a zone, 256 bytes at least) for what does not live in a zone. Zones are handed out from
//! the low end of the least worn and extents from the high end, short ones in zones that are broken already, so that zones
//! stay whole. The **wear table** counts how much was granted in each zone. **Volatile objects** of any length lie in extents that nothing
//! names. The **manifest log** holds the edits of the pool's owner; this crate carries their bytes and does not read them.
//! When its snapshots outgrow the two areas, it moves to longer ones, which are extents.
//!
//! # The contract
//!
//! - **I-POOL-1** Which grains are in use is volatile. After an open nothing is in use but areas of the log; the owner
//!   claims what it reaches from the manifest, then calls [`Pool::sweep`], and only then is space handed out.
//!   So there is no allocator state that could disagree with the manifest, and nothing can leak.
//! - **I-POOL-2** No grain has two owners: taking gives free grains only, claiming what is claimed
//!   is [`Corruption`](base::ErrorKind::Corruption), releasing what is not taken panics.
//! - **I-POOL-3** A zone's state changes by one 8-byte store to its word. A power cut in a grant leaves
//!   a word that does not verify ([`HeaderState::Torn`]): the zone was never used.
//! - **I-POOL-4** At every moment one durable superblock slot names a log area whose snapshot is
//!   durable. Therefore a slot is overwritten only while the other one is valid and durable, an area
//!   only while neither slot says that the log is there, and areas are free only when neither slot names them.
//! - **I-POOL-5** Edits are numbered from 0 and each is fenced before the next is written. An
//!   edit that fails its check with a valid one behind it is damage; without one it is a torn tail,
//!   and that place is never appended to: an opened log ends, and [`Pool::log_begin`] starts another.
//! - **I-POOL-6** Opening writes nothing. [`Pool::flush_log`] makes durable what opening read,
//!   which a killed process may have left in the caches, and must be called before it is relied on.
//! - **I-POOL-7** Wear decides where space is taken, never whether: any content of the wear table is valid.
//!
//! The bytes are laid down in `docs/format/pool.md`.
#![forbid(unsafe_code)]

mod edit;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzz;
mod geometry;
mod grains;
mod log;
mod objects;
mod pool;
mod resident;
mod space;
mod superblock;
mod view;
mod wear;
mod zones;

pub use geometry::{Format, Geometry};
pub use log::Replay;
pub use objects::{ObjectUse, Objects};
pub use pool::Pool;
pub use space::{Extent, Space};
pub use superblock::{FORMAT_VERSION, begin_format, check_version};
pub use view::View;
pub use wear::Wear;
pub use zones::{HeaderState, SweepReport, ZoneHeader, ZoneKind, granted_in};
