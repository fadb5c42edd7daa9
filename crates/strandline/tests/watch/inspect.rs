//! Looking at a store that is open, over its socket.

use std::io::{Read, Write};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::common::{TempDir, dump, small_store};
use pmem::in_fork;
use strandline::{
    Changed, Db, ErrorKind, Inspector, Options, PmSource, ReadOptions, Seq, StreamOptions,
};

fn options() -> Options {
    small_store().inspect(true)
}

fn socket(dir: &TempDir) -> PathBuf {
    dir.join("inspect.sock")
}

/// A store with memtables, runs and levels.
fn filled(dir: &Path, options: Options) -> Db {
    let db = Db::open(dir, options).expect("open");
    let other = db.create_keyspace("other").expect("create");
    for at in 0..3000_u32 {
        db.put(at.to_be_bytes(), [7; 200]).expect("put");
    }
    db.compact().expect("compact");
    for at in 0..500_u32 {
        other.put([255, at as u8, (at >> 8) as u8], b"value").expect("put");
    }
    db.flush().expect("flush");
    db.put("newest", "1").expect("put");
    db
}

/// Figures of a store at rest; the memory of the process is not at rest.
fn shown(mut properties: strandline::Properties) -> String {
    properties.anonymous_bytes = None;
    format!("{properties:?}")
}

#[test]
fn a_running_store_answers_what_it_knows_itself() {
    for pm in [PmSource::Auto, PmSource::Dram] {
        let dir = TempDir::new("inspect");
        let db = filled(dir.path(), options().pm(pm));
        let inspector = Inspector::connect(dir.path()).expect("connects");
        let stats = inspector.stats().expect("stats");
        assert_eq!(shown(stats.properties), shown(db.properties()));
        let (told, known) = (stats.pages, db.pages());
        assert_eq!(told.records.map(|pages| pages.size), known.records.map(|pages| pages.size));
        assert!(told.anonymous.is_some_and(|pages| pages.resident > 0));
        assert_eq!(format!("{:?}", stats.recovery), format!("{:?}", db.recovery()));
        let properties = inspector.properties().expect("properties");
        assert!(properties.keyspaces.iter().any(|keyspace| !keyspace.levels.is_empty()));
        assert!(properties.keyspaces.iter().any(|keyspace| !keyspace.runs.is_empty()));
        assert_eq!(properties.inspected_at, Some(socket(&dir)));
        let pool = inspector.pool().expect("pool");
        assert_eq!((pool.view, pool.wear), (db.pool_view(), db.wear()));

        // The first leaves a cached record, as all look-ups here do.
        let first = db.default_keyspace().explain_get(77_u32.to_be_bytes()).expect("explain");
        assert_eq!(first.value_bytes, Some(200));
        let there = db.default_keyspace().explain_get(77_u32.to_be_bytes()).expect("explain");
        let asked = inspector.explain_get("default", &77_u32.to_be_bytes()).expect("explain");
        let probes = |probes: &[strandline::TimedProbe]| {
            probes.iter().map(|timed| timed.probe).collect::<Vec<_>>()
        };
        assert_eq!((asked.value_bytes, probes(&asked.probes)), (Some(200), probes(&there.probes)));
        let binary = inspector.explain_get("other", &[255, 3, 1]).expect("explain");
        assert_eq!(binary.value_bytes, Some(5));
        let absent = inspector.explain_get("default", b"absent").expect("explain");
        assert_eq!(absent.value_bytes, None);
        let missing = inspector.explain_get("nowhere", b"k").expect_err("no such keyspace");
        assert_eq!(missing.kind(), ErrorKind::NotFound);
    }
}

