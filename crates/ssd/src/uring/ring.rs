//! [`Ring`]: reads and writes that go on at the same time, each in a buffer that the ring owns.
//!
//! This is one of the two files of the crate with `unsafe` in it: the kernel uses a buffer behind the compiler's
//! back from the moment it is pushed until its completion is reaped. Here no buffer is borrowed. It is
//! moved in, and comes back with its completion; so no other code can touch or free it meanwhile.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;

use io_uring::{IoUring, Probe, opcode, squeue, types};

use crate::aligned::{Aligned, BLOCK};

/// Operations in flight at most.
const DEPTH: usize = 64;

/// Bytes in buffers that a ring keeps for later.
const SPARE: usize = 2 << 20;

/// What an operation does with its buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Fills it from the file.
    Read,
    /// Fills it from the file, past the page cache.
    ReadDirect,
    /// Writes it to the file.
    Write,
}

/// A read or write.
pub(super) struct Operation {
    pub(super) kind: Kind,
    pub(super) file: Arc<File>,
    /// Where in the file.
    pub(super) at: u64,
    pub(super) buffer: Aligned,
    /// Bytes from the start of the buffer; no more than it has.
    pub(super) len: usize,
    /// The caller's own number.
    pub(super) tag: usize,
}

/// An operation that is over.
pub(super) struct Done {
    pub(super) operation: Operation,
    /// Bytes read before the file ended, or all bytes written.
    pub(super) result: io::Result<usize>,
}

struct Slot {
    operation: Operation,
    done: usize,
}

/// A submission and completion queue, with the operations that are in them.
pub(super) struct Ring {
    ring: IoUring,
    slots: Vec<Option<Slot>>,
    in_flight: usize,
    spare: Vec<Aligned>,
}

impl Ring {
    /// A ring; an error if the kernel has none for us, or one that cannot read and write.
    pub(super) fn new() -> io::Result<Self> {
        let ring = IoUring::new(DEPTH as u32)?;
        let mut probe = Probe::new();
        ring.submitter().register_probe(&mut probe)?;
        if !probe.is_supported(opcode::Read::CODE) || !probe.is_supported(opcode::Write::CODE) {
            return Err(io::ErrorKind::Unsupported.into());
        }
        Ok(Self {
            ring,
            slots: (0..DEPTH).map(|_| None).collect(),
            in_flight: 0,
            spare: Vec::new(),
        })
    }

    /// A buffer of at least `len` bytes; what it holds is left over from earlier use.
    pub(super) fn buffer(&mut self, len: usize) -> Aligned {
        let spare = self.spare.pop().filter(|buffer| buffer.bytes().len() >= len);
        spare.unwrap_or_else(|| Aligned::new(len))
    }

    /// Keeps a buffer for [`buffer`](Self::buffer).
    pub(super) fn keep(&mut self, buffer: Aligned) {
        let kept: usize = self.spare.iter().map(|spare| spare.bytes().len()).sum();
        if kept + buffer.bytes().len() <= SPARE {
            self.spare.push(buffer);
        }
    }

    /// Keeps no buffer.
    pub(super) fn drop_spare(&mut self) {
        self.spare.clear();
    }

    /// Operations in flight.
    pub(super) fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Whether something must complete before the next operation.
    pub(super) fn is_full(&self) -> bool {
        self.in_flight == DEPTH
    }

    /// Takes an operation. It begins at the next [`submit`](Self::submit) or [`wait`](Self::wait).
    ///
    /// # Panics
    /// If the ring is full, or the buffer is shorter than the operation.
    pub(super) fn push(&mut self, operation: Operation) {
        assert!(operation.len <= operation.buffer.bytes().len(), "a buffer holds its operation");
        let free = self.slots.iter().position(Option::is_none);
        let index = free.expect("the ring is not full");
        self.slots[index] = Some(Slot { operation, done: 0 });
        self.in_flight += 1;
        self.enqueue(index);
    }

