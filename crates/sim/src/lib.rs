//! The world that loses power: crash-state exploration for stores in persistent memory and on SSD. For tests
//! only.
//!
//! A workload runs once while [`SimPm`] writes down every store, flush and fence, and every call that changes
//! the disk, in one order. The log is then replayed into a [`Media`] and a [`Disk`](ssd::Disk), which know at
//! every event what a power cut may leave behind. Both lose power at once: an image is a choice of what memory
//! keeps and of what the disk keeps. The [`Explorer`] recovers those images and holds what they show against
//! the [`History`].
//!
//! ```text
//! op ─► case                 one seed: operations, schedule, world
//! run + record ─► log        the workload, step by step, on recorded memory
//!              └► history    what was asked, in which order, who was told
//!                 state      what a store holds, and what a change makes of it
//! log ─► media ─► cut        crash points, torn lines and files, images
//!     └► files ─┘└► lazy     recovery on memory that decides as it is read, on one disk after the other
//! explore ─► check           recover each image, compare, crash again inside what follows
//! sabotage, hunt, campaign   faults planted, counters, floors, shrinking
//! ```
//!
//! A store joins by implementing [`System`]. Everything is deterministic: no time, no threads, no order of
//! a hash table anywhere.
//!
//! But for one thing: a store with threads of its own can be watched, too. What its threads do stands in one order on the
//! same tape ([`crew`]), what was asked and told is in a [`Diary`], and the caller that runs it cuts the tape as above.
//! Then only the operations follow from the seed, not the order of the threads.
#![deny(unsafe_code)]

pub mod beside;
pub mod campaign;
pub mod case;
pub mod check;
pub mod crew;
pub mod cut;
pub mod diary;
pub mod explore;
mod files;
mod follow;
pub mod hash;
pub mod history;
pub mod hunt;
mod lazily;
pub mod lazy;
pub mod log;
pub mod media;
pub mod notes;
pub mod op;
pub mod pm;
mod record;
pub mod run;
pub mod sabotage;
pub mod state;
pub mod system;

pub use base::random::Rng;
pub use beside::Beside;
pub use campaign::{Counters, Floors, Probe, Totals};
pub use case::{Case, Failure};
pub use check::{Rule, Violation};
pub use crew::Schedule;
pub use cut::CutLimits;
pub use diary::Diary;
pub use explore::{Explorer, Lazily, Limits};
pub use history::History;
pub use hunt::{Verdict, campaign, hunt, shrink};
pub use log::{DiskCall, Event, Log, StoreKind};
pub use media::{Media, Mode};
pub use op::{Keys, Op, Shape, Value, Write};
pub use pm::SimPm;
pub use sabotage::{Fault, Lie, Planted, Sabotage};
pub use system::{Progress, Show, System};
