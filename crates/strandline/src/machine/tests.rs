use super::*;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
/// What version 1 says where there is no limit.
const UNLIMITED: &str = "9223372036854771712";
const MOUNT_1: &str = "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n";
const MOUNT_2: &str = "30 23 0:26 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";

/// A machine of 8 GiB with these files.
fn machine(files: &[(&str, &str)]) -> tempfile::TempDir {
    let root = tempfile::tempdir().expect("a folder");
    for (name, text) in
        [("proc/meminfo", "MemTotal:        8388608 kB\nMemFree: 1 kB\n")].iter().chain(files)
    {
        let path = root.path().join(name);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("folders");
        std::fs::write(path, text).expect("written");
    }
    root
}

/// What is found there: bytes, and the file that limits them.
fn found(files: &[(&str, &str)]) -> (u64, Option<String>) {
    let memory = MachineMemory::find_under(machine(files).path());
    let limit = memory.limited_by.map(|file| file.display().to_string());
    (memory.bytes.expect("known"), limit)
}

fn limited(bytes: u64, file: &str) -> (u64, Option<String>) {
    (bytes, Some(file.to_owned()))
}

#[test]
fn without_control_groups_it_is_the_machines() {
    assert_eq!(found(&[]), (8 * GIB, None));
    let lonely = [("proc/self/cgroup", "0::/a\n"), ("sys/fs/cgroup/a/memory.max", "1048576\n")];
    assert_eq!(found(&lonely), (8 * GIB, None), "nothing says where groups are mounted");
}

#[test]
fn the_smallest_limit_of_a_group_and_those_above_it_counts() {
    let files = |leaf: &'static str, above: &'static str| {
        found(&[
            ("proc/self/cgroup", "0::/a/b/c\n"),
            ("proc/self/mountinfo", MOUNT_2),
            ("sys/fs/cgroup/a/b/c/memory.max", leaf),
            ("sys/fs/cgroup/a/memory.max", above),
            ("sys/fs/cgroup/other/memory.max", "1\n"),
        ])
    };
    assert_eq!(files("max\n", "max\n"), (8 * GIB, None));
    let own = limited(512 * MIB, "/sys/fs/cgroup/a/b/c/memory.max");
    assert_eq!(files("536870912\n", "max\n"), own);
    assert_eq!(files("536870912\n", "1073741824\n"), own);
    let above = limited(512 * MIB, "/sys/fs/cgroup/a/memory.max");
    assert_eq!(files("1073741824\n", "536870912\n"), above);
    assert_eq!(files("17179869184\n", "max"), (8 * GIB, None), "more than there is");
}

#[test]
fn a_group_is_limited_where_it_is_slowed() {
    let files = [
        ("proc/self/cgroup", "0::/a\n"),
        ("proc/self/mountinfo", MOUNT_2),
        ("sys/fs/cgroup/a/memory.max", "2147483648\n"),
        ("sys/fs/cgroup/a/memory.high", "1073741824\n"),
    ];
    assert_eq!(found(&files), limited(GIB, "/sys/fs/cgroup/a/memory.high"));
}

#[test]
fn version_1_has_its_own_hierarchy_and_number_for_no_limit() {
    let files = |leaf: &'static str, above: &'static str| {
        found(&[
            ("proc/self/cgroup", "5:cpu:/elsewhere\n4:hugetlb,memory:/a/b\n0::/\n"),
            ("proc/self/mountinfo", MOUNT_1),
            ("sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", leaf),
            ("sys/fs/cgroup/memory/a/memory.limit_in_bytes", above),
            ("sys/fs/cgroup/memory/elsewhere/memory.limit_in_bytes", "1"),
        ])
    };
    assert_eq!(files(UNLIMITED, UNLIMITED), (8 * GIB, None));
    let above = limited(256 * MIB, "/sys/fs/cgroup/memory/a/memory.limit_in_bytes");
    assert_eq!(files(UNLIMITED, "268435456"), above);
}

#[test]
fn both_versions_count_where_there_are_both() {
    let unified = MOUNT_2.replace("/sys/fs/cgroup ", "/sys/fs/cgroup/unified ");
    let mounts = format!("{MOUNT_1}{unified}");
    let files = |one: &'static str, two: &'static str| {
        found(&[
            ("proc/self/cgroup", "4:memory:/a\n0::/b\n"),
            ("proc/self/mountinfo", &mounts[..]),
            ("sys/fs/cgroup/memory/a/memory.limit_in_bytes", one),
            ("sys/fs/cgroup/unified/b/memory.max", two),
        ])
    };
    let one = limited(GIB, "/sys/fs/cgroup/memory/a/memory.limit_in_bytes");
    assert_eq!(files("1073741824", "2147483648"), one);
    let two = limited(GIB, "/sys/fs/cgroup/unified/b/memory.max");
    assert_eq!(files("2147483648", "1073741824"), two);
}