    /// Puts what is left of an operation into the submission queue.
    fn enqueue(&mut self, index: usize) {
        let Some(Slot { operation, done }) = &mut self.slots[index] else { return };
        let fd = types::Fd(operation.file.as_raw_fd());
        let at = operation.at + *done as u64;
        let rest = &mut operation.buffer.bytes_mut()[*done..operation.len];
        let len = rest.len() as u32;
        let entry: squeue::Entry = match operation.kind {
            Kind::Write => opcode::Write::new(fd, rest.as_ptr(), len).offset(at).build(),
            Kind::Read | Kind::ReadDirect => {
                opcode::Read::new(fd, rest.as_mut_ptr(), len).offset(at).build()
            }
        };
        let entry = entry.user_data(index as u64);
        // SAFETY: `push` wants that the entry's buffer and file are valid until the operation is over. Both
        // belong to the slot at `index`: the buffer is heap memory, which stays where it is when the slot or
        // the ring moves, and the slot keeps the file open. A slot is emptied in one place, `reap`, after
        // the completion of its only entry was taken from the queue; `drop` waits for that or leaks the
        // slots. While the slot is filled nothing but this function reaches the buffer, and it is called
        // only when none of the slot's entries is under way.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        pushed.expect("there is an entry for each slot");
    }

    /// Begins what was pushed.
    pub(super) fn submit(&mut self) -> io::Result<()> {
        self.enter(0)
    }

    fn enter(&mut self, want: usize) -> io::Result<()> {
        loop {
            match self.ring.submit_and_wait(want) {
                Ok(_) => return Ok(()),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                // The kernel is short of something that completions give back.
                Err(e) if is_busy(&e) => std::thread::yield_now(),
                Err(e) => return Err(e),
            }
        }
    }

    /// Waits until an operation is over; none if none is in flight. Short ones are continued first.
    pub(super) fn wait(&mut self) -> io::Result<Option<Done>> {
        while self.in_flight > 0 {
            if let Some(done) = self.poll()? {
                return Ok(Some(done));
            }
            self.enter(1)?;
        }
        Ok(None)
    }

    /// An operation that is over, if there is one by now. Short ones are continued.
    pub(super) fn poll(&mut self) -> io::Result<Option<Done>> {
        loop {
            let completion = self.ring.completion().next();
            let Some(entry) = completion else { return Ok(None) };
            if let Some(done) = self.reap(entry.user_data() as usize, entry.result()) {
                return Ok(Some(done));
            }
            self.enter(0)?;
        }
    }

    /// Takes the completion of what a slot has in the queue; none if the operation goes on.
    fn reap(&mut self, index: usize, result: i32) -> Option<Done> {
        let slot = self.slots[index].as_mut().expect("completions are of filled slots");
        let result = match usize::try_from(result) {
            Ok(0) if slot.operation.kind == Kind::Write && slot.operation.len > 0 => {
                Err(io::ErrorKind::WriteZero.into())
            }
            Ok(n) => {
                slot.done += n;
                let at_end = n == 0
                    || slot.operation.kind == Kind::ReadDirect && !slot.done.is_multiple_of(BLOCK);
                if slot.done < slot.operation.len && !at_end {
                    self.enqueue(index);
                    return None;
                }
                Ok(slot.done)
            }
            Err(_) => {
                let error = io::Error::from_raw_os_error(-result);
                if error.kind() == io::ErrorKind::Interrupted || is_busy(&error) {
                    self.enqueue(index);
                    return None;
                }
                Err(error)
            }
        };
        let slot = self.slots[index].take()?;
        self.in_flight -= 1;
        Some(Done { operation: slot.operation, result })
    }
}

fn is_busy(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ResourceBusy | io::ErrorKind::WouldBlock)
}

impl Drop for Ring {
    fn drop(&mut self) {
        while self.in_flight > 0 {
            if self.wait().is_err() {
                // The kernel may still use the buffers: better lost than reused.
                std::mem::forget(std::mem::take(&mut self.slots));
                return;
            }
        }
    }
}
