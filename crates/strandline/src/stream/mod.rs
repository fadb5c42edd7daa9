//! Change streams: all commits in the order of their numbers, from a number on, across crashes of either side.
//!
//! A record is written once, into a zone, with the number of its commit and how many segments that has: the zones are a log that
//! only has to be put in order. So a stream keeps zones from being freed, and writes nothing of its own but its *slot* in the
//! manifest: what it has passed.
//!
//! ```text
//! writers ─► zones ─► level 0 ─► retired ──────────► free
//!              │                    └─ held for slots ─┘ once all have passed them
//!              ▼
//!            window ─► merge by number ─► batch ─► caller ─► ack: an edit
//! ```
//!
//! - [`kept`]: what is held; [`slots`]: streams made, acknowledged, dropped
//! - `engine/lagging_streams.rs`: what lags too far, or stands in the way of writers, is lost to the stream, and the stream says so
//! - [`reader`]: a window on what does not change any more, and its commits by number; [`batch`]: what one is told as
//! - [`event`]: what is no record has a number all the same

pub(crate) mod batch;
pub(crate) mod event;
pub(crate) mod kept;
mod merge;
pub(crate) mod reader;
pub(crate) mod slots;
