//! General allocators: the one that this program uses, and, in a child process that the loader gives it, jemalloc.

use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::pairs::{PairLatency, SIZES, pairs};
use crate::report::say;

/// What is measured of an allocator.
pub(crate) const COLUMNS: [&str; 2] = ["untouched", "touched"];
/// Bytes that are held at most.
const HELD: usize = 64 << 20;
const PAGE: usize = 4096;
/// Touching is timed with fewer pairs: it takes as long as writing all pages.
const TOUCHED_SHARE: u64 = 20;
/// How a child is told what to do.
pub(crate) const MODE: &str = "--child-malloc";

/// An allocator to measure.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Allocator {
    System,
    Jemalloc,
}

impl Allocator {
    pub const ALL: [Allocator; 2] = [Allocator::System, Allocator::Jemalloc];

    pub fn name(self) -> &'static str {
        match self {
            Allocator::System => "malloc",
            Allocator::Jemalloc => "jemalloc",
        }
    }
}

/// By column and length.
pub(crate) type Columns = [Vec<PairLatency>; COLUMNS.len()];

/// The latencies of an allocator, or why it is missing.
pub(crate) fn measure(allocator: Allocator, count: u64) -> Result<Result<Columns, String>, String> {
    match allocator {
        Allocator::System => here(count).map(Ok),
        Allocator::Jemalloc => match library() {
            Some(library) => preloaded(&library, count).map(Ok),
            None => {
                Ok(Err("jemalloc is not installed: scripts/install-allocators installs it".into()))
            }
        },
    }
}

/// The allocator of this process.
fn here(count: u64) -> Result<Columns, String> {
    let mut columns = Columns::default();
    for size in SIZES.map(|size| size as usize) {
        let held = (HELD / size).clamp(1, 1000) as u64;
        let untouched = || Some(Vec::<u8>::with_capacity(size));
        let touched = || {
            let mut bytes = Vec::<u8>::with_capacity(size);
            for page in bytes.spare_capacity_mut().chunks_mut(PAGE) {
                page[0].write(1);
            }
            Some(black_box(bytes))
        };
        let few = (count / TOUCHED_SHARE * PAGE as u64 / size as u64).clamp(20, count);
        let stands = || "memory is short".to_string();
        columns[0].push(pairs(count.min(few * 1000), held, untouched, drop).ok_or_else(stands)?);
        columns[1].push(pairs(few, held, touched, drop).ok_or_else(stands)?);
    }
    Ok(columns)
}

/// Where the loader's directories have jemalloc.
fn library() -> Option<PathBuf> {
    let machine = std::env::consts::ARCH;
    let folders =
        [format!("/usr/lib/{machine}-linux-gnu"), "/usr/lib64".into(), "/usr/local/lib".into()];
    folders
        .iter()
        .map(|folder| Path::new(folder).join("libjemalloc.so.2"))
        .find(|path| path.exists())
}

/// The same in a child whose allocator `library` is.
fn preloaded(library: &Path, count: u64) -> Result<Columns, String> {
    let failed = |what: &str| format!("measuring {}: {what}", library.display());
    let program = std::env::current_exe().map_err(|error| failed(&error.to_string()))?;
    let ended = Command::new(program)
        .args(["bench", MODE, &count.to_string()])
        .env("LD_PRELOAD", library)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| failed(&error.to_string()))?;
    if !ended.status.success() {
        return Err(failed("the child process failed"));
    }
    let mut columns = Columns::default();
    for line in String::from_utf8_lossy(&ended.stdout).lines() {
        let numbers: Vec<u64> = line.split(' ').filter_map(|word| word.parse().ok()).collect();
        let [column, median, p99] = numbers[..] else {
            return Err(failed(&format!("the child said {line}")));
        };
        let column = columns.get_mut(column as usize).ok_or_else(|| failed("a strange column"))?;
        column.push(PairLatency { median, p99 });
    }
    Ok(columns)
}

/// Runs as a child: a line for each length and column.
pub(crate) fn child(args: &[String]) -> Result<i32, String> {
    let count = args.first().and_then(|count| count.parse().ok()).ok_or("no number of pairs")?;
    for (no, column) in here(count)?.iter().enumerate() {
        for PairLatency { median, p99 } in column {
            say(&format!("{no} {median} {p99}"))?;
        }
    }
    Ok(0)
}
