//! What is asked of the store as a whole: durability, flushes and compactions, copies, figures, checks.

use std::path::{Path, PathBuf};

use base::{Result, Seq};
use pmem::{Durability, Region};

use super::{Db, Keyspace};
use crate::backup::ingest::IngestOptions;
use crate::backup::rocksdb::export::RocksdbExport;
use crate::hooks::events::FoundBy;
use crate::machine::PmChoice;
use crate::observe::basis::Basis;
use crate::observe::pages::MemoryPages;
use crate::observe::properties::Properties;
use crate::options::Options;
use crate::quantum::{Work, Worked};
use crate::read::unmerged::unmerged;
use crate::recovery::recover::Report;
use crate::span::OptionalBounds;
use crate::stream::reader::damaged_streams;

impl Db {
    /// Returns when everything acknowledged is as durable as [`Db::durability`] says: at once. `ReadOnly` or `Closed` if the
    /// store takes no writes.
    pub fn sync(&self) -> Result<()> {
        self.engine().check_writable("sync")
    }

    /// As [`Db::sync`], and with `wal_sync = never`, or a time, makes all of that survive power failure. Writers go on meanwhile, and
    /// threads that call it together share a sync. If the device that has the log refuses, the store takes no more writes.
    pub fn sync_wal(&self) -> Result<()> {
        let _call = self.engine().call("sync")?;
        self.engine().sync_wal()
    }

    /// Flushes the memtables of all keyspaces into index runs, or with `level0=sst` writes them out as tables, and returns
    /// when that is done.
    ///
    /// # Errors
    /// `NoSpace` if an index run or table does not fit: what is written stays in memtables; `Corruption` if a record
    /// fails its checksum; with `level0=sst` those of the device that holds the tables; `ReadOnly`; `Closed`.
    pub fn flush(&self) -> Result<()> {
        let _call = self.engine().call("flush")?;
        let flushed = self.engine().flush();
        self.engine().events.tell();
        flushed
    }

    /// Merges the index runs of each keyspace into one; records are not moved unless space is short.
    ///
    /// # Errors
    /// As [`Db::flush`].
    pub fn compact(&self) -> Result<()> {
        let _call = self.engine().call("compact")?;
        let compacted = self.engine().flush().and_then(|()| self.engine().compact());
        self.engine().events.tell();
        compacted
    }

    /// Brings the keys from `from` to `to`, both included, or from the first or to the last, down to the deepest level
    /// that has any of them, those in memtables included. Where all data stays in persistent memory, the keyspace's
    /// runs are merged into one. Tables and runs are taken whole, so that more keys than these may move. At the
    /// end, files that have any of them lie in the tiers where they belong, as far as these have room.
    ///
    /// # Errors
    /// As [`Db::flush`]; `InvalidArgument` for another store's keyspace; those of the device that holds the tables.
    pub fn compact_range(
        &self,
        keyspace: &Keyspace,
        from: Option<&[u8]>,
        to: Option<&[u8]>,
    ) -> Result<()> {
        let _call = self.engine().call("compact")?;
        let range = OptionalBounds { smallest: from, largest: to };
        let space = self.own(keyspace, "compact")?;
        let compacted = self.engine().compact_range(space, range);
        self.engine().events.tell();
        compacted
    }

    /// Copies the store as of one moment to the new directory `target`: its tables are linked, or copied where that does
    /// not work, and what is in persistent memory is written as tables. Writers go on meanwhile; what they free is
    /// held until the part of its keyspace is done. Returns the last sequence number in the copy.
    ///
    /// The checkpoint is whole and durable, or not there. It can be opened by itself with [`Db::open`], which makes
    /// a store of it, or [`Db::open_read_only`], and it can be moved.
    ///
    /// # Errors
    /// `Exists` if there is something at `target`; `NotFound` if the directory that should hold it is missing;
    /// `Corruption` if a record or table is damaged, or damage took records; `NoSpace`, `Io`; `Closed`.
    pub fn checkpoint(&self, target: impl AsRef<Path>) -> Result<Seq> {
        let _call = self.engine().call("checkpoint")?;
        self.engine().checkpoint(target.as_ref())
    }

    /// Writes the store as of one moment as a database of RocksDB in the new directory `target`, as [`Db::checkpoint`] does: its
    /// tables and value files are linked, or copied where that does not work. RocksDB 6.27 and later opens it. Each keyspace is
    /// the column family of its name; levels, sequence numbers, range deletions and references to value files stay.
    ///
    /// What a plain database of RocksDB cannot have is written out as what a reader sees, and reported: keyspaces with a
    /// [time to live](crate::KeyspaceOptions::ttl), whose values live on without one, and operands of merge operators other than
    /// `add`, `max` and `append`.
    ///
    /// # Errors
    /// As [`Db::checkpoint`]; `NotSupported` for operands of a merge operator that neither RocksDB nor this open has.
    pub fn export_rocksdb(&self, target: impl AsRef<Path>) -> Result<RocksdbExport> {
        let _call = self.engine().call("export")?;
        self.engine().export_rocksdb(target.as_ref())
    }

