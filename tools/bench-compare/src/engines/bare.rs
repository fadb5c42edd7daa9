//! Bare loops: what the disk allows to one thread that writes what a put would write, and syncs it. They keep nothing that
//! could be read.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::sync::{Mutex, PoisonError};

use rustix::fs::OFlags;

use super::{Engine, Maker, Result, Setup, Written, of};
use crate::data::BLOCK;
use crate::promise::Promise;
use crate::stages::{Case, Place, Stage, Survives};

pub(super) const APPEND: Maker = Maker {
    name: "bare-append",
    version: "a bare loop that appends",
    settings: "one thread; key and value at the end of a file, then fdatasync",
    has_log: false,
    offers: commits_on_disk,
    open: |setup| open(setup, Way::Append),
};

pub(super) const OVERWRITE: Maker = Maker {
    name: "bare-overwrite",
    version: "a bare loop that overwrites",
    settings: "one thread; key and value into a file of 64 MiB of zeros, then fdatasync",
    has_log: false,
    offers: commits_on_disk,
    open: |setup| open(setup, Way::Overwrite),
};

pub(super) const DIRECT: Maker = Maker {
    name: "bare-direct",
    version: "a bare loop past the system's cache",
    settings: "one thread; key and value, padded to whole blocks of 4 KiB, into a file of 64 MiB of zeros with O_DIRECT, \
               then fdatasync; the block that is not full is written again",
    has_log: false,
    offers: commits_on_disk,
    open: |setup| open(setup, Way::Direct),
};

/// Bytes of the file that is written over.
const ZEROS: u64 = 64 << 20;
/// Bytes that the largest commit takes, and a block for what came before.
const LARGEST: usize = 1 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Append,
    Overwrite,
    Direct,
}

struct Bare {
    way: Way,
    end: Mutex<End>,
}

/// Where the next bytes go.
struct End {
    file: File,
    at: u64,
    bytes: Vec<u8>,
}

fn commits_on_disk(stage: &Stage, case: &Case) -> bool {
    stage.place == Place::Disk && case.survives == Survives::Power && case.has_bare_loops()
}

fn open(setup: &Setup<'_>, way: Way) -> Result<Box<dyn Engine>> {
    let path = setup.dir.join(format!("bare-{way:?}"));
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .open(&path)
        .map_err(of("bare loop"))?;
    if way != Way::Append {
        // Block by block: of what was written at once, the system may keep and count as one what is changed a little.
        let piece = [0; BLOCK as usize];
        (0..ZEROS / BLOCK).try_for_each(|_| file.write_all(&piece)).map_err(of("bare loop"))?;
    }
    file.sync_all().map_err(of("bare loop"))?;
    if way == Way::Direct {
        let direct = OFlags::DIRECT.bits() as i32;
        file = OpenOptions::new()
            .write(true)
            .custom_flags(direct)
            .open(&path)
            .map_err(of("bare loop"))?;
    }
    Ok(Box::new(Bare { way, end: Mutex::new(End { file, at: 0, bytes: Vec::new() }) }))
}

impl Bare {
    fn write<'e>(&self, entries: impl Iterator<Item = (&'e [u8], &'e [u8])>) -> Result<()> {
        let mut end = self.end.lock().unwrap_or_else(PoisonError::into_inner);
        match self.way {
            Way::Append => end.write_bytes(entries, u64::MAX),
            Way::Overwrite => end.write_bytes(entries, ZEROS),
            Way::Direct => end.write_blocks(entries),
        }
        .map_err(of("bare loop"))
    }
}

impl End {
    /// Writes as many bytes as there are, from the begin again once `most` would be passed.
    fn write_bytes<'e>(
        &mut self,
        entries: impl Iterator<Item = (&'e [u8], &'e [u8])>,
        most: u64,
    ) -> std::io::Result<()> {
        self.bytes.clear();
        for (key, value) in entries {
            self.bytes.extend_from_slice(key);
            self.bytes.extend_from_slice(value);
        }
        let len = self.bytes.len() as u64;
        if self.at + len > most {
            self.at = 0;
        }
        self.file.write_all_at(&self.bytes, self.at)?;
        self.file.sync_data()?;
        self.at += len;
        Ok(())
    }

    /// Writes whole blocks from aligned memory. `bytes` keeps the block that is not full yet.
    fn write_blocks<'e>(
        &mut self,
        entries: impl Iterator<Item = (&'e [u8], &'e [u8])>,
    ) -> std::io::Result<()> {
        let block = BLOCK as usize;
        if self.bytes.is_empty() {
            self.bytes = vec![0; LARGEST + block];
        }
        let start = self.bytes.as_ptr().align_offset(block);
        let (first, old) = (self.at / BLOCK * BLOCK, (self.at % BLOCK) as usize);
        let mut len = old;
        for part in entries.flat_map(|(key, value)| [key, value]) {
            self.bytes[start + len..start + len + part.len()].copy_from_slice(part);
            len += part.len();
        }
        let padded = len.next_multiple_of(block);
        self.bytes[start + len..start + padded].fill(0);
        self.file.write_all_at(&self.bytes[start..start + padded], first)?;
        self.file.sync_data()?;
        // The block that is not full goes to the front, for the next commit.
        let last = len / block * block;
        self.bytes.copy_within(start + last..start + len, start);
        self.at = first + len as u64;
        if self.at + LARGEST as u64 > ZEROS {
            self.at = 0;
        }
        Ok(())
    }
}

fn no_store<T>() -> Result<T> {
    Err("bare loop: it keeps nothing that could be read".into())
}

impl Engine for Bare {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.write(std::iter::once((key, value)))
    }

    fn put_batch(&self, batch: &[(Vec<u8>, Vec<u8>)]) -> Result<()> {
        self.write(batch.iter().map(|(key, value)| (&key[..], &value[..])))
    }

    fn delete(&self, _key: &[u8]) -> Result<()> {
        no_store()
    }

    fn get(&self, _key: &[u8], _value: &mut Vec<u8>) -> Result<bool> {
        no_store()
    }

    fn scan(&self, _from: &[u8], _count: usize, _each: &mut dyn FnMut(&[u8], &[u8])) -> Result<()> {
        no_store()
    }

    fn compact(&self) -> Result<()> {
        Ok(())
    }

    fn written(&self) -> Option<Written> {
        None
    }

    fn promise(&self) -> Promise {
        Promise::Synced
    }

    fn durability(&self) -> Result<String> {
        Ok("fdatasync after each".into())
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}
