//! Byte-addressable durable memory: the only code in the project that maps, flushes or fences.
//!
//! A [`Region`] is a run of bytes that loads and stores reach directly. Stores become durable in three
//! steps that the types keep apart:
//!
//! ```text
//! copy(..)            -> Dirty      visible to loads, lost on power failure
//! flush(Dirty)        -> InFlight   on its way; still lost on power failure
//! fence(InFlight)     -> Durable    what the region's durability class promises now holds
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
//! - Locations are offsets, never pointers; only plain bytes are stored.
//!
//! Every persist names its [`Site`], so that a simulator that watches the region (see [`Domain`]) can count,
//! drop or shorten it.

mod backing;
mod cacheline;
mod durability;
mod region;
mod site;
mod stats;

pub use backing::{OpenMode, PoolFile};
pub use durability::Durability;
pub use region::{Dirty, Domain, Durable, InFlight, Region};
pub use site::Site;
pub use stats::StatsSnapshot;
