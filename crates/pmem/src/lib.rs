//! Byte-addressable durable memory: the only code in the project that maps, flushes or fences.
//!
//! A [`Region`] is a run of bytes that loads and stores reach directly; a [`PoolFile`] is mapped to get
//! one. Stores become durable in three steps that the types keep apart:
//!
//! ```text
//! copy(..)            -> Dirty      visible to loads, lost on power failure
//! flush(Dirty)        -> InFlight   on its way; still lost on power failure
//! fence(InFlight)     -> Durable    what the region's durability class promises now holds
//! submit(InFlight)    -> Submitted  the same fence in two halves, where a journal keeps the bytes:
//! settle(Needs)       -> Durable    it covers what was submitted, which is asked at run time
//! copy_nt(..)         -> InFlight   non-temporal copy: no flush needed, a fence is
//! ```
//!
//! # The contract
//!
//! - **I-PM-1** A range handed out by [`Region::bytes`] is frozen: no one writes it while the slice lives.
//!   Owners guarantee that by writing a range before its location is published, and by reusing a range
//!   only when no index, view or manifest names it any more.
//! - **I-PM-2** Words that change under readers are aligned 8-byte atoms and are reached only through
//!   [`Region::load_u64`] and [`Region::store_u64`].
//! - **I-PM-3** A fence makes durable what its own thread flushed, nothing else; so [`InFlight`] cannot
//!   leave its thread.
//! - **I-PM-4** A mapped file has storage for every byte and is as long as its mapping; only the holder of
//!   its exclusive lock changes it. A program that cuts it from outside kills the process.
//! - Locations are offsets, never pointers; only plain bytes are stored.
//!
//! A [journaled](Region::journaled) region is memory of this process; a [`Journal`] keeps what is fenced. It may fail,
//! and then a fence is worth nothing: who acknowledges anything uses [`Region::try_fence`] or [`Region::settle`].
//!
//! A [volatile](VolatileFile) region is a file without a name in memory of another kind than DRAM; it survives nothing either.
//!
//! A region may stand for [slower memory](PmModel) than the host has: it then takes as long as that would.
//!
//! Every persist names its [`Site`], so that a simulator that watches the region (see [`Domain`]) can count,
//! drop or shorten it.
//!
//! # What makes bugs impossible
//!
//! | bug | what stands against it | where |
//! |---|---|---|
//! | published before it is flushed and fenced | publishing takes [`Submitted`], which takes [`InFlight`] | compiler |
//! | published before its journal is written | [`Durable::covers`] what [`Submitted`] needs | run time, models, simulator |
//! | fence without flush | a fence takes [`InFlight`], not [`Dirty`] | compiler |
//! | flush or fence forgotten | tokens are `must_use` | compiler, as a warning; simulator |
//! | flushed by one thread, fenced by another | [`InFlight`] is neither `Send` nor `Sync` | compiler |
//! | token outlives its mapping | tokens borrow their region | compiler |
//! | flushed in one region, fenced in another | tokens know their region | debug builds |
//! | access outside the mapping | every access is checked against its length | run time, a panic |
//! | store to a read-only pool | the same comparison | run time, a panic |
//! | torn word | words are aligned atomics | run time, a panic |
//! | streamed line left in a write-combining buffer | only `copy_nt` streams, and it returns [`InFlight`] | compiler |
//! | flush of the wrong line | ranges are widened to lines in one place | tests at every edge |
//! | store to a hole of a sparse pool on a full device (SIGBUS) | storage is allocated before mapping | [`PoolFile`] |
//! | file shorter than its mapping (SIGBUS) | compared under the lock | [`PoolFile`] |
//! | two writers | `flock`, dropped by the kernel with the process | [`PoolFile`] |
//! | a fork that goes on with what its parent has mapped and locked | a page that forks find wiped | [`SameProcess`] |
//! | lock on a file that was replaced meanwhile | the path is looked up again under the lock | [`PoolFile`] |
//! | crash safety claimed but not had | `MAP_SYNC` and the persistence domain are asked | [`Region::durability`], [`Probe`] |
//! | no flush instruction known | nothing beyond the process is promised then | [`Region::durability`] |
//! | pointer stored in a pool | the interface takes bytes and words, and locations are offsets | review |

mod backing;
mod cacheline;
mod domain;
mod durability;
mod fork;
mod journal;
mod model;
mod pages;
mod region;
mod site;
mod stats;
mod streamed;
mod token;

pub use backing::{FileLock, OpenMode, PoolFile, Prefault, Probe, Storage, VolatileFile};
pub use domain::{Domain, StoreMode};
pub use durability::Durability;
pub use fork::SameProcess;
#[cfg(feature = "forks")]
pub use fork::in_fork;
pub use journal::{Journal, JournalFigures, Promise};
pub use model::{Field, Latency, ModelFigures, PM_PRESETS, PmDevice, PmModel, PmPreset};
pub use pages::{Pages, forbid_huge_pages};
pub use region::{Owner, Region};
pub use site::Site;
pub use stats::StatsSnapshot;
pub use streamed::StreamedFile;
pub use token::{Dirty, Durable, InFlight, Needs, Submitted};
