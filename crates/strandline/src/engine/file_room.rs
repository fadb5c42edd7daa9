//! What writers may take where files have little room: all that is in persistent memory has to fit there, too.

use crate::engine::Engine;
use crate::tree::room::FileRoom;

impl Engine {
    /// Bytes that writers may take before files would have no room for all that is in persistent memory. A part of the zones
    /// that stand ready does not count (I-ROOM-1).
    pub(crate) fn room_for_writers(&self) -> u64 {
        let Some(tables) = &self.tables else { return u64::MAX };
        let taken = tables.room.taken() + self.coming_to(&tables.room);
        tables.room.for_writers().saturating_sub(taken)
    }

    /// Bytes that files are to take for what is in persistent memory.
    pub(crate) fn coming_to(&self, room: &FileRoom) -> u64 {
        let space = self.media.pool.space();
        let ready = self.ready_room().min(room.slack());
        room.in_files((space.total - space.free).saturating_sub(ready))
    }

    /// Whether files have room for `len` bytes more of records; for some at all, where that is 0.
    pub(crate) fn has_file_room(&self, len: u64) -> bool {
        let needed = self.tables.as_ref().map_or(0, |tables| tables.room.in_files(len));
        self.room_for_writers() >= needed.max(1)
    }

    /// Whether writers are refused for want of room in files, or the one that waits for most would be.
    pub(crate) fn files_are_full(&self) -> bool {
        !self.has_file_room(self.throttle.wanted())
    }
}
