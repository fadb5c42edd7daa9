//! A table or value file under another name: a file is linked where both names are on one device, anything else is copied.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::checksum::Sum;
use base::planted::{self, Bug};
use base::{Error, ErrorKind, Result};
use ssd::{Fs, Read};

use super::desc::{TableDesc, ValueFileDesc};
use super::table::Table;
use super::value_file::ValueFile;

/// Bytes read and written at a time.
const CHUNK: usize = 1 << 20;

/// A table or value file that is given another name.
pub(crate) struct CopySource<'s> {
    /// Its file, if it is one.
    file: Option<PathBuf>,
    bytes: Box<dyn Fn() -> Result<Arc<dyn Read>> + 's>,
    /// How long it is, and its checksum.
    len: u64,
    sum: u64,
}

impl<'s> CopySource<'s> {
    pub(crate) fn of_table(table: &'s Table) -> CopySource<'s> {
        let TableDesc { len, sum, .. } = table.desc;
        CopySource { file: table.path(), bytes: Box::new(|| table.bytes()), len, sum }
    }

    pub(crate) fn of_values(values: &'s ValueFile) -> CopySource<'s> {
        let ValueFileDesc { extent, len, sum, .. } = values.desc;
        // It may move meanwhile: the file that is linked or read stays until then.
        let site = values.site();
        let path = site.space.tables().path(site.place());
        let bytes = move || site.bytes(&values.desc).map(|file| Arc::clone(&file.0));
        CopySource { file: extent.is_none().then_some(path), bytes: Box::new(bytes), len, sum }
    }
}

/// Gives a table or value file the file name `to`. What is linked was synced when it was written; a copy is synced and
/// compared with its checksum here. The directory of `to` is left to the caller.
pub(crate) fn link_or_copy(fs: &dyn Fs, of: &CopySource<'_>, to: &Path) -> Result<()> {
    if let Some(from) = &of.file {
        match fs.link(from, to) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == ErrorKind::NotFound => return Err(error),
            // Another device, or a file system without links.
            Err(_) => {}
        }
    }
    let source = (of.bytes)()?;
    if copy(fs, &*source, to)? == (of.len, of.sum) {
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
