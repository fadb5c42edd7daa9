//! A table under another name: a file is linked where both names are on one device, anything else is copied.

use std::path::Path;

use base::checksum::Sum;
use base::planted::{self, Bug};
use base::{Error, ErrorKind, Result};
use ssd::{Fs, Read};

use super::table::Table;

/// Bytes read and written at a time.
const CHUNK: usize = 1 << 20;

/// Gives `table` the file name `to`. What is linked was synced when it was written; a copy is synced and compared with
/// the table's checksum here. The directory of `to` is left to the caller.
pub(crate) fn link_or_copy(fs: &dyn Fs, table: &Table, to: &Path) -> Result<()> {
    if let Some(from) = table.path() {
        match fs.link(&from, to) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == ErrorKind::NotFound => return Err(error),
            // Another device, or a file system without links.
            Err(_) => {}
        }
    }
    let source = table.bytes()?;
    if copy(fs, &*source, to)? == (table.desc.len, table.desc.sum) {
        return Ok(());
    }
    Err(Error::corruption(
        "copy table",
        format!(
            "{} has other bytes than were written; restore it, or save the rest with `strandline repair`",
            source.path().display()
        ),
    ))
}

/// Copies `source` to a file and syncs that; returns its length and checksum.
pub(crate) fn copy(fs: &dyn Fs, source: &dyn Read, to: &Path) -> Result<(u64, u64)> {
    let unsynced = planted::is(Bug::IngestUnsyncedCopy);
    let mut target = fs.create(to)?;
    let len = source.len();
    let mut buffer = vec![0; CHUNK.min(len as usize)];
    let mut sum = Sum::default();
    while target.len() < len {
        let at = target.len();
        let chunk = &mut buffer[..(len - at).min(CHUNK as u64) as usize];
        source.read_at(at, chunk)?;
        sum.update(chunk);
        target.append(chunk)?;
    }
    if !unsynced {
        target.sync()?;
    }
    Ok((len, sum.value()))
}