/// A change stream is made, read, acknowledged and dropped as in the process itself.
#[test]
fn change_streams_are_read_over_the_socket() {
    for pm in [PmSource::Auto, PmSource::Dram] {
        let dir = TempDir::new("inspect-streams");
        let db = filled(dir.path(), options().pm(pm));
        let inspector = Inspector::connect(dir.path()).expect("connects");
        let kind = |result: strandline::Result<()>| result.expect_err("refused").kind();
        let read = |given| inspector.read_stream("copy", given);
        assert_eq!(kind(read(Seq::ZERO).map(drop)), ErrorKind::NotFound);
        let too_much = StreamOptions::new().max_bytes(1 << 40);
        assert_eq!(
            kind(inspector.create_stream("copy", &too_much).map(drop)),
            ErrorKind::InvalidArgument
        );
        let much = StreamOptions::new().max_bytes(3 << 20);
        let behind = inspector.create_stream("copy", &much).expect("made");
        assert_eq!(behind, db.properties().visible_seq);
        assert_eq!(
            kind(inspector.create_stream("copy", &StreamOptions::new()).map(drop)),
            ErrorKind::Exists
        );
        assert_eq!(read(Seq::ZERO).expect("read"), []);
        for at in 0..2000_u32 {
            db.put(at.to_be_bytes(), vec![at as u8; 300]).expect("put");
        }
        db.put("long", vec![7; 300_000]).expect("put");
        // An answer has not all of it.
        let (mut given, mut count, mut answers) = (Seq::ZERO, 0, 0);
        loop {
            let batches = read(given).expect("read");
            let Some(last) = batches.last() else { break };
            given = last.last;
            count += batches.len();
            answers += 1;
            if count == 2001 {
                let Changed::Put { key, value, .. } = &last.changes[0].what else {
                    panic!("{last:?}")
                };
                assert_eq!((&key[..], value.len()), (&b"long"[..], 300_000));
            }
        }
        assert_eq!((count, given), (2001, db.properties().visible_seq));
        assert!(answers > 2, "{answers}");
        // Another that begins anew, and one that goes on in the middle.
        assert_eq!(read(Seq::ZERO).expect("read")[0].number, behind + 1);
        assert_eq!(read(behind + 1000).expect("read")[0].number, behind + 1001);
        assert_eq!(kind(inspector.ack_stream("copy", given + 1)), ErrorKind::InvalidArgument);
        inspector.ack_stream("copy", given).expect("acknowledged");
        assert_eq!(db.streams()[0].acked, given);
        assert_eq!(read(Seq::ZERO).expect("read"), []);
        assert_eq!(inspector.properties().expect("figures").streams, db.streams());
        inspector.drop_stream("copy").expect("dropped");
        assert_eq!(kind(inspector.ack_stream("copy", given)), ErrorKind::NotFound);
        assert!(db.streams().is_empty());
    }
}

#[test]
fn the_socket_is_private_comes_and_goes_with_the_store() {
    let dir = TempDir::new("inspect-file");
    let db = filled(dir.path(), options());
    let meta = std::fs::symlink_metadata(socket(&dir)).expect("there");
    assert!(meta.file_type().is_socket());
    assert_eq!(meta.permissions().mode() & 0o777, 0o600);
    let handle = db.clone();
    db.close().expect("close");
    assert!(!socket(&dir).exists(), "removed by the close");
    drop(handle);
    let none = Inspector::connect(dir.path()).expect_err("nothing is open");
    assert_eq!(none.kind(), ErrorKind::NotFound);

    // By default there is none, and a reader makes none.
    let off = options().inspect(false);
    let db = Db::open(dir.path(), off).expect("open");
    assert!(!socket(&dir).exists() && db.properties().inspected_at.is_none());
    drop(db);
    let reader = Db::open_read_only(dir.path(), options()).expect("open");
    assert!(!socket(&dir).exists());
    drop(reader);
}

/// A killed process leaves its socket. Connections to it are refused, and the next open takes its place.
#[test]
fn a_socket_that_was_left_is_replaced_and_harms_nothing() {
    let dir = TempDir::new("inspect-stale");
    drop(filled(dir.path(), options()));
    drop(UnixListener::bind(socket(&dir)).expect("left"));
    assert!(socket(&dir).exists());
    let stale = Inspector::connect(dir.path()).expect_err("refused");
    assert!(stale.kind() == ErrorKind::NotFound && stale.context().contains("ended"), "{stale}");

    let before = {
        let db = Db::open_read_only(dir.path(), options()).expect("a reader passes it over");
        assert!(db.check().expect("check").damage.is_empty());
        db.checkpoint(dir.join("copy")).expect("checkpoint");
        assert!(!dir.join("copy/inspect.sock").exists());
        dump(db.default_keyspace(), &ReadOptions::default())
    };
    strandline::repair(dir.path(), dir.join("repaired"), options()).expect("repair");
    assert!(!dir.join("repaired/inspect.sock").exists());
    let db = Db::open(dir.path(), options()).expect("open");
    assert_eq!(dump(db.default_keyspace(), &ReadOptions::default()), before);
    Inspector::connect(dir.path()).expect("a new one").properties().expect("answers");
}

#[test]
fn a_socket_that_cannot_be_made_never_fails_the_open() {
    let dir = TempDir::new("inspect-blocked");
    std::fs::create_dir_all(dir.path()).expect("made");
    std::fs::write(socket(&dir), "mine").expect("written");
    let db = filled(dir.path(), options());
    let why = db.properties().inspect_failure.expect("noted");
    assert!(why.contains("no socket"), "{why}");
    db.close().expect("close");
    assert_eq!(std::fs::read(socket(&dir)).expect("still there"), b"mine");

    let heap = options().pm(PmSource::Heap);
    let db = Db::open(dir.join("nowhere"), heap).expect("open");
    assert!(db.properties().inspect_failure.is_some());
}

