//! [`Uring`]: files by io_uring, where several reads or writes are worth having under way at once.
//!
//! A single read is a `pread`, which costs less. Names, and the sync at the end, are ordinary calls too.

mod ring;

use std::fs::File;
use std::io;
use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

use base::Result;

use crate::aligned::{Aligned, blocks_of};
use crate::append::{Appending, Way};
use crate::fs::{Append, Fs, Overwrite, PendingRead, Read};
use crate::gather::{GATHER, Gathered};
use crate::posix::{PageCache, Posix, Reading};
use crate::refused::{ends_early, refused};
use ring::{Done, Kind, Operation, Ring};

/// Bytes read by one operation at most.
const PIECE: usize = 256 << 10;
/// Full buffers of one file on their way at most.
const WRITES: usize = 8;
/// Idle rings kept; more are needed only while more threads than that read or write at once.
const IDLE: usize = 32;
/// Of these so many with buffers, each with up to 2 MiB.
const IDLE_WITH_BUFFERS: usize = 8;
/// Reads that are begun and not waited for, at most: inputs of compactions and scans that rest hold theirs.
const BEGUN: usize = 64;

/// Files by io_uring: [`Read::read_many`] reads all ranges at the same time, and what is written past the page
/// cache is written while more is appended.
#[derive(Clone)]
pub struct Uring {
    posix: Posix,
    rings: Arc<Rings>,
}

/// The rings of all files.
struct Rings {
    kept: Mutex<KeptRings>,
}

struct KeptRings {
    /// Rings that no thread uses right now.
    idle: Vec<Ring>,
    /// Rings whose read was begun, and is of no use any more; some are still at it.
    late: Vec<Ring>,
    /// Those lent for reads that are begun, and those that are late.
    begun: usize,
}

impl KeptRings {
    fn keep(&mut self, mut ring: Ring) {
        if self.idle.len() >= IDLE {
            return;
        }
        if self.idle.len() >= IDLE_WITH_BUFFERS {
            ring.drop_spare();
        }
        self.idle.push(ring);
    }

    /// Takes rings back that are at work no more.
    fn reap(&mut self) {
        for mut ring in std::mem::take(&mut self.late) {
            while let Ok(Some(done)) = ring.poll() {
                ring.keep(done.operation.buffer);
            }
            if ring.in_flight() > 0 {
                self.late.push(ring);
            } else {
                self.begun -= 1;
                self.keep(ring);
            }
        }
    }
}

/// What a ring is lent for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Loan {
    /// For as long as a thread is at work with it.
    Work,
    /// For a read that may be waited for much later, or never.
    Begun,
}

impl Rings {
    fn kept(&self) -> MutexGuard<'_, KeptRings> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A ring of one's own; none if the kernel gives no more, or too many are lent for that.
    fn lend(self: &Arc<Self>, loan: Loan) -> Option<Lent> {
        let mut kept = self.kept();
        if loan == Loan::Begun {
            kept.reap();
            if kept.begun >= BEGUN {
                return None;
            }
            kept.begun += 1;
        }
        let idle = kept.idle.pop();
        drop(kept);
        let ring = idle.or_else(|| Ring::new().ok());
        if ring.is_none() && loan == Loan::Begun {
            self.kept().begun -= 1;
        }
        ring.map(|ring| Lent { ring: Some(ring), loan, owner: Arc::clone(self) })
    }
}

/// A ring that goes back to where it came from.
struct Lent {
    /// There until this is dropped.
    ring: Option<Ring>,
    loan: Loan,
    owner: Arc<Rings>,
}

impl Deref for Lent {
    type Target = Ring;

    fn deref(&self) -> &Ring {
        self.ring.as_ref().expect("lent until dropped")
    }
}

impl DerefMut for Lent {
    fn deref_mut(&mut self) -> &mut Ring {
        self.ring.as_mut().expect("lent until dropped")
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let Some(ring) = self.ring.take() else { return };
        match (self.loan, ring.in_flight()) {
            (Loan::Begun, 0) => {
                let mut kept = self.owner.kept();
                kept.begun -= 1;
                kept.keep(ring);
            }
            (Loan::Begun, _) => self.owner.kept().late.push(ring),
            (Loan::Work, 0) => self.owner.kept().keep(ring),
            // To drop it is to wait for what is under way.
            (Loan::Work, _) => drop(ring),
        }
    }
}

