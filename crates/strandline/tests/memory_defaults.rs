//! What a store takes of the memory of its machine where the options do not say.

use std::path::Path;

use strandline::{Db, Options, PmSource, steps};

const MIB: u64 = 1 << 20;

/// A machine of 8 GiB whose container has 2 GiB.
fn container() -> tempfile::TempDir {
    let root = tempfile::tempdir().expect("a folder");
    let files = [
        ("proc/meminfo", "MemTotal:        8388608 kB\n"),
        ("proc/self/cgroup", "0::/box/app\n"),
        ("proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"),
        ("sys/fs/cgroup/box/memory.max", "2147483648\n"),
        ("sys/fs/cgroup/box/app/memory.max", "max\n"),
    ];
    for (name, text) in files {
        let path = root.path().join(name);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("folders");
        std::fs::write(path, text).expect("written");
    }
    root
}

fn open(path: &Path, options: Options) -> Db {
    steps::open_under(container().path(), path, options.background_threads(0)).expect("open")
}

/// Bytes of the budget, in MiB.
fn budget(db: &Db) -> u64 {
    db.properties().dram_budget / MIB
}

#[test]
fn a_store_in_a_container_follows_its_limit() {
    let dir = tempfile::tempdir().expect("a folder");
    for pm in [PmSource::Auto, PmSource::Heap, PmSource::Dram] {
        let path = dir.path().join(format!("{pm:?}"));
        let options = Options::default().pm(pm.clone()).pm_size(16 * MIB);
        let db = open(&path, options);
        assert_eq!(budget(&db), 256, "{pm:?}");
        let memory = db.properties().memory;
        assert_eq!(memory.bytes, Some(2048 * MIB));
        let file = Path::new("/sys/fs/cgroup/box/memory.max");
        assert_eq!(memory.limited_by.as_deref(), Some(file));
    }
}

#[test]
fn what_the_options_say_stands() {
    let options = Options::default().pm(PmSource::Heap).pm_size(16 * MIB);
    assert_eq!(budget(&open("unused".as_ref(), options.dram_budget(1024 * MIB))), 1024);
}
