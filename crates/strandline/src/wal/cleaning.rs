//! What is known of the oldest segment while it goes.

use std::ops::Range;

use base::planted::{self, Bug};

use crate::wal::live::{Live, SegmentPart};
use crate::wal::segment::{Frames, LogSegment};

/// The oldest segment, on its way out, part by part: parts without anything that counts are not read.
pub(super) struct Cleaning {
    pub segment: LogSegment,
    /// Bytes of it that count for a recovery.
    pub len: u64,
    /// Parts up to here are done.
    pub done: u64,
    pub part: Option<PartCleaning>,
}

/// A part of it. It is walked twice: a range may stand there several times, and if any but the last were written again, a crash
/// behind that would bring it back.
pub(super) struct PartCleaning {
    pub part: SegmentPart,
    pub end: u64,
    pub frames: Frames,
    /// This is the first time.
    pub looking: bool,
    /// Which frame, by where it begins, has the newest bytes of each range that counts.
    pub newest: Live,
}

impl Cleaning {
    /// Begins with the next part that has the newest bytes of something; tells whether there is one.
    pub fn begin_part(&mut self, live: &Live) -> bool {
        let next = live.next_part(self.segment.number(), self.done);
        self.part = next.map(|(part, next)| {
            // What is behind that counts no more, or not here: an open has written it again elsewhere.
            let end = next.map_or(self.len, |next| next.min(self.len));
            let frames = self.segment.frames(part.start, end);
            PartCleaning { part, end, frames, looking: true, newest: Live::default() }
        });
        self.part.is_some()
    }

    /// A pass over the part is through: another begins, or the part is done. An error is the place where the file ends too early, or
    /// of a part without a frame: it would be met for ever.
    pub fn end_pass(&mut self) -> Result<(), u64> {
        let Some(PartCleaning { part, end, frames, looking, .. }) = &mut self.part else {
            return Ok(());
        };
        if frames.at() < *end || *end <= part.start {
            return Err(frames.at());
        }
        if *looking {
            *looking = false;
            frames.begin_at(part.start);
        } else {
            self.done = *end;
            self.part = None;
        }
        Ok(())
    }
}

/// What of `range`, as a frame has it, no later frame of its part wrote.
pub(super) fn newest_of(newest: &Live, range: Range<u64>, frame: SegmentPart) -> Vec<Range<u64>> {
    if planted::is(Bug::WalKeepOldest) {
        return vec![range];
    }
    newest.within(range, frame)
}
