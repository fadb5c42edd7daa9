//! Takes the bytes of a table or value file: into a file at once, in the tier where it belongs or the next with room, or, if it
//! belongs in persistent memory, into a buffer that becomes an extent at its end.
//!
//! An extent is so taken once, of the right length, and written and fenced by one thread, whichever threads carried the
//! merge on (I-PM-3). What outgrows the longest extent, or finds no room at its end, goes to a file after all.

use std::sync::Arc;

use base::checksum::Sum;
use base::planted::{self, Bug};
use base::{Error, ErrorKind, Result};
use ssd::Append;
use sst::{Sink, WriterOptions};

use crate::compaction::policy::placement::{self, OutputTier};
use crate::throttle::rate::RateLimit;
use crate::tree::memory::PmRoom;
use crate::tree::names::{FileName, FilePlace};
use crate::tree::room::Writes;
use crate::tree::space::TableSpace;
use crate::tree::tables::Tables;
use crate::tree::tiers::FileSite;
use crate::tree::write_buffers::{BUFFER, WriteBuffer};

/// Where bytes go, and what they count for.
#[derive(Clone)]
pub(crate) struct SinkOptions {
    pub tier: OutputTier,
    /// Where its file goes.
    pub to: FileTier,
    /// Bytes that it will have, about.
    pub expected: u64,
    /// The purpose of the room in files that it takes.
    pub writes: Writes,
    /// The purpose of the room in persistent memory.
    pub memory: Writes,
    /// Shared by all that is written.
    pub rate: Option<Arc<RateLimit>>,
}

/// The tier of a file.
#[derive(Clone, Debug)]
pub(crate) enum FileTier {
    /// Where it belongs, or the next with room.
    Site(FileSite),
    /// This one.
    Tier(u32),
}

/// A table or value file being written.
pub(crate) struct TableSink {
    tables: Arc<Tables>,
    place: FilePlace,
    space: TableSpace,
    to: To,
    /// It was to go to persistent memory, and became longer than what lies there.
    outgrew: bool,
    /// Where it was to go.
    belongs: FileTier,
    /// Bytes that were expected.
    expected: u64,
    /// Bytes that the file has.
    written: u64,
    /// What the file is handed at once.
    buffer: WriteBuffer,
    sum: Sum,
    writes: Writes,
    rate: Option<Arc<RateLimit>>,
}

enum To {
    File(Box<dyn Append>),
    /// For this purpose.
    Memory(Arc<PmRoom>, Writes),
}

/// A table or value file that is durable.
pub(crate) struct WrittenTable {
    /// Checksum of all its bytes.
    pub sum: u64,
    pub space: TableSpace,
}

impl TableSink {
    /// A table or value file.
    pub(crate) fn new(
        tables: &Arc<Tables>,
        name: FileName,
        options: SinkOptions,
    ) -> Result<TableSink> {
        let SinkOptions { tier, to: to_tier, expected, writes, memory, rate } = options;
        let rooms = tables.memory.as_ref().filter(|_| tier == OutputTier::Memory);
        let room = rooms.map(|rooms| rooms.room_of(name));
        let has_room = |room: &&Arc<PmRoom>| {
            let len = match name {
                FileName::Table(_) => expected.min(room.len_max()),
                // It grows until it fills a zone, if there are values enough.
                FileName::Values(_) => room.len_max(),
            };
            room.has_room(len, memory)
        };
        let room = room.filter(has_room);
        // If anything fails from here on, its drop removes the file.
        let space = match (&to_tier, room) {
            (FileTier::Site(site), None) => TableSpace::claimed(tables, name, site, expected),
            (FileTier::Site(site), Some(_)) => {
                let tier = tables.tiers.place(site, expected).no();
                TableSpace::file(tables, FilePlace { tier, name })
            }
            (FileTier::Tier(tier), _) => {
                let mut space = TableSpace::file(tables, FilePlace { tier: *tier, name });
                space.expect(expected);
                space
            }
        };
        let to = match room {
            Some(room) => To::Memory(Arc::clone(room), memory),
            None => To::File(tables.create(space.place())?),
        };
        Ok(TableSink {
            tables: Arc::clone(tables),
            place: space.place(),
            space,
            belongs: to_tier,
            expected,
            written: 0,
            buffer: tables.buffers.take(expected),
            to,
            outgrew: false,
            sum: Sum::default(),
            writes,
            rate,
        })
    }

