//! Both sides are killed, again and again: the process with the store, and the one that keeps an index of it by asking the first.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use strandline::{Db, Inspector, Options, Seq, StreamOptions};
use testkit::Rng;

use crate::common::TempDir;
use crate::search_index::{STREAM, SearchIndex, entry, follow, words};

/// Says what a child process does, and where.
const ROLE: &str = "STRANDLINE_STREAMS_ROLE";
const PLACE: &str = "STRANDLINE_STREAMS_PLACE";

fn options() -> Options {
    Options::default()
        .pm_size(32 << 20)
        .zone_size(64 << 10)
        .memtable_bytes(256 << 10)
        .background_threads(1)
}

fn documents(place: &Path) -> PathBuf {
    place.join("documents")
}

/// Writes documents until it is killed.
fn write_documents(place: &Path) {
    let db = Db::open(documents(place), options().inspect(true)).expect("open");
    if db.streams().is_empty() {
        drop(db.create_stream(STREAM, StreamOptions::new().max_bytes(12 << 20)).expect("create"));
    }
    let mut rng = Rng::new(db.properties().visible_seq.get());
    loop {
        let no = rng.next() % 200;
        let name = format!("note/{no:03}");
        match rng.next() % 10 {
            0 => db.delete(&name).expect("delete"),
            1 => db.delete_range(&name, format!("note/{:03}", no + 3)).expect("delete a range"),
            _ => {
                let text: Vec<String> =
                    (0..1 + rng.next() % 40).map(|_| format!("w{}", rng.next() % 100)).collect();
                db.put(&name, text.join(" ")).expect("put");
            }
        }
        if rng.next().is_multiple_of(8) {
            std::thread::sleep(Duration::from_micros(100));
        }
    }
}

/// Keeps the index in step until it is killed, by asking whichever process has the documents open.
fn keep_index(place: &Path) {
    let index = SearchIndex::open(&place.join("index"), options()).expect("open");
    loop {
        let asked = Inspector::connect(documents(place)).and_then(|inspector| {
            loop {
                let batches = inspector.read_stream(STREAM, index.position()?)?;
                let Some(last) = batches.last().map(|batch| batch.last) else { break };
                batches.iter().try_for_each(|batch| index.apply(batch))?;
                inspector.ack_stream(STREAM, last)?;
            }
            Ok(())
        });
        // It may be killed in the middle of an answer, or not be there yet.
        if let Err(error) = asked {
            let kind = error.kind();
            use strandline::ErrorKind::{Busy, Closed, Io, NotFound};
            assert!(matches!(kind, Busy | Closed | Io | NotFound), "{error}");
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A process of its own, when the parent asks for one.
#[test]
#[ignore = "what another test runs"]
fn child() {
    let Some(place) = std::env::var_os(PLACE) else { return };
    match std::env::var(ROLE).as_deref() {
        Ok("documents") => write_documents(Path::new(&place)),
        Ok("index") => keep_index(Path::new(&place)),
        role => panic!("{role:?}"),
    }
}

struct Process {
    role: &'static str,
    child: Option<Child>,
}

impl Process {
    fn run(&mut self, place: &Path) {
        if self.child.is_none() {
            let exe = std::env::current_exe().expect("path");
            let child = Command::new(exe)
                .args(["--exact", "kills::child", "--ignored", "--nocapture"])
                .env(ROLE, self.role)
                .env(PLACE, place)
                .stdout(std::process::Stdio::null())
                .spawn();
            self.child = Some(child.expect("spawn"));
        }
    }

    #[track_caller]
    fn kill(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        let ended = child.try_wait().expect("wait");
        assert!(ended.is_none(), "{} ended by itself: {ended:?}", self.role);
        child.kill().expect("kill");
        child.wait().expect("reaped");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _gone = child.kill();
            let _reaped = child.wait();
        }
    }
}

#[test]
fn an_index_is_in_step_whoever_is_killed() {
    let dir = TempDir::new("streams-kills");
    let mut sides = ["documents", "index"].map(|role| Process { role, child: None });
    let mut rng = Rng::new(7);
    let began = Instant::now();
    let mut rounds = 0;
    while rounds < 24 && began.elapsed() < Duration::from_secs(60) {
        sides.iter_mut().for_each(|side| side.run(dir.path()));
        std::thread::sleep(Duration::from_millis(40 + rng.next() % 150));
        match rng.next() % 3 {
            0 => sides[0].kill(),
            1 => sides[1].kill(),
            _ => sides.iter_mut().for_each(Process::kill),
        }
        rounds += 1;
    }
    sides.iter_mut().for_each(Process::kill);

    let db = Db::open(documents(dir.path()), options()).expect("open");
    let index = SearchIndex::open(&dir.join("index"), options()).expect("open");
    let before = index.position().expect("position");
    assert!(before > Seq::ZERO && before >= db.streams()[0].acked, "{before}");
    follow(&db, &index).expect("follow");
    let mut expected = BTreeSet::new();
    for item in db.iter() {
        let (name, text) = item.expect("item");
        expected.extend(words(&text).iter().map(|word| entry(word, &name)));
    }
    assert!(expected.len() > 100, "{}", expected.len());
    let found: BTreeSet<Vec<u8>> = index.all().expect("all").into_iter().collect();
    assert_eq!(found, expected);
    assert!(db.check().expect("check").damage.is_empty());
    assert_eq!(db.streams()[0].behind, 0);
}
