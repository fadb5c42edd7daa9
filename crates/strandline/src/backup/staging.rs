//! Directories that are whole or not there: made beside their place under another name, then renamed.

use std::path::{Path, PathBuf};

use base::planted::{self, Bug};
use base::{Error, ErrorKind, Result};
use ssd::Fs;

use crate::manifest::file;
use crate::open::SST;
use crate::tree::names::FileName;

/// A directory on its way to its place.
pub(crate) struct Staging<'f> {
    fs: &'f dyn Fs,
    target: PathBuf,
    parent: PathBuf,
    pub path: PathBuf,
}

impl<'f> Staging<'f> {
    /// A place for what goes to `target`, if nothing is in the way. What an earlier call left there goes.
    ///
    /// # Errors
    /// `Exists` if there is something at `target`; `NotFound` if the directory that should hold it is missing.
    pub(crate) fn begin(
        fs: &'f dyn Fs,
        operation: &'static str,
        target: &Path,
    ) -> Result<Staging<'f>> {
        let refused = |kind, text: String| Err(Error::new(kind, operation, text));
        let Some(name) = target.file_name() else {
            let text = format!("{} names no new directory; give one a name", target.display());
            return refused(ErrorKind::InvalidArgument, text);
        };
        let parent = match target.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
            _ => PathBuf::from("."),
        };
        if fs.exists(target)? {
            let text = format!("{} is there already; choose a new name", target.display());
            return refused(ErrorKind::Exists, text);
        }
        if !fs.exists(&parent)? {
            let text = format!("there is no directory {}; make it first", parent.display());
            return refused(ErrorKind::NotFound, text);
        }
        let mut staging = name.to_owned();
        staging.push(".staging");
        let path = parent.join(staging);
        remove(fs, operation, &path)?;
        Ok(Staging { fs, target: target.to_owned(), parent, path })
    }

    /// Gives it its name if it was `made`; else it goes.
    pub(crate) fn end<T>(
        self,
        operation: &'static str,
        made: Result<T>,
        then: impl FnOnce(&T) -> Result<()>,
    ) -> Result<T> {
        let named = made.and_then(|made| {
            self.fs.rename(&self.path, &self.target)?;
            then(&made).map(|()| made)
        });
        match named {
            Ok(made) => sync_name(self.fs, &self.parent).map(|()| made),
            Err(error) => {
                // Files that cannot be removed now are removed by the next call for the same place.
                let _first_counts = remove(self.fs, operation, &self.path);
                Err(error)
            }
        }
    }
}

/// Makes the name durable in the directory that has it.
fn sync_name(fs: &dyn Fs, parent: &Path) -> Result<()> {
    if planted::is(Bug::CheckpointSkipParentSync) {
        return Ok(());
    }
    fs.sync_dir(parent)
}

/// Whether a file of this name may have been left by a checkpoint, an export or an import.
fn is_ours(name: &str) -> bool {
    let begins = |head: &str| name.starts_with(head);
    FileName::parse(name).is_some()
        || [file::NAME, file::STAGED, "CURRENT", "IDENTITY"].contains(&name)
        || begins("MANIFEST-")
        || begins("OPTIONS-")
}

/// Removes the files that an earlier call left at `staging`, if nothing else is there.
fn remove(fs: &dyn Fs, operation: &'static str, staging: &Path) -> Result<()> {
    if !fs.exists(staging)? {
        return Ok(());
    }
    let dir = staging.join(SST);
    let names = fs.list(staging)?;
    let files = if names.iter().any(|name| name == SST) { fs.list(&dir)? } else { Vec::new() };
    let known = |name: &String| is_ours(name);
    if !names.iter().all(|name| name == SST || is_ours(name)) || !files.iter().all(known) {
        return Err(Error::new(
            ErrorKind::Exists,
            operation,
            format!(
                "{} is in the way and no {operation} left it; move it elsewhere",
                staging.display()
            ),
        ));
    }
    files.iter().try_for_each(|name| fs.remove(&dir.join(name)))?;
    for name in &names {
        match name == SST {
            true => fs.remove_dir(&dir)?,
            false => fs.remove(&staging.join(name))?,
        }
    }
    fs.remove_dir(staging)
}
