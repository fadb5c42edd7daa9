//! What a child tells its parent, in words of sixteen bytes.
//!
//! A write of so few bytes to a pipe is one piece, and stays in the pipe when the writer dies. So the order in
//! which the parent reads is an order in which things happened, whichever threads told them.

use std::io::Write;

/// One thing told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// The store is about to be opened.
    Opening,
    /// The store is open, and both keyspaces are there.
    Opened,
    /// The lane is about to make this commit.
    Intend { lane: usize, number: u64 },
    /// The commit was acknowledged.
    Acknowledged { lane: usize, number: u64 },
    /// A reader saw a value of this commit.
    Saw { lane: usize, number: u64 },
    /// A count since the child's start, which replaces what was told before.
    Count { of: Count, is: u64 },
}

/// What a child counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// Index runs made by flushes.
    Flushes,
    /// Index runs made by merges.
    Merges,
    /// Zones granted that had held records before.
    Regrants,
    /// Bytes of records that cleaning moved.
    Cleaned,
    /// Compactions of level 0 to tables.
    Drained,
    /// Compactions of tables, and tables moved from level to level.
    Sunk,
    /// Keyspaces dropped.
    Dropped,
    /// Ranges of keys deleted.
    RangesDeleted,
    /// Files taken in.
    Ingested,
    /// Snapshots compared with what they should show.
    SnapshotsCompared,
    /// Checkpoints compared with a snapshot of their moment.
    CheckpointsCompared,
    /// Calls of application code that panicked.
    Panics,
    /// Calls of the device that failed.
    FailedCalls,
}

impl Count {
    pub const ALL: [Count; 13] = [
        Count::Flushes,
        Count::Merges,
        Count::Regrants,
        Count::Cleaned,
        Count::Drained,
        Count::Sunk,
        Count::Dropped,
        Count::RangesDeleted,
        Count::Ingested,
        Count::SnapshotsCompared,
        Count::CheckpointsCompared,
        Count::Panics,
        Count::FailedCalls,
    ];
}

/// Bytes of a message.
pub const LEN: usize = 16;

impl Message {
    fn encode(self) -> [u8; LEN] {
        let (kind, which, number) = match self {
            Message::Opening => (1, 0, 0),
            Message::Opened => (2, 0, 0),
            Message::Intend { lane, number } => (3, lane, number),
            Message::Acknowledged { lane, number } => (4, lane, number),
            Message::Saw { lane, number } => (5, lane, number),
            Message::Count { of, is } => (6, of as usize, is),
        };
        let mut bytes = [0; LEN];
        bytes[0] = kind;
        bytes[1] = which as u8;
        bytes[8..].copy_from_slice(&number.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8; LEN]) -> Option<Message> {
        let lane = usize::from(bytes[1]);
        let number = u64::from_le_bytes(*bytes.last_chunk()?);
        Some(match bytes[0] {
            1 => Message::Opening,
            2 => Message::Opened,
            3 => Message::Intend { lane, number },
            4 => Message::Acknowledged { lane, number },
            5 => Message::Saw { lane, number },
            6 => Message::Count { of: *Count::ALL.get(lane)?, is: number },
            _ => return None,
        })
    }
}

/// Tells `messages` in one piece.
pub fn tell(mut out: impl Write, messages: &[Message]) -> Result<(), String> {
    let bytes: Vec<u8> = messages.iter().flat_map(|message| message.encode()).collect();
    out.write_all(&bytes).map_err(|error| format!("the parent is gone: {error}"))
}

/// Everything that was told; an error if some of it is no message.
pub fn read_all(bytes: &[u8]) -> Result<Vec<Message>, String> {
    let (words, rest) = bytes.as_chunks::<LEN>();
    if !rest.is_empty() {
        return Err(format!("a message of {} bytes", rest.len()));
    }
    words.iter().map(|word| Message::decode(word).ok_or(format!("no message: {word:?}"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_back() {
        let all = [
            Message::Opening,
            Message::Opened,
            Message::Intend { lane: 2, number: u64::MAX },
            Message::Acknowledged { lane: 0, number: 7 },
            Message::Saw { lane: 1, number: 8 },
            Message::Count { of: Count::Cleaned, is: 9 },
        ];
        let mut bytes = Vec::new();
        tell(&mut bytes, &all).unwrap();
        assert_eq!(read_all(&bytes).unwrap(), all);
        assert!(read_all(&bytes[1..]).is_err());
        assert!(read_all(&[9; 16]).is_err());
    }
}