impl Uring {
    /// Files read and written through the page cache, or past it.
    ///
    /// # Errors
    /// `NotSupported` if the kernel has no io_uring, or does not let this process use it.
    pub fn new(page_cache: PageCache) -> Result<Self> {
        let ring = Ring::new().map_err(|source| {
            let what = "the kernel refuses io_uring to this process; use the posix back end";
            base::Error::new(base::ErrorKind::NotSupported, "set up io_uring", what)
                .with_source(source)
        })?;
        let rings = Arc::new(Rings {
            kept: Mutex::new(KeptRings { idle: vec![ring], late: Vec::new(), begun: 0 }),
        });
        Ok(Self { posix: Posix::new(page_cache), rings })
    }
}

/// Past the page cache: full buffers are written while the next one is filled.
struct Queued {
    gathered: Gathered,
    ring: Lent,
}

impl Queued {
    /// Waits for one write; an error if it failed.
    fn await_one(ring: &mut Ring) -> io::Result<()> {
        if let Some(Done { operation, result }) = ring.wait()? {
            result?;
            ring.keep(operation.buffer);
        }
        Ok(())
    }
}

impl Way for Queued {
    fn write(&mut self, file: &Arc<File>, bytes: &[u8], _at: u64) -> io::Result<()> {
        let Self { gathered, ring } = self;
        gathered.add(bytes, |buffer, at| {
            while ring.in_flight() >= WRITES {
                Self::await_one(ring)?;
            }
            let buffer = std::mem::replace(buffer, ring.buffer(GATHER));
            let file = Arc::clone(file);
            ring.push(Operation { kind: Kind::Write, file, at, buffer, len: GATHER, tag: 0 });
            ring.submit()
        })
    }

    fn finish(&mut self, file: &File) -> io::Result<()> {
        while self.ring.in_flight() > 0 {
            Self::await_one(&mut self.ring)?;
        }
        self.gathered.write_tail(file)
    }
}

struct ReadingMany {
    one: Reading,
    rings: Arc<Rings>,
}

/// A part of a range that one operation reads.
struct Piece {
    range: usize,
    /// Where it begins in the range.
    from: usize,
    len: usize,
}

impl ReadingMany {
    fn submit(&self, ring: &mut Ring, tag: usize, at: u64, len: usize) {
        let (kind, from, span) = match self.one.is_direct() {
            true => (Kind::ReadDirect, blocks_of(at, len).0, blocks_of(at, len).1),
            false => (Kind::Read, at, len),
        };
        let buffer = ring.buffer(span);
        let file = Arc::clone(self.one.file());
        ring.push(Operation { kind, file, at: from, buffer, len: span, tag });
    }

    fn read_with(&self, ring: &mut Ring, ranges: &mut [(u64, &mut [u8])]) -> Result<()> {
        let pieces: Vec<Piece> = pieces(ranges);
        let mut next = 0;
        let mut outcome = Ok(());
        loop {
            // After an error nothing new is begun, but what is under way is awaited.
            while outcome.is_ok() && next < pieces.len() && !ring.is_full() {
                let Piece { range, from, len } = pieces[next];
                self.submit(ring, next, ranges[range].0 + from as u64, len);
                next += 1;
            }
            let waited = ring.wait().map_err(|source| refused("read", self.path(), source));
            let Some(done) = waited? else { return outcome };
            let piece = &pieces[done.operation.tag];
            let (at, out) = &mut ranges[piece.range];
            let out = &mut out[piece.from..piece.from + piece.len];
            match take(self.path(), *at + piece.from as u64, out, done) {
                Ok(empty) => ring.keep(empty),
                Err(error) => outcome = outcome.and(Err(error)),
            }
        }
    }
}

