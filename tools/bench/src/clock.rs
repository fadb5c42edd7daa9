//! Processor time, which does not count what other processes take.

use rustix::time::{ClockId, clock_gettime};

/// Seconds that all threads of this process have been on a processor.
pub(crate) fn process_cpu() -> f64 {
    seconds(ClockId::ProcessCPUTime)
}

/// Seconds that this thread has been on a processor.
pub(crate) fn thread_cpu() -> f64 {
    seconds(ClockId::ThreadCPUTime)
}

fn seconds(clock: ClockId) -> f64 {
    let time = clock_gettime(clock);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
