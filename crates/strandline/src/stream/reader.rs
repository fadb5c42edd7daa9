//! The reader of a stream: from what its slot has passed on, window after window.
//!
//! A window is a part of the store's commits that does not change any more: what is reserved in zones is noted, and once all of that
//! is visible the bytes are frozen. So the reader asks no writer to wait, and reads no byte that one may yet write.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use base::planted::{self, Bug};
use base::{Error, ErrorKind, Result, Seq};

use crate::engine::{Access, Engine};
use crate::keyspace::is_own_name;
use crate::manifest::streams::{EventDesc, EventKind};
use crate::record::format::Kind;
use crate::recovery::recover::Damage;
use crate::stream::batch::{Changed, StreamBatch, StreamedChange};
use crate::stream::kept::{Slot, StreamWindow};
use crate::stream::merge::{CommitMerge, FoundChange, FoundCommit, MergeStop};
use crate::stream::slots::no_stream;
use crate::ttl::STAMP_LEN;

const READ: &str = "read stream";

/// What is known of a keyspace by its number.
#[derive(Clone)]
struct NamedSpace {
    name: Arc<str>,
    /// Its values have a time before them.
    timed: bool,
}

/// A reader of a stream. Several may read one.
pub(crate) struct StreamReader {
    slot: Arc<Slot>,
    /// Everything up to this number was given.
    given: Seq,
    merge: CommitMerge,
    /// What is about to be visible.
    coming: Option<StreamWindow>,
    spaces: BTreeMap<u32, NamedSpace>,
}

impl StreamReader {
    pub(crate) fn new(slot: Arc<Slot>) -> StreamReader {
        StreamReader::behind(slot.acked(), slot)
    }

    /// A reader that goes on behind `given`.
    pub(crate) fn behind(given: Seq, slot: Arc<Slot>) -> StreamReader {
        let (merge, spaces) = (CommitMerge::default(), BTreeMap::new());
        StreamReader { slot, given, merge, coming: None, spaces }
    }

    pub(crate) fn slot(&self) -> &Arc<Slot> {
        &self.slot
    }

    /// Everything up to this number was given.
    pub(crate) fn given(&self) -> Seq {
        self.given
    }

    /// The next commit with changes, if there is one by now. The caller has begun a call.
    ///
    /// # Errors
    /// `ChangesLost`; `NotFound` if the stream was dropped; `Corruption`; those of a log that is synced.
    pub(crate) fn poll(&mut self, engine: &Engine) -> Result<Option<StreamBatch>> {
        loop {
            self.heed_slot()?;
            match self.merge.next(&engine.media, self.given) {
                Ok(Some(commit)) => {
                    let batch = match self.batch_of(engine, &commit) {
                        Ok(batch) => batch,
                        Err(error) if !self.is_passed_meanwhile()? => return Err(error),
                        Err(_) => continue,
                    };
                    self.given = commit.last;
                    if !batch.changes.is_empty() {
                        return Ok(Some(batch));
                    }
                }
                Ok(None) => {
                    if !self.look_further(engine)? {
                        return Ok(None);
                    }
                }
                Err(stop) => {
                    let passed = self.is_passed_meanwhile()?;
                    if let (MergeStop::Missing(number), false) = (stop, passed) {
                        return Err(self.missing(number));
                    }
                }
            }
        }
    }

    /// What comes next cannot be read. Lets go of the window, since the next one has what is held then, and tells whether another
    /// reader has acknowledged more meanwhile, so that it need not be read.
    fn is_passed_meanwhile(&mut self) -> Result<bool> {
        self.merge = CommitMerge::default();
        self.coming = None;
        let given = self.given;
        self.heed_slot()?;
        Ok(given != self.given)
    }

    /// Goes on behind what was acknowledged, perhaps by another reader; refuses what is lost.
    fn heed_slot(&mut self) -> Result<()> {
        if self.slot.is_dropped() {
            return Err(no_stream(&self.slot.name, READ));
        }
        self.given = self.given.max(self.slot.acked());
        let lost = self.slot.lost();
        if lost > self.given {
            return Err(Error::changes_lost(READ, &self.slot.name, lost.next()));
        }
        Ok(())
    }

    /// Looks for a window behind what was given; `false` if there is none yet.
    fn look_further(&mut self, engine: &Engine) -> Result<bool> {
        let ring = &engine.sequence.ring;
        let window = match self.coming.take() {
            Some(window) => window,
            None if ring.visible() <= self.given => return Ok(false),
            None => engine.streams.window(&engine.sequence.sequencer, self.given),
        };
        let durable = engine.media.region.durable();
        let unpublished = planted::is(Bug::StreamGivesUnpublished);
        let mut upto = window.upto;
        if !unpublished && !ring.has_published(window.frozen_at, &durable) {
            if !engine.poison.is_set() {
                self.coming = Some(window);
                return Ok(false);
            }
            // No commit that is on its way comes any further, nor writes anything.
            upto = upto.min(ring.visible());
        }
        if upto <= self.given {
            return Ok(false);
        }
        // What is given once must be given again after a power failure.
        if engine.lifetime.access == Access::Write && engine.media.region.is_private() {
            engine.media.region.sync_journal()?;
        }
        self.merge.renew(upto, window.parts);
        Ok(true)
    }

