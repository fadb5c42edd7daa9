//! System calls that may do part of what they are asked, repeated until the whole is done.

use std::io;

/// Writes all of `bytes` at `at`: a short write goes on where it ended, an interrupted one is repeated, one
/// without any progress is an error.
pub(crate) fn write_all(
    mut bytes: &[u8],
    mut at: u64,
    mut write: impl FnMut(&[u8], u64) -> io::Result<usize>,
) -> io::Result<()> {
    while !bytes.is_empty() {
        match write(bytes, at) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(n) => (bytes, at) = (&bytes[n..], at + n as u64),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// Fills `out` from `at` on, or as much of it as the file has; returns how many bytes came. A direct read
/// that ends inside a block of `unit` bytes has met the end: to go on from there would be misaligned.
pub(crate) fn read_all(
    out: &mut [u8],
    at: u64,
    unit: usize,
    mut read: impl FnMut(&mut [u8], u64) -> io::Result<usize>,
) -> io::Result<usize> {
    let mut done = 0;
    while done < out.len() && done.is_multiple_of(unit) {
        match read(&mut out[done..], at + done as u64) {
            Ok(0) => break,
            Ok(n) => done += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interrupted<T>() -> io::Result<T> {
        Err(io::ErrorKind::Interrupted.into())
    }

    #[test]
    fn short_and_interrupted_writes_go_on() {
        let mut answers = vec![Ok(1), interrupted(), Ok(2), Ok(7)];
        let mut written = Vec::new();
        let outcome = write_all(b"abcdefghij", 100, |bytes, at| {
            let n = answers.pop().unwrap()?;
            assert_eq!(at, 100 + written.len() as u64);
            written.extend_from_slice(&bytes[..n]);
            Ok(n)
        });
        outcome.unwrap();
        assert_eq!(written, b"abcdefghij");
    }

    #[test]
    fn a_write_without_progress_is_an_error() {
        let outcome = write_all(b"abc", 0, |_, at| Ok(usize::from(at == 0)));
        assert_eq!(outcome.unwrap_err().kind(), io::ErrorKind::WriteZero);
        let full = write_all(b"abc", 0, |_, _| Err(io::ErrorKind::StorageFull.into()));
        assert_eq!(full.unwrap_err().kind(), io::ErrorKind::StorageFull);
    }

    #[test]
    fn short_and_interrupted_reads_go_on_until_the_file_ends() {
        let file = b"0123456789";
        let read = |len: usize, unit| {
            let mut turn = 0;
            let mut out = vec![0; len];
            let got = read_all(&mut out, 2, unit, |out, at| {
                turn += 1;
                if turn % 2 == 0 {
                    return interrupted();
                }
                let n = out.len().min(3).min(file.len() - at as usize);
                out[..n].copy_from_slice(&file[at as usize..at as usize + n]);
                Ok(n)
            });
            out.truncate(got.unwrap());
            out
        };
        assert_eq!(read(5, 1), b"23456");
        assert_eq!(read(20, 1), b"23456789");
        assert_eq!(read(20, 2), b"234");
    }
}
