//! How large the pages are by which this process has a file mapped, as the kernel tells it.

use std::path::Path;

use crate::words::length;

const SMAPS: &str = "/proc/self/smaps";
/// Rows of smaps that count what a mapping has in huge pages.
const HUGE: [&str; 3] = ["AnonHugePages", "FilePmdMapped", "ShmemPmdMapped"];

/// The pages of the mappings of one file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pages {
    /// Bytes of a page.
    size: u64,
    /// Bytes that are there, and those of them in huge pages.
    resident: u64,
    huge: u64,
}

impl Pages {
    /// Of the mappings of `file`; `None` where the kernel does not tell, or there is none.
    pub(crate) fn of(file: &Path) -> Option<Pages> {
        Pages::told(&std::fs::read_to_string(SMAPS).ok()?, file)
    }

    fn told(smaps: &str, file: &Path) -> Option<Pages> {
        let (mut pages, mut ours) = (Pages::default(), false);
        for line in smaps.lines() {
            let Some((name, rest)) = line.split_once(':').filter(|(name, _)| !name.contains(' '))
            else {
                // The head of a mapping ends with its path, behind five columns.
                ours =
                    line.splitn(6, ' ').nth(5).is_some_and(|path| Path::new(path.trim()) == file);
                continue;
            };
            let kilobytes = || rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok();
            let Some(bytes) = kilobytes().filter(|_| ours).map(|count| count << 10) else {
                continue;
            };
            match name {
                "KernelPageSize" => pages.size = pages.size.max(bytes),
                "Rss" => pages.resident += bytes,
                _ if HUGE.contains(&name) => pages.huge += bytes,
                _ => (),
            }
        }
        (pages.size > 0).then_some(pages)
    }

    /// In words.
    pub(crate) fn describe(self) -> String {
        let size = length(self.size);
        match self.huge {
            0 => format!("{size}, none huge"),
            huge => format!("{size}; {} of {} in huge pages", length(huge), length(self.resident)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_mappings_of_the_file_count() {
        let mapping = |path: &str, huge: u64| {
            format!(
                "7f00-7f10 rw-s 00000000 00:19 42                         {path}\nSize:  8192 kB\n\
                 KernelPageSize:        4 kB\nRss:     4096 kB\nShmemPmdMapped:   {huge} kB\n\
                 THPeligible:    0\nVmFlags: rd wr sh\n"
            )
        };
        let smaps = mapping("/dev/shm/a b/pool", 2048) + &mapping("/lib/x.so", 512);
        let found = Pages::told(&smaps, Path::new("/dev/shm/a b/pool")).expect("mapped");
        assert_eq!(found, Pages { size: 4096, resident: 4 << 20, huge: 2 << 20 });
        assert_eq!(found.describe(), "4 KiB; 2 MiB of 4 MiB in huge pages");
        assert_eq!(Pages::told(&smaps, Path::new("/else")), None);
        let small = Pages::told(&mapping("/pool", 0), Path::new("/pool")).expect("mapped");
        assert_eq!(small.describe(), "4 KiB, none huge");
    }
}
