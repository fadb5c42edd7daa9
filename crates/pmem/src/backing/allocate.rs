//! Every byte of a pool file has a block of its own before it is mapped.
//!
//! A store to a hole makes the file system allocate in the page fault, and where that fails there is no
//! error to return: the process dies of SIGBUS. So a pool file is never sparse.

use std::os::fd::BorrowedFd;
use std::path::Path;

use base::{Error, ErrorKind, Result};
use rustix::fs::{
    FallocateFlags, SeekFrom, Stat, fallocate, fstat, fstatfs, fstatvfs, fsync, seek,
};
use rustix::io::{Errno, pwrite};

use super::huge;
use super::platform::TMPFS;

const REMEDY: &str = "free space there or ask for less";

/// Whether some of the file's bytes have no block.
pub(super) fn is_sparse(stat: &Stat) -> bool {
    (stat.st_blocks as u64).saturating_mul(512) < stat.st_size as u64
}

/// Gives every byte up to `len` a block; bytes that were there stay as they are.
pub(super) fn make_whole(
    operation: &'static str,
    path: &Path,
    file: BorrowedFd<'_>,
    len: u64,
) -> Result<()> {
    let io = |errno: Errno| Error::io(operation, path.display().to_string(), errno);
    let stat = fstat(file).map_err(io)?;
    // Elsewhere blocks may hold file system data, so that enough of them prove nothing, but asking again
    // is quick; tmpfs counts pages of data only, and walks them all when asked.
    let on_tmpfs = fstatfs(file).is_ok_and(|fs| fs.f_type as u64 == TMPFS);
    if on_tmpfs && stat.st_size as u64 == len && !is_sparse(&stat) {
        return Ok(());
    }
    let missing = len.saturating_sub(stat.st_blocks as u64 * 512);
    if on_tmpfs && has_room(file, missing) {
        // What it leaves out gets small pages.
        let _a_wish = huge::fill(file, stat.st_size as u64, len);
    }
    let done = loop {
        match fallocate(file, FallocateFlags::empty(), 0, len) {
            Err(Errno::INTR) => {}
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => break fill(file, stat.st_size as u64, len),
            done => break done,
        }
    };
    match done {
        Ok(()) => {}
        Err(errno @ (Errno::NOSPC | Errno::DQUOT | Errno::FBIG)) => {
            return Err(no_space(operation, path, file, missing, errno));
        }
        Err(errno) => return Err(io(errno)),
    }
    let stat = fstat(file).map_err(io)?;
    if stat.st_size as u64 != len || is_sparse(&stat) {
        let context = format!(
            "{} has {} bytes of storage for {len} although all were asked for; keep pools on a file \
             system that neither compresses nor delays (ext4, xfs, tmpfs)",
            path.display(),
            stat.st_blocks as u64 * 512,
        );
        return Err(Error::new(ErrorKind::NoSpace, operation, context));
    }
    Ok(())
}

/// Whether the file system has so many bytes, or no limit.
fn has_room(file: BorrowedFd<'_>, bytes: u64) -> bool {
    fstatvfs(file).is_ok_and(|fs| fs.f_blocks == 0 || fs.f_bavail * fs.f_frsize >= bytes)
}

fn no_space(
    operation: &'static str,
    path: &Path,
    file: BorrowedFd<'_>,
    missing: u64,
    errno: Errno,
) -> Error {
    let free = match (errno, fstatvfs(file)) {
        (Errno::NOSPC, Ok(fs)) => {
            format!("its file system has {} free", fs.f_bavail.saturating_mul(fs.f_frsize))
        }
        (Errno::DQUOT, _) => "the disk quota is used up".into(),
        (Errno::FBIG, _) => "the file system or the process limits files to less".into(),
        _ => "its file system has fewer".into(),
    };
    let context = format!("{} needs {missing} bytes more, {free}; {REMEDY}", path.display());
    Error::new(ErrorKind::NoSpace, operation, context).with_source(std::io::Error::from(errno))
}

/// Without `fallocate`: writes zeros into the holes of a file of `old` bytes and from there to `len`.
fn fill(file: BorrowedFd<'_>, old: u64, len: u64) -> Result<(), Errno> {
    let mut at = 0;
    while at < old {
        let hole = match seek(file, SeekFrom::Hole(at)) {
            Ok(hole) => hole,
            // Holes are not told apart here; the block count, checked afterwards, tells whether any are.
            Err(Errno::INVAL | Errno::NXIO) => old,
            Err(errno) => return Err(errno),
        };
        at = match seek(file, SeekFrom::Data(hole)) {
            Ok(data) => data.min(old),
            Err(_) => old,
        };
        write_zeros(file, hole.min(old), at)?;
    }
    write_zeros(file, old, len)?;
    fsync(file)
}

fn write_zeros(file: BorrowedFd<'_>, from: u64, to: u64) -> Result<(), Errno> {
    static ZEROS: [u8; 1 << 16] = [0; 1 << 16];
    let mut at = from;
    while at < to {
        let step = (to - at).min(ZEROS.len() as u64) as usize;
        match pwrite(file, &ZEROS[..step], at) {
            Ok(0) => return Err(Errno::NOSPC),
            Ok(written) => at += written as u64,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::os::unix::fs::FileExt;

    use super::*;

    #[test]
    fn holes_are_filled_and_data_stays() {
        let file = tempfile::tempfile().expect("a new file");
        file.set_len(300_000).expect("sparse");
        file.write_all_at(b"data", 100_000).expect("written");
        assert!(is_sparse(&fstat(&file).expect("stat")));

        fill(file.as_fd(), 300_000, 400_001).expect("filled");

        let stat = fstat(&file).expect("stat");
        assert_eq!(stat.st_size, 400_001);
        assert!(!is_sparse(&stat));
        let mut bytes = vec![1; 400_001];
        file.read_exact_at(&mut bytes, 0).expect("read");
        assert_eq!(&bytes[100_000..100_004], b"data");
        assert_eq!(bytes.iter().filter(|&&b| b != 0).count(), 4);
    }
}
