//! What RocksDB does with its write-ahead log and caches, as its own file `LOG` says after an open.

use std::fmt;
use std::path::Path;

use super::Result;

/// Settings as they are in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RocksLog {
    /// Old files that are kept to be written over.
    pub recycled: u32,
    /// The block cache has another below it.
    pub has_second: bool,
}

/// Begins what the file says of a secondary cache.
const SECOND: &str = "secondary_cache:";

impl RocksLog {
    /// Reads the file in `dir`.
    ///
    /// # Errors
    /// It does not say, or it says that puts are acknowledged before they are written.
    pub fn read(dir: &Path) -> Result<RocksLog> {
        RocksLog::parse(&text(dir)?)
    }

    fn parse(text: &str) -> Result<RocksLog> {
        if option(text, "manual_wal_flush")? != 0 {
            return Err("rocksdb: manual_wal_flush is on: puts would not be written".into());
        }
        let recycled = option(text, "recycle_log_file_num")?;
        // One level more than of a cache by itself.
        let has_second = text.lines().any(|line| line.trim_start().starts_with(SECOND));
        Ok(RocksLog { recycled, has_second })
    }
}

/// How often the store in `dir` has used an old file of its log again since it was opened.
///
/// # Errors
/// Its file cannot be read.
pub(super) fn reused(dir: &Path) -> Result<usize> {
    Ok(reuses(&text(dir)?))
}

fn reuses(text: &str) -> usize {
    text.lines().filter(|line| line.contains("reusing log ")).count()
}

fn text(dir: &Path) -> Result<String> {
    let path = dir.join("LOG");
    let text = std::fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

fn option(text: &str, name: &str) -> Result<u32> {
    let key = format!("Options.{name}:");
    let value = text.lines().find_map(|line| line.split_once(&key));
    value
        .and_then(|(_, value)| value.trim().parse().ok())
        .ok_or_else(|| format!("rocksdb: its LOG does not tell {name}"))
}

impl fmt::Display for RocksLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "its LOG: recycle_log_file_num {}", self.recycled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_log_says() {
        let line = |name: &str, value: u32| {
            format!("2026/11/25-17:00:00.1 42                Options.{name}: {value}\n")
        };
        let text = line("recycle_log_file_num", 4) + &line("manual_wal_flush", 0);
        assert_eq!(RocksLog::parse(&text), Ok(RocksLog { recycled: 4, has_second: false }));
        let second = text.clone() + "  secondary_cache:\n    capacity : 42\n";
        assert_eq!(RocksLog::parse(&second), Ok(RocksLog { recycled: 4, has_second: true }));
        assert_eq!(reuses(&text), 0);
        let reused =
            "2026/11/25-17:00:01 42 [db/db_impl/db_impl_open.cc] reusing log 8 from recycle list\n";
        assert_eq!(reuses(&(text + reused + reused)), 2);
        assert!(RocksLog::parse("").unwrap_err().contains("manual_wal_flush"));
        let lazy = line("recycle_log_file_num", 4) + &line("manual_wal_flush", 1);
        assert!(RocksLog::parse(&lazy).unwrap_err().contains("would not be written"));
    }
}
