//! The faults that must be noticed, where each is sought first, and which change nothing.

use base::planted::Bug;
use pmem::Site;
use sim::{Fault, Lie, Planted, Sabotage};

use super::system::Engine;
use super::threaded;

/// A planted fault.
pub enum Mutant {
    /// The engine decides wrongly.
    Logic(Bug),
    /// Memory or disk does not do what the engine asked for.
    Persist(Planted),
}

/// What the paths of tables have in common. The file that says whose they are has a bug of its own.
const TABLES: &str = ".sst";
/// What the paths of their directories have in common.
const DIRECTORY: &str = "sst";

/// Why a mutant cannot be noticed.
#[derive(Clone, Copy)]
pub enum Equivalent {
    /// The site does nothing of the kind.
    CannotStrike(&'static str),
    /// What it breaks holds in another way.
    ChangesNothing(&'static str),
}

/// Bugs that a test of the engine plants and notices, since they are met too rarely here: a commit is queued behind a later
/// one, is synced later, and power fails between the two; frames of two attempts at one segment end at the same place, and
/// old ones hold what was written since; two opens are killed, each at the right call, and power fails in a third; power fails
/// behind a move, and takes the bytes of a pool that is named; a sync is late by the clock; a thread writes between the
/// device's sync and the note of it; a log that is synced by no write is closed, which loses what only a power failure may take; a
/// transaction commits beside others; a
/// value is pinned in a table that is compacted away, or in a value file that is collected, and its extent is taken anew; writers are
/// refused as long as a cache keeps its zones, as they are for want of space; a part of a commit is damaged that a stream gives.
const SHOWN_BY_TESTS: [Bug; 34] = [
    Bug::SyncedBehindUnsynced,
    Bug::WalSaltConstant,
    Bug::WalChainTrusted,
    Bug::MovePoolUnsynced,
    Bug::WalOverdueGoesOn,
    Bug::WalSyncedTooFar,
    Bug::WalCutTooShort,
    Bug::FreeLentPmTable,
    Bug::FreeReadPmValues,
    Bug::CacheZonesKept,
    Bug::RecordOfAnyNumber,
    Bug::RecordOfAnyKey,
    Bug::RecordKept,
    Bug::RecordPastGate,
    Bug::RecordOfOldView,
    Bug::RecordBelowTables,
    Bug::RecordsKeptOverRanges,
    Bug::RecordsKeptOverIngest,
    Bug::WarmBeforeInstall,
    Bug::WarmAsNeighbours,
    Bug::IngestNotedOnce,
    Bug::CertificateSkipped,
    Bug::CertificateLooksEarly,
    Bug::CertificateNotAskedAgain,
    Bug::WriteHeadForgets,
    Bug::CutForgetsNewest,
    Bug::CutForgetsLocks,
    Bug::PutPassesLocks,
    Bug::IngestPassesLocks,
    Bug::LockLooksEarly,
    Bug::PreparedForgotten,
    Bug::PreparedSpaceTaken,
    Bug::SavepointKept,
    Bug::StreamGivesPartial,
];

/// Every mutant, but for bugs that show only where there are several threads, or by chance too rarely.
pub fn mutants() -> Vec<Mutant> {
    let is_sought = |bug: &&Bug| !threaded::is_sought(**bug) && !SHOWN_BY_TESTS.contains(*bug);
    let alone = Bug::ALL.iter().filter(is_sought);
    let logic = alone.map(|bug| Mutant::Logic(*bug));
    let persist = Site::ALL.iter().flat_map(|site| {
        Fault::ALL.map(|what| Mutant::Persist(Sabotage { site: *site, what }.into()))
    });
    let lies = Lie::all(TABLES, DIRECTORY).map(|lie| Mutant::Persist(lie.into()));
    logic.chain(persist).chain(lies).collect()
}

impl Mutant {
    pub fn name(&self) -> String {
        match self {
            Mutant::Logic(bug) => format!("{bug:?}"),
            Mutant::Persist(Planted::Memory(Sabotage { site, what })) => {
                format!("{site:?}.{what:?}")
            }
            Mutant::Persist(Planted::Disk(Lie { call, what, .. })) => format!("{call:?}.{what:?}"),
        }
    }

    /// Whether stores of this engine come to its site at all.
    pub fn can_strike(&self, engine: &Engine) -> bool {
        match self {
            Mutant::Persist(Planted::Memory(sabotage)) => {
                sabotage.site != Site::Cache || engine.pm_cache > 0
            }
            Mutant::Logic(_) | Mutant::Persist(Planted::Disk(_)) => true,
        }
    }

    /// The campaigns that reach it soonest, in order; the others follow.
    pub fn sought_first(&self) -> &'static [&'static str] {
        match self {
            Mutant::Logic(bug) => bug_sought_first(*bug),
            Mutant::Persist(Planted::Disk(_)) => &["levels"],
            Mutant::Persist(Planted::Memory(sabotage)) => sabotage_sought_first(sabotage),
        }
    }

    /// Why it cannot be noticed, if it cannot: it changes nothing that anyone relies on. Every such claim is
    /// looked at on each run, and wrong if the mutant is noticed after all.
    pub fn equivalent(&self) -> Option<Equivalent> {
        let Sabotage { site, what } = match *self {
            Mutant::Persist(Planted::Memory(sabotage)) => sabotage,
            Mutant::Logic(_) | Mutant::Persist(Planted::Disk(_)) => return None,
        };
        let streams = matches!(
            site,
            Site::Record
                | Site::Staged
                | Site::Adopt
                | Site::Void
                | Site::Run
                | Site::Table
                | Site::Values
                | Site::Cache
                | Site::Clean
                | Site::Fold
                | Site::Format
        );
        let words = matches!(
            site,
            Site::Void | Site::ZoneGrant | Site::ZoneClear | Site::ZoneBase | Site::Format
        );
        match (what, site) {
            (Fault::PlainInsteadOfNt, _) if !streams => {
                Some(Equivalent::CannotStrike("the site makes no non-temporal copies"))
            }
            (Fault::TornWord, _) if !words => {
                Some(Equivalent::CannotStrike("the site stores no words"))
            }
            (_, Site::Cache) => Some(Equivalent::ChangesNothing(
                "an entry of the cache counts by the checksums of its head and of its bytes: one that is not whole is not found, \
                 and what it is a copy of is read",
            )),
            (Fault::TornWord, Site::Void) => Some(Equivalent::ChangesNothing(
                "the word differs from the one before it in its upper half only: torn in halves it is the old word \
                 or the new one",
            )),
            (Fault::TornWord, Site::ZoneBase) => Some(Equivalent::ChangesNothing(
                "the other copy of the header is whole meanwhile, and says the same or what an adopt record says",
            )),
            (Fault::TornWord, Site::ZoneGrant) => Some(Equivalent::ChangesNothing(
                "a header counts by the checksum over all its words, which half a word does not pass: it reads \
                 as torn, which is no grant, and is swept like a zone without an owner",
            )),
            (Fault::DropFence | Fault::FenceOnOtherThread, Site::RecoverAccepted) => {
                Some(Equivalent::ChangesNothing(
                    "with the one thread that recovers here, the next fence on the way to the closing edit covers \
                     these flushes too; that each of several threads fences its own is shown by the bug \
                     RecoveryFencedByOpener, and by a test of the engine, in tests/protocol.rs",
                ))
            }
            (Fault::PlainInsteadOfNt, Site::Format) => Some(Equivalent::ChangesNothing(
                "the only copy of this kind clears what an earlier pool left; its lines are bound to that pool's \
                 identifier and would not count, and the first open flushes log, table and slots before it serves \
                 anything",
            )),
            _ => None,
        }
    }
}
/// See [`Mutant::sought_first`].
fn bug_sought_first(bug: Bug) -> &'static [&'static str] {
    use Bug::*;
    match bug {
        SequenceBeforeView | IgnoreSnapshots | CleanRenumbers => &["readers"],
        SuperblockBeforeLog | LogAreasFreedEarly | LogAreasUnclaimed => &["grows"],
        FreeBeforeEdit | OneSuperblockSlot | RescanRetiredZone => &["churn"],
        SkipDirectorySync
        | SkipTableSync
        | EditBeforeDirectorySync
        | FreeBeforeTables
        | FreeBeforeLevelEdit
        | KeepInputInEdit
        | SkipTableSweep
        | SweepNamedTable
        | ClaimUnsynced => &["levels"],
        PmTableUnfenced | FreePmTableBeforeEdit | ForgetPmTableExtent => &["pm-tables"],
        FreeMovedPmTable => &["pm-tables-readers"],
        FlushBeforePublished | FlushNewestFirst | FlushKeepsZones => &["flushes"],
        FlushUnderRuns => &["flushes-cut"],
        RemoveTablesBeforeEdit
        | RemoveMovedTable
        | DropTombstoneAboveLevel
        | DropTombstoneAboveTables => &["sink"],
        CutWithoutEdit | CutForgetsMemtables | CutKeepsFrontOpen | JoinShowsLeftRun
        | FlushForOne | LeaveRunForAll | FreeSharedZones | RecoverForOne | RecoverInReverse
        | RangeDeleteUncut => &["cuts", "cut-levels"],
        OperandHides | MergeWithoutBase | RangeEndsWithTable | ForgetRangeDeletes => &["ranges"],
        FoldAcrossSnapshot | FoldWithoutBase => &["folds"],
        IngestBeforeDirectorySync
        | IngestUnsyncedCopy
        | IngestRemovesSourceFirst
        | IngestBelowOlder => &["ingests"],
        AcceptTornTable
        | CheckpointUnpublished
        | CheckpointSkipTablesSync
        | CheckpointSkipStagingSync
        | CheckpointSkipParentSync
        | CheckpointNamedFirst => &["checkpoints"],
        ExpiredDropsEarly | ClockFallsAtOpen | KeyspaceWithoutOptions => &["expiring"],
        DropRemovesTablesFirst | DropFreesZonesFirst | DropKeepsZones => &["keyspaces"],
        WalAcknowledgeUnsynced
        | WalSegmentUnsynced
        | WalSkipDirectorySync
        | WalRemoveUnsynced
        | WalRemoveFirst
        | WalTailNotCopied
        | WalChainFirst
        | WalChainUnsynced
        | WalChainNotTakenBack
        | WalBeginNotKept => &["wal", "wal-mixed"],
        WalChainOneSlot | WalBeginFirst => &["wal-torn"],
        ParentNotSynced | StoreNamedFirst | SuperblockFirst => &["creation", "creation-wal"],
        RemainsNotFinished => &["creation-wal"],
        NewPoolUnsynced => &["creation"],
        MoveNamedFirst | MovePoolUnsynced | MoveRemovesFirst | MoveTablesUnsynced | MoveUntold => {
            &["moves"]
        }
        WalDirectUnsynced | WalBlockForgotten => &["wal-direct"],
        WalStreamedUnfenced | WalStreamedNotFlushed => &["wal-streamed"],
        WalForgetLive | WalPartTooLate | WalKeepOldest | WalSkipChecksum | WalFramesUnbound => {
            &["wal-wraps"]
        }
        CollectWithoutRewrite
        | SkipValueSync
        | RemoveValuesBeforeEdit
        | SweepNamedValues
        | SkipValueSweep
        | DropValuesWithFirstTable
        | CheckpointForgetsValues
        | MergeIgnoresApart => &["values", "values-deep"],
        CacheBytesUnverified => &["cached"],
        PmValuesUnfenced | FreePmValuesBeforeEdit | ForgetPmValuesExtent => &["values-in-pm"],
        MoveForgetsValues => &["values-deep", "values-whole"],
        SweepIgnoresTier | TierSyncsOwnOnly | TierMoveRemovesFirst | CheckpointKeepsTier
        | TierByPosition => &["tiers", "tiers-levels"],
        KeyspaceTiersByPosition | KeyspaceTiersForgotten => &["tiers-whole"],
        MovedValuesRemovedFirst
        | MovedValuesUnsynced
        | MovedValuesUnnamed
        | MovedValuesForgotten => &["tiers-values"],
        TierMoveIgnoresUsed => &["tiers-readers", "tiers"],
        CollectLosesTime => &["values-expiring"],
        StreamZoneFreedEarly
        | StreamFreedBeforeAck
        | StreamLossUnsaid
        | StreamZoneForgotten
        | StreamIgnoresCut
        | StreamGivesVoid
        | StreamGivesUnpublished
        | StreamValueFreed => &["streams", "streams-flushes"],
        StreamEventUnnoted => &["streams-whole"],
        StreamStagedUnheld | StreamStagedForgotten => &["streams-large"],
        AdoptBeforeFence | SweepAdoptedZone | StagedNotRebased | AdoptCountsOne
        | AdoptThoughVoid | SweepVoidAdopt | StagedBelowActive => &["large", "large-deep"],
        StagedDeletesNotRebased => &["large", "large-levels"],
        StagedBaseForgotten => &["large-churn", "large"],
        CutBesideStaged => &["large-cuts"],
        ValueExtentKept => &["extents-churn"],
        RunIndexKept | KeepAllAfterRecovery => &["churn"],
        _ => &["in-flight", "mixed"],
    }
}

/// See [`Mutant::sought_first`].
fn sabotage_sought_first(sabotage: &Sabotage) -> &'static [&'static str] {
    match (sabotage.site, sabotage.what) {
        (Site::Extent, _) => &["extents"],
        (Site::Staged | Site::Adopt, _) => &["large", "large-deep"],
        (Site::ZoneBase, _) => &["large-churn", "large"],
        (Site::Fold, _) => &["folds"],
        (Site::Table, _) => &["pm-tables"],
        (Site::Values, _) => &["values-in-pm"],
        (Site::Cache, _) => &["cached"],
        (Site::ZoneClear, Fault::DropFence | Fault::FenceOnOtherThread) => &["readers"],
        (Site::ZoneClear, Fault::TornWord) => &["whole-eadr"],
        (Site::ZoneClear | Site::Clean, _) => &["churn"],
        _ => &["in-flight", "mixed"],
    }
}
