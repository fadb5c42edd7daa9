//! The thread that answers. It sleeps until a connection comes; a few at a time are served, none for long.

use std::os::fd::OwnedFd;
use std::sync::{Arc, PoisonError, Weak};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

use base::{Error, ErrorKind};

use super::answer::{answer, refusal};
use super::streams::Readers;
use super::{PATIENCE, QUESTION_BYTES_MAX};
use crate::engine::Engine;
use crate::hooks::events::{Event, InspectionFailed};
use crate::options::PmSource;
use crate::socket::Listening;

/// Connections that are served at a time; others wait in the kernel.
const CONNECTIONS_MAX: usize = 4;
/// How long a connection may be silent before it gives its place to one that waits.
const GRACE: Duration = Duration::from_millis(100);
/// Bytes that are taken at a time.
const CHUNK: usize = 4096;
/// How long nothing is accepted after the system refused, for want of descriptors say.
const AFTER_FAILURE: Duration = Duration::from_millis(100);

/// Makes the socket of the store in `dir`, and starts the thread that answers. What fails is noted: the store is open anyway.
pub(crate) fn start(engine: &Arc<Engine>, dir: &std::path::Path) {
    if engine.options().pm == PmSource::Heap {
        // Its directory may not be there, and other stores may name the same.
        return fail(engine, "a store with pm=heap has no directory of its own".into());
    }
    let listening = match engine.window.open(dir) {
        Ok(listening) => listening,
        Err(error) => return fail(engine, error.to_string()),
    };
    let weak = Arc::downgrade(engine);
    let name = "strandline-look".to_owned();
    let spawned = std::thread::Builder::new().name(name).spawn(move || serve(&listening, &weak));
    match spawned {
        Ok(thread) => {
            *engine.background.answering.lock().unwrap_or_else(PoisonError::into_inner) =
                Some(thread);
        }
        Err(error) => {
            engine.window.shut();
            fail(engine, format!("no thread to answer: {error}"));
        }
    }
}

/// Notes that the store cannot be looked at, and tells it.
fn fail(engine: &Engine, why: String) {
    engine.events.note(|| Event::InspectionFailed(InspectionFailed { why: why.clone() }));
    engine.window.fail(why);
    engine.events.tell();
}

fn serve(listening: &Listening, engine: &Weak<Engine>) {
    let mut server = Server { listening, connections: Vec::new(), refused_until: None };
    let mut readers = Readers::default();
    while !listening.is_stopped() {
        if server.wait(Instant::now()).is_err() {
            std::thread::sleep(AFTER_FAILURE);
        }
        let now = Instant::now();
        server.accept(now);
        let connections = &mut server.connections;
        connections.retain_mut(|each| each.advance(engine, &mut readers, now) && now < each.until);
    }
}

/// The socket and the connections that are served.
struct Server<'l> {
    listening: &'l Listening,
    connections: Vec<Connection>,
    /// The system refused to accept, and is left alone until then.
    refused_until: Option<Instant>,
}

impl Server<'_> {
    /// From when on another connection is accepted.
    fn accepts_from(&self) -> Option<Instant> {
        let full = self.connections.len() >= CONNECTIONS_MAX;
        let longest = self.connections.iter().map(|each| each.silent_since).min();
        let place = longest.filter(|_| full).map(|since| since + GRACE);
        self.refused_until.max(place)
    }

    fn accepts(&self, now: Instant) -> bool {
        self.accepts_from().is_none_or(|from| from <= now)
    }

    /// Takes the connections that wait. Where all places are taken, the one that was silent longest goes.
    fn accept(&mut self, now: Instant) {
        while self.accepts(now) {
            match self.listening.accept() {
                Ok(None) => return,
                Ok(Some(socket)) => {
                    if self.connections.len() >= CONNECTIONS_MAX {
                        let all = self.connections.iter().enumerate();
                        let longest = all.min_by_key(|(_, each)| each.silent_since);
                        let longest = longest.map(|(at, _)| at);
                        longest.into_iter().for_each(|at| drop(self.connections.swap_remove(at)));
                    }
                    self.connections.push(Connection::new(socket, now));
                }
                Err(_) => self.refused_until = Some(now + AFTER_FAILURE),
            }
        }
    }

    /// Waits until there is something to do, or time is up for something.
    fn wait(&self, now: Instant) -> rustix::io::Result<()> {
        let mut sources = vec![PollFd::from_borrowed_fd(self.listening.stop(), PollFlags::IN)];
        let accepts = self.accepts(now);
        if accepts {
            sources.push(PollFd::from_borrowed_fd(self.listening.socket(), PollFlags::IN));
        }
        sources.extend(self.connections.iter().map(|connection| {
            let event = if connection.is_answered() { PollFlags::OUT } else { PollFlags::IN };
            PollFd::new(&connection.socket, event)
        }));
        let ends = self.connections.iter().map(|each| each.until);
        let first = ends.chain(self.accepts_from().filter(|_| !accepts)).min();
        let left = first.map(|first| first.saturating_duration_since(now));
        let left = left.and_then(|left| Timespec::try_from(left).ok());
        match poll(&mut sources, left.as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(errno) => Err(errno),
        }
    }
}

