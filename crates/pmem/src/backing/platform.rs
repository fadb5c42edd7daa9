//! What the machine says about the memory behind a mapping. Everything is read below a given `sys` folder,
//! so that tests can make machines up.

use std::path::{Path, PathBuf};

use crate::durability::Durability;

pub(super) const TMPFS: u64 = 0x0102_1994;

const RAMFS: u64 = 0x8584_58F6;

/// Whether the file system with this magic number keeps its files in memory, where power failure ends them.
pub(super) fn is_of_memory(magic: u64) -> bool {
    matches!(magic, TMPFS | RAMFS)
}

/// A short name for the file system with this magic number.
pub(super) fn file_system(magic: u64) -> String {
    let name = match magic {
        TMPFS => "tmpfs",
        RAMFS => "ramfs",
        0xEF53 => "ext4",
        0x5846_5342 => "xfs",
        0x9123_683E => "btrfs",
        0x2FC1_2FC1 => "zfs",
        0xF2F5_2010 => "f2fs",
        0x794C_7630 => "overlayfs",
        0x9584_58F6 => "hugetlbfs",
        0x6573_5546 => "fuse",
        0x6969 => "nfs",
        _ => return format!("file system {magic:#x}"),
    };
    name.into()
}

/// What a direct mapping reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Device {
    /// A file on this block device, for which `MAP_SYNC` was granted.
    Block(u64),
    /// A device-dax character device.
    Dax(u64),
}

impl Device {
    fn entry(self, sys: &Path) -> PathBuf {
        let (kind, number) = match self {
            Device::Block(number) => ("block", number),
            Device::Dax(number) => ("char", number),
        };
        let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
        sys.join("dev").join(kind).join(format!("{major}:{minor}"))
    }
}

/// Whether files on the device can be mapped directly; `None` where the system does not tell.
pub(super) fn has_dax(sys: &Path, device: Device) -> Option<bool> {
    let entry = device.entry(sys).canonicalize().ok()?;
    // A partition has no queue of its own.
    let told = |home: &Path| std::fs::read_to_string(home.join("queue/dax")).ok();
    let text = told(&entry).or_else(|| told(entry.parent()?))?;
    Some(text.trim() != "0")
}

/// Size in bytes of a device-dax device; `None` if the character device is something else.
pub(super) fn dax_size(sys: &Path, number: u64) -> Option<u64> {
    let entry = Device::Dax(number).entry(sys);
    let subsystem = std::fs::read_link(entry.join("subsystem")).ok()?;
    if subsystem.file_name()? != "dax" {
        return None;
    }
    std::fs::read_to_string(entry.join("size")).ok()?.trim().parse().ok()
}

/// What a fence is worth on directly mapped `device`, and why.
///
/// - A region of the non-volatile memory subsystem says which caches are inside its persistence domain.
///   Platforms from before that word say nothing; asynchronous DRAM refresh is what they all have.
/// - Memory below `e820_pmem` is DRAM that was set aside at boot.
/// - A dax device below no such region is volatile memory of another kind (a CXL expander, HBM).
pub(super) fn direct_durability(sys: &Path, device: Device) -> (Durability, String) {
    let homes = homes(&device.entry(sys), 8);
    let judged = homes.iter().map(|home| judge(home, device));
    // A volume over several devices is worth what its weakest is.
    judged.min_by_key(|(durability, _)| *durability).unwrap_or_else(|| unknown(device))
}

/// Where the device, and each device below it, hangs in the tree of devices.
fn homes(entry: &Path, depth: usize) -> Vec<PathBuf> {
    let Ok(home) = entry.canonicalize() else { return Vec::new() };
    let below: Vec<PathBuf> = std::fs::read_dir(home.join("slaves"))
        .map(|slaves| slaves.flatten().map(|slave| slave.path()).collect())
        .unwrap_or_default();
    if below.is_empty() || depth == 0 {
        return vec![home];
    }
    below.iter().flat_map(|slave| homes(slave, depth - 1)).collect()
}

fn judge(home: &Path, device: Device) -> (Durability, String) {
    let named = |prefix: &str| {
        home.ancestors().find(|folder| {
            folder.file_name().is_some_and(|name| name.to_string_lossy().starts_with(prefix))
        })
    };
    if named("ndbus").is_none() {
        return unknown(device);
    }
    if named("e820_pmem").is_some() {
        return (Durability::ProcessCrash, "DRAM set aside as persistent memory at boot".into());
    }
    let region = named("region");
    let region_name =
        region.and_then(Path::file_name).map(|name| name.to_string_lossy()).unwrap_or_default();
    let domain = region
        .and_then(|region| std::fs::read_to_string(region.join("persistence_domain")).ok())
        .unwrap_or_default();
    match domain.trim() {
        "cpu_cache" if cfg!(target_arch = "x86_64") => {
            (Durability::PowerFailEadr, format!("{region_name}: persistence domain cpu_cache"))
        }
        "" => (
            Durability::PowerFailAdr,
            format!("{region_name}: persistence domain not stated, taken as memory_controller"),
        ),
        domain => (Durability::PowerFailAdr, format!("{region_name}: persistence domain {domain}")),
    }
}