    /// Adds tables from elsewhere to `keyspace`: external tables in RocksDB's format, as its SstFileWriter writes them.
    /// All of them or none; durable and visible, as of one moment, when it returns. Their entries are newer than
    /// everything written before, older than everything written after: writers of all keyspaces may wait while the last
    /// older data of these keys leaves persistent memory. Returns the sequence number of the entries.
    ///
    /// # Errors
    /// Nothing changes then. `Corruption`, `NotSupported`, `LimitExceeded` or `InvalidArgument` for a file that cannot
    /// be taken, for files that overlap each other, and where the store has no levels on SSD; `NotFound`; `Busy` if
    /// writes to the same keys never pause; `NoSpace`, `Io`, `ReadOnly`, `Closed`.
    pub fn ingest(
        &self,
        keyspace: &Keyspace,
        paths: &[PathBuf],
        options: IngestOptions,
    ) -> Result<Seq> {
        let _call = self.engine().call("ingest")?;
        let taken = self.engine().ingest(self.own(keyspace, "ingest")?, paths, options);
        self.engine().events.tell();
        taken
    }

    /// Does background work on this thread, of about so many entries: `while !db.work(1000)?.is_idle() {}` does all of it. For
    /// stores opened with `background_threads = 0`. In DRAM it also makes the next file of the log, and with `wal_sync` a time syncs
    /// the log, if that is due.
    pub fn work(&self, entries: usize) -> Result<Work> {
        let _call = self.engine().call("work")?;
        self.engine().keep_up_wal();
        let _next = self.engine().sync_wal_if_due();
        Ok(match self.engine().work(entries)? {
            Worked::Did => Work::Did,
            Worked::Busy if self.engine().owed_rate().is_some() => {
                self.engine().pause("work")?;
                Work::Did
            }
            Worked::Idle | Worked::Busy | Worked::Blocked | Worked::Short => Work::Idle,
        })
    }

    /// What a completed write survives on this store, as detected when it was opened.
    pub fn durability(&self) -> Durability {
        self.engine().media.region.durability()
    }

    /// Why [`Db::durability`] is what it is, in words.
    pub fn durability_note(&self) -> String {
        self.engine().media.region.durability_note()
    }

    /// What figures about this store rest on.
    pub fn basis(&self) -> Basis {
        Basis::of(self.engine())
    }

    /// How it came that the store has its records where it has them, at this open.
    ///
    /// ```
    /// # let dir = std::env::temp_dir().join(format!("strandline-choice-{}", std::process::id()));
    /// use strandline::{ChosenBy, Db, Options};
    ///
    /// let db = Db::open(&dir, Options::default().pm_size(16 << 20))?;
    /// // Such as "pm=auto: ext4 on a device without DAX maps its page cache; records are in DRAM, with a log there".
    /// println!("a write survives {}: {}", db.durability(), db.pm_choice());
    /// assert_eq!(db.pm_choice().by, ChosenBy::Directory);
    /// # drop(db);
    /// # std::fs::remove_dir_all(&dir).expect("removed");
    /// # Ok::<(), strandline::Error>(())
    /// ```
    pub fn pm_choice(&self) -> &PmChoice {
        &self.handle.engine.surroundings.choice
    }

    /// The options as they are now: those that were given, with what was chosen for 0 and `auto` where that is known, and what
    /// [`Db::set_option`] has changed.
    pub fn options(&self) -> Options {
        (**self.handle.engine.options()).clone()
    }

    /// Changes an option while the store is open, from its text form; it holds until the close. Flushes, merges and compactions
    /// that have begun may go on as they began. Which options change is told by [`Row::changes_while_open`](crate::Row::changes_while_open).
    ///
    /// # Errors
    /// `InvalidArgument` for an option that is not known or holds from an open to the close, and for what is no value of it;
    /// `Closed`.
    ///
    /// ```
    /// # fn main() -> strandline::Result<()> {
    /// use strandline::{Db, Options, PmSource};
    ///
    /// let db = Db::open("unused", Options::default().pm(PmSource::Heap).pm_size(16 << 20))?;
    /// db.set_option("block_cache", "4M")?;
    /// assert_eq!(db.options().block_cache, 4 << 20);
    /// assert!(db.set_option("pm_size", "32M").is_err());
    /// # Ok(()) }
    /// ```
    pub fn set_option(&self, name: &str, text: &str) -> Result<()> {
        let _call = self.engine().call("set option")?;
        self.engine().set_option(name, text)
    }

    /// Figures about the store.
    pub fn properties(&self) -> Properties {
        Properties::gather(self.engine())
    }

    /// How large the pages are by which the store's memory is reached now. The kernel walks all of it for that: a matter of
    /// milliseconds for each GiB, so ask seldom.
    pub fn pages(&self) -> MemoryPages {
        MemoryPages::gather(self.engine())
    }

    /// What the open found and did.
    pub fn recovery(&self) -> &Report {
        &self.handle.engine.lifetime.recovered
    }

    /// The memory under the pool, with its counters.
    pub fn region(&self) -> &Region {
        &self.handle.engine.media.region
    }

    /// Verifies every record, value, index block, filter line, zone header and table in use, whose the tables are,
    /// that of every key newer versions lie above older ones, that change streams have all that they are yet to give, and that each
    /// piece of space has one owner; returns what is
    /// damaged, leaked or owned twice, and what the open found. It also lists keys whose operands the merge operator refuses.
    pub fn check(&self) -> Result<crate::check::CheckReport> {
        let report = {
            let _call = self.engine().call("check")?;
            let mut report = crate::check::check(self.engine())?;
            for space in self.engine().keyspaces.all() {
                report.unmerged.extend(unmerged(self.engine(), &space)?);
            }
            report.damage.extend(damaged_streams(self.engine()));
            report
        };
        for damage in &report.damage {
            self.engine().note_place(damage, FoundBy::Check);
        }
        self.engine().events.tell();
        Ok(report)
    }
}
