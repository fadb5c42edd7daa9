//! The thread that answers. It sleeps until a connection comes; a few at a time are served, none for long.

use std::os::fd::OwnedFd;
use std::sync::{Arc, PoisonError, Weak};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

use base::{Error, ErrorKind};

use super::answer::{answer, refusal};
use super::{PATIENCE, QUESTION_BYTES_MAX};
use crate::engine::Engine;
use crate::options::PmSource;
use crate::socket::Listening;

/// Connections that are served at a time; others wait in the kernel.
const CONNECTIONS_MAX: usize = 4;
/// Bytes that are taken at a time.
const CHUNK: usize = 4096;
/// How long nothing is accepted after the system refused, for want of descriptors say.
const AFTER_FAILURE: Duration = Duration::from_millis(100);

/// Makes the socket of the store in `dir`, and starts the thread that answers. What fails is noted: the store is open anyway.
pub(crate) fn start(engine: &Arc<Engine>, dir: &std::path::Path) {
    if engine.options.pm == PmSource::Heap {
        // Its directory may not be there, and other stores may name the same.
        return engine.window.fail("a store with pm=heap has no directory of its own".into());
    }
    let Ok(listening) = engine.window.open(dir) else { return };
    let weak = Arc::downgrade(engine);
    let name = "strandline-look".to_owned();
    let spawned = std::thread::Builder::new().name(name).spawn(move || serve(&listening, &weak));
    match spawned {
        Ok(thread) => {
            engine.background.workers.lock().unwrap_or_else(PoisonError::into_inner).push(thread);
        }
        Err(error) => {
            engine.window.shut();
            engine.window.fail(format!("no thread to answer: {error}"));
        }
    }
}

fn serve(listening: &Listening, engine: &Weak<Engine>) {
    let mut connections: Vec<Connection> = Vec::new();
    while !listening.is_stopped() {
        if wait(listening, &connections).is_err() {
            std::thread::sleep(AFTER_FAILURE);
        }
        let now = Instant::now();
        while connections.len() < CONNECTIONS_MAX
            && let Some(socket) = listening.accept()
        {
            connections.push(Connection::new(socket, now + PATIENCE));
        }
        connections.retain_mut(|connection| connection.advance(engine) && now < connection.until);
    }
}

/// Waits until there is something to do, or the time of a connection is up.
fn wait(listening: &Listening, connections: &[Connection]) -> rustix::io::Result<()> {
    let (stop, socket) = (listening.stop(), listening.socket());
    let mut sources = vec![PollFd::from_borrowed_fd(stop, PollFlags::IN)];
    if connections.len() < CONNECTIONS_MAX {
        sources.push(PollFd::from_borrowed_fd(socket, PollFlags::IN));
    }
    sources.extend(connections.iter().map(|connection| {
        let event = if connection.is_answered() { PollFlags::OUT } else { PollFlags::IN };
        PollFd::new(&connection.socket, event)
    }));
    let first = connections.iter().map(|connection| connection.until).min();
    let left = first.map(|until| until.saturating_duration_since(Instant::now()));
    let left = left.and_then(|left| Timespec::try_from(left).ok());
    match poll(&mut sources, left.as_ref()) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(errno) => Err(errno),
    }
}

/// A connection: a question comes, an answer goes, it ends.
struct Connection {
    socket: OwnedFd,
    question: Vec<u8>,
    answer: Vec<u8>,
    sent: usize,
    until: Instant,
}

impl Connection {
    fn new(socket: OwnedFd, until: Instant) -> Connection {
        Connection { socket, question: Vec::new(), answer: Vec::new(), sent: 0, until }
    }

    fn is_answered(&self) -> bool {
        !self.answer.is_empty()
    }

    /// Does what can be done without waiting; `false` once the connection is of no more use.
    fn advance(&mut self, engine: &Weak<Engine>) -> bool {
        if !self.is_answered() {
            match self.take_question() {
                Taken::Part => return true,
                Taken::End => return false,
                Taken::Line(len) => {
                    let Some(engine) = engine.upgrade() else { return false };
                    self.answer = answer(&engine, &self.question[..len]).into_bytes();
                }
                Taken::TooLong => {
                    let text = format!("the question is longer than {QUESTION_BYTES_MAX} bytes");
                    let error = Error::new(ErrorKind::LimitExceeded, "inspect", text);
                    self.answer = refusal(&error).into_bytes();
                }
            }
            self.question = Vec::new();
            self.until = Instant::now() + PATIENCE;
        }
        self.send_answer()
    }

    fn take_question(&mut self) -> Taken {
        let mut chunk = [0; CHUNK];
        loop {
            match recv(&self.socket, &mut chunk[..], RecvFlags::DONTWAIT) {
                Ok((0, _)) => return Taken::End,
                Ok((len, _)) => {
                    let before = self.question.len();
                    self.question.extend_from_slice(&chunk[..len]);
                    let end = chunk[..len].iter().position(|byte| *byte == b'\n');
                    if let Some(end) = end {
                        return Taken::Line(before + end);
                    }
                    if self.question.len() > QUESTION_BYTES_MAX {
                        return Taken::TooLong;
                    }
                }
                Err(Errno::AGAIN) => return Taken::Part,
                Err(Errno::INTR) => {}
                Err(_) => return Taken::End,
            }
        }
    }

    fn send_answer(&mut self) -> bool {
        while self.sent < self.answer.len() {
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            match send(&self.socket, &self.answer[self.sent..], flags) {
                Ok(len) => self.sent += len,
                Err(Errno::AGAIN) => return true,
                Err(Errno::INTR) => {}
                Err(_) => return false,
            }
        }
        false
    }
}

/// What has come of a question.
enum Taken {
    /// Not all of it.
    Part,
    /// A line of this length.
    Line(usize),
    TooLong,
    /// The other side left.
    End,
}
