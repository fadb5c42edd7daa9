//! Opening, locking and filling pool files.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use base::ErrorKind;
use pmem::{Durability, FileLock, OpenMode, PoolFile, Prefault, Site};

const LEN: u64 = 256 * 1024;

fn create(path: &Path) -> PoolFile {
    PoolFile::create(path, LEN).expect("created")
}

fn refused(result: base::Result<PoolFile>, kind: ErrorKind, parts: &[&str]) {
    let error = result.expect_err("to be refused");
    assert_eq!(error.kind(), kind, "{error}");
    let text = error.to_string();
    for part in parts {
        assert!(text.contains(part), "{part:?} is not in: {text}");
    }
}

/// A process of its own that holds a pool until it is killed: this test program, told by its environment
/// to run `holder` and nothing else.
struct Holder(Child);

impl Holder {
    fn of(path: &Path) -> Self {
        let mut child = Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", "holder", "--nocapture"])
            .env("PMEM_HOLD", path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("started");
        let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let held = lines.map_while(Result::ok).any(|line| line.contains("held"));
        assert!(held, "the holder ended early");
        Self(child)
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn holder() {
    if let Some(path) = std::env::var_os("PMEM_HOLD") {
        let pool = PoolFile::open(path.as_ref(), OpenMode::ReadWrite).expect("opened");
        let _region = pool.map(Prefault::Lazy).expect("mapped");
        println!("held");
        std::io::stdout().flush().expect("flushed");
        // Until killed, or the parent is gone.
        let _ = std::io::stdin().read_line(&mut String::new());
    }
}

#[test]
fn a_second_process_is_refused_with_the_pid_of_the_first() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pool");
    drop(create(&path));
    let holder = Holder::of(&path);
    let pid = format!("pid {}", holder.0.id());
    for mode in [OpenMode::ReadWrite, OpenMode::ReadOnly] {
        refused(PoolFile::open(&path, mode), ErrorKind::Busy, &[&pid, "close it"]);
    }
    refused(PoolFile::create(&path, 2 * LEN), ErrorKind::Busy, &[&pid]);
    assert_eq!(std::fs::metadata(&path).expect("there").len(), LEN, "left alone");
    drop(holder);
    PoolFile::open(&path, OpenMode::ReadWrite).expect("free once the holder is dead");
}

#[test]
fn a_second_open_in_this_process_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pool");
    let pool = create(&path);
    let own = format!("this process (pid {})", std::process::id());
    refused(PoolFile::open(&path, OpenMode::ReadWrite), ErrorKind::Busy, &[&own]);
    let region = pool.map(Prefault::Lazy).expect("mapped");
    refused(PoolFile::open(&path, OpenMode::ReadOnly), ErrorKind::Busy, &[&own]);
    refused(PoolFile::create(&path, LEN), ErrorKind::Busy, &[&own]);
    drop(region);
    PoolFile::open(&path, OpenMode::ReadWrite).expect("free again");
}

#[test]
fn readers_share_and_keep_writers_out() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pool");
    let region = create(&path).map(Prefault::Now).expect("mapped");
    let _ = region.fence(region.copy_nt(Site::Record, 4096, &[9; 64]));
    drop(region);
    let read = || PoolFile::open(&path, OpenMode::ReadOnly).expect("opened").map(Prefault::Lazy);
    let (one, two) = (read().expect("mapped"), read().expect("mapped"));
    assert_eq!(one.bytes(4096, 64), two.bytes(4096, 64));
    assert_eq!(one.bytes(4096, 64), [9; 64]);
    refused(
        PoolFile::open(&path, OpenMode::ReadWrite),
        ErrorKind::Busy,
        &["open for reading", "open it read-only here"],
    );
    drop((one, two));
    PoolFile::open(&path, OpenMode::ReadWrite).expect("free again");
}

#[test]
fn a_new_file_is_whole_private_and_zero() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pool");
    let odd = LEN + 123;
    let pool = PoolFile::create(&path, odd).expect("created");
    assert!(pool.is_new() && !pool.is_empty() && pool.path() == path);
    let found = std::fs::metadata(&path).expect("there");
    assert_eq!(found.len(), odd);
    assert!(found.blocks() * 512 >= odd, "sparse");
    assert_eq!(found.permissions().mode() & 0o777, 0o600);
    let region = pool.map(Prefault::Now).expect("mapped");
    assert_eq!(region.len(), odd);
    assert!(region.bytes(0, odd as usize).iter().all(|&b| b == 0));
    assert_eq!(region.describe(), path.display().to_string());
}

