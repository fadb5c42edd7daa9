//! What the operating system's refusals mean to a caller.

use std::io;
use std::path::Path;

use base::{Error, ErrorKind};
use rustix::io::Errno;

/// The error of a system call on `path` that failed; `operation` is what was asked for.
#[cold]
pub(crate) fn refused(operation: &'static str, path: &Path, source: impl Into<io::Error>) -> Error {
    let source = source.into();
    let (kind, what) = match source.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::NOSPC) => {
            (ErrorKind::NoSpace, "does not fit: its file system is full; free space there")
        }
        Some(Errno::DQUOT) => {
            (ErrorKind::NoSpace, "does not fit: the quota is spent; free space, or have it raised")
        }
        Some(Errno::NOENT) => (ErrorKind::NotFound, "is not there; check the path"),
        Some(Errno::EXIST) => (ErrorKind::Exists, "is there already; choose another name"),
        Some(Errno::NOTDIR) => {
            (ErrorKind::Io, "is a file, or has one in its path; name a directory")
        }
        Some(Errno::ACCESS | Errno::ROFS) => (
            ErrorKind::Io,
            "may not be used that way; change its mode, or choose a writable directory",
        ),
        Some(Errno::MFILE | Errno::NFILE) => {
            (ErrorKind::Io, "cannot be opened beside so many others; raise `ulimit -n`")
        }
        _ => (ErrorKind::Io, "was refused by the operating system"),
    };
    Error::new(kind, operation, format!("{} {what}", path.display())).with_source(source)
}

/// The same of a link. That its file system has none is told from every other refusal: then, and only then, a caller may
/// look for another way. `EPERM` and `EMLINK` say so too, since the file linked is one that the caller has written.
#[cold]
pub(crate) fn link_refused(path: &Path, source: impl Into<io::Error>) -> Error {
    let source = source.into();
    match source.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::OPNOTSUPP | Errno::NOSYS | Errno::PERM | Errno::MLINK) => {
            let text =
                format!("{} is on a file system without links; copy instead", path.display());
            Error::new(ErrorKind::NotSupported, "link", text).with_source(source)
        }
        _ => refused("link", path, source),
    }
}

/// A file ends before the bytes that were asked for.
#[cold]
pub(crate) fn ends_early(path: &Path, at: u64, wanted: usize, got: usize) -> Error {
    let context = format!(
        "{} ends {got} bytes after offset {at}, where {wanted} were expected: it was cut short; restore it \
         from a backup",
        path.display()
    );
    Error::corruption("read", context)
}

/// A handle is used after one of its calls failed.
#[cold]
pub(crate) fn failed_before(operation: &'static str, path: &Path) -> Error {
    let context = format!(
        "an earlier write to {} failed, so its contents are unknown; write a new file",
        path.display()
    );
    Error::new(ErrorKind::Closed, operation, context)
}

/// Only regular files are read and written.
#[cold]
pub(crate) fn not_a_file(path: &Path) -> Error {
    let context = format!("{} is not a regular file; name one", path.display());
    Error::new(ErrorKind::InvalidArgument, "open", context)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_have_kinds_and_name_the_path() {
        for (errno, kind) in [
            (Errno::NOSPC, ErrorKind::NoSpace),
            (Errno::NOTDIR, ErrorKind::Io),
            (Errno::DQUOT, ErrorKind::NoSpace),
            (Errno::NOENT, ErrorKind::NotFound),
            (Errno::EXIST, ErrorKind::Exists),
            (Errno::IO, ErrorKind::Io),
            (Errno::MFILE, ErrorKind::Io),
        ] {
            let error = refused("append", Path::new("/db/7.sst"), errno);
            assert_eq!(error.kind(), kind);
            assert!(error.to_string().contains("/db/7.sst"), "{error}");
        }
        let error = ends_early(Path::new("/db/7.sst"), 4096, 100, 3).to_string();
        assert!(error.contains("/db/7.sst") && error.contains("4096"), "{error}");
    }
}
