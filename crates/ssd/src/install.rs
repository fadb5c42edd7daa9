//! [`durable_install`] and [`durable_dir`]: the one way in which a file, and a directory, gets a name that recovery relies
//! on.

use std::path::Path;

use base::planted::{self, Bug};
use base::{Error, ErrorKind, Result};

use crate::fs::{Append, Fs};

/// Makes a file under a name, whole or not at all: written under `temporary`, synced, renamed to `target`,
/// and the directory synced. When this returns, `target` is durable with all its bytes; until then a power
/// cut leaves what `target` was before, or all of the new file.
///
/// A file that an earlier attempt left at `temporary` is removed first. After an error one may be left
/// there again; if the error came from syncing the directory, `target` may be the new file already.
///
/// # Errors
/// - `InvalidArgument`: the two paths are not in the same directory.
/// - Those of `write`, and those of each [`Fs`] call.
pub fn durable_install(
    fs: &dyn Fs,
    temporary: &Path,
    target: &Path,
    write: impl FnOnce(&mut dyn Append) -> Result<()>,
) -> Result<()> {
    let dir = parent(target);
    if parent(temporary) != dir {
        let context = format!(
            "{} and {} are in different directories; write the temporary file beside its target",
            temporary.display(),
            target.display()
        );
        return Err(Error::new(ErrorKind::InvalidArgument, "install", context));
    }
    match fs.remove(temporary) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = fs.create(temporary)?;
    write(file.as_mut())?;
    file.sync()?;
    drop(file);
    fs.rename(temporary, target)?;
    fs.sync_dir(dir)
}

/// Makes a directory, and those above it that are missing, with names that last when this returns.
///
/// They are made from the top down, each synced in the one above it before the next is made. So of a call that was
/// interrupted only the deepest directory may have a name that does not last yet, and the next call begins with that one.
///
/// # Errors
/// Those of each [`Fs`] call.
pub fn durable_dir(fs: &dyn Fs, dir: &Path) -> Result<()> {
    let mut missing = Vec::new();
    let mut there = dir;
    while parent(there) != there && !fs.exists(there)? {
        missing.push(there);
        there = parent(there);
    }
    if let Err(error) = sync_name(fs, there)
        && !is_denied(&error)
    {
        return Err(error);
    }
    for dir in missing.into_iter().rev() {
        fs.create_dir_all(dir)?;
        sync_name(fs, dir)?;
    }
    Ok(())
}

/// Makes the name of a directory durable, if it has one that this may change.
fn sync_name(fs: &dyn Fs, dir: &Path) -> Result<()> {
    if planted::is(Bug::ParentNotSynced) {
        return Ok(());
    }
    let above = parent(dir);
    if above == dir || dir.parent().is_none() {
        return Ok(());
    }
    fs.sync_dir(above)
}

/// Whether this process may not look at a directory: then it has made no names there either.
fn is_denied(error: &Error) -> bool {
    let source =
        std::error::Error::source(error).and_then(|source| source.downcast_ref::<std::io::Error>());
    source.is_some_and(|source| source.kind() == std::io::ErrorKind::PermissionDenied)
}

/// The directory of a path; the current one if it names none.
pub(crate) fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        _ => Path::new("."),
    }
}