/// No region of the non-volatile memory subsystem is behind the device.
fn unknown(device: Device) -> (Durability, String) {
    match device {
        Device::Block(_) => (
            Durability::PowerFailAdr,
            "persistence domain not stated, taken as memory_controller".into(),
        ),
        Device::Dax(_) => {
            (Durability::ProcessCrash, "dax device without persistent memory behind it".into())
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    /// A made-up `/sys`, removed at the end.
    struct Sys(tempfile::TempDir);

    impl Sys {
        fn new() -> Self {
            let root = tempfile::tempdir().expect("a folder");
            for folder in ["dev/block", "dev/char", "bus/dax"] {
                fs::create_dir_all(root.path().join(folder)).expect("folder");
            }
            Self(root)
        }

        fn device(&self, kind: &str, number: &str, home: &str) {
            fs::create_dir_all(self.0.path().join(home)).expect("folder");
            symlink(self.0.path().join(home), self.0.path().join("dev").join(kind).join(number))
                .expect("link");
        }

        fn write(&self, file: &str, text: &str) {
            fs::write(self.0.path().join(file), text).expect("file");
        }

        fn judge(&self, device: Device) -> (Durability, String) {
            direct_durability(self.0.path(), device)
        }
    }

    fn block(minor: u32) -> Device {
        Device::Block(rustix::fs::makedev(259, minor))
    }

    fn dax(minor: u32) -> Device {
        Device::Dax(rustix::fs::makedev(252, minor))
    }

    const BUS: &str = "devices/LNXSYSTM:00/ACPI0012:00/ndbus0";

    #[test]
    fn domains_are_told_apart() {
        let sys = Sys::new();
        for (region, domain) in [(0, "memory_controller\n"), (1, "cpu_cache\n")] {
            sys.device(
                "block",
                &format!("259:{region}"),
                &format!("{BUS}/region{region}/namespace{region}.0/block/pmem{region}"),
            );
            sys.write(&format!("{BUS}/region{region}/persistence_domain"), domain);
        }
        sys.device("block", "259:2", &format!("{BUS}/region2/namespace2.0/block/pmem2/pmem2p1"));
        sys.device(
            "block",
            "259:3",
            "devices/platform/e820_pmem/ndbus1/region3/pfn3.0/block/pmem3",
        );
        sys.device("block", "259:4", "devices/virtual/block/dcssblk0");

        let adr =
            (Durability::PowerFailAdr, "region0: persistence domain memory_controller".into());
        assert_eq!(sys.judge(block(0)), adr);
        let cached = if cfg!(target_arch = "x86_64") {
            Durability::PowerFailEadr
        } else {
            Durability::PowerFailAdr
        };
        assert_eq!(sys.judge(block(1)), (cached, "region1: persistence domain cpu_cache".into()));
        assert_eq!(sys.judge(block(2)).0, Durability::PowerFailAdr);
        assert_eq!(sys.judge(block(3)).0, Durability::ProcessCrash);
        assert_eq!(sys.judge(block(4)).0, Durability::PowerFailAdr);
        assert_eq!(sys.judge(block(5)).0, Durability::PowerFailAdr, "no entry at all");
    }

    #[test]
    fn devices_say_whether_files_on_them_can_be_mapped_directly() {
        let sys = Sys::new();
        sys.device("block", "259:0", "devices/pci0/nvme0n1");
        sys.device("block", "259:1", "devices/pci0/nvme0n1/nvme0n1p1");
        sys.device("block", "259:2", "devices/pmem0");
        for (disk, dax) in [("pci0/nvme0n1", "0\n"), ("pmem0", "1\n")] {
            fs::create_dir_all(sys.0.path().join(format!("devices/{disk}/queue"))).expect("folder");
            sys.write(&format!("devices/{disk}/queue/dax"), dax);
        }
        let told = [0, 1, 2, 3].map(|minor| has_dax(sys.0.path(), block(minor)));
        assert_eq!(told, [Some(false), Some(false), Some(true), None]);
    }

    #[test]
    fn a_volume_is_worth_its_weakest_device() {
        let sys = Sys::new();
        let parts = [(0, "cpu_cache"), (1, "memory_controller")].map(|(region, domain)| {
            let home = format!("{BUS}/region{region}/namespace{region}.0/block/pmem{region}");
            fs::create_dir_all(sys.0.path().join(&home)).expect("folder");
            sys.write(&format!("{BUS}/region{region}/persistence_domain"), domain);
            home
        });
        sys.device("block", "259:9", "devices/virtual/block/dm-0");
        let slaves = sys.0.path().join("devices/virtual/block/dm-0/slaves");
        fs::create_dir_all(&slaves).expect("folder");
        for (name, home) in ["pmem0", "pmem1"].iter().zip(&parts) {
            symlink(sys.0.path().join(home), slaves.join(name)).expect("link");
        }
        assert_eq!(sys.judge(block(9)).0, Durability::PowerFailAdr);
    }

    #[test]
    fn dax_devices() {
        let sys = Sys::new();
        for (number, home) in [
            ("252:0", format!("{BUS}/region0/dax0.0/dax0.0")),
            ("252:1", "devices/platform/hmem.0/dax1.0".into()),
            ("1:3", "devices/virtual/mem/null".into()),
        ] {
            sys.device("char", number, &home);
            let subsystem = if number == "1:3" { "class/mem" } else { "bus/dax" };
            symlink(sys.0.path().join(subsystem), sys.0.path().join(&home).join("subsystem"))
                .expect("link");
            sys.write(&format!("{home}/size"), "4294967296\n");
        }
        assert_eq!(sys.judge(dax(0)).0, Durability::PowerFailAdr);
        assert_eq!(sys.judge(dax(1)).0, Durability::ProcessCrash, "memory of a CXL expander");
        assert_eq!(dax_size(sys.0.path(), rustix::fs::makedev(252, 0)), Some(4 << 30));
        assert_eq!(dax_size(sys.0.path(), rustix::fs::makedev(1, 3)), None);
        assert_eq!(dax_size(sys.0.path(), rustix::fs::makedev(9, 9)), None);
    }
}
