//! Planted bugs: logic faults that the crash campaign switches on, one at a time, to prove that it
//! would notice. In every normal build [`is`] is constant `false` and the branch disappears.
//!
//! Faults of single flushes and fences need no switch here: the simulator drops or shortens them
//! at the named persist site.
//!
//! A test may also let one step of background work panic, counted over all threads: [`step`] stands at each of them.

macro_rules! bugs {
    ($($(#[doc = $doc:literal])+ $name:ident,)+) => {
        /// A logic fault that can be planted.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Bug { $($(#[doc = $doc])+ $name,)+ }

        impl Bug {
            /// Every fault, in declaration order.
            pub const ALL: &[Bug] = &[$(Bug::$name,)+];
        }
    };
}

bugs! {
    /// W5 before the fence of W3: visible, acknowledged, not durable.
    PublishBeforeFence,
    /// W5 out of order: a commit is acknowledged while an older one is still being filled.
    PublishOutOfOrder,
    /// Recovery accepts commits beyond the first gap.
    AcceptOverHole,
    /// Recovery accepts a commit that lacks a segment.
    AcceptPartialCommit,
    /// Recovery skips the record checksum.
    SkipRecordChecksum,
    /// Checksums are not bound to the zone's incarnation, so stale records pass.
    IgnoreIncarnation,
    /// A grant reuses the incarnation that the zone had before.
    ReuseIncarnation,
    /// After a crash the newest zone is appended to again.
    AppendToOldTail,
    /// Recovery ignores sealed lengths, so records cut off by an earlier recovery return.
    IgnoreSealedLength,
    /// Recovery scans zones that the manifest retired or froze.
    RescanRetiredZone,
    /// Recovery serves accepted records without flushing them.
    SkipAcceptedFlush,
    /// Recovery opens for writes without its closing edit, so that recovering again decides anew.
    SkipRecoveryEdit,
    /// A store that was opened before keeps all of its zones from puts.
    KeepAllAfterRecovery,
    /// A reader loads the visible sequence before it pins the View.
    SequenceBeforeView,
    /// A put into a vacancy leaves it as it is, so that scans jump over the key.
    VacancyKept,
    /// A range deletion announces its vacancy when it is published: changes behind its W2 look before that.
    VacancyAnnouncedLate,
    /// What one scan has walked is a vacancy at once, whatever was written since its snapshot.
    VacancyUnconfirmed,
    /// A merge drops tombstones although older sources remain.
    DropTombstoneEarly,
    /// A manifest edit carries the floor's commit but not its last sequence number.
    FloorWithoutSequence,
    /// A zone that a change stream is yet to give is let go one or two commits too early.
    StreamZoneFreedEarly,
    /// What an acknowledgement makes free is free before the edit that says so.
    StreamFreedBeforeAck,
    /// What a stream gives up is free before the edit that says so.
    StreamLossUnsaid,
    /// An open does not look for zones that only streams hold.
    StreamZoneForgotten,
    /// A stream gives what an earlier open cut off.
    StreamIgnoresCut,
    /// A stream gives commits that lack a segment.
    StreamGivesPartial,
    /// A stream gives commits that were given up.
    StreamGivesVoid,
    /// A stream gives commits that are not visible yet.
    StreamGivesUnpublished,
    /// The extents of values are not held for streams.
    StreamValueFreed,
    /// What happens to a keyspace has a number, and no edit says what it stands for.
    StreamEventUnnoted,
    /// A flush edit is written while commits of the memtable are still unpublished.
    FlushUnpublished,
    /// Void records are returned by reads.
    VoidVisible,
    /// Recovery treats a commit with a void segment as a hole.
    VoidIsHole,
    /// A value outside its record keeps its space when no record names it any more.
    ValueExtentKept,
    /// The index of a run keeps its space when a merge has replaced the run.
    RunIndexKept,
    /// Zones and extents that nothing reaches stay allocated after an open.
    SkipLeakSweep,
    /// A zone is freed before the edit that retires it is durable.
    FreeBeforeEdit,
    /// A merge drops versions that an open snapshot still needs.
    IgnoreSnapshots,
    /// A cached record answers reads of older numbers, too.
    RecordOfAnyNumber,
    /// A cached record answers for every key with its hash.
    RecordOfAnyKey,
    /// A compaction of level 0 leaves cached records of its keys as they are.
    RecordKept,
    /// Records are cached while a compaction of level 0 drops those of its keys.
    RecordPastGate,
    /// A reader whose View was replaced caches what it found there.
    RecordOfOldView,
    /// A reader that does not see all numbers in the tables caches what it found.
    RecordBelowTables,
    /// Range deletions come to the tables, and cached records stay.
    RecordsKeptOverRanges,
    /// Tables are ingested, and cached records stay.
    RecordsKeptOverIngest,
    /// Blocks of outputs are put in the cache before an edit names their tables.
    WarmBeforeInstall,
    /// Blocks of outputs are put in the cache as those beside them.
    WarmAsNeighbours,
    /// What is found in the cache in persistent memory is not verified.
    CacheBytesUnverified,
    /// The cache gives no zone back.
    CacheZonesKept,
    /// The run installed by a flush names one record too few.
    LoseLastEntry,
    /// The superblock's second slot is not brought to the same content before the old log is reused.
    OneSuperblockSlot,
    /// The superblock names a log whose snapshot is not durable yet.
    SuperblockBeforeLog,
    /// Areas that the log leaves are free before the superblock names others.
    LogAreasFreedEarly,
    /// An open takes the log's areas for free space.
    LogAreasUnclaimed,
    /// Cleaning forgets to carry a moved record's sequence number.
    CleanRenumbers,
    /// A compaction is installed although the directory with its tables is not synced.
    SkipDirectorySync,
    /// A compaction is installed although its tables are not synced.
    SkipTableSync,
    /// The edit of a compaction is durable before the names of its tables are.
    EditBeforeDirectorySync,
    /// A compaction frees the zones of its inputs before its tables are synced.
    FreeBeforeTables,
    /// A compaction frees the zones of its inputs before the edit that retires them is durable.
    FreeBeforeLevelEdit,
    /// A compaction removes its input tables before the edit that drops them is durable.
    RemoveTablesBeforeEdit,
    /// The edit of a compaction forgets to remove one of its inputs.
    KeepInputInEdit,
    /// The file of a table that only moved to another level is removed.
    RemoveMovedTable,
    /// A table in persistent memory is named by an edit before it is fenced.
    PmTableUnfenced,
    /// A compaction frees the extents of its input tables before the edit that drops them is durable.
    FreePmTableBeforeEdit,
    /// The extent of a table that only moved to another level is freed.
    FreeMovedPmTable,
    /// The extent of a table is freed while a value that is read in its place lives.
    FreeLentPmTable,
    /// Recovery forgets that the extents of tables are taken.
    ForgetPmTableExtent,
    /// A compaction drops tombstones although deeper levels hold what they hide.
    DropTombstoneAboveLevel,
    /// A flush or merge drops tombstones although tables hold what they hide.
    DropTombstoneAboveTables,
    /// Recovery takes a table that is missing, torn or damaged for an empty one.
    AcceptTornTable,
    /// Recovery leaves files that the manifest does not name.
    SkipTableSweep,
    /// Recovery removes the newest table that the manifest names, too.
    SweepNamedTable,
    /// The file that says whose tables a directory has gets its name before it is synced.
    ClaimUnsynced,
    /// Subranges take over without an edit that makes them.
    CutWithoutEdit,
    /// A cut leaves memtables that wait to be flushed to the first of the new subranges.
    CutForgetsMemtables,
    /// A cut leaves the old subrange open to writers.
    CutKeepsFrontOpen,
    /// Subranges are joined although one has left a run that the other reads.
    JoinShowsLeftRun,
    /// A memtable that several subranges read is flushed for the first of them.
    FlushForOne,
    /// A merge or compaction takes a run that others read from them, too.
    LeaveRunForAll,
    /// Zones are freed although another subrange reads a run that names them.
    FreeSharedZones,
    /// Recovery gives what a replaced subrange wrote to the first that has its keys.
    RecoverForOne,
    /// Recovery takes what an older subrange wrote for newer.
    RecoverInReverse,
    /// A range deletion is not cut at the bounds of subranges.
    RangeDeleteUncut,
    /// A memtable goes to tables before every commit in it is published.
    FlushBeforePublished,
    /// The newest memtable that waits goes to tables first.
    FlushNewestFirst,
    /// A memtable goes to tables although there are runs, which are older.
    FlushUnderRuns,
    /// The edit that adds a memtable's tables leaves its zones as they are.
    FlushKeepsZones,
    /// A flush or merge takes an operand for something that hides what is below it.
    OperandHides,
    /// A compaction combines operands without what lies deeper.
    MergeWithoutBase,
    /// A flush or merge combines operands that a snapshot tells apart.
    FoldAcrossSnapshot,
    /// A flush or merge makes a value of operands although older sources have what they are merged into.
    FoldWithoutBase,
    /// A range deletion that goes on into the next table ends with the first.
    RangeEndsWithTable,
    /// Recovery forgets range deletions that were in memtables.
    ForgetRangeDeletes,
    /// A file is ingested by an edit before the name of its copy is durable.
    IngestBeforeDirectorySync,
    /// A file is ingested although its copy is not synced.
    IngestUnsyncedCopy,
    /// A file that may be moved goes before the edit that takes it in is durable.
    IngestRemovesSourceFirst,
    /// A file is ingested although older data of its keys is in persistent memory, where it is taken for newer.
    IngestBelowOlder,
    /// A checkpoint goes up to what was reserved last rather than to what is visible.
    CheckpointUnpublished,
    /// The names of a checkpoint's tables and manifest are not synced.
    CheckpointSkipTablesSync,
    /// The directory in which a checkpoint is made is not synced before it gets its name.
    CheckpointSkipStagingSync,
    /// The directory in which a checkpoint gets its name is not synced.
    CheckpointSkipParentSync,
    /// A checkpoint gets its name before its manifest is written.
    CheckpointNamedFirst,
    /// A keyspace is dropped after the files of its tables are removed.
    DropRemovesTablesFirst,
    /// A keyspace is dropped after its zones are freed.
    DropFreesZonesFirst,
    /// A value that has expired goes, although it hides older ones.
    ExpiredDropsEarly,
    /// The clock of an open begins anew.
    ClockFallsAtOpen,
    /// The options of a keyspace are not made durable.
    KeyspaceWithoutOptions,
    /// The edit that drops a keyspace leaves its zones as they are.
    DropKeepsZones,
    /// The inputs of a compaction leave the View, and are let go, before its edit is durable.
    CompactionViewFirst,
    /// The tables of one part of a compaction are installed twice.
    PartInstalledTwice,
    /// The tables of one part of a compaction are not installed.
    PartForgotten,
    /// A table in persistent memory is fenced by the thread that installs it, whichever wrote it.
    PmTableFencedByInstaller,
    /// One of the threads that recover does not flush what it accepted.
    RecoveryThreadSkipsFlush,
    /// What the threads that recover have flushed is fenced by the one that waits for them.
    RecoveryFencedByOpener,
    /// The number of an ingest is published before its tables are in the View.
    IngestPublishedFirst,
    /// An ingest is noted at one of the write heads that have its keys.
    IngestNotedOnce,
    /// A transaction takes its number without asking whether others wrote its keys.
    CertificateSkipped,
    /// It looks its keys up before all that was given is visible.
    CertificateLooksEarly,
    /// It takes its number although others were given since it looked.
    CertificateNotAskedAgain,
    /// A new memtable forgets the newest number of the one before.
    WriteHeadForgets,
    /// Subranges that replace others forget the newest number of these.
    CutForgetsNewest,
    /// Subranges that replace others forget that keys are locked there.
    CutForgetsLocks,
    /// A write outside transactions passes where its key is locked.
    PutPassesLocks,
    /// An ingest passes where keys of its tables are locked.
    IngestPassesLocks,
    /// Who is given a lock does not wait until what was written before is visible.
    LockLooksEarly,
    /// An open forgets what prepared transactions have locked.
    PreparedForgotten,
    /// Change streams do not hold the zones of large commits.
    StreamStagedUnheld,
    /// An open does not look for large commits that change streams are yet to give.
    StreamStagedForgotten,
    /// No space is set aside for the commit of a prepared transaction.
    PreparedSpaceTaken,
    /// A large commit takes its number before the fence of its records.
    AdoptBeforeFence,
    /// An open sweeps a zone of a large commit that counts.
    SweepAdoptedZone,
    /// Records of a large commit count from 0 after an open.
    StagedNotRebased,
    /// Range deletions of a large commit count from 0.
    StagedDeletesNotRebased,
    /// A large commit takes one number, however many changes it has.
    AdoptCountsOne,
    /// A large commit that was given up counts after an open.
    AdoptThoughVoid,
    /// An open gives the zones of a large commit that was given up to others, with its number in them, before an edit covers it.
    SweepVoidAdopt,
    /// A large commit goes to a View below the active memtable, which goes on.
    StagedBelowActive,
    /// A run names records of a large commit before it is durable what they count from.
    StagedBaseForgotten,
    /// Subranges are cut while a large commit is on its way to them.
    CutBesideStaged,
    /// A rollback to a savepoint leaves what was written since in the index of the batch.
    SavepointKept,
    /// A commit that is to be synced is acknowledged although an older one is not.
    SyncedBehindUnsynced,
    /// Those who wait for a round of the log are told before it is written and synced.
    WalToldTooEarly,
    /// A round of the log counts for written what was queued meanwhile.
    WalToldTooFar,
    /// A fence returns before its frame of the log is synced.
    WalAcknowledgeUnsynced,
    /// Reading the log back takes frames whose bytes fail their checksum.
    WalSkipChecksum,
    /// A new segment of the log gets its name before it is synced.
    WalSegmentUnsynced,
    /// The directory is not synced when a segment of the log gets its name.
    WalSkipDirectorySync,
    /// An old segment of the log is removed before what replaces its bytes is synced.
    WalRemoveUnsynced,
    /// An old segment of the log is removed before the log says that it does not count.
    WalRemoveFirst,
    /// An old segment of the log is removed although it has the newest bytes of something.
    WalForgetLive,
    /// What is written is noted for the part of its segment that begins behind it.
    WalPartTooLate,
    /// Of what stands several times in an old segment of the log the oldest is written again.
    WalKeepOldest,
    /// An open relies on the end of the log without writing it again, synced.
    WalTailNotCopied,
    /// Each attempt at a segment of the log has the same salt.
    WalSaltConstant,
    /// Frames of the log are bound to the store only.
    WalFramesUnbound,
    /// A segment of the log is named as the newest before it has its own name.
    WalChainFirst,
    /// That a segment of the log is the newest is not synced.
    WalChainUnsynced,
    /// Which segment of the log is the newest is written to the same place each time.
    WalChainOneSlot,
    /// A segment of the log is named as the newest before it is durable how the one before it begins.
    WalNextNamedEarly,
    /// A segment of the log that was never begun is made anew while it is named as the newest.
    WalChainNotTakenBack,
    /// That none of them is named is believed, though it may not be durable.
    WalChainTrusted,
    /// An open does not make durable how the newest segment of the log begins.
    WalBeginNotKept,
    /// An open says how a segment of the log begins before what it begins with is durable.
    WalBeginFirst,
    /// Writes go on although what was acknowledged long ago is not synced.
    WalOverdueGoesOn,
    /// What was written while a sync was under way counts as synced.
    WalSyncedTooFar,
    /// A segment of the log that was mapped is cut to what is synced of it.
    WalCutTooShort,
    /// What is written past the page cache to a segment of the log counts as synced.
    WalDirectUnsynced,
    /// What is streamed to a log in persistent memory counts as durable without its fence.
    WalStreamedUnfenced,
    /// What a killed process streamed without its fence is not flushed by an open.
    WalStreamedNotFlushed,
    /// A block of a segment of the log is written without what stood in it.
    WalBlockForgotten,
    /// A directory that an open makes is not synced in the one above it.
    ParentNotSynced,
    /// A new store gets its name before the memory that it names is made.
    StoreNamedFirst,
    /// With `pm=auto` what a killed creation left is not looked at.
    RemainsNotFinished,
    /// A store that is moved gets the name of its new memory before that is made.
    MoveNamedFirst,
    /// A store that is moved to a pool has its name while what the pool begins with is in the page cache only.
    MovePoolUnsynced,
    /// A store that is moved loses the memory that it has before it has another.
    MoveRemovesFirst,
    /// The tables that a store is moved by are not durable when its new memory names them.
    MoveTablesUnsynced,
    /// Nothing says that a store is being moved, so what a killed move left stays.
    MoveUntold,
    /// A new pool gets its name while what it begins with is in the page cache only.
    NewPoolUnsynced,
    /// The superblock of a new pool is written before what it leads to.
    SuperblockFirst,
    /// A checkpoint leaves out the value files that its tables refer to.
    CheckpointForgetsValues,
    /// A collection takes references over without writing their values anew, and drops the files.
    CollectWithoutRewrite,
    /// A value file is not synced before an edit names it.
    SkipValueSync,
    /// The value files that a compaction leaves without a table go before its edit.
    RemoveValuesBeforeEdit,
    /// A value file in persistent memory is named by an edit before it is fenced.
    PmValuesUnfenced,
    /// A compaction frees the extents of the value files that it collects before the edit that drops these is durable.
    FreePmValuesBeforeEdit,
    /// The extent of a value file is freed with the last table that refers to it, although its values are read.
    FreeReadPmValues,
    /// Recovery forgets that the extents of value files are taken.
    ForgetPmValuesExtent,
    /// An open sweeps a value file that the manifest names.
    SweepNamedValues,
    /// An open leaves value files that the manifest does not name.
    SkipValueSweep,
    /// An open takes a file in any tier for one that the manifest names by its number.
    SweepIgnoresTier,
    /// Of new files, only the names of those in the store's own directory are made durable.
    TierSyncsOwnOnly,
    /// The file of a table that moves to another tier goes before the edit that names its copy.
    TierMoveRemovesFirst,
    /// A table that moves replaces its older copy, which its last reader is yet to remove.
    TierMoveIgnoresUsed,
    /// The old file of a value file that moves to another tier goes before the edit that says where it lies.
    MovedValuesRemovedFirst,
    /// The copy of a value file that moves to another tier is not synced before the edit that names it.
    MovedValuesUnsynced,
    /// The name of the copy of a value file that moves to another tier is not made durable.
    MovedValuesUnnamed,
    /// An edit that says where a value file lies now is not heeded.
    MovedValuesForgotten,
    /// A checkpoint says that its tables lie in the tiers where the store has them.
    CheckpointKeepsTier,
    /// An open takes the place of a directory in the list of tiers for its number.
    TierByPosition,
    /// A keyspace is given tiers by their places in the list.
    KeyspaceTiersByPosition,
    /// A manifest log that begins anew does not say in which tiers files of a keyspace are to lie.
    KeyspaceTiersForgotten,
    /// A value file goes with the first table that refers to it.
    DropValuesWithFirstTable,
    /// A table that moves to another level refers to no value file any more.
    MoveForgetsValues,
    /// Operands are merged without the value below them, where that lies apart.
    MergeIgnoresApart,
    /// A collection loses the time at which a value expires.
    CollectLosesTime,
}

/// Whether bugs can be planted in this build: what waits for a large world is to do without.
pub const ARE_POSSIBLE: bool = cfg!(feature = "planted");

#[cfg(feature = "planted")]
mod switch {
    use std::cell::Cell;

    thread_local! {
        static REFUSED: Cell<bool> = const { Cell::new(false) };
        static PLANTED: Cell<Option<super::Bug>> = const { Cell::new(None) };
    }

    /// Plants `bug` on this thread, or none. Threads that a world starts take it over: see [`heritage`].
    pub fn plant(bug: Option<super::Bug>) {
        PLANTED.set(bug);
    }

    /// Lets the manifest refuse edits of this thread, as one that has no room for them does, or not any more.
    pub fn refuse_edits(refused: bool) {
        REFUSED.set(refused);
    }

    /// Whether edits of this thread are refused.
    pub fn edits_are_refused() -> bool {
        REFUSED.get()
    }

    /// What is planted on this thread, for a thread that it starts.
    #[derive(Clone, Copy, Debug)]
    pub struct Heritage(Option<super::Bug>);

    /// What is planted on this thread, for one that it is about to start.
    pub fn heritage() -> Heritage {
        Heritage(PLANTED.get())
    }

    impl Heritage {
        /// Plants the same on this thread.
        pub fn accept(self) {
            plant(self.0);
        }
    }

    /// Whether `bug` is planted on this thread.
    #[inline]
    pub fn is(bug: super::Bug) -> bool {
        PLANTED.get() == Some(bug)
    }
}

#[cfg(feature = "planted")]
mod steps {
    use std::cell::RefCell;
    use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
    use std::sync::{Mutex, PoisonError};

    /// Steps that are left to the one that panics; none does below 1.
    static LEFT: AtomicI64 = AtomicI64::new(0);
    static PANICKED: Mutex<Option<&str>> = Mutex::new(None);

    /// The step `count` from now panics, on whichever thread it is; none for 0.
    pub fn panic_in(count: i64) {
        *PANICKED.lock().unwrap_or_else(PoisonError::into_inner) = None;
        LEFT.store(count, Relaxed);
    }

    /// The step that has panicked since, if one has.
    pub fn panicked_in() -> Option<&'static str> {
        *PANICKED.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is to be done at a step.
    struct Due {
        step: &'static str,
        what: Box<dyn FnOnce()>,
    }

    thread_local! {
        static MEANWHILE: RefCell<Option<Due>> = const { RefCell::new(None) };
    }

    /// Has `what` done by this thread when it comes to the step `name`, once: as if another thread did it then.
    pub fn meanwhile(name: &'static str, what: impl FnOnce() + 'static) {
        MEANWHILE.set(Some(Due { step: name, what: Box::new(what) }));
    }

    /// A step of background work, called `name`.
    pub fn step(name: &'static str) {
        let due = MEANWHILE.with_borrow_mut(|due| due.take_if(|due| due.step == name));
        if let Some(Due { what, .. }) = due {
            what();
        }
        if LEFT.load(Relaxed) > 0 && LEFT.fetch_sub(1, Relaxed) == 1 {
            *PANICKED.lock().unwrap_or_else(PoisonError::into_inner) = Some(name);
            panic!("a planted panic: {name}");
        }
    }
}

#[cfg(feature = "planted")]
pub use steps::{meanwhile, panic_in, panicked_in, step};
#[cfg(feature = "planted")]
pub use switch::{Heritage, edits_are_refused, heritage, is, plant, refuse_edits};

/// Whether edits are refused: never, in this build.
#[cfg(not(feature = "planted"))]
#[inline(always)]
pub const fn edits_are_refused() -> bool {
    false
}

/// A step of background work: it never panics, in this build.
#[cfg(not(feature = "planted"))]
#[inline(always)]
pub const fn step(_name: &'static str) {}

/// What is planted on a thread, for those that it starts: nothing, in this build.
#[cfg(not(feature = "planted"))]
#[derive(Clone, Copy, Debug)]
pub struct Heritage;

/// What is planted on this thread, for one that it is about to start: nothing, in this build.
#[cfg(not(feature = "planted"))]
#[inline(always)]
pub const fn heritage() -> Heritage {
    Heritage
}

#[cfg(not(feature = "planted"))]
impl Heritage {
    /// Plants the same on this thread.
    #[inline(always)]
    pub const fn accept(self) {}
}

/// Whether `bug` is planted: never, in this build.
#[cfg(not(feature = "planted"))]
#[inline(always)]
pub const fn is(_bug: Bug) -> bool {
    false
}