/// Paths of sockets are limited to 107 bytes, those of stores are not.
#[test]
fn a_long_path_is_no_obstacle() {
    let dir = TempDir::new("inspect-long");
    let long = dir.path().join("d".repeat(120)).join("e".repeat(120));
    std::fs::create_dir_all(&long).expect("made");
    let _db = filled(&long, options());
    let stats = Inspector::connect(&long).expect("connects").stats().expect("answers");
    assert_eq!(stats.properties.keyspaces.len(), 2);
}

#[test]
fn a_reader_beside_a_writer_is_told_how_to_look() {
    let dir = TempDir::new("inspect-busy");
    let busy = || {
        let refused = Db::open_read_only(dir.path(), options()).err().expect("held");
        assert_eq!(refused.kind(), ErrorKind::Busy);
        refused.to_string()
    };
    let db = filled(dir.path(), options());
    assert!(busy().contains("look at it while it runs: strandline stats"), "{}", busy());
    db.close().expect("close");
    let _db = Db::open(dir.path(), options().inspect(false)).expect("open");
    assert!(busy().contains("with the option inspect"), "{}", busy());
}

fn ask(dir: &TempDir, line: &[u8]) -> String {
    let mut stream = UnixStream::connect(socket(dir)).expect("connects");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("set");
    // A question that is too long is answered before all of it was taken.
    let _refused = stream.write_all(line);
    let mut answer = Vec::new();
    let _reset = stream.read_to_end(&mut answer);
    String::from_utf8(answer).expect("text")
}

/// Garbage, silence and floods: the store goes on, the next question is answered, the close is not kept waiting.
#[test]
fn garbage_neither_panics_nor_stalls() {
    let dir = TempDir::new("inspect-garbage");
    let db = filled(dir.path(), options());
    let garbage: Vec<Vec<u8>> = vec![
        b"\n".to_vec(),
        b"\0\xff\xfe\n".to_vec(),
        b"{\"strandline\":12,\"ask\":\"drop\"}\n".to_vec(),
        b"{\"strandline\":99,\"ask\":\"stats\"}\n".to_vec(),
        [vec![b'['; 200_000], b"\n".to_vec()].concat(),
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
    ];
    for line in &garbage {
        let answer = ask(&dir, line);
        assert!(answer.starts_with("{\"strandline\":12,\"error\":{\"kind\":"), "{answer}");
        assert!(answer.ends_with('\n') && answer.len() < 1000, "{answer}");
    }
    let flood = ask(&dir, &vec![b'x'; 1 << 20]);
    assert!(flood.is_empty() || flood.contains("LimitExceeded"), "{flood}");

    // As many as are served at a time say nothing, others leave at once, amid a question, or never read.
    let silent: Vec<UnixStream> =
        (0..4).map(|_| UnixStream::connect(socket(&dir)).expect("connects")).collect();
    drop(UnixStream::connect(socket(&dir)));
    let mut dying = UnixStream::connect(socket(&dir)).expect("connects");
    dying.write_all(b"{\"strandline\":12,").expect("written");
    drop(dying);
    let mut deaf = UnixStream::connect(socket(&dir)).expect("connects");
    deaf.write_all(b"{\"strandline\":12,\"ask\":\"stats\"}\n").expect("written");
    let begun = Instant::now();
    db.put("meanwhile", "1").expect("put");
    assert!(begun.elapsed() < Duration::from_secs(1), "puts do not wait");
    let inspector = Inspector::connect(dir.path()).expect("connects");
    inspector.properties().expect("answered: the silent ones give their places up");
    drop((silent, deaf));

    let _held = UnixStream::connect(socket(&dir)).expect("connects");
    let begun = Instant::now();
    db.close().expect("close");
    assert!(begun.elapsed() < Duration::from_secs(2), "a connection does not hold up the close");
}

/// Whatever of a question had been taken: the store is gone, and a look at it begins anew.
#[test]
fn a_holder_that_ends_amid_a_question_is_gone() {
    let dir = TempDir::new("inspect-gone");
    std::fs::create_dir_all(dir.path()).expect("made");
    let listener = UnixListener::bind(socket(&dir)).expect("bound");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // Closed with a question unread, a connection is reset.
            for _ in 0..3 {
                drop(listener.accept().expect("a connection"));
            }
        });
        let inspector = Inspector::connect(dir.path()).expect("connects");
        for _ in 0..2 {
            let gone = inspector.properties().expect_err("no answer");
            assert_eq!(gone.kind(), ErrorKind::Closed, "{gone}");
        }
    });
}

#[test]
fn a_fork_leaves_the_socket_to_its_parent() {
    let dir = TempDir::new("inspect-fork");
    let db = filled(dir.path(), options());
    let other = db.clone();
    assert!(in_fork(|| {
        other.close().expect("close");
        true
    }));
    Inspector::connect(dir.path()).expect("still there").properties().expect("answers");
    db.close().expect("close");
    assert!(!socket(&dir).exists());
}
