//! Cells of files: reads and synced appends through the file system of tables.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use ssd::{Append, Device, Fs, Metered, PageCache, Posix, Read, SsdModel};
use strandline::Options;

use super::{Cell, Expected, Modelled, Tell, timed, transfer};
use crate::store::Store;
use crate::words::told;

/// Bytes of the file that is read.
const LEN: u64 = 128 << 20;
const SIZES: [u64; 3] = [4 << 10, 16 << 10, 64 << 10];
/// Clients: more than there are cores, since they sleep.
const THREADS: [u64; 3] = [1, 2, 16];

struct TestedFile {
    fs: Arc<dyn Fs>,
    file: GoneAfterwards,
    read: Arc<dyn Read>,
}

/// A file that is gone afterwards.
struct GoneAfterwards(PathBuf);

impl Drop for GoneAfterwards {
    fn drop(&mut self) {
        let _best_effort = std::fs::remove_file(&self.0);
    }
}

impl TestedFile {
    fn new(
        dir: &Path,
        model: Option<SsdModel>,
        page_cache: PageCache,
    ) -> Result<TestedFile, String> {
        let name = if model.is_some() { "model" } else { "host" };
        let file = GoneAfterwards(dir.join(format!("device-file-{name}-{}", std::process::id())));
        let posix = Arc::new(Posix::new(page_cache));
        let mut written = posix.create(&file.0).map_err(told)?;
        let piece = vec![5; 1 << 20];
        for _ in 0..LEN >> 20 {
            written.append(&piece).map_err(told)?;
        }
        written.sync().map_err(told)?;
        let fs: Arc<dyn Fs> = match model {
            Some(model) => Arc::new(Metered::new(posix, Arc::new(Device::new(Some(model))))),
            None => posix,
        };
        let read = fs.open(&file.0).map_err(told)?;
        Ok(TestedFile { fs, file, read })
    }

    fn reads(&self, bytes: u64, threads: u64) -> Result<f64, String> {
        let failed = AtomicBool::new(false);
        let took = timed(threads, &|thread, number| {
            thread_local! { static OUT: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) }; }
            let number = (number + thread * 7919).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
            let at = number % (LEN / bytes) * bytes;
            OUT.with_borrow_mut(|out| {
                out.resize(bytes as usize, 0);
                if self.read.read_at(at, out).is_err() {
                    failed.store(true, Ordering::Relaxed);
                }
            });
        });
        sound(took, &failed, &self.file.0)
    }

    /// Appends that are synced, each, to a file that is made anew when it is long.
    fn syncs(&self, bytes: u64) -> Result<f64, String> {
        let name = self.file.0.with_extension("append");
        let anew = || -> strandline::Result<Box<dyn Append>> {
            if self.fs.exists(&name)? {
                self.fs.remove(&name)?;
            }
            self.fs.create(&name)
        };
        let file = Mutex::new(anew().map_err(told)?);
        let value = vec![3; bytes as usize];
        let failed = AtomicBool::new(false);
        let took = timed(1, &|_, _| {
            let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
            let done = if file.len() < LEN { Ok(()) } else { anew().map(|new| *file = new) };
            if done.and_then(|()| file.append(&value)).and_then(|()| file.sync()).is_err() {
                failed.store(true, Ordering::Relaxed);
            }
        });
        std::fs::remove_file(&name).map_err(|error| error.to_string())?;
        sound(took, &failed, &name)
    }
}

/// What was timed, if no call failed.
fn sound(took: f64, failed: &AtomicBool, file: &Path) -> Result<f64, String> {
    match failed.load(Ordering::Relaxed) {
        true => {
            Err(format!("{} cannot be read or written; is its file system full?", file.display()))
        }
        false => Ok(took),
    }
}

/// The published latencies are of blocks of 4 KiB, whose transfer they contain.
const BLOCK: u64 = 4 << 10;

fn expected_read(model: &SsdModel, bytes: u64, threads: u64, host: f64) -> Expected {
    let each = transfer(1, model.read_iops).max(transfer(bytes, model.read_bandwidth));
    let alone = model.read.as_nanos() as f64 + transfer(bytes - BLOCK, model.read_bandwidth);
    Expected::of(alone, each * threads as f64, host)
}

fn expected_sync(model: &SsdModel, bytes: u64, host: f64) -> Expected {
    let latency = (model.write + model.flush).as_nanos() as f64;
    Expected::of(latency + transfer(bytes - BLOCK, model.write_bandwidth), 0.0, host)
}

pub(super) fn measure(store: &Store, options: &Options, tell: &mut Tell<'_>) -> Result<(), String> {
    if store.is_heap() {
        return Ok(());
    }
    let dir = store.path();
    std::fs::create_dir_all(dir).map_err(|error| format!("making {}: {error}", dir.display()))?;
    let cache = if options.ssd_direct { PageCache::Bypassed } else { PageCache::Used };
    let host = TestedFile::new(dir, None, cache)?;
    let model = options.ssd_model.as_ref();
    let modelled =
        model.map(|model| TestedFile::new(dir, Some(model.clone()), cache)).transpose()?;
    let basis = model.map_or_else(|| "measured".into(), |model| format!("emulated (ssd: {model})"));
    let cell = |operation, bytes, threads, host, modelled| Cell {
        device: "ssd",
        operation,
        bytes,
        threads,
        host,
        modelled,
    };
    for bytes in SIZES {
        for threads in THREADS {
            let own = host.reads(bytes, threads)?;
            let of_model = match modelled.as_ref().zip(model) {
                Some((place, model)) => {
                    let expected = expected_read(model, bytes, threads, own);
                    Some(Modelled { ns: place.reads(bytes, threads)?, expected })
                }
                None => None,
            };
            tell(cell("read random", bytes, threads, own, of_model), &basis)?;
        }
    }
    for bytes in SIZES {
        let own = host.syncs(bytes)?;
        let of_model = match modelled.as_ref().zip(model) {
            Some((place, model)) => {
                let expected = expected_sync(model, bytes, own);
                Some(Modelled { ns: place.syncs(bytes)?, expected })
            }
            None => None,
        };
        tell(cell("append, sync", bytes, 1, own, of_model), &basis)?;
    }
    Ok(())
}
