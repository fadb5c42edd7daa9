//! [`durable_install`]: the one way in which a file gets a name that recovery relies on.

use std::path::Path;

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

/// The directory of a path; the current one if it names none.
pub(crate) fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        _ => Path::new("."),
    }
}
