//! The machine in one line.

use std::fs::read_to_string;

use crate::words::length;

/// Processor, memory and kernel, as far as the system tells them.
pub(crate) fn about() -> String {
    let cpus = std::thread::available_parallelism().map_or(1, |cpus| cpus.get());
    let model = row("/proc/cpuinfo", "model name").unwrap_or_else(|| std::env::consts::ARCH.into());
    let kilobytes = row("/proc/meminfo", "MemTotal")
        .and_then(|text| text.strip_suffix("kB")?.trim().parse::<u64>().ok());
    let memory = kilobytes.map(|kilobytes| format!(", {} of DRAM", length(kilobytes << 10)));
    let kernel = read_to_string("/proc/sys/kernel/osrelease").ok();
    let kernel = kernel.map(|release| format!(", Linux {}", release.trim()));
    format!("{cpus} x {model}{}{}", memory.unwrap_or_default(), kernel.unwrap_or_default())
}

/// The value of the first row of that name.
fn row(file: &str, name: &str) -> Option<String> {
    let text = read_to_string(file).ok()?;
    let mut rows = text.lines().filter_map(|line| line.split_once(':'));
    rows.find(|(row, _)| row.trim() == name).map(|(_, value)| value.trim().to_owned())
}
