//! A service that reloads its store while parts of it still have handles: what a close waits for, and what it does not.

use std::io;
use std::path::Path;

use strandline::{Db, ErrorKind, Options, PinnedValue};

fn open(path: &Path) -> strandline::Result<Db> {
    Db::open(path, Options::default().pm_size(16 << 20))
}

/// A response whose body is sent from where it lies.
struct Response {
    body: PinnedValue,
}

impl Response {
    fn send(&self, out: &mut impl io::Write) -> io::Result<()> {
        out.write_all(&self.body)
    }
}

fn answer(db: &Db, page: &str) -> io::Result<Response> {
    let body = db.get_pinned(page)?.ok_or(io::ErrorKind::NotFound)?;
    Ok(Response { body })
}

/// Runs the example.
pub fn main() -> io::Result<()> {
    let dir = tempfile::tempdir()?;
    let db = open(dir.path())?;
    db.put("index", "<h1>Hello</h1>".repeat(1000))?;
    let missing = answer(&db, "nothing").map(drop).expect_err("no such page");
    assert_eq!(missing.kind(), io::ErrorKind::NotFound);

    let (response, handle) = (answer(&db, "index")?, db.clone());
    let mut pages = db.keys();
    // The store is in use. Nothing is closed: bytes that are being sent must not change.
    let busy = db.close().expect_err("a response is on its way");
    assert_eq!(busy.kind(), ErrorKind::Busy);
    assert!(busy.to_string().contains("1 iterator, 1 pinned value in use"), "{busy}");
    db.put("index", "<h1>New</h1>")?;
    let mut sent = Vec::new();
    response.send(&mut sent)?;
    assert_eq!(sent.len(), 14_000, "what was pinned stays as it was");
    assert_eq!(pages.next().transpose()?, Some("index".into()));

    // Once they are done it closes. Handles may stay; they say that it is closed.
    drop((response, pages));
    db.close()?;
    let late = handle.put("index", "too late").expect_err("closed");
    assert_eq!(late.kind(), ErrorKind::Closed);
    assert_eq!(io::Error::from(late).kind(), io::ErrorKind::BrokenPipe);
    let again = open(dir.path())?;
    assert_eq!(again.get("index")?.as_deref(), Some(&b"<h1>New</h1>"[..]));
    Ok(())
}