    /// Bytes at which the table is cut that a file would be cut at `table_bytes`.
    pub(crate) fn cut_at(&self, table_bytes: u64) -> u64 {
        match &self.to {
            To::File(_) => table_bytes,
            To::Memory(room, _) => placement::cut_at(table_bytes, room.len_max()),
        }
    }

    /// Whether it goes to persistent memory, unless it finds no room there in the end.
    pub(crate) fn is_for_memory(&self) -> bool {
        matches!(self.to, To::Memory(..))
    }

    /// Whether so many bytes are too long for where it was to go.
    pub(crate) fn is_too_long(&self, len: u64) -> bool {
        match &self.to {
            To::File(_) => self.outgrew,
            To::Memory(room, _) => len > room.len_max(),
        }
    }

    /// Whether `len` bytes more belong in this file, which has some: its tier has room for them, claimed beyond what was expected
    /// if need be, or no other tier has.
    pub(crate) fn takes(&mut self, len: u64) -> bool {
        let (To::File(_), FileTier::Site(site)) = (&self.to, &self.belongs) else { return true };
        let tiers = &self.tables.tiers;
        let pending = (self.buffer.len() as u64).saturating_add(len);
        let more = pending.saturating_sub(self.space.coming());
        if !tiers.are_several() || self.space.try_expect(more) {
            return true;
        }
        let begun = self.expected.max(len);
        let other = tiers.place(site, begun);
        if other.no() != self.place.tier && other.unclaimed() >= begun {
            return false;
        }
        self.space.expect(more);
        true
    }

    /// What the table looks like that is as `options` in a file.
    pub(crate) fn form(&self, options: WriterOptions) -> WriterOptions {
        match &self.to {
            To::File(_) => options,
            To::Memory(..) => match &self.tables.memory {
                Some(memory) => memory.form(options),
                None => options,
            },
        }
    }

