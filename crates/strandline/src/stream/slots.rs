//! Streams are made, acknowledged and dropped. Each is one edit of the manifest.

use std::sync::{Arc, PoisonError};

use base::limits::{NAME_BYTES_MAX, check_name};
use base::planted::{self, Bug};
use base::{Error, ErrorKind, Result, Seq};

use crate::engine::Engine;
use crate::manifest::edit::VersionEdit;
use crate::manifest::streams::{SlotDesc, StreamEdit, slot_edit};
use crate::stream::kept::Slot;
use crate::write::way::WriteWay;

/// Streams of a store at most.
pub(crate) const STREAMS_MAX: usize = 64;
/// A stream may keep one part of so many of the memory for records, unless it is told otherwise.
const DEFAULT_SHARE: u64 = 8;
/// And at most one of so many: writers need the rest.
const SHARE_MAX: u64 = 2;
/// Zones that it may keep at least: a commit may lie in several.
const ZONES_MIN: u64 = 4;

/// How a change stream is made.
///
/// ```
/// use strandline::StreamOptions;
///
/// let options = StreamOptions::new().max_bytes(64 << 20);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamOptions {
    max_bytes: u64,
}

impl StreamOptions {
    /// The defaults.
    pub fn new() -> StreamOptions {
        StreamOptions::default()
    }

    /// Bytes of the store's memory for records, whole zones and long values, that may be kept for the stream: beyond that the
    /// oldest changes are lost to it. At least four zones, at most half of that memory; 0, the default, is an eighth.
    pub fn max_bytes(self, max_bytes: u64) -> StreamOptions {
        StreamOptions { max_bytes }
    }

    pub(crate) fn most_bytes(&self) -> u64 {
        self.max_bytes
    }
}

/// A change stream at a moment.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StreamFigures {
    /// Its name.
    pub name: String,
    /// Everything up to this number was acknowledged.
    pub acked: Seq,
    /// Everything up to this number is lost to it, since it lagged too far; 0: nothing is.
    pub lost: Seq,
    /// Numbers of the newest commit that readers see, less that of what it has passed: changes that it is behind.
    pub behind: u64,
    /// Bytes of the zones and long values that hold what it is behind with; what is in zones that are being filled is not counted.
    pub backlog_bytes: u64,
    /// Bytes of these that nothing but streams needs.
    pub held_bytes: u64,
    /// Bytes that it may keep.
    pub max_bytes: u64,
}

const CREATE: &str = "create stream";

impl Engine {
    /// Makes a stream that gives everything behind the number that is returned with it.
    pub(crate) fn create_stream(&self, name: &str, options: &StreamOptions) -> Result<Arc<Slot>> {
        self.check_writable(CREATE)?;
        let max_bytes = self.stream_bytes(name, options)?;
        // A large commit on its way has staged zones that are not held.
        let _turn = self.await_large_turn(&WriteWay::default())?;
        let _changing = self.streams.change();
        let there = self.streams.slots();
        if there.iter().any(|slot| slot.name == name) {
            let text = format!("there is a stream {name} already; open it, or drop it first");
            return Err(Error::new(ErrorKind::Exists, CREATE, text));
        }
        if there.len() >= STREAMS_MAX {
            let text = format!("there are {STREAMS_MAX} streams, the most of a store; drop one");
            return Err(Error::new(ErrorKind::LimitExceeded, CREATE, text));
        }
        self.room_for_stream()?;
        if there.is_empty() {
            self.streams.begin();
            self.hold_open_zones();
        }
        let made = self.begin_slot(name, max_bytes);
        let let_go = self.streams.end_if_none();
        drop(let_go);
        self.share_with_streams();
        made
    }

    /// The slot begins behind all that has its number by now: what is numbered later fills zones that are held.
    fn begin_slot(&self, name: &str, max_bytes: u64) -> Result<Arc<Slot>> {
        let acked = self.sequence.sequencer.enter_to_switch().next_seq() - 1;
        // A number that power failure takes away is given again.
        self.await_seq(acked)?;
        let desc = SlotDesc { acked, lost: Seq::ZERO, max_bytes };
        let slot = Arc::new(Slot::new(name, desc));
        let edit = self.edit(vec![slot_edit(name, desc)])?;
        self.streams.add(&slot);
        edit.end();
        Ok(slot)
    }

    /// Bytes that the stream may keep.
    fn stream_bytes(&self, name: &str, options: &StreamOptions) -> Result<u64> {
        check_name(name, CREATE)?;
        let geometry = self.media.pool.geometry();
        let least = ZONES_MIN * geometry.zone_len();
        let most = (geometry.capacity() / SHARE_MAX).max(least);
        match options.max_bytes {
            0 => Ok((geometry.capacity() / DEFAULT_SHARE).clamp(least, most)),
            bytes if (least..=most).contains(&bytes) => Ok(bytes),
            bytes => {
                let text = format!(
                    "max_bytes={bytes}: {least} to {most} in this store, four zones to half of its memory for records; for more make \
                     the store larger (pm_size)"
                );
                Err(Error::new(ErrorKind::InvalidArgument, CREATE, text))
            }
        }
    }