/// Takes what an operation read from `at` on to `out`; hands the buffer back.
fn take(path: &Path, at: u64, out: &mut [u8], done: Done) -> Result<Aligned> {
    let Done { operation, result } = done;
    let got = result.map_err(|source| refused("read", path, source))?;
    let skip = (at - operation.at) as usize;
    let got = got.saturating_sub(skip).min(out.len());
    if got < out.len() {
        return Err(ends_early(path, at, out.len(), got));
    }
    out.copy_from_slice(&operation.buffer.bytes()[skip..skip + got]);
    Ok(operation.buffer)
}

/// A read that the kernel is at.
struct Begun {
    one: Reading,
    ring: Lent,
    at: u64,
    /// The kernel tells that it is done when this thread comes by.
    thread: ThreadId,
}

impl PendingRead for Begun {
    fn finish(mut self: Box<Self>, out: &mut [u8]) -> Result<()> {
        // Another thread does not wait for that one, which may be at something that takes long.
        let done = match self.thread == thread::current().id() {
            true => self.ring.wait(),
            false => self.ring.poll(),
        };
        if let Ok(Some(done)) = done
            && let Ok(buffer) = take(self.one.path(), self.at, out, done)
        {
            self.ring.keep(buffer);
            return Ok(());
        }
        // It is not done, or was given up with the thread that began it; or this tells what is wrong.
        self.one.read_at(self.at, out)
    }
}

fn pieces(ranges: &[(u64, &mut [u8])]) -> Vec<Piece> {
    let cut = |(range, len): (usize, usize)| {
        let froms = (0..len).step_by(PIECE);
        froms.map(move |from| Piece { range, from, len: (len - from).min(PIECE) })
    };
    ranges.iter().map(|(_, out)| out.len()).enumerate().flat_map(cut).collect()
}

impl Read for ReadingMany {
    fn read_at(&self, at: u64, out: &mut [u8]) -> Result<()> {
        self.one.read_at(at, out)
    }

    fn read_many(&self, ranges: &mut [(u64, &mut [u8])]) -> Result<()> {
        let beyond = |at: u64, len: usize| at.checked_add(len as u64).is_none_or(|e| e >> 63 > 0);
        if let Some((at, out)) = ranges.iter().find(|(at, out)| beyond(*at, out.len())) {
            return Err(ends_early(self.path(), *at, out.len(), 0));
        }
        let ring = if ranges.len() > 1 { self.rings.lend(Loan::Work) } else { None };
        match ring {
            Some(mut ring) => self.read_with(&mut ring, ranges),
            None => self.one.read_many(ranges),
        }
    }

    /// Through the page cache the system reads ahead by itself.
    fn begin(&self, at: u64, len: usize) -> Option<Box<dyn PendingRead>> {
        let is_within = at.checked_add(len as u64).is_some_and(|end| end <= self.len());
        if !self.one.is_direct() || !is_within {
            return None;
        }
        let mut ring = self.rings.lend(Loan::Begun)?;
        self.submit(&mut ring, 0, at, len);
        ring.submit().ok()?;
        let thread = thread::current().id();
        Some(Box::new(Begun { one: self.one.clone(), ring, at, thread }))
    }

    fn read_cached(&self, at: u64, out: &mut [u8]) -> bool {
        self.one.read_cached(at, out)
    }

    fn len(&self) -> u64 {
        self.one.len()
    }

    fn path(&self) -> &Path {
        self.one.path()
    }

    fn will_need(&self, at: u64, len: u64) {
        self.one.will_need(at, len);
    }
}

impl Fs for Uring {
    fn create(&self, path: &Path) -> Result<Box<dyn Append>> {
        let opened = self.posix.create_file(path)?;
        // Through the page cache a write is a copy, which the kernel would hand to a thread of its own: that was
        // measured at half the speed of a plain call.
        match if opened.direct { self.rings.lend(Loan::Work) } else { None } {
            Some(ring) => {
                let way = Queued { gathered: Gathered::new(), ring };
                Ok(Box::new(Appending::new(path, opened.file, way)))
            }
            None => Ok(opened.appending(path)),
        }
    }

