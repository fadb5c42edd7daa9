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

/// Bytes of budget and of memory for records, in MiB.
fn sizes(db: &Db) -> (u64, u64) {
    let properties = db.properties();
    (properties.dram_budget / MIB, properties.pm_capacity.div_ceil(8 * MIB) * 8)
}

#[test]
fn a_store_in_a_container_follows_its_limit() {
    let dir = tempfile::tempdir().expect("a folder");
    let db = open(&dir.path().join("pool"), Options::default().pm_size(16 * MIB));
    assert_eq!(sizes(&db), (256, 16));
    let memory = db.properties().memory;
    assert_eq!(memory.bytes, Some(2048 * MIB));
    assert_eq!(memory.limit.as_deref(), Some(Path::new("/sys/fs/cgroup/box/memory.max")));
    for pm in [PmSource::Heap, PmSource::Dram] {
        let path = dir.path().join(format!("{pm:?}"));
        let db = open(&path, Options::default().pm(pm.clone()));
        assert_eq!(sizes(&db), (192, 64), "{pm:?}");
    }
    let again = open(&dir.path().join("Dram"), Options::default());
    assert_eq!(sizes(&again), (192, 64), "opened again as what it is");
}

#[test]
fn what_the_options_say_stands() {
    let options = Options::default().pm(PmSource::Heap).pm_size(32 * MIB);
    assert_eq!(sizes(&open("unused".as_ref(), options.clone())), (256, 32));
    assert_eq!(sizes(&open("unused".as_ref(), options.dram_budget(1024 * MIB))), (1024, 32));
}
