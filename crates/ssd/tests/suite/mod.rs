//! What every file system does.

use std::path::Path;

use base::ErrorKind::{Corruption, Exists, InvalidArgument, Io, NotFound};
use base::{ErrorKind, Result};
use ssd::Fs;

fn kind<T>(result: Result<T>) -> ErrorKind {
    match result {
        Ok(_) => panic!("this must fail"),
        Err(error) => error.kind(),
    }
}

/// Bytes that differ from place to place.
fn pattern(from: u64, len: usize) -> Vec<u8> {
    (from..from + len as u64).map(|i| (i ^ i >> 8 ^ i >> 16) as u8 | 1).collect()
}

fn write(fs: &dyn Fs, path: &Path, bytes: &[u8]) {
    let mut file = fs.create(path).unwrap();
    file.append(bytes).unwrap();
    file.sync().unwrap();
}

fn content(fs: &dyn Fs, path: &Path) -> Vec<u8> {
    let file = fs.open(path).unwrap();
    let mut bytes = vec![0; file.len() as usize];
    file.read_at(0, &mut bytes).unwrap();
    bytes
}

/// Runs everything below `root`, which is made if it is missing.
pub fn conform(fs: &dyn Fs, root: &Path) {
    fs.create_dir_all(root).unwrap();
    assert!(!fs.describe().is_empty());
    assert!(fs.free_bytes(root).unwrap() > 1 << 20);
    directories(fs, &root.join("dirs"));
    names(fs, &root.join("names"));
    lengths(fs, &root.join("lengths"));
    reads(fs, &root.join("reads"));
    open_files(fs, &root.join("open"));
    installs(fs, &root.join("install"));
}

fn directories(fs: &dyn Fs, dir: &Path) {
    let deep = dir.join("a/b/c");
    assert_eq!(kind(fs.list(&deep)), NotFound);
    fs.create_dir_all(&deep).unwrap();
    fs.create_dir_all(&deep).unwrap();
    assert_eq!(fs.list(&deep).unwrap(), [""; 0]);
    for name in ["2", "10", "1", "z"] {
        write(fs, &deep.join(name), name.as_bytes());
    }
    assert_eq!(fs.list(&deep).unwrap(), ["1", "10", "2", "z"]);
    assert_eq!(fs.list(dir).unwrap(), ["a"]);
    assert_eq!(kind(fs.list(&deep.join("1"))), Io);
    assert_eq!(kind(fs.create_dir_all(&deep.join("1"))), Exists);
    assert_eq!(kind(fs.remove_dir(&deep)), Io);
    assert_eq!(kind(fs.remove_dir(&dir.join("none"))), NotFound);
    assert_eq!(kind(fs.remove(&deep)), Io);
    assert_eq!(kind(fs.open(&deep)), InvalidArgument);
    assert_eq!(kind(fs.sync_dir(&dir.join("none"))), NotFound);
    for name in ["1", "10", "2", "z"] {
        fs.remove(&deep.join(name)).unwrap();
    }
    fs.sync_dir(&deep).unwrap();
    fs.remove_dir(&deep).unwrap();
    assert!(!fs.exists(&deep).unwrap());
    assert!(fs.exists(&dir.join("a/b")).unwrap());
    fs.create_dir_all(&dir.join("staged/sub")).unwrap();
    write(fs, &dir.join("staged/sub/f"), b"moved");
    fs.rename(&dir.join("staged"), &dir.join("a/final")).unwrap();
    assert_eq!(content(fs, &dir.join("a/final/sub/f")), b"moved");
    assert_eq!(kind(fs.rename(&dir.join("a"), &dir.join("a/final/a"))), Io);
}

fn names(fs: &dyn Fs, dir: &Path) {
    fs.create_dir_all(dir).unwrap();
    let (a, b, c) = (dir.join("a"), dir.join("b"), dir.join("c"));
    assert_eq!(kind(fs.open(&a)), NotFound);
    assert_eq!(kind(fs.remove(&a)), NotFound);
    assert_eq!(kind(fs.rename(&a, &b)), NotFound);
    assert_eq!(kind(fs.link(&a, &b)), NotFound);
    assert_eq!(kind(fs.create(&dir.join("none/a"))), NotFound);
    write(fs, &a, b"first");
    assert_eq!(kind(fs.create(&a)), Exists);
    fs.link(&a, &b).unwrap();
    assert_eq!(kind(fs.link(&a, &b)), Exists);
    write(fs, &c, b"second");
    fs.rename(&c, &a).unwrap();
    assert!(!fs.exists(&c).unwrap());
    assert_eq!((content(fs, &a), content(fs, &b)), (b"second".to_vec(), b"first".to_vec()));
    fs.rename(&a, &a).unwrap();
    fs.remove(&a).unwrap();
    fs.sync_dir(dir).unwrap();
    assert_eq!(fs.list(dir).unwrap(), ["b"]);
    let said = fs.open(&a).err().unwrap().to_string();
    assert!(said.contains(&a.display().to_string()), "{said}");
}

