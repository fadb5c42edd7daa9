//! Facts about the machine.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use bench::scratch::MEMORY;

use crate::data::Filling;
use crate::dram::{LONG, SKEWED, SPILL, Sizes};
use crate::flags::Flags;
use crate::stages::{Fit, Place};
use bench::data::draw::Draw;

/// Name and value of each fact.
pub fn facts(flags: &Flags) -> Vec<(String, String)> {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let facts = [
        ("date", date()),
        ("processor", field("/proc/cpuinfo", "model name")),
        ("cores", cores.to_string()),
        ("memory", field("/proc/meminfo", "MemTotal")),
        ("kernel", read("/proc/sys/kernel/osrelease")),
        ("huge pages of memory, of tmpfs", huge_pages()),
        ("stores in tmpfs", mount(Path::new(MEMORY))),
        ("stores on disk", mount(&flags.disk)),
        ("memory and data of a store on disk", on_disk(&flags.sizes)),
        ("data of a store in tmpfs", bytes(flags.sizes.data)),
        ("data of transaction, all in memtables", memtables(&flags.sizes)),
        ("tables of tpcc", format!("{}, {}", flags.scale, bytes(flags.sizes.orders))),
        ("values", values(flags.load.filling).into()),
        ("keys of overwrites and reads", draws(flags.load.draw).into()),
        ("memory is measured by", by(flags)),
        ("files of stores on disk", CACHES.into()),
        ("load of others at the begin", read("/proc/loadavg")),
    ];
    facts.map(|(name, value)| (name.to_string(), value)).to_vec()
}

/// How much of a disk's files the system keeps in memory, which no engine is charged for.
const CACHES: &str = "in mixed and overwrite past the system's cache (strandline, RocksDB) or dropped from it before (the \
                      others); in ycsb past it (strandline, RocksDB) or in it (the others); in fills they are in it, without a bound";

fn on_disk(sizes: &Sizes) -> String {
    let memory = bytes(sizes.memory);
    let of = |fit: Fit| bytes(sizes.data(Place::Disk, fit));
    format!(
        "{memory}; data {} in fills and ycsb ({SPILL} times), {} in cold, mixed and overwrite ({LONG} times), {} in zipf ({SKEWED} times), \
         {} where memory has all; commits {}",
        of(Fit::Spill),
        of(Fit::Long),
        of(Fit::Skewed),
        of(Fit::Pool),
        sizes.dram(Place::Disk, Fit::Commits).total.map_or_else(String::new, bytes)
    )
}

fn memtables(sizes: &Sizes) -> String {
    let dram = sizes.dram(Place::Disk, Fit::Memtables);
    let data = sizes.data(Place::Disk, Fit::Memtables);
    format!("{}; memory {}", bytes(data), dram.total.map_or_else(String::new, bytes))
}

fn values(filling: Filling) -> &'static str {
    match filling {
        Filling::Half => "compress to half",
        Filling::Random => "do not compress",
    }
}

fn draws(draw: Draw) -> &'static str {
    match draw {
        Draw::Uniform => "uniform",
        Draw::Zipf => "zipf, exponent 0.99, hot keys all over",
        Draw::HotSet => "hot set, four fifths of draws from a fifth of the keys, all over",
    }
}

fn bytes(bytes: u64) -> String {
    format!("{} MiB", bytes >> 20)
}

fn by(flags: &Flags) -> String {
    match flags.group {
        Some(_) => "peak of a control group, pages of files and the keys' model included".into(),
        None => "peak of memory that no file backs, and blocks of files in tmpfs".into(),
    }
}

fn huge_pages() -> String {
    let of = |file: &str| {
        let text = read(&format!("/sys/kernel/mm/transparent_hugepage/{file}"));
        let chosen = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
        chosen.map_or(text.clone(), |(chosen, _)| chosen.to_string())
    };
    format!("{}, {}", of("enabled"), of("shmem_enabled"))
}

fn read(path: &str) -> String {
    std::fs::read_to_string(path).map_or("unknown".into(), |text| text.trim().to_string())
}

fn field(path: &str, name: &str) -> String {
    let text = read(path);
    let line = text.lines().find(|line| line.starts_with(name));
    line.and_then(|line| line.split_once(':'))
        .map_or("unknown".into(), |(_, value)| value.trim().into())
}

/// File system and device of `path`.
fn mount(path: &Path) -> String {
    let path = path.canonicalize().unwrap_or(path.into());
    let mounts = read("/proc/mounts");
    let parts = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let over = parts.filter(|parts| parts.len() > 2 && path.starts_with(parts[1]));
    let nearest = over.max_by_key(|parts| parts[1].len());
    nearest.map_or("unknown".into(), |parts| format!("{} ({})", parts[2], parts[0]))
}

/// Today in UTC.
fn date() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    day(now.as_secs() / 86_400)
}

/// The day that is `days` after 1 January 1970; months are counted from March, so that leap days come last.
fn day(days: u64) -> String {
    let since = days + 719_468;
    let (era, of_era) = (since / 146_097, since % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let date = of_year - (153 * month + 2) / 5 + 1;
    let (month, turn) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    format!("{:04}-{month:02}-{date:02}", era * 400 + year + turn)
}

#[cfg(test)]
mod tests {
    #[test]
    fn days() {
        let days = [0, 58, 59, 11_016, 20_778].map(super::day);
        assert_eq!(days, ["1970-01-01", "1970-02-28", "1970-03-01", "2000-02-29", "2026-11-21"]);
    }
}