    fn flush(&mut self) -> Result<()> {
        if let To::Memory(room, _) = &self.to {
            self.outgrew = self.buffer.len() as u64 > room.len_max();
            self.place_anew();
            self.to = To::File(self.tables.create(self.place)?);
        }
        self.space.take(self.buffer.len() as u64, self.writes)?;
        self.charge_rate();
        while let To::File(file) = &mut self.to {
            match file.append(&self.buffer) {
                Ok(()) => break,
                Err(error) if error.kind() == ErrorKind::NoSpace => self.go_on_elsewhere(error)?,
                Err(error) => return Err(error),
            }
        }
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    /// What was to go to persistent memory goes to a tier that has room now.
    fn place_anew(&mut self) {
        let FileTier::Site(site) = &self.belongs else { return };
        let tier = self.tables.tiers.place(site, self.buffer.len() as u64).no();
        let place = FilePlace { tier, ..self.place };
        if tier != self.place.tier && !self.tables.is_used(place) {
            // There is no file yet where it was to be.
            (self.place, self.space) = (place, TableSpace::file(&self.tables, place));
        }
    }

    /// Takes what the file has to a file in another tier, since the device is full: a write that failed is not tried again.
    ///
    /// # Errors
    /// `full`, where no other tier has room, and those of reading and writing.
    fn go_on_elsewhere(&mut self, full: Error) -> Result<()> {
        let tiers = &self.tables.tiers;
        tiers.get(self.place.tier).into_iter().for_each(|tier| tier.note_device(0));
        let FileTier::Site(site) = &self.belongs else { return Err(full) };
        let tier = tiers.place(site, self.written + self.buffer.len() as u64).no();
        let place = FilePlace { tier, ..self.place };
        if self.tables.is_used(place) {
            return Err(full);
        }
        let mut space = TableSpace::file(&self.tables, place);
        let there = self.written + self.buffer.len() as u64;
        space.expect(there + self.space.coming());
        space.take(there, self.writes)?;
        let mut to = self.tables.create(place)?;
        let mut sum = Sum::default();
        if self.written > 0 {
            let from = self.tables.open_file(self.place)?;
            let mut chunk = vec![0; BUFFER.min(self.written as usize)];
            while to.len() < self.written {
                let at = to.len();
                let len = chunk.len().min((self.written - at) as usize);
                // Some of what was handed over may not have reached the file.
                if from.len() < self.written || from.read_at(at, &mut chunk[..len]).is_err() {
                    return Err(full);
                }
                sum.update(&chunk[..len]);
                to.append(&chunk[..len])?;
            }
        }
        sum.update(&self.buffer);
        if sum.value() != self.sum.value() {
            return Err(full);
        }
        // The old file goes with its space.
        (self.place, self.space, self.to) = (place, space, To::File(to));
        Ok(())
    }

    fn charge_rate(&self) {
        if let Some(rate) = &self.rate {
            rate.charge(self.buffer.len() as u64);
        }
    }

    /// Makes all of it durable.
    pub(crate) fn end(mut self) -> Result<WrittenTable> {
        let unsynced = match self.place.name {
            FileName::Table(_) => planted::is(Bug::SkipTableSync),
            FileName::Values(_) => {
                let moves = matches!(self.belongs, FileTier::Tier(_));
                planted::is(Bug::SkipValueSync) || planted::is(Bug::MovedValuesUnsynced) && moves
            }
        };
        let sum = self.sum.value();
        if let To::Memory(room, writes) = &self.to
            && let Some(extent) = room.write(&self.buffer, *writes)
        {
            self.charge_rate();
            return Ok(WrittenTable { sum, space: self.space.with_memory(extent) });
        }
        self.flush()?;
        if let To::File(file) = &mut self.to
            && !unsynced
        {
            file.sync()?;
        }
        self.space.expect_less(u64::MAX);
        Ok(WrittenTable { sum, space: self.space })
    }
}

impl Sink for TableSink {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.sum.update(bytes);
        self.buffer.append(bytes);
        let most = match &self.to {
            To::File(_) => BUFFER,
            To::Memory(room, _) => room.len_max() as usize + 1,
        };
        if self.buffer.len() >= most {
            self.flush()?;
            if let To::File(file) = &mut self.to {
                file.advise_written();
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use pmem::Region;
    use pool::{Format, Pool};
    use ssd::{Fs, Memory, Read};

    use super::*;
    use crate::cache::StoreCache;
    use crate::record::store::Media;
    use crate::record::zone::PendingFree;
    use crate::tree::memory::{PmPercent, PmRooms};
    use crate::tree::room::FileRoom;
    use crate::tree::tables::TableDir;
    use crate::tree::tiers::{OWN, TierDir};

    const ZONE: u64 = 4096;

    /// Tables of at most `most` bytes in a pool of some 16 zones.
    fn tables(most: u64) -> Arc<Tables> {
        let region = Arc::new(Region::heap(25 * ZONE, None).expect("region"));
        let format = Format { zone_len: ZONE, manifest_len: 512 };
        let pool = Pool::create(Arc::clone(&region), format, 7, b"").expect("pool");
        let media = Arc::new(Media::new(pool, region, None));
        let percent = PmPercent { tables: 100, values: 0 };
        let memory = PmRooms::new(&media, &Arc::new(PendingFree::default()), percent, 512);
        memory.restrict(most, 2);
        let fs: Arc<dyn Fs> = Arc::new(Memory::default());
        fs.create_dir_all(Path::new("/sst")).expect("directory");
        let table_dir = TableDir { fs, dir: "/sst".into() };
        Arc::new(
            Tables::new(table_dir, FileRoom::unlimited(), StoreCache::own(0)).with_memory(memory),
        )
    }

    /// Writes `len` bytes in pieces of 100.
    fn written(tables: &Arc<Tables>, place: OutputTier, len: usize) -> TableSpace {
        let id = tables.take_id();
        let name = FileName::Table(id);
        let options = SinkOptions {
            tier: place,
            to: FileTier::Site(FileSite::default()),
            expected: 1000,
            writes: Writes::Levels,
            memory: Writes::Levels,
            rate: None,
        };
        let mut sink = TableSink::new(tables, name, options).expect("begins");
        let bytes: Vec<u8> = (0..len).map(|at| at as u8 ^ id as u8).collect();
        bytes.chunks(100).for_each(|piece| sink.append(piece).expect("append"));
        let written = sink.end().expect("end");
        let mut sum = Sum::default();
        sum.update(&bytes);
        assert_eq!(written.sum, sum.value());
        let mut read = vec![0; len];
        match (written.space.extent(), &tables.memory) {
            (Some(extent), Some(memory)) => {
                let file = memory.tables.open(id, extent, len as u64, None).expect("open");
                file.read_at(0, &mut read).expect("read");
                assert!(file.read_at(1, &mut read).is_err(), "beyond its end");
            }
            _ => {
                let file = tables
                    .table_dir
                    .fs
                    .open(&tables.path(FilePlace { tier: 0, name }))
                    .expect("open");
                assert_eq!(file.len(), len as u64);
                file.read_at(0, &mut read).expect("read");
            }
        }
        assert!(read == bytes);
        written.space
    }

    fn in_memory(spaces: &[TableSpace]) -> Vec<bool> {
        spaces.iter().map(|space| space.extent().is_some()).collect()
    }

    #[test]
    fn what_has_no_room_in_persistent_memory_is_a_file() {
        let all = tables(12 * ZONE);
        let zone = ZONE as usize;
        // Longer than a zone is no table in memory.
        let lens = [300, zone, zone + 1, 3 * zone];
        let mut spaces = vec![written(&all, OutputTier::Ssd, 300)];
        spaces.extend(lens.map(|len| written(&all, OutputTier::Memory, len)));
        assert_eq!(in_memory(&spaces), [false, true, true, false, false]);
        let memory = &all.memory.as_ref().expect("memory").tables;
        assert_eq!(memory.taken(), 512 + ZONE);
        drop(spaces);
        assert_eq!(memory.taken(), 0, "given back with the tables");

        let some = tables(3 * ZONE);
        let spaces: Vec<_> = (0..10).map(|_| written(&some, OutputTier::Memory, 3000)).collect();
        let fit = in_memory(&spaces).into_iter().filter(|fits| *fits).count();
        assert_eq!(fit, 3, "each counts for a zone");
        assert_eq!(some.memory.as_ref().expect("memory").tables.count(), 3);

        let free = tables(100 * ZONE);
        let spaces: Vec<_> = (0..30).map(|_| written(&free, OutputTier::Memory, 3000)).collect();
        let fit = in_memory(&spaces).into_iter().filter(|fits| *fits).count();
        assert!(fit > 8, "{fit}");
        let memory = &free.memory.as_ref().expect("memory").tables;
        assert!(!memory.has_room(1, Writes::Levels), "what must stay free does");
    }

    /// Files in directories that take so many bytes each, in the tier that they belong in or another.
    fn begin(tables: &Arc<Tables>, expected: u64) -> TableSink {
        let options = SinkOptions {
            tier: OutputTier::Ssd,
            to: FileTier::Site(FileSite::default()),
            expected,
            writes: Writes::Levels,
            memory: Writes::Levels,
            rate: None,
        };
        TableSink::new(tables, FileName::Values(tables.take_id()), options).expect("begins")
    }

    #[test]
    fn files_that_are_being_written_have_what_they_will_take() {
        let fs: Arc<dyn Fs> = Arc::new(Memory::default());
        let dir = |no: u32, size| {
            let at = TableDir { fs: Arc::clone(&fs), dir: format!("/{no}").into() };
            fs.create_dir_all(&at.dir).expect("directory");
            TierDir { no, size, ..TierDir::own(at) }
        };
        let dirs = vec![dir(1, 250), dir(OWN, 0)];
        let own = dirs[1].at.clone();
        let tables = Tables::new(own, FileRoom::unlimited(), StoreCache::own(0)).with_tiers(dirs);
        let tables = Arc::new(tables);
        let fast = || tables.tiers.get(1).expect("a tier");
        let tier = |sink: &TableSink| sink.space.place().tier;
        let (mut first, second) = (begin(&tables, 100), begin(&tables, 150));
        let third = begin(&tables, 100);
        assert_eq!((tier(&first), tier(&second), tier(&third)), (1, 1, OWN));
        assert_eq!((fast().unclaimed(), fast().left()), (0, 250));
        drop(second);
        assert_eq!(fast().unclaimed(), 150, "one that ends unwritten takes nothing");
        first.append(&[1; 60]).expect("append");
        assert!(first.takes(40), "it may take what was expected");
        let whole = first.end().expect("end");
        assert_eq!((fast().unclaimed(), fast().left()), (190, 190), "no more than it has");
        let mut longer = begin(&tables, 100);
        longer.append(&[1; 100]).expect("append");
        assert!(longer.takes(90) && fast().unclaimed() == 0, "there is room for more than that");
        assert!(!longer.takes(91), "more bytes go to another tier");
        drop((whole, third, longer));
        tables.remove_dead().expect("remove");
        assert_eq!((fast().unclaimed(), fast().left()), (250, 250));
    }
}