/// Around every edge of sectors, pages and buffers, with syncs in between.
fn lengths(fs: &dyn Fs, dir: &Path) {
    fs.create_dir_all(dir).unwrap();
    let edges = [0, 1, 511, 512, 513, 4095, 4096, 4097, 8192, 65_536, 262_143, 262_144, 262_145];
    for (i, &first) in edges.iter().enumerate() {
        for second in [0, 1, 4095, 4096, 300_000] {
            let path = dir.join(format!("{i}-{second}"));
            let mut file = fs.create(&path).unwrap();
            assert!(file.is_empty());
            file.append(&pattern(0, first)).unwrap();
            file.advise_written();
            file.sync().unwrap();
            assert_eq!(content(fs, &path), pattern(0, first), "{first}");
            file.append(&pattern(first as u64, second)).unwrap();
            file.append(&[]).unwrap();
            file.sync().unwrap();
            file.sync().unwrap();
            assert_eq!(file.len(), (first + second) as u64);
            drop(file);
            assert_eq!(content(fs, &path), pattern(0, first + second), "{first} + {second}");
            fs.remove(&path).unwrap();
        }
    }
    let path = dir.join("small-appends");
    let mut file = fs.create(&path).unwrap();
    for i in 0..3000 {
        file.append(&pattern(i * 3, 3)).unwrap();
        if i % 1000 == 7 {
            file.sync().unwrap();
        }
    }
    file.sync().unwrap();
    assert_eq!(content(fs, &path), pattern(0, 9000));
}

fn reads(fs: &dyn Fs, dir: &Path) {
    fs.create_dir_all(dir).unwrap();
    let path = dir.join("f");
    const LEN: usize = 300_001;
    write(fs, &path, &pattern(0, LEN));
    let file = fs.open(&path).unwrap();
    assert_eq!((file.len(), file.path()), (LEN as u64, path.as_path()));
    file.will_need(0, LEN as u64);
    file.will_need(u64::MAX, u64::MAX);
    let spans = [(0, 1), (1, 4096), (4095, 2), (4096, 8192), (100_000, 77_777), (LEN - 1, 1)];
    for (at, len) in spans {
        let mut out = vec![0; len];
        file.read_at(at as u64, &mut out).unwrap();
        assert_eq!(out, pattern(at as u64, len), "{len} bytes at {at}");
    }
    file.read_at(LEN as u64, &mut []).unwrap();
    let mut outs: Vec<(usize, Vec<u8>)> = (0..200).map(|i| (i * 1499, vec![0; i * 7])).collect();
    let mut ranges: Vec<_> =
        outs.iter_mut().map(|(at, o)| (*at as u64, o.as_mut_slice())).collect();
    file.read_many(&mut ranges).unwrap();
    file.read_many(&mut []).unwrap();
    for (at, out) in &outs {
        assert_eq!(*out, pattern(*at as u64, out.len()));
    }
    for (at, len) in [(0, 10), (4095, 5000)] {
        let mut out = vec![0; len];
        // Whether the page cache has it is not known; if it does it has the same.
        assert!(!file.read_cached(at, &mut out) || out == pattern(at, len), "{at}, {len}");
    }
    for (at, len) in [(LEN as u64 - 1, 2), (LEN as u64, 1), (1 << 40, 8), (u64::MAX, 8)] {
        assert!(!file.read_cached(at, &mut vec![0; len]), "{at}, {len}");
        let error = file.read_at(at, &mut vec![0; len]).unwrap_err();
        assert_eq!(error.kind(), Corruption);
        let said = error.to_string();
        assert!(said.contains(&path.display().to_string()) && said.contains(&at.to_string()));
        let (mut good, mut bad) = (vec![0; 10], vec![0; len]);
        let mut ranges = [(0, good.as_mut_slice()), (at, bad.as_mut_slice())];
        assert_eq!(kind(file.read_many(&mut ranges)), Corruption);
    }
}

fn open_files(fs: &dyn Fs, dir: &Path) {
    fs.create_dir_all(dir).unwrap();
    let (path, other) = (dir.join("f"), dir.join("g"));
    let mut writing = fs.create(&path).unwrap();
    writing.append(b"0123").unwrap();
    writing.sync().unwrap();
    let reading = fs.open(&path).unwrap();
    fs.rename(&path, &other).unwrap();
    writing.append(b"4567").unwrap();
    writing.sync().unwrap();
    fs.remove(&other).unwrap();
    fs.sync_dir(dir).unwrap();
    // What is open stays until it is closed, whatever its name.
    let mut out = [0; 8];
    reading.read_at(0, &mut out).unwrap();
    assert_eq!((&out, reading.len()), (b"01234567", 4));
    drop((writing, reading));
    write(fs, &path, b"new");
    assert_eq!(content(fs, &path), b"new");
}

fn installs(fs: &dyn Fs, dir: &Path) {
    fs.create_dir_all(dir).unwrap();
    let (temporary, target) = (dir.join("CURRENT.tmp"), dir.join("CURRENT"));
    write(fs, &temporary, b"left by a crash");
    for text in [&b"one"[..], b"two"] {
        ssd::durable_install(fs, &temporary, &target, |file| file.append(text)).unwrap();
        assert_eq!(content(fs, &target), text);
        assert_eq!(fs.list(dir).unwrap(), ["CURRENT"]);
    }
    let elsewhere = dir.join("none/CURRENT");
    let installed = ssd::durable_install(fs, &temporary, &elsewhere, |_| Ok(()));
    assert_eq!(kind(installed), InvalidArgument);
}
