//! A consumer of a change stream: a copy of the store in a file beside it, which the stream keeps in step.
//!
//! It works as consumers do. It takes what the stream gives, makes its copy durable, and only then acknowledges. So after any crash
//! the newest whole copy, with what the stream gives behind it, is what the store shows; and no copy is ahead of the store.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use base::checksum::sum64;
use base::codec::{Reader, put_varint};
use base::{Error, ErrorKind, Result, Seq};
use sim::Progress;
use ssd::Fs;
use strandline::{Changed, Db, StreamBatch, StreamOptions, steps};

use super::store::Store;
use super::system::{Engine, NAMES, SPARE, refused, show};

const STREAM: &str = "copy";
/// Where copies are, and what their names begin with.
const DIR: &str = "/";
const PREFIX: &str = "replica-";

/// Values by keyspace and key; an empty key for the keyspace that comes and goes.
type Entries = BTreeMap<(u8, Vec<u8>), Vec<u8>>;

/// What the store has, as its consumer knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Replica {
    entries: Entries,
    /// The last number in it.
    upto: u64,
}

/// The consumer of an open store.
#[derive(Default)]
pub struct Consumer {
    replica: Replica,
    /// What is not in the stream has changed since.
    stale: bool,
    /// Up to which number a copy is durable, and its name.
    saved: u64,
    file: u32,
}

impl Replica {
    fn apply(&mut self, batch: &StreamBatch) -> Stale {
        let mut stale = Stale::No;
        for change in &batch.changes {
            let position = NAMES.iter().position(|name| *name == &*change.keyspace);
            let keyspace = position.expect("one of these") as u8;
            match &change.what {
                Changed::Put { key, value, .. } => {
                    self.entries.insert((keyspace, key.clone()), value.clone());
                }
                Changed::Delete { key } => {
                    self.entries.remove(&(keyspace, key.clone()));
                }
                Changed::DeleteRange { begin, end } => {
                    let within = |key: &Vec<u8>| begin <= key && key < end;
                    self.entries.retain(|(space, key), _| *space != keyspace || !within(key));
                }
                Changed::Merge { key, operand } => {
                    let entry = self.entries.entry((keyspace, key.clone())).or_default();
                    entry.extend_from_slice(operand);
                }
                Changed::KeyspaceCreated if usize::from(keyspace) == SPARE => {
                    self.entries.insert((keyspace, Vec::new()), Vec::new());
                }
                Changed::KeyspaceDropped => {
                    self.entries.retain(|(space, _), _| *space != keyspace);
                }
                Changed::Ingested { .. } => stale = Stale::Yes,
                _ => {}
            }
        }
        self.upto = batch.last.get();
        stale
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put_varint(&mut out, self.upto);
        for ((keyspace, key), value) in &self.entries {
            out.push(*keyspace);
            for bytes in [key, value] {
                put_varint(&mut out, bytes.len() as u64);
                out.extend_from_slice(bytes);
            }
        }
        [&sum64(1, &out).to_le_bytes()[..], &out].concat()
    }

    fn decode(bytes: &[u8]) -> Option<Replica> {
        let (sum, rest) = bytes.split_first_chunk::<8>()?;
        if u64::from_le_bytes(*sum) != sum64(1, rest) {
            return None;
        }
        let mut reader = Reader::new(rest);
        let mut replica = Replica { upto: reader.varint()?, ..Replica::default() };
        while reader.remaining() > 0 {
            let keyspace = reader.u8()?;
            let mut bytes = || {
                let len = usize::try_from(reader.varint()?).ok()?;
                Some(reader.take(len)?.to_vec())
            };
            let (key, value) = (bytes()?, bytes()?);
            replica.entries.insert((keyspace, key), value);
        }
        Some(replica)
    }
}

/// Whether a copy lacks what no stream gives.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stale {
    No,
    Yes,
}

fn path(file: u32) -> PathBuf {
    Path::new(DIR).join(format!("{PREFIX}{file}"))
}

fn files(fs: &dyn Fs) -> Result<Vec<u32>> {
    let names = fs.list(DIR.as_ref())?;
    Ok(names.iter().filter_map(|name| name.strip_prefix(PREFIX)?.parse().ok()).collect())
}

/// The newest copy that is whole, and the highest number of a file.
fn newest(fs: &dyn Fs) -> Result<(Replica, u32)> {
    let mut found = (Replica::default(), 0);
    for no in files(fs)? {
        let file = fs.open(&path(no))?;
        let mut bytes = vec![0; file.len() as usize];
        file.read_at(0, &mut bytes)?;
        found.1 = found.1.max(no);
        if let Some(replica) = Replica::decode(&bytes).filter(|other| other.upto >= found.0.upto) {
            found.0 = replica;
        }
    }
    Ok(found)
}

#[cold]
fn wrong(text: String) -> Error {
    Error::new(ErrorKind::Internal, "stream", text)
}

