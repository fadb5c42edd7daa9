//! A table's file under another name: linked where both names are on one device, else copied.

use std::path::Path;

use base::checksum::Sum;
use base::planted::{self, Bug};
use base::{Error, ErrorKind, Result};
use ssd::Fs;

use super::desc::TableDesc;

/// Bytes read and written at a time.
const CHUNK: usize = 1 << 20;

/// Gives the table `desc` at `from` the name `to`. What is linked was synced when it was written; a copy is synced and
/// compared with the table's checksum here. The directory of `to` is left to the caller.
pub(crate) fn link_or_copy(fs: &dyn Fs, from: &Path, to: &Path, desc: &TableDesc) -> Result<()> {
    match fs.link(from, to) {
        Ok(()) => return Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound => return Err(error),
        // Another device, or a file system without links.
        Err(_) => {}
    }
    if copy(fs, from, to)? == (desc.len, desc.sum) {
        return Ok(());
    }
    Err(Error::corruption(
        "copy table",
        format!(
            "{} has other bytes than were written; restore it, or save the rest with `strandline repair`",
            from.display()
        ),
    ))
}

/// Copies a file and syncs the copy; returns its length and checksum.
pub(crate) fn copy(fs: &dyn Fs, from: &Path, to: &Path) -> Result<(u64, u64)> {
    let source = fs.open(from)?;
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
    if !planted::is(Bug::IngestUnsyncedCopy) {
        target.sync()?;
    }
    Ok((len, sum.value()))
}
