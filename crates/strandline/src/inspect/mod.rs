//! Looking at a store that another process has open: one line of JSON asks, one answers, over a socket in the store's
//! directory. Nothing of it lies on the way of a put or a get, and nothing that is asked changes what is in the store.
//!
//! ```text
//! {"strandline":12,"ask":"explain","keyspace":"default","key":"apple"}
//! {"strandline":12,"ok":{"value_bytes":3,"probes":[...]}}
//! {"strandline":12,"error":{"kind":"NotFound","message":"..."}}
//! ```
//!
//! What may be asked: `stats`, `lsm`, `pool`, `locks`, `explain`; to change an option; and what a change stream has, which may be made,
//! acknowledged and dropped. Byte strings are strings where they are UTF-8, else `{"hex":"..."}`. A connection carries one
//! question. Questions and answers are bounded, and so is the time for each.

mod answer;
pub(crate) mod client;
mod figures;
mod question;
pub(crate) mod server;
mod streams;
mod wire;

use std::time::Duration;

use base::limits::{KEY_BYTES_MAX, NAME_BYTES_MAX};

/// Version of the protocol.
const VERSION: u64 = 12;
/// Longest question: a key and a name, each byte of them escaped.
const QUESTION_BYTES_MAX: usize = 6 * (KEY_BYTES_MAX + NAME_BYTES_MAX) + 1024;
/// Longest answer: figures of about a hundred thousand tables.
const ANSWER_BYTES_MAX: usize = 32 << 20;
/// Time for a question to come, and for its answer to be taken.
const PATIENCE: Duration = Duration::from_secs(5);