impl Consumer {
    /// The consumer of a store that was just opened. It makes the stream of one that holds nothing.
    pub fn of(db: &Db, fs: &dyn Fs, engine: &Engine) -> Result<Consumer> {
        let options = StreamOptions::new().max_bytes(engine.stream_zones * engine.zone_len);
        match db.stream(STREAM) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                if steps::visible(db.default_keyspace()) > Seq::ZERO {
                    return Err(wrong("the stream is gone".into()));
                }
                drop(db.create_stream(STREAM, options)?);
            }
            opened => drop(opened?),
        }
        let (replica, file) = newest(fs)?;
        let visible = steps::visible(db.default_keyspace()).get();
        if replica.upto > visible {
            let text = format!("{} was given, and the store ends at {visible}", replica.upto);
            return Err(wrong(text));
        }
        // What a killed process wrote is perhaps not durable: it is written again before anything is acknowledged.
        Ok(Consumer { replica, stale: false, saved: 0, file })
    }
}

impl Engine {
    /// A turn of the consumer: it takes what there is, or a little of it; makes its copy durable; acknowledges.
    pub fn consume(&self, store: &Store, step: u32) -> Result<Progress> {
        let mut consumer = store.consumer.borrow_mut();
        match step {
            0 => {
                let most = if store.turn(3) == 0 { 1 } else { usize::MAX };
                take(self, store, &mut consumer, most)?;
                Ok(Progress::More)
            }
            1 if !consumer.stale && consumer.replica.upto > consumer.saved => {
                consumer.file += 1;
                let name = path(consumer.file);
                let mut file = store.fs.create(&name)?;
                file.append(&consumer.replica.encode())?;
                file.sync()?;
                store.fs.sync_dir(DIR.as_ref())?;
                consumer.saved = consumer.replica.upto;
                for old in files(&*store.fs)?.into_iter().filter(|no| *no < consumer.file) {
                    store.fs.remove(&path(old))?;
                }
                Ok(Progress::More)
            }
            // Now and then it goes on without.
            2 if store.turn(4) > 0 => {
                match store.db.stream(STREAM)?.ack(Seq::new(consumer.saved)) {
                    Err(error) if !refused(&error) => Err(error),
                    _ => Ok(Progress::Done),
                }
            }
            _ => Ok(if step < 2 { Progress::More } else { Progress::Done }),
        }
    }

    /// Looks whether the newest copy, with what the stream gives behind it, is what the store shows.
    pub fn check_stream(&self, store: &Store) -> Result<()> {
        let (mut replica, _) = newest(&*store.fs)?;
        let mut stream = store.db.stream(STREAM)?;
        let visible = steps::visible(store.db.default_keyspace());
        let mut given = Seq::ZERO;
        loop {
            match stream.poll() {
                Ok(None) => break,
                Ok(Some(batch)) if batch.number <= given => {
                    return Err(wrong(format!("{} comes behind {given}", batch.number)));
                }
                Ok(Some(batch)) => {
                    given = batch.last;
                    store.probe.borrow_mut().streamed += 1;
                    let known = batch.last.get() <= replica.upto;
                    if !known && replica.apply(&batch) == Stale::Yes {
                        return Ok(());
                    }
                }
                // What is lost is read anew at the next turn.
                Err(error) if error.kind() == ErrorKind::ChangesLost => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        if stream.given() < visible {
            return Err(wrong(format!("it ends at {} of {visible}", stream.given())));
        }
        let shown = shown(self, store)?;
        if replica.entries != shown {
            let text = format!("the stream makes {:?}, the store shows {shown:?}", replica.entries);
            return Err(wrong(text));
        }
        Ok(())
    }
}

/// What the store shows.
fn shown(engine: &Engine, store: &Store) -> Result<Entries> {
    let mut shown = Entries::new();
    show(&store.spaces, engine.keys, &mut |keyspace, key, value| {
        shown.insert((keyspace, key.to_vec()), value.to_vec());
    })?;
    Ok(shown)
}

/// Takes up to `most` batches; where something is lost, or comes from elsewhere, the store is read anew.
fn take(engine: &Engine, store: &Store, consumer: &mut Consumer, most: usize) -> Result<()> {
    let mut stream = store.db.stream(STREAM)?;
    let mut taken = 0;
    while taken < most && !consumer.stale {
        match stream.poll() {
            Ok(None) => break,
            Ok(Some(batch)) => {
                store.probe.borrow_mut().streamed += 1;
                if batch.last.get() > consumer.replica.upto {
                    taken += 1;
                    consumer.stale |= consumer.replica.apply(&batch) == Stale::Yes;
                }
            }
            Err(error) if error.kind() == ErrorKind::ChangesLost => {
                store.probe.borrow_mut().changes_lost += 1;
                consumer.stale = true;
            }
            Err(error) => return Err(error),
        }
    }
    // What is read then has a number only if no commit is on its way.
    if consumer.stale && store.in_flight.get() == 0 {
        consumer.replica.entries = shown(engine, store)?;
        consumer.replica.upto = steps::visible(store.db.default_keyspace()).get();
        consumer.stale = false;
    }
    Ok(())
}