    #[cold]
    fn missing(&self, number: Seq) -> Error {
        let text = format!(
            "commit {number} is not whole in the zones that are held for stream {}; read the store anew, then acknowledge {number} or \
             more to go on behind it",
            self.slot.name
        );
        Error::corruption(READ, text)
    }

    fn batch_of(&mut self, engine: &Engine, commit: &FoundCommit) -> Result<StreamBatch> {
        let FoundCommit { number, last, .. } = *commit;
        let mut batch = StreamBatch { number, last, changes: Vec::new() };
        if commit.void && !planted::is(Bug::StreamGivesVoid) {
            return Ok(batch);
        }
        for change in &commit.changes {
            batch.changes.extend(self.change_of(engine, number, change)?);
        }
        Ok(batch)
    }

    /// A record as a change; `None` if it changes nothing.
    fn change_of(
        &mut self,
        engine: &Engine,
        number: Seq,
        found: &FoundChange,
    ) -> Result<Option<StreamedChange>> {
        let FoundChange { keyspace, at, head } = found;
        let bytes = engine.media.region.bytes(at.get(), head.len());
        let key = head.key(bytes);
        let stored = &bytes[head.key_at + head.key_len..][..head.value_len];
        if head.kind == Kind::RangeDelete && key >= stored {
            // Nothing, or the place of an event.
            let event = engine.manifest.lock().state.streams.events.get(&number).cloned();
            let event = event.filter(|event| !is_own_name(&event.name));
            return Ok(event.map(|event| told(number, event)));
        }
        let space = self.space(engine, *keyspace)?;
        if is_own_name(&space.name) {
            return Ok(None);
        }
        let key = key.to_vec();
        let what = match head.kind {
            Kind::Put => self.put(engine, &space, key, stored)?,
            Kind::PutExtent => {
                let hold = engine.streams.extent_of(head.seq);
                let _hold = hold.ok_or_else(|| self.missing(number))?;
                let value = engine.media.extent_value(*at, stored)?;
                self.put(engine, &space, key, value)?
            }
            Kind::Delete => Changed::Delete { key },
            Kind::RangeDelete => Changed::DeleteRange { begin: key, end: stored.to_vec() },
            Kind::Merge => Changed::Merge { key, operand: stored.to_vec() },
            Kind::Blank | Kind::Adopt => return Ok(None),
        };
        Ok(Some(StreamedChange { seq: head.seq, keyspace: space.name, what }))
    }

    fn put(
        &self,
        engine: &Engine,
        space: &NamedSpace,
        key: Vec<u8>,
        stored: &[u8],
    ) -> Result<Changed> {
        if !space.timed {
            return Ok(Changed::Put { key, value: stored.to_vec(), expires: None });
        }
        let Some((stamp, value)) = stored.split_first_chunk::<STAMP_LEN>() else {
            let text = format!(
                "a value of keyspace {} lacks the time at which it expires; see `strandline check` of {}",
                space.name,
                engine.media.region.describe()
            );
            return Err(Error::corruption(READ, text));
        };
        let expires = Some(Duration::from_millis(u64::from_le_bytes(*stamp)));
        Ok(Changed::Put { key, value: value.to_vec(), expires })
    }

    /// The keyspace of this number, which may have been dropped since: then the event says what it was.
    fn space(&mut self, engine: &Engine, id: u32) -> Result<NamedSpace> {
        if let Some(known) = self.spaces.get(&id) {
            return Ok(known.clone());
        }
        let found = match engine.keyspaces.get(id) {
            Some(space) => {
                Some(NamedSpace { name: space.name.as_str().into(), timed: space.expiry.is_some() })
            }
            None => {
                let manifest = engine.manifest.lock();
                let mut events = manifest.state.streams.events.values();
                let dropped = events.find(|event| event.keyspace == id);
                dropped.map(|event| NamedSpace {
                    name: event.name.as_str().into(),
                    timed: event.timed,
                })
            }
        };
        let space = found.ok_or_else(|| {
            let text =
                format!("no keyspace has number {id}, which a change names; please report this");
            Error::corruption(READ, text)
        })?;
        self.spaces.insert(id, space.clone());
        Ok(space)
    }
}

/// What streams are yet to give and cannot be read. The caller has begun a call.
pub(crate) fn damaged_streams(engine: &Engine) -> Vec<Damage> {
    // Commits go on coming meanwhile.
    let upto = engine.sequence.ring.visible();
    let damage = |slot: Arc<Slot>| {
        let mut reader = StreamReader::behind(slot.passed(), slot);
        loop {
            let error = match reader.poll(engine) {
                Ok(Some(_)) if reader.given() < upto => continue,
                Ok(_) => return None,
                Err(error) => error,
            };
            // Others give up, acknowledge and drop streams meanwhile.
            let damaged = error.kind() == ErrorKind::Corruption;
            let at = error.place().map_or(0, |place| place.offset);
            let what = error.context().to_owned();
            return damaged.then_some(Damage { file: None, zone: None, at, len: 0, what });
        }
    };
    engine.streams.slots().into_iter().filter_map(damage).collect()
}

/// An event as a change.
fn told(number: Seq, event: EventDesc) -> StreamedChange {
    let what = match event.kind {
        EventKind::Created => Changed::KeyspaceCreated,
        EventKind::Dropped => Changed::KeyspaceDropped,
        EventKind::Ingested { tables, entries, smallest, largest } => {
            Changed::Ingested { tables, entries, smallest, largest }
        }
    };
    StreamedChange { seq: number, keyspace: event.name.into(), what }
}
