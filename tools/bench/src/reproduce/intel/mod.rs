//! What Intel's deck on RocksDB with persistent memory shows, on modelled devices.

mod devices;
mod fine_reads;
mod paths;
mod values;
mod wal;

pub(super) use fine_reads::run as fine_reads;
pub(super) use paths::run as paths;
pub(super) use values::run as values;
pub(super) use wal::run as wal;

/// The one in the middle.
fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or(0.0)
}
