//! A seek to the first key, timed.

use std::time::{Duration, Instant};

use strandline::{Keyspace, ReadOptions};

use crate::words::told;

/// How long it takes to find the first key, which is to be `expected`.
pub(super) fn seek_first(space: &Keyspace, expected: Option<&[u8]>) -> Result<Duration, String> {
    let began = Instant::now();
    let mut iter = space.cursor(&ReadOptions::default()).map_err(told)?;
    iter.seek_to_first().map_err(told)?;
    let took = began.elapsed();
    if iter.key() == expected {
        Ok(took)
    } else {
        Err(format!("{:?} is first, not {expected:?}", iter.key()))
    }
}