#[test]
fn an_existing_file_keeps_its_bytes_and_only_grows() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pool");
    std::fs::write(&path, b"precious").expect("written");
    let pool = PoolFile::create(&path, LEN).expect("taken");
    assert!(!pool.is_new());
    let region = pool.map(Prefault::Lazy).expect("mapped");
    assert_eq!((region.len(), region.bytes(0, 9)), (LEN, &b"precious\0"[..]));
    drop(region);
    refused(PoolFile::create(&path, LEN - 1), ErrorKind::Exists, &["nothing is cut off"]);
    assert_eq!(std::fs::metadata(&path).expect("there").len(), LEN);
}

#[test]
fn a_sparse_pool_is_filled_by_a_writer_and_refused_to_a_reader() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pool");
    std::fs::write(&path, b"precious").expect("written");
    let file = std::fs::File::options().write(true).open(&path).expect("opened");
    file.set_len(8 * LEN).expect("sparse");
    refused(
        PoolFile::open(&path, OpenMode::ReadOnly),
        ErrorKind::NoSpace,
        &["sparse", "open it for writing once"],
    );
    let pool = PoolFile::open(&path, OpenMode::ReadWrite).expect("opened");
    assert_eq!(pool.len(), 8 * LEN);
    assert!(file.metadata().expect("there").blocks() * 512 >= 8 * LEN, "still sparse");
    let region = pool.map(Prefault::Now).expect("mapped");
    assert_eq!(region.bytes(0, 9), b"precious\0");
    drop(region);
    PoolFile::open(&path, OpenMode::ReadOnly).expect("whole now");
}

#[test]
fn wrong_paths_and_lengths_are_refused_by_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let (pool, empty) = (folder.path().join("pool"), folder.path().join("empty"));
    std::fs::write(&empty, b"").expect("written");
    let open = |path: &Path| PoolFile::open(path, OpenMode::ReadWrite);
    let open_null = PoolFile::open(Path::new("/dev/null"), OpenMode::ReadOnly);
    refused(open(&pool), ErrorKind::NotFound, &["pool does not exist", "create it"]);
    refused(open(&empty), ErrorKind::Corruption, &["empty is empty", "begin anew elsewhere"]);
    refused(open(folder.path()), ErrorKind::InvalidArgument, &["a folder", "name a file"]);
    refused(open_null, ErrorKind::InvalidArgument, &["/dev/null", "not device-dax"]);
    refused(open(&empty.join("x")), ErrorKind::NotFound, &["does not exist"]);
    let in_no_folder = PoolFile::create(&folder.path().join("no/pool"), LEN);
    refused(in_no_folder, ErrorKind::NotFound, &["folder does not exist"]);
    for len in [0, u64::MAX] {
        let created = PoolFile::create(&pool, len);
        refused(created, ErrorKind::InvalidArgument, &["ask for a size in between"]);
    }
    assert!(!pool.exists());

    let link = folder.path().join("link");
    std::os::unix::fs::symlink("nowhere", &link).expect("linked");
    refused(PoolFile::create(&link, LEN), ErrorKind::Busy, &["broken link"]);
    assert!(!folder.path().join("nowhere").exists());
}

#[test]
fn a_file_cut_short_while_open_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pool");
    let pool = create(&path);
    let file = std::fs::File::options().write(true).open(&path).expect("opened");
    file.set_len(LEN / 2).expect("cut");
    let error = pool.map(Prefault::Now).expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
    assert!(error.to_string().contains("was cut from 262144 to 131072 bytes"), "{error}");
}

/// Neither the temporary folder nor `/dev/shm` is persistent memory on a machine that runs tests, unless
/// they are, and then the class says so.
#[test]
fn durability_is_detected_and_explained() {
    let mut folders = vec![std::env::temp_dir()];
    folders.extend(Path::new("/dev/shm").is_dir().then(|| "/dev/shm".into()));
    for folder in folders {
        let within = tempfile::tempdir_in(&folder).expect("a folder");
        let region = create(&within.path().join("pool")).map(Prefault::Lazy).expect("mapped");
        let note = region.durability_note();
        println!("{}: {} ({note})", folder.display(), region.durability());
        if note.starts_with("MAP_SYNC granted") {
            assert!(region.durability() >= Durability::ProcessCrash);
        } else {
            assert_eq!(region.durability(), Durability::ProcessCrash);
            let refused = note.starts_with("MAP_SYNC refused: Operation not supported; ");
            assert!(refused || note.starts_with("emulated: "), "{note}");
        }
        if folder == Path::new("/dev/shm") {
            assert!(note.starts_with("emulated: tmpfs is memory"), "{note}");
        }
        if cfg!(target_arch = "x86_64") {
            assert!(region.flush_instruction().starts_with("cl"));
            assert!(region.stream_instruction().contains("movntdq"));
        }
    }
}

