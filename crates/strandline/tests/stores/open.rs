//! Opening: who may, what is there, and what is said when something is not as it should be. Nothing that
//! goes wrong at an open may change a byte of what is there.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::common::{self, TempDir, dump, kind_of};
use strandline::{Batch, Db, ErrorKind, Options, PmSource, ReadOptions, SsdSource};

const MIB: u64 = 1 << 20;

fn options() -> Options {
    Options::default().pm_size(2 * MIB).zone_size(16 << 10).background_threads(0)
}

fn open(dir: &Path) -> strandline::Result<Db> {
    Db::open(dir, options())
}

fn read_only(dir: &Path) -> strandline::Result<Db> {
    Db::open_read_only(dir, options())
}

/// A store with records in runs, in a memtable and in an extent.
fn sample(dir: &Path) {
    let db = open(dir).expect("create");
    for i in 0..300_u64 {
        db.put(i.to_be_bytes(), i.to_le_bytes().repeat(4)).expect("put");
    }
    db.flush().expect("flush");
    let other = db.create_keyspace("other").expect("create keyspace");
    other.put(b"k", [1; 10_000]).expect("put");
    for i in 300..400_u64 {
        db.put(i.to_be_bytes(), i.to_le_bytes().repeat(4)).expect("put");
    }
}

fn assert_sample(db: &Db) {
    let all = dump(db.default_keyspace(), &ReadOptions::default());
    assert_eq!(all.len(), 400);
    for (i, (key, value)) in (0_u64..).zip(&all) {
        assert_eq!(key[..], i.to_be_bytes());
        assert_eq!(value[..], i.to_le_bytes().repeat(4));
    }
    let other = db.keyspace("other").expect("keyspace");
    assert_eq!(other.get(b"k").expect("get"), Some(vec![1; 10_000]));
}

/// Every file under `dir` with its bytes.
fn files(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut all: Vec<(PathBuf, Vec<u8>)> = Vec::new();
    for entry in fs::read_dir(dir).expect("read_dir") {
        let path = entry.expect("entry").path();
        if path.is_dir() {
            all.extend(files(&path));
        } else {
            let bytes = fs::read(&path).expect("read");
            all.push((path, bytes));
        }
    }
    all.sort();
    all
}

/// Whether two listings are the same, without printing megabytes when they are not.
#[track_caller]
fn assert_same_files(before: &[(PathBuf, Vec<u8>)], after: &[(PathBuf, Vec<u8>)]) {
    let names = |all: &[(PathBuf, Vec<u8>)]| -> Vec<(PathBuf, usize)> {
        all.iter().map(|(path, bytes)| (path.clone(), bytes.len())).collect()
    };
    assert_eq!(names(before), names(after));
    for ((path, before), (_, after)) in before.iter().zip(after) {
        let differ = before.iter().zip(after).position(|(a, b)| a != b);
        assert_eq!(differ, None, "first changed byte of {}", path.display());
    }
}

const CHILD_DIR: &str = "STRANDLINE_TEST_CHILD_DIR";
const CHILD_MODE: &str = "STRANDLINE_TEST_CHILD_MODE";