    fn overwrite(&self, path: &Path) -> Result<Box<dyn Overwrite>> {
        self.posix.overwrite(path)
    }

    fn is_memory(&self, dir: &Path) -> bool {
        self.posix.is_memory(dir)
    }

    fn keeps_blocks(&self, dir: &Path) -> bool {
        self.posix.keeps_blocks(dir)
    }

    fn open(&self, path: &Path) -> Result<Arc<dyn Read>> {
        let one = Reading::new(path, self.posix.open_file(path)?)?;
        Ok(Arc::new(ReadingMany { one, rings: Arc::clone(&self.rings) }))
    }

    fn create_dir_all(&self, dir: &Path) -> Result<()> {
        self.posix.create_dir_all(dir)
    }

    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        self.posix.list(dir)
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        self.posix.exists(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.posix.rename(from, to)
    }

    fn link(&self, from: &Path, to: &Path) -> Result<()> {
        self.posix.link(from, to)
    }

    fn remove(&self, path: &Path) -> Result<()> {
        self.posix.remove(path)
    }

    fn remove_dir(&self, path: &Path) -> Result<()> {
        self.posix.remove_dir(path)
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        self.posix.sync_dir(dir)
    }

    fn free_bytes(&self, dir: &Path) -> Result<u64> {
        self.posix.free_bytes(dir)
    }

