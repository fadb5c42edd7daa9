//! Events: what is no record has a number of its own among the commits, too, where there are streams.
//!
//! The number is that of a commit without changes. It is taken, and its record is durable, before the edit that says what happened;
//! and it is visible only behind that edit. So no stream passes it before it is known what it stands for, and power failure leaves
//! the number alone, which then stands for nothing, or both.

use base::planted::{self, Bug};
use base::{Result, Seq};
use pmem::Submitted;

use crate::engine::Engine;
use crate::keyspace::KeyspaceState;
use crate::keyspace::write_head::{Lack, Permit};
use crate::manifest::edit::VersionEdit;
use crate::manifest::streams::{EventDesc, EventKind, StreamEdit};
use crate::record::format::Kind;
use crate::tree::bounds;
use crate::tree::desc::TableDesc;
use crate::write::commit::{Commit, NotAdmitted};
use crate::write::condition::Unconditional;
use crate::write::numbering::Numbering;
use crate::write::op::{Op, Ops};
use crate::write::way::WriteWay;

/// How often it is looked whether older commits are visible.
const LOOKS: u32 = 2000;
/// Events may take one of so many bytes of the manifest.
const EVENTS_SHARE: u64 = 16;

/// The number of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventNumber {
    /// There are no streams.
    Unneeded,
    At(Seq),
    /// None can be had while the caller has its locks.
    NotNow,
}

/// The commit that has the number of an event. Dropped before it is published it becomes void.
pub(crate) struct EventCommit<'e, 'a> {
    engine: &'e Engine,
    commit: Option<Commit<'e, 'a>>,
    lack: Option<Lack>,
    submitted: Option<Submitted>,
}

impl EventCommit<'_, '_> {
    /// The number, if it can be had at once: those before it are visible then, so that its record counts after any power failure. The
    /// caller may hold any lock.
    pub(crate) fn take(&mut self) -> Result<EventNumber> {
        let Some(commit) = self.commit.as_mut() else {
            // A stream that was made meanwhile may want one.
            let wanted = self.engine.streams.are_there();
            return Ok(if wanted { EventNumber::NotNow } else { EventNumber::Unneeded });
        };
        if let Err(lack) = commit.reserve(&mut Unconditional) {
            self.lack = Some(lack);
            return Ok(EventNumber::NotNow);
        }
        let copied = commit.copy();
        let submitted = commit.submit(copied);
        self.engine.settle(submitted.needs())?;
        commit.index()?;
        let number = commit.number();
        let (ring, region) = (&self.engine.sequence.ring, &self.engine.media.region);
        for _ in 0..LOOKS {
            if ring.has_published(number - 1, &region.durable()) {
                self.submitted = Some(submitted);
                return Ok(EventNumber::At(number));
            }
            std::thread::yield_now();
        }
        // Perhaps what is older waits for the caller's locks.
        self.commit = None;
        Ok(EventNumber::NotNow)
    }

    fn publish(self) -> Result<()> {
        let EventCommit { engine, commit, submitted, .. } = self;
        match commit.zip(submitted) {
            Some((commit, submitted)) => engine.await_visible(commit.publish(submitted)),
            None => Ok(()),
        }
    }
}

impl Engine {
    /// Calls `act` until it has done something: with the commit of an event, whose number it takes once it has all its locks. It lets
    /// go of them where that cannot be had, and returns nothing.
    pub(crate) fn with_event<T>(
        &self,
        operation: &'static str,
        event: &EventDesc,
        mut act: impl FnMut(&mut EventCommit<'_, '_>) -> Result<Option<T>>,
    ) -> Result<T> {
        loop {
            let space = self.keyspaces.named("default").filter(|_| self.streams.are_there());
            // A listener that writes would wait for this commit.
            let _quiet = space.as_ref().map(|_| self.events.quiet());
            let mut nothing =
                space.as_ref().map(|space| [Op::new(space, Kind::RangeDelete, b"", b"")]);
            let admit = |nothing| {
                self.room_for_event(event);
                // It changes no key, so none that is locked is in its way.
                let way = WriteWay { permit: Permit::Given, ..WriteWay::default() };
                Commit::admit(self, Ops::Borrowed(nothing), way).map_err(NotAdmitted::into_error)
            };
            let commit = nothing.as_mut().map(|nothing| admit(&mut nothing[..])).transpose()?;
            let mut commit = EventCommit { engine: self, commit, lack: None, submitted: None };
            loop {
                if let Some(done) = act(&mut commit)? {
                    commit.publish()?;
                    return Ok(done);
                }
                match (commit.lack.take(), &mut commit.commit) {
                    (Some(lack), Some(commit)) => commit.mend(lack)?,
                    _ => break,
                }
            }
            drop(commit);
            self.pause(operation)?;
        }
    }

    /// Has streams give up what events are before, where these would take too much of the manifest.
    pub(crate) fn room_for_event(&self, event: &EventDesc) {
        let most = self.media.pool.log_area_len() / EVENTS_SHARE;
        let gone = {
            let manifest = self.manifest.lock();
            let events = &manifest.state.streams.events;
            let mut bytes = event.bytes() + events.values().map(EventDesc::bytes).sum::<u64>();
            let over = |(_, event): &(&Seq, &EventDesc)| {
                let over = bytes > most;
                bytes -= event.bytes();
                over
            };
            events.iter().take_while(over).last().map(|(number, _)| *number)
        };
        gone.into_iter().for_each(|number| self.lose_changes_up_to(number));
    }
}

/// What happened to a keyspace.
pub(crate) fn event_of(space: &KeyspaceState, kind: EventKind) -> EventDesc {
    let (keyspace, name) = (space.id, space.name.clone());
    EventDesc { keyspace, name, timed: space.expiry.is_some(), kind }
}

/// That a keyspace took these tables in.
pub(crate) fn ingested(space: &KeyspaceState, descs: &[TableDesc]) -> EventDesc {
    let smallest = descs.iter().map(|desc| &desc.smallest[..]).min().unwrap_or_default();
    let largest = descs.iter().map(|desc| &desc.largest[..]).max().unwrap_or_default();
    let kind = EventKind::Ingested {
        tables: descs.len() as u64,
        entries: descs.iter().map(|desc| desc.entries + desc.range_deletes).sum(),
        smallest: bounds::lower(smallest, b""),
        largest: bounds::upper(largest, std::ops::Bound::Unbounded),
    };
    event_of(space, kind)
}

/// The change that notes an event.
pub(crate) fn event_edit(number: Seq, event: &EventDesc) -> Option<VersionEdit> {
    if planted::is(Bug::StreamEventUnnoted) {
        return None;
    }
    Some(VersionEdit::Stream(Box::new(StreamEdit::Event { number, event: event.clone() })))
}
