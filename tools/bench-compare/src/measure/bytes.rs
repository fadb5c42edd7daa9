//! Bytes that this process moved, as the system counts them: the same for all engines, their logs included.

use std::time::{Duration, Instant};

/// From one look at the bytes to the next.
const LOOK: Duration = Duration::from_millis(20);
/// As long as nothing is written before background threads count as done.
const QUIET: Duration = Duration::from_millis(500);
/// Longest that is waited for them.
const PATIENCE: Duration = Duration::from_secs(60);

/// Bytes since the process began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessBytes {
    /// Given to write system calls. Engines write their files so, which makes this the figure that is compared: that a
    /// log is deleted before the system wrote it makes it no cheaper. What goes through a ring (io_uring), or is stored
    /// to a mapping, is not in it.
    pub given: u64,
    /// To be written to a disk: pages that were made dirty, and what went past the page cache. Pages that were given up
    /// first are in it; one that was changed twice before it was written counts once. Nothing of tmpfs.
    pub dirtied: u64,
    /// Read from a disk.
    pub read: u64,
}

impl ProcessBytes {
    /// Now; zeros where the system does not tell.
    pub fn now() -> ProcessBytes {
        ProcessBytes::parse(&std::fs::read_to_string("/proc/self/io").unwrap_or_default())
    }

    fn parse(text: &str) -> ProcessBytes {
        let of = |name: &str| {
            let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
            value.and_then(|bytes| bytes.trim().parse().ok()).unwrap_or(0_u64)
        };
        ProcessBytes { given: of("wchar"), dirtied: of("write_bytes"), read: of("read_bytes") }
    }

    /// Waits until nothing was written for [`QUIET`], so that what background threads owe is done; how long that took in
    /// seconds, none if it did not end within [`PATIENCE`].
    pub fn settle() -> Option<f64> {
        let began = Instant::now();
        let written = || {
            let now = ProcessBytes::now();
            (now.given, now.dirtied)
        };
        let (mut last, mut changed) = (written(), began);
        while began.elapsed() < PATIENCE {
            std::thread::sleep(LOOK);
            let now = written();
            if now != last {
                (last, changed) = (now, Instant::now());
            }
            if changed.elapsed() >= QUIET {
                return Some((changed - began).as_secs_f64());
            }
        }
        None
    }

    /// With what was moved at another time.
    pub fn and(self, other: ProcessBytes) -> ProcessBytes {
        ProcessBytes {
            given: self.given + other.given,
            dirtied: self.dirtied + other.dirtied,
            read: self.read + other.read,
        }
    }

    /// What came since `earlier`.
    pub fn since(self, earlier: ProcessBytes) -> ProcessBytes {
        ProcessBytes {
            given: self.given.saturating_sub(earlier.given),
            dirtied: self.dirtied.saturating_sub(earlier.dirtied),
            read: self.read.saturating_sub(earlier.read),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_given_up_counts() {
        let text = "rchar: 1\nwchar: 2000\nread_bytes: 512\nwrite_bytes: 4096\ncancelled_write_bytes: 1024\n";
        let bytes = ProcessBytes::parse(text);
        assert_eq!(bytes, ProcessBytes { given: 2000, dirtied: 4096, read: 512 });
        assert_eq!(ProcessBytes::parse(""), ProcessBytes::default());
        let earlier = ProcessBytes { given: 500, dirtied: 3000, read: 600 };
        assert_eq!(bytes.since(earlier), ProcessBytes { given: 1500, dirtied: 1096, read: 0 });
    }
}
