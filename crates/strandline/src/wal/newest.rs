//! Which segment is the newest that counts, and what of that is damage.
//!
//! `CHAIN` names it (I-WAL-5). One that it names and that has no frame yet holds nothing: then the one before it is the newest.
//! Of a log of version 1 the highest number is the newest.

use std::path::PathBuf;

use base::Error;

use crate::wal::chain::{self, ChainFile, Newest};
use crate::wal::installer::LogLocation;
use crate::wal::segment::{self, HEADER_LEN, LogSegment, Next};

/// Bytes in which a proof is sought that a segment without a first frame had one. One that was made ahead has none, whatever its
/// length, and each open looks.
const PROOF_WITHIN: u64 = 4 << 20;

/// Why the newest segment cannot be told.
pub(crate) enum Objection {
    /// A file is not what it was.
    Damage { file: PathBuf, at: u64, what: String },
    /// The device refuses to tell.
    Device(Error),
}

impl From<Error> for Objection {
    fn from(error: Error) -> Objection {
        Objection::Device(error)
    }
}

fn damage<T>(file: PathBuf, at: u64, what: impl Into<String>) -> Result<T, Objection> {
    Err(Objection::Damage { file, at, what: what.into() })
}

/// The number of the newest segment that counts, of those at a place, of one store, in order. Those above it were never begun.
pub(crate) fn newest_of(
    place: &LogLocation,
    segments: &[LogSegment],
    chain: Option<&ChainFile>,
) -> Result<u64, Objection> {
    let file = |number| segment::path(&place.dir, number);
    let begun = || segments.iter().rev().filter(|segment| segment.begin().is_some());
    let Some(found) = chain else {
        // A log that was never chained; power failed before its first segment of this version was named.
        return match begun().next() {
            Some(newest) if !begun().any(LogSegment::is_chained) => Ok(newest.number()),
            _ => damage(
                chain::path(place),
                0,
                "cannot be read: the file is missing, and the segments beside it need it",
            ),
        };
    };
    let Some(named) = found.newest() else {
        return damage(chain::path(place), 0, chain::NEITHER_SLOT);
    };
    if segments.iter().any(|segment| segment.header.store != named.store) {
        return damage(chain::path(place), 0, "is of another store than the segments beside it");
    }
    if let Some(above) = begun().next().filter(|above| above.number() > named.number) {
        // The slot that named it is the one that cannot be read any more.
        if found.is_damaged && above.number() == named.number + 1 {
            return Ok(above.number());
        }
        let what =
            format!("has frames, and CHAIN says that segment {} is the newest", named.number);
        return damage(file(above.number()), HEADER_LEN, what);
    }
    let Some(newest) = segments.iter().find(|segment| segment.number() == named.number) else {
        return damage(file(named.number), 0, "is missing, and CHAIN names it as the newest");
    };
    check(newest, &named, file(named.number))?;
    match newest.begin() {
        Some(_) => Ok(named.number),
        None => Ok(named.number.saturating_sub(1)),
    }
}

/// Holds the newest segment against what was said of it.
fn check(newest: &LogSegment, named: &Newest, file: PathBuf) -> Result<(), Objection> {
    if newest.header.salt != named.salt {
        return damage(file, 0, "is not the segment of this number that CHAIN names");
    }
    let len = newest.file.len();
    if len < named.len {
        return damage(file, len, "is where the file ends, too early");
    }
    if newest.begin().is_some() {
        return Ok(());
    }
    // Without its first frame it counts for never begun, unless that was durable once.
    let mut frames = newest.frames(HEADER_LEN, HEADER_LEN + PROOF_WITHIN);
    while frames.resume()? {
        if let Next::Frame(header, _, place) = frames.next()?
            && header.synced > HEADER_LEN
        {
            let what = format!("fails its check, and a later frame at {} is intact", place.start);
            return damage(file, HEADER_LEN, what);
        }
    }
    Ok(())
}