    fn describe(&self) -> String {
        if self.posix.is_direct() { "io_uring O_DIRECT" } else { "io_uring" }.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::ErrorKind;

    fn uring(page_cache: PageCache) -> Option<Uring> {
        let uring = Uring::new(page_cache);
        uring.inspect_err(|e| eprintln!("SKIPPED, and io_uring is NOT TESTED here: {e}")).ok()
    }

    #[test]
    fn a_queued_write_that_fails_is_told_and_is_final() {
        let Some(uring) = uring(PageCache::Used) else { return };
        let path = Path::new("/dev/full");
        let file = File::options().write(true).open(path).unwrap();
        let ring = uring.rings.lend(Loan::Work).unwrap();
        let mut file = Appending::new(path, file, Queued { gathered: Gathered::new(), ring });
        let written = file.append(&vec![1; 1 << 20]).and_then(|()| file.sync());
        assert_eq!(written.unwrap_err().kind(), ErrorKind::NoSpace);
        assert_eq!(file.sync().unwrap_err().kind(), ErrorKind::Closed);
    }

    #[test]
    fn a_read_that_fails_is_told_once_all_are_over() {
        let Some(uring) = uring(PageCache::Used) else { return };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("write-only");
        let file = File::options().write(true).create(true).truncate(true).open(&path).unwrap();
        file.set_len(100_000).unwrap();
        let one = Reading::new(&path, crate::posix::Opened { file, direct: false }).unwrap();
        let many = ReadingMany { one, rings: Arc::clone(&uring.rings) };
        let mut buffers = vec![[0; 512]; 100];
        let ranges =
            buffers.iter_mut().enumerate().map(|(i, b)| (i as u64 * 512, b.as_mut_slice()));
        let error = many.read_many(&mut ranges.collect::<Vec<_>>()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io, "{error}");
    }

    #[test]
    fn reads_that_were_begun_bring_what_others_would() {
        let Some(uring) = uring(PageCache::Bypassed) else { return };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("begun");
        let bytes: Vec<u8> = (0..600_000u32).map(|i| (i ^ i >> 8) as u8).collect();
        let mut file = uring.create(&path).unwrap();
        file.append(&bytes).unwrap();
        file.sync().unwrap();
        let file = uring.open(&path).unwrap();
        assert!(file.begin(599_999, 2).is_none() && file.begin(u64::MAX, 2).is_none());
        // Where the file system knows its page cache only, nothing is begun.
        let ranges = [(0, 1), (1, 300_000), (4095, 4098), (599_000, 1000), (8192, 262_144)];
        let begun = ranges.map(|(at, len)| file.begin(at as u64, len));
        for ((at, len), begun) in ranges.into_iter().zip(begun).rev() {
            let Some(begun) = begun else { continue };
            let mut out = vec![0; len];
            begun.finish(&mut out).unwrap();
            assert!(out == bytes[at..at + len], "{at}, {len}");
        }
        let many: Vec<_> = (0..20).filter_map(|_| file.begin(0, 100_000)).collect();
        assert!(many.len() <= BEGUN);
        drop(many);
        // Elsewhere, or not at all.
        for _ in 0..50 {
            let begun = file.begin(4096, 50_000);
            let there = std::thread::spawn(move || {
                let mut out = vec![0; 50_000];
                begun.map(|begun| begun.finish(&mut out).map(|()| out))
            });
            if let Some(out) = there.join().unwrap() {
                assert!(out.unwrap() == bytes[4096..54_096]);
            }
        }
        let kept = uring.rings.kept();
        assert_eq!(kept.begun, kept.late.len());
        assert!(kept.idle.iter().all(|ring| ring.in_flight() == 0));
        drop(kept);
        // Cut short meanwhile.
        File::options().write(true).open(&path).unwrap().set_len(10_000).unwrap();
        if let Some(begun) = file.begin(4096, 20_000) {
            assert_eq!(begun.finish(&mut [0; 20_000]).unwrap_err().kind(), ErrorKind::Corruption);
        }
    }

    /// Rings keep buffers of reads, which may be longer than those of writes, or shorter.
    #[test]
    fn files_are_written_from_buffers_that_were_read_to() {
        let folder = tempfile::tempdir().unwrap();
        let bytes: Vec<u8> = (0..2 << 20).map(|i: u32| (i ^ i >> 8 ^ i >> 16) as u8).collect();
        for (turn, ahead) in [20, 262_144, 300_000, 1 << 20].into_iter().enumerate() {
            let Some(uring) = uring(PageCache::Bypassed) else { return };
            let path = |name: &str| folder.path().join(format!("{name}-{turn}"));
            std::fs::write(path("read"), &bytes).unwrap();
            let file = uring.open(&path("read")).unwrap();
            if let Some(begun) = file.begin(1, ahead) {
                let mut out = vec![0; ahead];
                begun.finish(&mut out).unwrap();
                assert!(out == bytes[1..=ahead]);
            }
            let mut file = uring.create(&path("written")).unwrap();
            bytes.chunks(9999).for_each(|part| file.append(part).unwrap());
            file.sync().unwrap();
            assert!(std::fs::read(path("written")).unwrap() == bytes, "{ahead}");
        }
    }

    #[test]
    fn files_may_be_dropped_while_writes_are_under_way() {
        let Some(uring) = uring(PageCache::Bypassed) else { return };
        let folder = tempfile::tempdir().unwrap();
        for i in 0..20 {
            let path = folder.path().join(format!("dropped-{i}"));
            let mut file = uring.create(&path).unwrap();
            file.append(&vec![i; 3 << 20]).unwrap();
            drop(file);
        }
        assert!(uring.rings.kept().idle.iter().all(|ring| ring.in_flight() == 0));
    }

    #[test]
    fn threads_read_at_the_same_time() {
        let Some(uring) = uring(PageCache::Used) else { return };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("threads");
        let bytes: Vec<u8> = (0..600_000u32).map(|i| (i ^ i >> 8) as u8).collect();
        let mut file = uring.create(&path).unwrap();
        file.append(&bytes).unwrap();
        file.sync().unwrap();
        let file = uring.open(&path).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (file, bytes) = (&file, &bytes);
                scope.spawn(move || {
                    for turn in 0..30 {
                        let len = 1 + turn * 170;
                        let at = |i: usize| (thread * 1000 + i * 3001) % (bytes.len() - len);
                        let mut outs = vec![vec![0; len]; 100];
                        let ranges = outs.iter_mut().enumerate();
                        let ranges = ranges.map(|(i, out)| (at(i) as u64, out.as_mut_slice()));
                        file.read_many(&mut ranges.collect::<Vec<_>>()).unwrap();
                        for (i, out) in outs.iter().enumerate() {
                            assert_eq!(*out, bytes[at(i)..at(i) + len]);
                        }
                    }
                });
            }
        });
    }
}
