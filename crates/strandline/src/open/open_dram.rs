//! Opening a store without persistent memory: its records are in DRAM, and its log is in the directory `wal`.
//!
//! The log gives back the memory that the last fences promised; recovery then goes over it as over any other.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use base::{Error, ErrorKind, Result};
use pmem::{Durability, Journal, OpenMode, Prefault, Region};
use ssd::Fs;

use crate::engine::{Access, Engine};
use crate::open::OpenedParts;
use crate::open::ground::Ground;
use crate::options::Options;
use crate::options::check::refuse_pm_model;
use crate::recovery::recover::Damage;
use crate::volatile::VolatilePlace;
use crate::wal::{self, LOCK, LogMedium, LogMode, MemoryWorth, Setting};

/// Name of the directory of the log, in that of the store.
pub(crate) const WAL: &str = "wal";

/// Opens the memory of the store at `path` that has its log in `named`.
pub(crate) fn open_memory(
    ground: &dyn Ground,
    path: &Path,
    named: &Path,
    options: &Options,
    access: Access,
) -> Result<OpenedParts> {
    let dir = &path.join(named);
    let nothing = || {
        Error::new(
            ErrorKind::NotFound,
            "open",
            format!(
                "there is no log in {}, which holds the store's records; put it back, or mount what it is on; where it is gone for \
                 good, `repair` saves what tables hold",
                dir.display()
            ),
        )
    };
    if !ground.names().exists(dir)? {
        return Err(nothing());
    }
    if access == Access::Read {
        let files = files_to_read(ground, path, named);
        let (region, damage) = read(ground, dir, files, options)?.ok_or_else(nothing)?;
        return Ok(OpenedParts { damage, ..OpenedParts::whole(region, Prefault::Now, None) });
    }
    let files = files(ground, path, named)?;
    if let LogMedium::Device = files.medium {
        refuse_pm_model(options)?;
    }
    let setting = setting(ground, dir, files, options, OpenMode::ReadWrite)?;
    let region = wal::open(setting, || Ok(None))?;
    Ok(OpenedParts::whole(region.ok_or_else(nothing)?, Prefault::Now, None))
}

/// Reads what the log in `dir` tells, and what of it is lost.
pub(crate) fn read_memory(
    ground: &dyn Ground,
    dir: &Path,
    options: &Options,
) -> Result<Option<(Arc<Region>, Vec<Damage>)>> {
    read(ground, dir, LogFiles { fs: ground.names(), medium: LogMedium::Device }, options)
}

fn read(
    ground: &dyn Ground,
    dir: &Path,
    files: LogFiles,
    options: &Options,
) -> Result<Option<(Arc<Region>, Vec<Damage>)>> {
    let setting = setting(ground, dir, files, options, OpenMode::ReadOnly)?;
    let Some((region, lost)) = wal::read(setting)? else {
        return Ok(None);
    };
    let damage = lost.into_iter().map(|lost| Damage {
        file: Some(lost.file),
        zone: None,
        at: lost.at,
        len: lost.len,
        what: lost.what,
    });
    Ok(Some((region, damage.collect())))
}

/// The files of a log, and what they are on.
pub(crate) struct LogFiles {
    pub fs: Arc<dyn Fs>,
    pub medium: LogMedium,
}

/// Those of the store at `path` that has its log in `named`. In the directory of the store the log is where the tables are.
pub(crate) fn files(ground: &dyn Ground, path: &Path, named: &Path) -> Result<LogFiles> {
    match named == Path::new(WAL) {
        true => Ok(LogFiles { fs: ground.names(), medium: LogMedium::Device }),
        false => ground.log(&path.join(named)),
    }
}

/// The same for who only reads. Nothing is written, so nothing is asked by a file that would be made: of memory only that which
/// ends with the machine's power is known.
fn files_to_read(ground: &dyn Ground, path: &Path, named: &Path) -> LogFiles {
    let fs = ground.names();
    let is_memory = named != Path::new(WAL) && fs.is_memory(&path.join(named));
    let medium = match is_memory {
        true => LogMedium::Memory(MemoryWorth {
            durability: Durability::ProcessCrash,
            why: "it ends with the machine's power".into(),
            model: None,
        }),
        false => LogMedium::Device,
    };
    LogFiles { fs, medium }
}

/// The log in `dir`, held.
pub(crate) fn setting(
    ground: &dyn Ground,
    dir: &Path,
    files: LogFiles,
    options: &Options,
    mode: OpenMode,
) -> Result<Setting> {
    let lock = ground.lock(&dir.join(LOCK), mode)?;
    let entropy = match mode {
        OpenMode::ReadWrite => ground.fresh_id()?,
        OpenMode::ReadOnly => 0,
    };
    Ok(Setting {
        fs: files.fs,
        dir: dir.to_owned(),
        medium: files.medium,
        mode: LogMode::of(options),
        memory: VolatilePlace::of(
            "memtable_memory",
            &options.memtable_memory,
            ground.volatile_device(),
        ),
        entropy,
        accepts: pool::check_version,
        lock,
    })
}

impl Engine {
    /// The log, unless the store is only read.
    fn journal_written(&self) -> Option<&dyn Journal> {
        self.media.region.journal().filter(|_| self.lifetime.access == Access::Write)
    }

    /// Whether the log is synced as time passes, and has not failed.
    pub(crate) fn syncs_wal_in_time(&self) -> bool {
        self.journal_written().is_some_and(|journal| journal.syncs_in_time())
    }

    /// In which time the log is to be synced, as its interval says, if that is known.
    pub(crate) fn wal_sync_due_in(&self) -> Option<Duration> {
        self.journal_written()?.sync_due_in()
    }

    /// Syncs the log if its interval says so; tells when the next sync is due, if that is known. A failure poisons the store.
    pub(crate) fn sync_wal_if_due(&self) -> Option<Duration> {
        let due = self.journal_written()?.sync_if_due();
        self.look_at_log();
        due
    }

    /// Whether there is something to do ahead for those who write the log.
    pub(crate) fn has_wal_upkeep(&self) -> bool {
        self.journal_written().is_some_and(|journal| journal.has_upkeep())
    }

    /// Does it.
    pub(crate) fn keep_up_wal(&self) {
        if let Some(journal) = self.journal_written() {
            journal.keep_up();
        }
    }

    /// Writes are refused, and listeners told, once the log has failed: that may have been behind a write that was acknowledged.
    pub(crate) fn look_at_log(&self) {
        if !self.poison.is_set()
            && let Err(error) = self.media.region.check_journal()
        {
            self.poison_by_log(&error);
        }
    }

    /// No write begins any more: where the log is synced as time passes, makes durable what was acknowledged.
    ///
    /// # Errors
    /// Those of the device, now or before, if not all of it is.
    pub(crate) fn sync_wal_at_end(&self) -> Result<()> {
        let synced = self.journal_written().map_or(Ok(()), |journal| journal.sync_at_end());
        synced.inspect_err(|error| self.poison.set(error))
    }

    /// Makes everything acknowledged survive whatever the device survives that has the log; at once if there is none.
    pub(crate) fn sync_wal(&self) -> Result<()> {
        self.check_writable("sync")?;
        self.media.region.sync_journal().inspect_err(|error| self.poison.set(error))
    }
}