    /// Refuses a slot that the manifest has no room for.
    fn room_for_stream(&self) -> Result<()> {
        let more = NAME_BYTES_MAX as u64 + 40;
        // Twice its size: half is for runs.
        let wanted = |used| 2 * (used + more);
        let (used, area) = self.manifest_room(&mut self.manifest.lock(), wanted)?;
        if wanted(used) <= area {
            return Ok(());
        }
        let text = format!(
            "keyspaces, runs and streams take {used} of {area} bytes in the manifest, and persistent memory has no room for a \
             larger one; delete data, drop some, or make a larger pool (pm_size)"
        );
        Err(Error::new(ErrorKind::LimitExceeded, CREATE, text))
    }

    /// Holds the zones that active memtables fill. Those that are granted from now on are held as they come.
    fn hold_open_zones(&self) {
        for space in self.keyspaces.all() {
            let _admin = space.admin.lock().unwrap_or_else(PoisonError::into_inner);
            for subrange in space.subranges() {
                let view = subrange.view.load();
                self.streams.hold_open(space.id, &view.active().zones(), &subrange.write_head);
            }
        }
    }

    /// What streams may keep is left to them by what else is in memory.
    pub(crate) fn share_with_streams(&self) {
        self.space.set_streams_share(self.streams.most_bytes());
        self.update_reserve();
    }

    /// The slot of a stream.
    pub(crate) fn slot(&self, name: &str, operation: &'static str) -> Result<Arc<Slot>> {
        self.streams.slot(name).ok_or_else(|| no_stream(name, operation))
    }

    /// Acknowledges everything up to `seq`, durably: the stream gives none of it again.
    pub(crate) fn ack_stream(&self, slot: &Arc<Slot>, seq: Seq) -> Result<()> {
        const ACK: &str = "acknowledge";
        self.check_writable(ACK)?;
        let visible = self.sequence.ring.visible();
        if seq > visible {
            let text =
                format!("{seq} is no number that the stream has given: the newest is {visible}");
            return Err(Error::new(ErrorKind::InvalidArgument, ACK, text));
        }
        let changing = self.streams.change();
        if slot.is_dropped() {
            return Err(no_stream(&slot.name, ACK));
        }
        if seq <= slot.acked() {
            return Ok(());
        }
        let desc = SlotDesc { acked: seq, ..slot.desc() };
        self.plant_before_ack(slot, desc);
        let edit = self.edit(vec![slot_edit(&slot.name, desc)])?;
        slot.set(desc);
        edit.end();
        drop(changing);
        self.let_go_of_passed();
        Ok(())
    }

    /// Frees before the edit what the acknowledgement makes free, where that is planted.
    fn plant_before_ack(&self, slot: &Slot, desc: SlotDesc) {
        if planted::is(Bug::StreamFreedBeforeAck) {
            slot.set(desc);
            self.let_go_of_passed();
        }
    }

    /// Makes what no stream needs any more free.
    pub(super) fn let_go_of_passed(&self) {
        let let_go = self.streams.let_go(&self.sequence.sequencer);
        drop(let_go);
        self.reclaim();
    }

    /// Drops a stream with what is kept for it.
    pub(crate) fn drop_stream(&self, name: &str) -> Result<()> {
        const DROP: &str = "drop stream";
        self.check_writable(DROP)?;
        let changing = self.streams.change();
        let slot = self.slot(name, DROP)?;
        let dropped = StreamEdit::Drop { name: slot.name.clone() };
        let edit = self.edit(vec![VersionEdit::Stream(Box::new(dropped))])?;
        self.streams.remove(name);
        edit.end();
        let let_go = self.streams.end_if_none();
        drop(let_go);
        drop(changing);
        self.share_with_streams();
        self.let_go_of_passed();
        Ok(())
    }

    /// Bytes that nothing but streams needs.
    pub(crate) fn held_by_streams(&self) -> u64 {
        self.streams.passed().map_or(0, |passed| self.streams.held_behind(passed))
    }

    /// All streams, by name.
    pub(crate) fn stream_figures(&self) -> Vec<StreamFigures> {
        let visible = self.sequence.ring.visible();
        let figures = |slot: &Arc<Slot>| {
            let (backlog_bytes, held_bytes) = self.streams.behind(&self.sequence.sequencer, slot);
            StreamFigures {
                name: slot.name.clone(),
                acked: slot.acked(),
                lost: slot.lost(),
                behind: visible.checked_distance(slot.passed()).unwrap_or(0),
                backlog_bytes,
                held_bytes,
                max_bytes: slot.max_bytes,
            }
        };
        self.streams.slots().iter().map(figures).collect()
    }
}

pub(super) fn no_stream(name: &str, operation: &'static str) -> Error {
    let text = format!("no stream {name}; make it first, or see which there are");
    Error::new(ErrorKind::NotFound, operation, text)
}
