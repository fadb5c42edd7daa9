//! [`Pages`]: how large the pages are by which this process reaches its memory, as the kernel tells it.

use std::fmt;
use std::io::{BufRead, BufReader};
use std::ops::Range;
use std::path::Path;

use base::{Error, Result};

const SMAPS: &str = "/proc/self/smaps";
const ROLLUP: &str = "/proc/self/smaps_rollup";
/// Rows that count what a mapping has in huge pages.
const HUGE: [&str; 3] = ["AnonHugePages", "FilePmdMapped", "ShmemPmdMapped"];

/// The pages of a part of this process's memory.
///
/// Of a mapping by which a file system reaches persistent memory itself (DAX) kernels may count nothing: `resident` is 0
/// then, and `huge` says nothing about the pages in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pages {
    /// Bytes of an ordinary page there.
    pub size: u64,
    /// Bytes that have a page now.
    pub resident: u64,
    /// Bytes of these whose pages are huge: one entry of the page table each, mostly of 2 MiB.
    pub huge: u64,
}

impl Pages {
    /// Of all memory of this process that maps no file, as far as the kernel tells: indexes, caches and buffers, those of
    /// the rest of the program included. The kernel walks every page for that: a matter of milliseconds for each GiB.
    pub fn anonymous() -> Option<Pages> {
        let text = std::fs::read_to_string(ROLLUP).ok()?;
        let row = |name| text.lines().find_map(|line| bytes_of(line.strip_prefix(name)?));
        Some(Pages {
            size: rustix::param::page_size() as u64,
            resident: row("Anonymous:")?,
            huge: row("AnonHugePages:")?,
        })
    }

    /// Of the bytes at these addresses. The kernel counts whole mappings: a neighbour that has become one with the mapping
    /// of these bytes counts, too, up to their length.
    pub(crate) fn at(addresses: Range<u64>) -> Option<Pages> {
        let smaps = std::fs::File::open(Path::new(SMAPS)).ok()?;
        Pages::told(BufReader::new(smaps), addresses)
    }

    fn told(smaps: impl BufRead, addresses: Range<u64>) -> Option<Pages> {
        let (mut pages, mut ours) = (Pages::default(), false);
        for line in smaps.lines() {
            let line = line.ok()?;
            let (name, rest) = line.split_once(':')?;
            if name.contains(' ') {
                // The head of a mapping. They come in the order of addresses, and each costs the kernel a walk.
                let mapping = range(&line)?;
                if mapping.start >= addresses.end {
                    break;
                }
                ours = mapping.end > addresses.start;
            } else if let Some(bytes) = bytes_of(rest).filter(|_| ours) {
                match name {
                    "KernelPageSize" => pages.size = pages.size.max(bytes),
                    "Rss" => pages.resident += bytes,
                    _ if HUGE.contains(&name) => pages.huge += bytes,
                    _ => (),
                }
            }
        }
        let len = addresses.end - addresses.start;
        pages.resident = pages.resident.min(len);
        pages.huge = pages.huge.min(len);
        (pages.size > 0).then_some(pages)
    }
}

/// The addresses that the head of a mapping begins with, such as `7f00-7f10 rw-s ...`.
fn range(head: &str) -> Option<Range<u64>> {
    let (start, end) = head.split(' ').next()?.split_once('-')?;
    Some(u64::from_str_radix(start, 16).ok()?..u64::from_str_radix(end, 16).ok()?)
}

fn bytes_of(kilobytes: &str) -> Option<u64> {
    let count: u64 = kilobytes.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(count << 10)
}

impl fmt::Display for Pages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let length = |bytes: u64| match bytes {
            0..0x10_0000 => format!("{} KiB", bytes >> 10),
            _ => format!("{} MiB", bytes >> 20),
        };
        let (size, resident) = (length(self.size), length(self.resident));
        match (self.resident, self.huge) {
            (0, _) => write!(f, "{size} or more, none of them counted"),
            (_, 0) => write!(f, "{size}, none of {resident} huge"),
            (_, huge) => write!(f, "{size}, {} of {resident} in huge ones", length(huge)),
        }
    }
}

/// From now on neither this process nor those that it starts get huge pages, to compare with. Memory that has some keeps
/// them.
///
/// # Errors
/// The kernel knows no such wish.
#[cfg(target_os = "linux")]
pub fn forbid_huge_pages() -> Result<()> {
    let (forbid, unused): (libc::c_ulong, libc::c_ulong) = (1, 0);
    // SAFETY: this call takes numbers only, and changes how the kernel chooses pages, not what any holds.
    match unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, forbid, unused, unused, unused) } {
        0 => Ok(()),
        _ => Err(Error::io("forbid", "huge pages", std::io::Error::last_os_error())),
    }
}

/// Nothing is known about huge pages here.
///
/// # Errors
/// Always.
#[cfg(not(target_os = "linux"))]
pub fn forbid_huge_pages() -> Result<()> {
    Err(Error::new(base::ErrorKind::NotSupported, "forbid", "huge pages; leave them as they are"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapping(addresses: &str, huge: u64) -> String {
        format!(
            "{addresses} rw-s 00000000 00:19 42            /dev/shm/a: b/pool\nSize:  8192 kB\n\
             KernelPageSize:        4 kB\nRss:     4096 kB\nShmemPmdMapped:   {huge} kB\n\
             THPeligible:    0\nVmFlags: rd wr sh\n"
        )
    }

    fn told(smaps: &str, addresses: Range<u64>) -> Option<Pages> {
        Pages::told(smaps.as_bytes(), addresses)
    }

    #[test]
    fn only_the_mappings_of_the_range_count() {
        let smaps = [("1000-2000", 512), ("400000-800000", 2048), ("800000-c00000", 4096)];
        let smaps: String = smaps.map(|(at, huge)| mapping(at, huge)).concat();
        let found = told(&smaps, 0x40_0000..0x80_0000).expect("mapped");
        assert_eq!(found, Pages { size: 4096, resident: 4 << 20, huge: 2 << 20 });
        assert_eq!(found.to_string(), "4 KiB, 2 MiB of 4 MiB in huge ones");
        let both = told(&smaps, 0x40_0000..0xa0_0000).expect("mapped");
        assert_eq!(
            (both.resident, both.huge),
            (6 << 20, 6 << 20),
            "a neighbour counts up to the length"
        );
        assert_eq!(told(&smaps, 0x3000..0x4000), None);
        let small = told(&mapping("1000-2000", 0), 0x1000..0x2000).expect("mapped");
        assert_eq!(small.to_string(), "4 KiB, none of 4 KiB huge");
        let dax = Pages { resident: 0, ..small };
        assert_eq!(dax.to_string(), "4 KiB or more, none of them counted");
    }

    #[test]
    fn this_process_has_memory() {
        let pages = Pages::anonymous().expect("told");
        assert!(pages.resident > 0 && pages.huge <= pages.resident);
    }
}