/// What the child process runs; does nothing in a normal run.
#[test]
fn child() {
    let Ok(dir) = std::env::var(CHILD_DIR) else { return };
    let dir = Path::new(&dir);
    let mode = std::env::var(CHILD_MODE).expect("mode");
    let opened = if mode == "read" { read_only(dir) } else { open(dir) };
    let said = match &opened {
        Ok(_) => "child: opened".to_owned(),
        Err(error) => format!("child: {error}"),
    };
    // Past the capture of the test harness.
    let mut out = fs::OpenOptions::new().write(true).open("/dev/stdout").expect("stdout");
    writeln!(out, "\n{said}").expect("say");
    out.flush().expect("flush");
    if let (Ok(db), "write") = (&opened, &mode[..]) {
        for i in 0_u64.. {
            db.put(b"child", i.to_le_bytes()).expect("put");
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }
    let _ = std::io::stdin().read(&mut [0]);
}

/// Another process with the store open, or refused.
struct Other {
    child: Child,
    said: String,
}

impl Other {
    fn start(dir: &Path, mode: &str) -> Other {
        let mut child = Command::new(std::env::current_exe().expect("own path"))
            .args(["open::child", "--exact", "--nocapture", "--test-threads=1"])
            .env(CHILD_DIR, dir)
            .env(CHILD_MODE, mode)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("child process");
        let out = BufReader::new(child.stdout.take().expect("piped"));
        let said = out
            .lines()
            .map(|line| line.expect("line"))
            .find_map(|line| line.strip_prefix("child: ").map(str::to_owned))
            .expect("the child says how it went");
        Other { child, said }
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_second_open_in_the_process_is_busy() {
    let dir = TempDir::new("second");
    sample(dir.path());
    let db = open(dir.path()).expect("open");
    let refused = open(dir.path()).map(drop).expect_err("held");
    assert_eq!(refused.kind(), ErrorKind::Busy);
    assert!(refused.context().contains(&std::process::id().to_string()), "{refused}");
    let refused = read_only(dir.path()).map(drop).expect_err("held by a writer");
    assert_eq!(refused.kind(), ErrorKind::Busy);
    assert!(refused.context().contains(&std::process::id().to_string()), "{refused}");
    // By another way to the same file, too.
    let by_path = options().pm(PmSource::Path(dir.join("pool")));
    assert_eq!(kind_of(Db::open(dir.path(), by_path).map(drop)), ErrorKind::Busy);
    let link = TempDir::new("second-link");
    std::os::unix::fs::symlink(dir.path(), link.join("link")).expect("symlink");
    assert_eq!(kind_of(open(&link.join("link")).map(drop)), ErrorKind::Busy);
    assert_sample(&db);
    // What is derived from a store keeps it open.
    let iter = db.default_keyspace().cursor(&ReadOptions::default()).expect("iter");
    drop(db);
    assert_eq!(kind_of(open(dir.path()).map(drop)), ErrorKind::Busy);
    drop(iter);
    assert_sample(&open(dir.path()).expect("open"));
}

#[test]
fn another_process_is_named() {
    let dir = TempDir::new("process");
    sample(dir.path());
    let other = Other::start(dir.path(), "write");
    assert_eq!(other.said, "opened");
    for refused in [open(dir.path()), read_only(dir.path())] {
        let refused = refused.map(drop).expect_err("held by the child");
        assert_eq!(refused.kind(), ErrorKind::Busy);
        assert!(refused.context().contains(&other.child.id().to_string()), "{refused}");
    }
    // Killed while it writes: what it acknowledged is there, and the store opens at once.
    std::thread::sleep(std::time::Duration::from_millis(20));
    drop(other);
    let db = open(dir.path()).expect("open after the kill");
    assert!(db.get(b"child").expect("get").is_some());
    db.delete(b"child").expect("delete");
    assert_sample(&db);
    let other = Other::start(dir.path(), "write");
    assert!(other.said.starts_with("Busy"), "{}", other.said);
    assert!(other.said.contains(&std::process::id().to_string()), "{}", other.said);
}

#[test]
fn readers_share_and_shut_writers_out() {
    let dir = TempDir::new("readers");
    sample(dir.path());
    let (one, two) = (read_only(dir.path()).expect("one"), read_only(dir.path()).expect("two"));
    let other = Other::start(dir.path(), "read");
    assert_eq!(other.said, "opened");
    assert_sample(&one);
    assert_sample(&two);
    assert_eq!(kind_of(open(dir.path()).map(drop)), ErrorKind::Busy);
    drop((one, two));
    let refused = open(dir.path()).map(drop).expect_err("the child reads");
    assert!(refused.context().contains(&other.child.id().to_string()), "{refused}");
    drop(other);
    assert_sample(&open(dir.path()).expect("open"));
}

#[test]
fn a_read_only_store_refuses_writes_and_changes_no_byte() {
    let dir = TempDir::new("read-only");
    sample(dir.path());
    let before = files(dir.path());
    let db = read_only(dir.path()).expect("open");
    assert_sample(&db);
    let refused = |result: strandline::Result<()>| assert_eq!(kind_of(result), ErrorKind::ReadOnly);
    refused(db.put(b"a", b"b"));
    refused(db.put(b"a", [0; 100_000]));
    refused(db.delete(b"a"));
    let mut batch = Batch::new();
    refused(db.write(&batch));
    batch.put(db.default_keyspace(), b"a", b"b");
    refused(db.write(&batch));
    refused(db.create_keyspace("new").map(drop));
    refused(db.drop_keyspace("other"));
    refused(db.flush());
    refused(db.compact());
    let _ = db.work(1000);
    let snapshot = db.snapshot();
    let at = ReadOptions::at(&snapshot);
    assert_eq!(dump(db.default_keyspace(), &at).len(), 400);
    assert!(db.check().expect("check").damage.is_empty());
    assert!(db.properties().refusing_writes.is_some());
    let _ = db.pool_view();
    drop(snapshot);
    drop((batch, db));
    // With a background thread asked for, too.
    let db = Db::open_read_only(dir.path(), options().background_threads(1));
    assert_sample(&db.expect("open"));
    assert_same_files(&before, &files(dir.path()));
    assert_sample(&open(dir.path()).expect("open"));
}

#[test]
fn a_read_only_directory() {
    let dir = TempDir::new("ro-dir");
    let store = dir.join("store");
    sample(&store);
    let set = |mode: u32| {
        use std::os::unix::fs::PermissionsExt;
        let file_mode = mode & !0o111;
        fs::set_permissions(store.join("pool"), fs::Permissions::from_mode(file_mode))
            .expect("chmod");
        fs::set_permissions(&store, fs::Permissions::from_mode(mode)).expect("chmod");
    };
    set(0o555);
    let before = files(&store);
    assert_sample(&read_only(&store).expect("reading needs no permission to write"));
    assert_same_files(&before, &files(&store));
    // A user who may do everything is not stopped by permissions.
    if fs::File::create(store.join("probe")).is_err() {
        let refused = open(&store).map(drop).expect_err("not writable");
        assert!(matches!(refused.kind(), ErrorKind::ReadOnly | ErrorKind::Io), "{refused}");
        let refused = open(&store.join("new")).map(drop).expect_err("not writable");
        assert!(matches!(refused.kind(), ErrorKind::ReadOnly | ErrorKind::Io), "{refused}");
    }
    set(0o755);
    let _ = fs::remove_file(store.join("probe"));
    assert_sample(&open(&store).expect("open"));
}

#[test]
fn missing_stores() {
    let dir = TempDir::new("missing");
    let path = dir.join("nothing/here");
    let never = options().create_if_missing(false);
    assert_eq!(kind_of(Db::open(&path, never.clone()).map(drop)), ErrorKind::NotFound);
    assert_eq!(kind_of(read_only(&path).map(drop)), ErrorKind::NotFound);
    assert!(!dir.join("nothing").exists(), "a refused open makes nothing");
    let heap = options().pm(PmSource::Heap);
    assert_eq!(kind_of(Db::open_read_only(&path, heap).map(drop)), ErrorKind::InvalidArgument);
    // Made with its parents, and found without create_if_missing from then on.
    sample(&path);
    assert_sample(&Db::open(&path, never).expect("open"));
    // A file where the directory should be.
    fs::write(dir.join("file"), b"text").expect("write");
    let kind = kind_of(open(&dir.join("file")).map(drop));
    assert!(matches!(kind, ErrorKind::Io | ErrorKind::InvalidArgument), "{kind:?}");
    assert_eq!(fs::read(dir.join("file")).expect("read"), b"text");
    // A pool size below the smallest.
    let tiny = options().pm_size(4096);
    assert_eq!(kind_of(Db::open(dir.join("tiny"), tiny).map(drop)), ErrorKind::InvalidArgument);
    sample(&dir.join("tiny"));
}

#[test]
fn the_pool_may_be_elsewhere() {
    let dir = TempDir::new("elsewhere");
    let at = |name: &str| options().pm(PmSource::Path(dir.join(name)));
    let store = dir.join("store");
    let db = Db::open(&store, at("pm")).expect("create");
    db.put(b"k", b"v").expect("put");
    drop(db);
    assert!(dir.join("pm").is_file() && !store.join("pool").exists());
    let here = |options: Options| -> strandline::Result<()> {
        let db = Db::open(&store, options)?;
        assert_eq!(db.get(b"k")?, Some(b"v".to_vec()));
        Ok(())
    };
    here(at("pm")).expect("named again");
    here(options()).expect("found by itself");
    here(at("./store/../pm")).expect("named another way");
    let before = files(&store);
    let refused = here(at("wrong")).expect_err("another path");
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    assert!(refused.context().contains("wrong"), "{refused}");
    assert!(!dir.join("wrong").exists());
    assert_same_files(&before, &files(&store));
    // Another store's pool.
    sample(&dir.join("second"));
    let refused = here(at("second/pool")).expect_err("another store's pool");
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    // The pool went away and comes back.
    fs::rename(dir.join("pm"), dir.join("gone")).expect("rename");
    let refused = here(options()).expect_err("no pool");
    assert_eq!(refused.kind(), ErrorKind::NotFound);
    assert!(refused.context().contains("pm"), "{refused}");
    assert!(!dir.join("pm").exists(), "no empty pool takes its place");
    fs::rename(dir.join("gone"), dir.join("pm")).expect("rename");
    here(options()).expect("back");
    // In a folder that does not exist.
    let kind = kind_of(Db::open(dir.join("third"), at("no/such/folder")).map(drop));
    assert!(matches!(kind, ErrorKind::NotFound | ErrorKind::Io), "{kind:?}");
}

/// What the file `name` of a store is changed to, and what opening it may then say.
fn vandalise(name: &str, change: impl Fn(&Path), allowed: &[ErrorKind]) {
    let dir = TempDir::new("vandal");
    sample(dir.path());
    let whole = fs::read(dir.join(name)).expect("read");
    change(&dir.join(name));
    let before = files(dir.path());
    for opened in [open(dir.path()), read_only(dir.path())] {
        match opened {
            Ok(_) => panic!("{name} is not whole, but the store opens"),
            Err(error) => {
                assert!(allowed.contains(&error.kind()), "{error}");
                let named = dir.path().display().to_string();
                assert!(error.context().contains(&named), "does not name the file: {error}");
            }
        }
        assert_same_files(&before, &files(dir.path()));
    }
    fs::write(dir.join(name), whole).expect("restore");
    assert_sample(&open(dir.path()).expect("open"));
}

fn cut(path: &Path, len: u64) {
    fs::OpenOptions::new().write(true).open(path).expect("open").set_len(len).expect("set_len");
}

fn scribble(path: &Path, at: u64, bytes: &[u8]) {
    let file = fs::OpenOptions::new().write(true).open(path).expect("open");
    file.write_all_at(bytes, at).expect("write");
}

#[test]
fn a_pool_cut_short() {
    use ErrorKind::{Corruption, InvalidArgument};
    for len in [0, 1, 100, 4095, 4096, 8192, MIB, 2 * MIB - 4096, 2 * MIB - 1] {
        vandalise("pool", |path| cut(path, len), &[Corruption, InvalidArgument]);
    }
}

#[test]
fn a_pool_replaced() {
    use ErrorKind::{Corruption, InvalidArgument, NotFound, NotSupported};
    let garbage: Vec<u8> = (0..2 * MIB).map(|i| ((i * i) >> 3) as u8 | 1).collect();
    let replaced = |path: &Path| fs::write(path, &garbage).expect("write");
    vandalise("pool", replaced, &[Corruption, InvalidArgument]);
    let text = |path: &Path| fs::write(path, b"not a pool\n").expect("write");
    vandalise("pool", text, &[Corruption, InvalidArgument]);
    let header = |path: &Path| scribble(path, 0, &[0; 4096]);
    vandalise("pool", header, &[Corruption, InvalidArgument, NotFound]);
    let slots = |path: &Path| {
        scribble(path, 40, &[0xff; 8]);
        scribble(path, 2048 + 40, &[0xff; 8]);
    };
    vandalise("pool", slots, &[Corruption]);
    let newer = |path: &Path| {
        scribble(path, 8, &[9]);
        scribble(path, 2048 + 8, &[9]);
    };
    vandalise("pool", newer, &[Corruption, NotSupported]);
    let folder = |path: &Path| {
        fs::remove_file(path).expect("remove");
        fs::write(path, b"").expect("write");
    };
    vandalise("pool", folder, &[Corruption, InvalidArgument, NotFound]);
}

/// A pool that `STORE` names but that is blank was lost: it is not to be formatted silently.
#[test]
fn a_pool_that_went_blank() {
    use ErrorKind::{Corruption, InvalidArgument, NotFound};
    let zeroes = |path: &Path| fs::write(path, vec![0; 2 << 20]).expect("write");
    vandalise("pool", zeroes, &[Corruption, InvalidArgument, NotFound]);
}

#[test]
fn one_damaged_superblock_slot_does_no_harm() {
    for slot in [0, 2048] {
        for (at, len) in [(0, 8), (8, 8), (16, 8), (40, 40), (120, 8), (0, 128), (0, 2048)] {
            let dir = TempDir::new("slot");
            sample(dir.path());
            scribble(&dir.join("pool"), slot + at, &vec![0xa5; len]);
            let before = files(dir.path());
            let db = read_only(dir.path());
            assert_sample(&db.unwrap_or_else(|error| panic!("slot {slot}, byte {at}: {error}")));
            assert_same_files(&before, &files(dir.path()));
            assert_sample(&open(dir.path()).expect("open"));
            // Writing brings the other slot back.
            assert_sample(&open(dir.path()).expect("open again"));
        }
    }
}

#[test]
fn a_damaged_store_file() {
    use ErrorKind::{Corruption, Io, NotSupported};
    let texts: [&[u8]; 8] = [
        b"",
        b"\n",
        b"garbage",
        b"strandline store 9\npool pool\n",
        b"strandline store 1",
        b"strandline store 1\n",
        b"strandline store 1\npot pool\n",
        b"\xff\xfe\x00\x80",
    ];
    for text in texts {
        let change = |path: &Path| fs::write(path, text).expect("write");
        vandalise("STORE", change, &[Corruption, NotSupported, Io]);
    }
}

/// `STORE` says what pool it is; one that names an empty path, the directory itself or a device without
/// memory must not be followed into something else.
#[test]
fn a_store_file_that_names_nonsense() {
    for name in ["", ".", "..", "/dev/null", "STORE", "no\0such", "missing"] {
        let dir = TempDir::new("nonsense");
        sample(dir.path());
        let text = format!("strandline store 1\npool {name}\n");
        fs::write(dir.join("STORE"), &text).expect("write");
        let before = files(dir.path());
        for opened in [open(dir.path()), read_only(dir.path())] {
            let error = opened.map(drop).expect_err("names no pool");
            assert_ne!(error.kind(), ErrorKind::Internal, "{error}");
        }
        assert_same_files(&before, &files(dir.path()));
        fs::write(dir.join("STORE"), "strandline store 1\npool pool\n").expect("write");
        assert_sample(&open(dir.path()).expect("open"));
    }
}

/// A creation that was killed at any stage is finished by the next open, or begun anew.
#[test]
fn killed_creations() {
    let whole = TempDir::new("whole");
    drop(open(whole.path()).expect("create"));
    let pool = fs::read(whole.join("pool")).expect("read");
    let named = fs::read(whole.join("STORE")).expect("read");
    type Stage = Box<dyn Fn(&Path)>;
    let file = |name: &'static str, bytes: Vec<u8>| -> Stage {
        Box::new(move |dir: &Path| fs::write(dir.join(name), &bytes).expect("write"))
    };
    let mut half = vec![0; pool.len()];
    half[..8].copy_from_slice(b"strandft");
    let mut stages: Vec<(String, Vec<Stage>)> = vec![
        ("an empty directory".into(), vec![]),
        ("an empty pool file".into(), vec![file("pool", vec![])]),
        ("a short blank pool file".into(), vec![file("pool", vec![0; 100_000])]),
        ("a blank pool file".into(), vec![file("pool", vec![0; pool.len()])]),
        ("a pool being formatted".into(), vec![file("pool", half)]),
        ("a pool without STORE".into(), vec![file("pool", pool.clone())]),
        ("an empty STORE.new".into(), vec![file("pool", pool.clone()), file("STORE.new", vec![])]),
        (
            "a STORE.new that was not renamed".into(),
            vec![file("pool", pool.clone()), file("STORE.new", named.clone())],
        ),
        (
            "a torn STORE.new".into(),
            vec![file("pool", pool.clone()), file("STORE.new", named[..9].to_vec())],
        ),
        ("only a STORE.new".into(), vec![file("STORE.new", named.clone())]),
    ];
    // Formatting was cut short between any two pages: slot A says so until slot B is whole.
    for pages in [1, 2, 5, 20, 40] {
        let mut torn = pool.clone();
        torn[pages * 4096..].fill(0);
        torn[..128].fill(0);
        torn[..8].copy_from_slice(b"strandft");
        torn[2048..2048 + 128].fill(0);
        stages.push((format!("{pages} pages formatted"), vec![file("pool", torn)]));
    }
    for (stage, files) in &stages {
        let dir = TempDir::new("killed");
        files.iter().for_each(|file| file(dir.path()));
        assert_eq!(kind_of(read_only(dir.path()).map(drop)), ErrorKind::NotFound, "{stage}");
        let never = options().create_if_missing(false);
        assert_eq!(kind_of(Db::open(dir.path(), never).map(drop)), ErrorKind::NotFound, "{stage}");
        let db = open(dir.path()).unwrap_or_else(|error| panic!("{stage}: {error}"));
        assert_eq!(db.keyspaces(), ["default"]);
        assert!(dump(db.default_keyspace(), &ReadOptions::default()).is_empty());
        drop(db);
        sample(dir.path());
        assert_sample(&open(dir.path()).expect("open"));
    }
}

/// With `pm=heap` the directory of a store was not looked at: the caller got a new store without any of its records, and
/// what it wrote there was gone when it closed it. The same happened, with what the command makes by default, where the
/// file `STORE` was lost and other memory was asked for.
#[test]
fn no_option_gives_an_empty_store_in_place_of_one_that_is_there() {
    let dram = options().pm(PmSource::Dram);
    for made in [options(), dram, options().ssd(SsdSource::None)] {
        let dir = TempDir::new("hidden");
        let at = dir.join("db");
        Db::open(&at, made.clone()).and_then(|db| db.put(b"key", b"value")).expect("made");
        for lost in [false, true] {
            if lost {
                fs::remove_file(at.join("STORE")).expect("removed");
            }
            let before = files(&at);
            let sources =
                [PmSource::Auto, PmSource::Dram, PmSource::Path(dir.join("other")), PmSource::Heap];
            let tables = [SsdSource::Auto, SsdSource::None, SsdSource::Path(dir.join("tables"))];
            for (pm, ssd) in sources.iter().flat_map(|pm| tables.iter().map(move |ssd| (pm, ssd))) {
                let asked = options().pm(pm.clone()).ssd(ssd.clone());
                let story = format!("{:?}, {lost}: pm={pm:?}, ssd={ssd:?}", made.pm);
                match Db::open(&at, asked) {
                    Ok(db) => assert_eq!(
                        db.get(b"key").expect("get").as_deref(),
                        Some(&b"value"[..]),
                        "{story}"
                    ),
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{story}: {error}")
                    }
                }
                if *pm == PmSource::Heap {
                    assert_same_files(&before, &files(&at));
                }
                // What an open may have made or named.
                let _ =
                    (fs::remove_dir_all(dir.join("tables")), fs::remove_file(dir.join("other")));
                for (path, bytes) in &before {
                    fs::write(path, bytes).expect("as it was");
                }
                let there = files(&at);
                let news =
                    there.iter().filter(|(path, _)| before.iter().all(|(old, _)| old != path));
                news.for_each(|(path, _)| fs::remove_file(path).expect("removed"));
            }
        }
    }
}

/// A file that is not ours, where a new store's pool would go, stays as it is.
#[test]
fn what_is_not_ours_is_not_overwritten() {
    for len in [5_usize, 4096, 1 << 20, 2 << 20, 3 << 20] {
        let dir = TempDir::new("foreign");
        let bytes: Vec<u8> = (0..len).map(|i| (i * 7 + 1) as u8 | 1).collect();
        fs::write(dir.join("pool"), &bytes).expect("write");
        let refused = open(dir.path()).map(drop).expect_err("not a pool");
        assert!(
            matches!(
                refused.kind(),
                ErrorKind::InvalidArgument | ErrorKind::Corruption | ErrorKind::Exists
            ),
            "{refused}"
        );
        let after = fs::read(dir.join("pool")).expect("read");
        assert_eq!(after.len(), len, "the length of a foreign file changed");
        assert!(after == bytes, "a foreign file was changed");
        assert!(!dir.join("STORE").exists());
    }
}

/// A pool whose `STORE` was lost is found again, not formatted, whatever size is asked for.
#[test]
fn a_lost_store_file_loses_nothing() {
    for pm_size in [MIB, 2 * MIB, 4 * MIB] {
        let dir = TempDir::new("lost");
        sample(dir.path());
        fs::remove_file(dir.join("STORE")).expect("remove");
        let db = Db::open(dir.path(), options().pm_size(pm_size)).expect("open");
        assert_sample(&db);
        drop(db);
        assert_sample(&open(dir.path()).expect("open"));
    }
}

/// The same, but the pool was cut short as well: growing it back with zeroes must not hide that.
#[test]
fn a_lost_store_file_does_not_hide_a_pool_cut_short() {
    for len in [MIB, MIB + MIB / 2, 2 * MIB - 4096] {
        let dir = TempDir::new("lost-and-cut");
        let full = options().ssd(SsdSource::None);
        let db = Db::open(dir.path(), full).expect("create");
        // The pool is full, so that whatever is cut off is data.
        let mut count = 0_u64;
        while db.put(count.to_be_bytes(), [3; 200]).is_ok() {
            count += 1;
        }
        drop(db);
        let whole = fs::read(dir.join("pool")).expect("read");
        fs::remove_file(dir.join("STORE")).expect("remove");
        cut(&dir.join("pool"), len);
        match open(dir.path()) {
            Err(error) => assert_eq!(error.kind(), ErrorKind::Corruption, "{error}"),
            Ok(db) => {
                for i in 0..count {
                    match db.get(i.to_be_bytes()) {
                        Ok(Some(value)) => assert_eq!(value, [3; 200]),
                        Ok(None) => panic!("cut to {len}: key {i} of {count} is silently missing"),
                        Err(error) => assert_eq!(error.kind(), ErrorKind::Corruption, "{error}"),
                    }
                }
            }
        }
        fs::write(dir.join("pool"), whole).expect("restore");
        let db = open(dir.path()).expect("open the restored pool");
        assert_eq!(dump(db.default_keyspace(), &ReadOptions::default()).len() as u64, count);
    }
}

/// Copying a store's directory gives a store of its own.
#[test]
fn a_copied_directory_is_another_store() {
    let dir = TempDir::new("copy");
    let (one, two) = (dir.join("one"), dir.join("two"));
    sample(&one);
    fs::create_dir(&two).expect("mkdir");
    for (path, bytes) in files(&one) {
        fs::write(two.join(path.file_name().expect("name")), bytes).expect("write");
    }
    let (first, second) = (open(&one).expect("one"), open(&two).expect("two"));
    first.put(b"only here", b"").expect("put");
    assert_eq!(second.get(b"only here").expect("get"), None);
    assert_sample(&second);
}

/// Two stores over one region in one process would write over each other.
#[test]
fn a_region_has_one_store() {
    let region = common::heap(4 << 20);
    let one = Db::open_region(region.clone(), options()).expect("open");
    one.put(b"k", b"v").expect("put");
    let second = Db::open_region(region.clone(), options()).map(drop);
    assert_eq!(kind_of(second), ErrorKind::Busy);
    drop(one);
    let again = Db::open_region(region, options()).expect("open");
    assert_eq!(again.get(b"k").expect("get"), Some(b"v".to_vec()));
}
