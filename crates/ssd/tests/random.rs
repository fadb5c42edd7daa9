//! Random calls: the file system in memory does what the operating system does, and power cuts keep to the
//! rules of the model.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use base::random::Rng;
use base::{ErrorKind, Result};
use ssd::{Disk, Fs, Memory, PageCache, Posix};

#[derive(Clone, Copy, Debug)]
enum Step {
    Write,
    Overwrite,
    CutShort,
    MakeDir,
    Rename,
    Link,
    Remove,
    RemoveDir,
    SyncDir,
}

const STEPS: [Step; 11] = [
    Step::Overwrite,
    Step::CutShort,
    Step::Write,
    Step::Write,
    Step::Write,
    Step::MakeDir,
    Step::Rename,
    Step::Link,
    Step::Remove,
    Step::RemoveDir,
    Step::SyncDir,
];

/// One random call below `root`; the same on every file system for the same rng.
fn step(fs: &dyn Fs, root: &Path, rng: &mut Rng) -> (Step, Result<()>) {
    let path = |rng: &mut Rng| {
        let names = ["a", "b", "d", "d/a", "d/b", "d/e", "d/e/a"];
        root.join(names[rng.index(names.len())])
    };
    let (step, one, two) = (STEPS[rng.index(STEPS.len())], path(rng), path(rng));
    let text = vec![b'a' + rng.index(26) as u8; rng.index(20)];
    let synced = rng.index(2) == 0;
    let result = match step {
        Step::Write => fs.create(&one).and_then(|mut file| {
            file.append(&text)?;
            if synced { file.sync() } else { Ok(()) }
        }),
        Step::Overwrite => fs.overwrite(&one).and_then(|mut file| {
            let at = rng.index(30) as u64;
            file.write_at(at, &text)?;
            if synced { file.sync() } else { Ok(()) }
        }),
        Step::CutShort => fs.overwrite(&one).and_then(|mut file| {
            file.truncate(text.len() as u64)?;
            if synced { file.sync() } else { Ok(()) }
        }),
        Step::MakeDir => fs.create_dir_all(&one),
        Step::Rename => fs.rename(&one, &two),
        Step::Link => fs.link(&one, &two),
        Step::Remove => fs.remove(&one),
        Step::RemoveDir => fs.remove_dir(&one),
        Step::SyncDir => fs.sync_dir(&one),
    };
    (step, result)
}

/// Everything below a directory of the operating system.
fn tree(root: &Path) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
    let mut found = BTreeMap::new();
    let mut todo = vec![root.to_path_buf()];
    while let Some(dir) = todo.pop() {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(root).unwrap().to_path_buf();
            match path.is_dir() {
                true => {
                    todo.push(path);
                    found.insert(name, None);
                }
                false => drop(found.insert(name, Some(std::fs::read(path).unwrap()))),
            }
        }
    }
    found
}

fn shown(disk: &Disk) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
    let mut found = BTreeMap::new();
    disk.visit(&mut |path, bytes| {
        found.insert(PathBuf::from(path.trim_start_matches('/')), bytes.map(<[u8]>::to_vec));
    });
    found
}

#[test]
fn memory_does_what_the_operating_system_does() {
    let scratch = tempfile::tempdir().unwrap();
    let mut failed = BTreeMap::new();
    for seed in 0..60 {
        let root = scratch.path().join(seed.to_string());
        std::fs::create_dir(&root).unwrap();
        let (posix, memory) = (Posix::new(PageCache::Used), Memory::default());
        let (mut rng, mut same_rng) = (Rng::new(seed), Rng::new(seed));
        for turn in 0..80 {
            let (what, real) = step(&posix, &root, &mut rng);
            let (_, model) = step(&memory, "/".as_ref(), &mut same_rng);
            let kind = |result: &Result<()>| result.as_ref().map_err(|e| e.kind()).copied();
            assert_eq!(
                kind(&real),
                kind(&model),
                "seed {seed}, turn {turn}: {what:?} {real:?} {model:?}"
            );
            if let Err(error) = real {
                *failed.entry(format!("{:?}", error.kind())).or_insert(0) += 1;
            }
        }
        assert_eq!(tree(&root), shown(&memory.disk()), "seed {seed}");
    }
    // Not only what works was tried.
    assert!(
        [ErrorKind::NotFound, ErrorKind::Exists, ErrorKind::Io]
            .iter()
            .all(|kind| failed[&format!("{kind:?}")] > 50)
    );
}

#[test]
fn power_cuts_keep_to_the_rules() {
    let mut survivors = 0;
    for seed in 0..300 {
        let memory = Memory::new(Disk::new(8));
        let mut rng = Rng::new(seed);
        let mut written = BTreeSet::new();
        for _ in 0..30 {
            let _may_fail = step(&memory, "/".as_ref(), &mut rng).1;
            let disk = memory.disk();
            let files = shown(&disk).into_values().flatten();
            written.extend(files.flat_map(|bytes| bytes.into_iter().enumerate()));
            let doubts = disk.doubts();
            // With all kept nothing is lost.
            let kept: Vec<u16> = doubts.iter().map(|d| (d.count - 1) as u16).collect();
            assert_eq!(shown(&disk.survivor(&kept)), shown(&disk), "seed {seed}");
            assert_eq!(disk.tell(&kept).len(), doubts.len());
            for survivor in disk.survivors(20, seed) {
                survivors += 1;
                // What survived is durable: a second cut takes nothing.
                assert_eq!(survivor.doubts(), []);
                assert_eq!(shown(&survivor.survivor(&[])), shown(&survivor));
                // Nothing is invented: each byte was once at that place, but for what was lost.
                for bytes in shown(&survivor).into_values().flatten() {
                    let mut kept = bytes.iter().copied().enumerate().filter(|(_, byte)| *byte != 0);
                    assert!(kept.all(|byte| written.contains(&byte)));
                }
            }
        }
        // With every directory synced only unsynced bytes are left to decide.
        let disk = memory.disk();
        let dirs = shown(&disk).into_iter().filter(|(_, bytes)| bytes.is_none());
        for dir in dirs.map(|(dir, _)| dir).chain([PathBuf::from("/")]) {
            memory.sync_dir(&dir).unwrap();
        }
        let disk = memory.disk();
        let names = |disk: &Disk| shown(disk).into_keys().collect::<Vec<_>>();
        let same = |survivor: Disk| names(&survivor) == names(&disk);
        assert!(disk.survivors(50, seed).all(same), "seed {seed}");
    }
    assert!(survivors > 50_000);
}