/// Runs `full_device` in a mount namespace of its own, where it may mount a tiny tmpfs that is gone with
/// the process.
#[test]
fn a_full_device_is_an_error_and_leaves_nothing_behind() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = std::env::current_exe().expect("this program");
    for how in [&["--mount"][..], &["--map-root-user", "--mount"]] {
        let script = "mount -t tmpfs -o size=1m none \"$1\" && echo mounted && \
                      PMEM_FULL=$1 exec \"$2\" --exact full_device --nocapture";
        let output = Command::new("unshare")
            .args(how)
            .args(["sh", "-c", script, "sh"])
            .args([folder.path(), &program])
            .output();
        let Ok(output) = output else { continue };
        let text = String::from_utf8_lossy(&output.stdout);
        if text.contains("mounted") {
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success() && text.contains("checked"), "{text}{errors}");
            return;
        }
    }
    eprintln!("SKIPPED: no tmpfs can be mounted here, so a full device was not tested");
}

#[test]
fn full_device() {
    let Some(folder) = std::env::var_os("PMEM_FULL") else { return };
    let folder = Path::new(&folder);
    let (new, old) = (folder.join("new"), folder.join("old"));
    refused(
        PoolFile::create(&new, 4 << 20),
        ErrorKind::NoSpace,
        &["new needs 4194304 bytes more", "has 1048576 free", "ask for less"],
    );
    assert!(!new.exists(), "a file that cannot be filled is taken away again");

    std::fs::write(&old, b"precious").expect("written");
    refused(PoolFile::create(&old, 4 << 20), ErrorKind::NoSpace, &["old needs"]);
    assert_eq!(std::fs::read(&old).expect("there"), b"precious");

    std::fs::File::options()
        .write(true)
        .open(&old)
        .expect("opened")
        .set_len(4 << 20)
        .expect("sparse");
    let opened = PoolFile::open(&old, OpenMode::ReadWrite);
    refused(opened, ErrorKind::NoSpace, &["old needs", "free space there"]);

    PoolFile::create(&new, 512 << 10).expect("fits").map(Prefault::Now).expect("mapped");

    let remounted = Command::new("mount").args(["-o", "remount,ro"]).arg(folder).status();
    assert!(remounted.expect("started").success());
    let read_only = PoolFile::open(&new, OpenMode::ReadWrite);
    refused(read_only, ErrorKind::ReadOnly, &["mounted read-only", "open it read-only"]);
    refused(PoolFile::create(&folder.join("x"), LEN), ErrorKind::ReadOnly, &["remount it"]);
    PoolFile::open(&new, OpenMode::ReadOnly).expect("opened").map(Prefault::Now).expect("mapped");
    println!("checked");
}

#[test]
fn a_lock_keeps_writers_apart_and_lets_readers_together() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("LOCK");
    let none = FileLock::acquire(&path, OpenMode::ReadOnly).expect_err("never made");
    assert_eq!(none.kind(), ErrorKind::NotFound);
    let writer = FileLock::acquire(&path, OpenMode::ReadWrite).expect("made");
    for mode in [OpenMode::ReadWrite, OpenMode::ReadOnly] {
        let busy = FileLock::acquire(&path, mode).expect_err("held");
        assert_eq!(busy.kind(), ErrorKind::Busy);
        assert!(busy.context().contains(&format!("pid {}", std::process::id())), "{busy}");
    }
    drop(writer);
    let readers = [(); 2].map(|()| FileLock::acquire(&path, OpenMode::ReadOnly).expect("shared"));
    assert!(FileLock::acquire(&path, OpenMode::ReadWrite).is_err());
    drop(readers);
    if let Ok(memory) = tempfile::tempdir_in("/dev/shm") {
        let lock = FileLock::acquire(&memory.path().join("LOCK"), OpenMode::ReadWrite);
        let lock = lock.expect("made");
        assert_eq!(lock.volatile_storage().as_deref(), Some("tmpfs"));
    }
}