/// A connection: a question comes, an answer goes, it ends.
struct Connection {
    socket: OwnedFd,
    question: Vec<u8>,
    answer: Vec<u8>,
    sent: usize,
    /// When it was accepted, or last took some of its answer.
    silent_since: Instant,
    /// When it is given up: the time for a question, then for its answer, is limited.
    until: Instant,
}

impl Connection {
    fn new(socket: OwnedFd, now: Instant) -> Connection {
        Connection {
            socket,
            question: Vec::new(),
            answer: Vec::new(),
            sent: 0,
            silent_since: now,
            until: now + PATIENCE,
        }
    }

    fn is_answered(&self) -> bool {
        !self.answer.is_empty()
    }

    /// Does what can be done without waiting; `false` once the connection is of no more use.
    fn advance(&mut self, engine: &Weak<Engine>, readers: &mut Readers, now: Instant) -> bool {
        if !self.is_answered() {
            match self.take_question() {
                Taken::Part => return true,
                Taken::End => return false,
                Taken::Line(len) => {
                    let Some(engine) = engine.upgrade() else { return false };
                    self.answer = answer(&engine, &self.question[..len], readers).into_bytes();
                }
                Taken::TooLong => {
                    let text = format!("the question is longer than {QUESTION_BYTES_MAX} bytes");
                    let error = Error::new(ErrorKind::LimitExceeded, "inspect", text);
                    self.answer = refusal(&error).into_bytes();
                }
            }
            self.question = Vec::new();
            self.until = now + PATIENCE;
        }
        self.send_answer(now)
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

    fn send_answer(&mut self, now: Instant) -> bool {
        while self.sent < self.answer.len() {
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            match send(&self.socket, &self.answer[self.sent..], flags) {
                Ok(len) => {
                    self.sent += len;
                    self.silent_since = now;
                }
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

#[cfg(test)]
mod tests {
    use pmem::in_fork;
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    use super::*;
    use crate::socket::{Window, reach};

    /// Where the system refuses, the socket stays readable, and the thread took that for work: it span.
    #[test]
    fn what_the_system_refuses_is_left_alone_for_a_while() {
        let dir = tempfile::tempdir().expect("made");
        // The limit is that of a process.
        assert!(in_fork(|| {
            let window = Window::default();
            let listening = window.open(dir.path()).expect("opened");
            let mut server =
                Server { listening: &listening, connections: Vec::new(), refused_until: None };
            let _waits = reach(dir.path()).expect("reached");
            let limit = getrlimit(Resource::Nofile);
            setrlimit(Resource::Nofile, Rlimit { current: Some(0), ..limit }).expect("lowered");
            let now = Instant::now();
            server.accept(now);
            assert!(server.connections.is_empty() && !server.accepts(now));
            assert!(server.accepts(now + AFTER_FAILURE));
            setrlimit(Resource::Nofile, limit).expect("raised");
            server.accept(now + AFTER_FAILURE);
            server.connections.len() == 1
        }));
    }

    /// Idle connections kept others waiting until their time was up.
    #[test]
    fn silent_connections_give_their_places_to_others() {
        let dir = tempfile::tempdir().expect("made");
        let window = Window::default();
        let listening = window.open(dir.path()).expect("opened");
        let mut server =
            Server { listening: &listening, connections: Vec::new(), refused_until: None };
        let now = Instant::now();
        let mut idle: Vec<OwnedFd> = Vec::new();
        for _ in 0..CONNECTIONS_MAX {
            idle.push(reach(dir.path()).expect("reached"));
            server.accept(now);
        }
        let _waits = reach(dir.path()).expect("reached");
        server.accept(now);
        assert!(!server.accepts(now) && server.accepts(now + GRACE), "each has a moment");
        server.accept(now + GRACE);
        let newest = server.connections.iter().filter(|each| each.silent_since > now).count();
        assert_eq!((server.connections.len(), newest), (CONNECTIONS_MAX, 1));
    }
}
