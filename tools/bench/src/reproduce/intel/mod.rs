//! What Intel's deck on RocksDB with persistent memory shows, on modelled devices.

mod cache;
mod devices;
mod fine_reads;
mod paths;
mod priority;
mod stores;
mod values;
mod wal;

pub(super) use cache::run as cache;
pub(super) use devices::{AT_ONCE, DELTA, RATIO, our_part};
pub(super) use fine_reads::run as fine_reads;
pub(super) use paths::run as paths;
pub(super) use priority::run as priority;
pub(super) use stores::{rest, rocksdb_form};
pub(super) use values::run as values;
pub(super) use wal::run as wal;

/// What each of `N` subjects gives in so many runs. They take turns, and each run begins with another.
pub(super) fn in_turns<T, const N: usize>(
    runs: u32,
    mut measure: impl FnMut(usize) -> Result<T, String>,
) -> Result<[Vec<T>; N], String> {
    let mut found = [(); N].map(|()| Vec::new());
    for turn in 0..runs as usize {
        for place in 0..N {
            let at = (turn + place) % N;
            found[at].push(measure(at)?);
        }
    }
    Ok(found)
}

/// The one in the middle.
pub(super) fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or(0.0)
}
