//! [`SameProcess`]: whether this is still the process that made it, and not a fork of that one.
//!
//! A fork has a copy of everything in memory and none of the threads, and shares mappings of files and their locks. If it
//! went on with an open store, two processes would write one pool. So an open store asks at each call; an identifier
//! compared with `getpid` would cost a system call, this costs one load.

use std::ptr::NonNull;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use base::{Error, Result};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

const LEN: usize = 4096;

/// Numbers given to processes so far, here and in those that this one was forked from: no two of them share one.
static PROCESSES: AtomicU64 = AtomicU64::new(0);
static PAGE: OnceLock<Page> = OnceLock::new();

/// A word that holds the number of this process, or zero: the kernel gives its page to forks filled with zeroes.
struct Page(NonNull<AtomicU64>);

// SAFETY: the word is an atomic in a mapping that lives as long as this.
unsafe impl Send for Page {}
// SAFETY: as above.
unsafe impl Sync for Page {}

impl Page {
    /// One page serves the whole process.
    fn of_process() -> Result<&'static Page> {
        match PAGE.get() {
            Some(page) => Ok(page),
            None => {
                let page = Page::map()?;
                Ok(PAGE.get_or_init(|| page))
            }
        }
    }

    fn map() -> Result<Page> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory of ours.
        let page =
            unsafe { mmap_anonymous(std::ptr::null_mut(), LEN, protection, MapFlags::PRIVATE) };
        let page = page.map_err(|errno| Error::io("open", "mapping a page of memory", errno))?;
        // SAFETY: the mapping was just made, is ours alone, and has that length; the advice changes none of its bytes here.
        let _not_before_linux_4_14 = unsafe { madvise(page, LEN, Advice::LinuxWipeOnFork) };
        let word = NonNull::new(page.cast::<AtomicU64>())
            .unwrap_or_else(|| unreachable!("the kernel maps nothing at address zero"));
        Ok(Page(word))
    }

    #[inline]
    fn word(&self) -> &AtomicU64 {
        // SAFETY: the mapping lives as long as `self`, is aligned to pages, and is reached as this atomic only.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // SAFETY: the mapping is this one's own, and nothing of it is borrowed any more.
        let _only_an_address = unsafe { munmap(self.0.as_ptr().cast(), LEN) };
    }
}

/// True in the process that made it, false in its forks.
#[derive(Clone, Copy)]
pub struct SameProcess {
    page: &'static Page,
    number: u64,
}

impl SameProcess {
    /// True from now on. Where the kernel cannot wipe pages (before Linux 4.14), forks are not noticed.
    ///
    /// # Errors
    /// `Io` if there is no page of memory.
    pub fn begin() -> Result<SameProcess> {
        let page = Page::of_process()?;
        // Taken before it is written, so that a fork, whenever it is made, counts on from what its parent has in the page.
        let next = PROCESSES.fetch_add(1, Ordering::Relaxed) + 1;
        let word = page.word();
        let before = word.compare_exchange(0, next, Ordering::Relaxed, Ordering::Relaxed);
        Ok(SameProcess { page, number: before.err().unwrap_or(next) })
    }

    /// Whether this is the process in which it began.
    #[inline]
    pub fn holds(&self) -> bool {
        // Relaxed: in the process it never changes, and a fork begins with the page wiped.
        self.page.word().load(Ordering::Relaxed) == self.number
    }
}

/// For tests: runs `child` in a fork of this process, which ends with it, and tells whether it returned true. A panic, and
/// half a minute without an answer, count as false.
#[cfg(feature = "forks")]
pub fn in_fork(child: impl FnOnce() -> bool) -> bool {
    const SECONDS: u32 = 30;
    unsafe extern "C" {
        fn fork() -> i32;
        fn alarm(seconds: u32) -> u32;
        fn _exit(status: i32) -> !;
    }
    // SAFETY: of the C library, which every process of this kind has; the child runs `child`, with no thread but this one,
    // and ends without running what the parent has to run at its end.
    unsafe {
        let pid = fork();
        if pid == 0 {
            alarm(SECONDS);
            let answer = std::panic::catch_unwind(std::panic::AssertUnwindSafe(child));
            _exit(i32::from(!answer.unwrap_or(false)));
        }
        let pid = rustix::process::Pid::from_raw(pid)
            .unwrap_or_else(|| panic!("no process is left to fork"));
        let ended = rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::empty());
        let status = ended.ok().flatten();
        status.is_some_and(|(_, status)| status.exit_status() == Some(0))
    }
}

#[cfg(all(test, feature = "forks"))]
mod tests {
    use super::*;

    #[test]
    fn a_fork_is_told_from_the_process_that_it_was_forked_from() {
        let here = SameProcess::begin().expect("a page");
        assert!(here.holds());
        assert!(in_fork(|| {
            let before = here.holds();
            let own = SameProcess::begin().expect("a page");
            !before && !here.holds() && own.holds()
        }));
        assert!(here.holds());
    }

    #[test]
    fn what_a_fork_says_is_heard() {
        assert!(in_fork(|| true));
        assert!(!in_fork(|| false));
        assert!(!in_fork(|| panic!("as it should")));
    }
}
