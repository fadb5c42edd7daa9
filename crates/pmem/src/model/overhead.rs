//! [`Overhead`]: what an access that waits takes beside its wait.

use std::sync::OnceLock;

use super::emulation::{Emulation, PmDevice};
use super::host::{Chase, HostMemory, SPAN, chase, least, write_latency};
use super::{Latency, PmModel};
use crate::region::Region;

/// Waits are so many times as long as what the host takes: all that a model does itself, but for the ways in and out, goes on
/// while it waits.
const LONG: f64 = 4.0;
/// Few of the lines that are read are held.
const CACHE: u64 = 64 << 10;

/// Nanoseconds that waits begin too late and end too late, by which they are made shorter.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Overhead {
    /// Of a read.
    pub read: u64,
    /// Of a write with its fence.
    pub write: u64,
}

impl Overhead {
    /// Measures it, the first time that a process asks.
    pub(super) fn find(host: HostMemory) -> Overhead {
        static FOUND: OnceLock<Overhead> = OnceLock::new();
        *FOUND.get_or_init(|| Overhead::measure(host))
    }

    fn measure(host: HostMemory) -> Overhead {
        let Ok(memory) = Region::heap(SPAN, None) else {
            // There is no memory to spare.
            return Overhead::default();
        };
        let [read, write] = [host.read, host.write].map(|own| (LONG * own).round());
        let slow = PmModel {
            read: Latency::Total(read),
            near: Latency::Total(read),
            write: Latency::Total(write),
            cache: CACHE,
            ..PmModel::zero()
        };
        let device = PmDevice::of(Emulation::with(&slow, host, Overhead::default()));
        let memory = memory.on(&device);
        // Writes give the memory its pages, too.
        let [wrote, chased] = [
            least(|_| write_latency(&memory)),
            least(|seed| chase(&memory, SPAN, Chase { seed, near: 0 })),
        ];
        // What is more than the host takes comes from something else that went on.
        let beside = |took: f64, wait: f64| (took - wait).clamp(0.0, wait / LONG) as u64;
        Overhead { read: beside(chased, read), write: beside(wrote, write) }
    }
}