#[test]
fn a_container_sees_its_group_at_the_mount() {
    let at = |group: &str, mounted: &str| {
        let mount = MOUNT_2.replace(" / ", &format!(" {mounted} "));
        found(&[
            ("proc/self/cgroup", &format!("0::{group}\n")[..]),
            ("proc/self/mountinfo", &mount[..]),
            ("sys/fs/cgroup/memory.max", "1073741824\n"),
            ("sys/fs/cgroup/x/memory.max", "536870912\n"),
        ])
    };
    let mounted = limited(GIB, "/sys/fs/cgroup/memory.max");
    let below = limited(512 * MIB, "/sys/fs/cgroup/x/memory.max");
    assert_eq!(at("/", "/"), mounted, "a namespace of its own");
    assert_eq!(at("/docker/1", "/docker/1"), mounted, "no namespace");
    assert_eq!(at("/docker/1/x", "/docker/1"), below);
    assert_eq!(at("/docker/1", "/"), mounted, "a name from outside");
    assert_eq!(at("/../..", "/../.."), mounted);
    assert_eq!(at("/../x", "/.."), below);
    assert_eq!(at("/", "/../.."), mounted, "mounted from above the namespace");
    assert_eq!(at("/../..", "/"), mounted, "outside of the namespace");
    assert_eq!(at("/elsewhere", "/docker/1"), mounted, "outside of what is mounted");
}

#[test]
fn a_place_may_have_blanks() {
    let mount = MOUNT_2.replace("/sys/fs/cgroup", "/my\\040groups");
    let files = [
        ("proc/self/cgroup", "0::/a\n"),
        ("proc/self/mountinfo", &mount[..]),
        ("my groups/a/memory.max", "1073741824"),
    ];
    assert_eq!(found(&files), limited(GIB, "/my groups/a/memory.max"));
}

#[test]
fn what_makes_no_sense_is_no_limit() {
    for text in ["", "max", "-1", "much\n", "99999999999999999999999", "1 2", "\u{fffd}", UNLIMITED]
    {
        let files = [
            ("proc/self/cgroup", "0::/a\n"),
            ("proc/self/mountinfo", MOUNT_2),
            ("sys/fs/cgroup/a/memory.max", text),
        ];
        assert_eq!(found(&files), (8 * GIB, None), "{text:?}");
    }
    let lines = [
        "",
        ":",
        "::",
        "0::",
        "0:",
        "0::/..",
        "0::a",
        "4:memory",
        "4:memory:",
        " - ",
        "- cgroup2",
        "1 2 3 4 - cgroup2 a rw",
        "1 2 3 4 5 - cgroup2",
        "1 2 3 / \\ - cgroup2 a rw",
        "1 2 3 \\9 \\040\\4é - cgroup2 a rw",
        "1 2 3   - cgroup2  rw",
        "\u{0}",
    ];
    for group in lines {
        for mount in lines {
            let files = [("proc/self/cgroup", group), ("proc/self/mountinfo", mount)];
            assert_eq!(found(&files), (8 * GIB, None), "{group:?}, {mount:?}");
        }
    }
}

#[test]
fn nothing_is_known_where_nothing_is_told() {
    let root = machine(&[("proc/meminfo", "MemTotal: lots\n")]);
    let memory = MachineMemory::find_under(root.path());
    assert_eq!(memory, MachineMemory::default());
    assert_eq!(memory.store_bytes(), GIB);
    assert_eq!(MachineMemory::find_under(&root.path().join("nowhere")), memory);
}

#[test]
fn a_store_takes_an_eighth() {
    let budget =
        |mib: u64| MachineMemory { bytes: Some(mib * MIB), limited_by: None }.store_bytes() / MIB;
    let mib = [24 << 10, 8 << 10, 2 << 10, 128, 0];
    assert_eq!(mib.map(budget), [1024, 1024, 256, 16, 1]);
}

#[test]
fn records_in_dram_take_a_quarter_of_that() {
    let memory = |mib: u64| MachineMemory { bytes: Some(mib * MIB), limited_by: None };
    let mib = [24 << 10, 8 << 10, 2 << 10, 128, 0];
    assert_eq!(mib.map(|mib| memory(mib).record_bytes() / MIB), [256, 256, 64, 16, 16]);
    let indexes = |mib, records: u64| memory(mib).index_bytes(records * MIB) / MIB;
    assert_eq!(indexes(8 << 10, 256), 768);
    assert_eq!(indexes(8 << 10, 16), 1008);
    assert_eq!(indexes(8 << 10, 4096), 768, "asked for on top");
    assert_eq!([indexes(2 << 10, 64), indexes(0, 16)], [192, 1]);
}
