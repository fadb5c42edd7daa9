//! What a benchmark asks: its group, where stores are, what puts survive, how data fits memory, what threads do.

use bench::ycsb::CoreWorkload;

/// A group of benchmarks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// See [`Place::Disk`].
    Disk,
    /// See [`Place::Hybrid`].
    Hybrid,
    /// See [`Place::Tmpfs`].
    Tmpfs,
    /// See [`Place::Split`].
    Split,
    /// Transactions of one key, on a disk and in tmpfs.
    Transaction,
    /// YCSB's core workloads, on a disk and in tmpfs.
    Ycsb,
    /// TPC-C, on a disk and in tmpfs.
    Tpcc,
}

impl Group {
    /// All of them, in the order in which they are told.
    pub const ALL: [Group; 7] = [
        Group::Disk,
        Group::Hybrid,
        Group::Tmpfs,
        Group::Split,
        Group::Transaction,
        Group::Ycsb,
        Group::Tpcc,
    ];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Group::Disk => "disk",
            Group::Hybrid => "hybrid",
            Group::Tmpfs => "tmpfs",
            Group::Split => "split",
            Group::Transaction => "transaction",
            Group::Ycsb => "ycsb",
            Group::Tpcc => "tpcc",
        }
    }

    /// What a reader has to know before its figures.
    pub fn about(self) -> &'static str {
        match self {
            Group::Disk => "On the same disk, with the same memory",
            Group::Hybrid => {
                "On the same disk, with the same memory, and as much persistent memory for a second cache"
            }
            Group::Tmpfs => "In the same tmpfs, where no power failure is survived",
            Group::Split => {
                "Not on equal terms: this engine's pool in tmpfs, everything else on the disk"
            }
            Group::Transaction => {
                "Transactions of one key, all in memtables, on the same disk or in the same tmpfs"
            }
            Group::Ycsb => {
                "YCSB's core workloads, on the same disk with the same memory or in the same tmpfs"
            }
            Group::Tpcc => {
                "TPC-C, not audited, on the same disk with the same memory or in the same tmpfs"
            }
        }
    }

    /// What stores hold.
    pub fn holds(self) -> Holds {
        match self {
            Group::Disk | Group::Hybrid | Group::Tmpfs | Group::Split | Group::Transaction => {
                Holds::Numbers
            }
            Group::Ycsb => Holds::Records,
            Group::Tpcc => Holds::Orders,
        }
    }

    /// Whether engines run it that have transactions, with another row for each kind of them, and no others.
    pub fn wants_transactions(self) -> bool {
        matches!(self, Group::Transaction | Group::Tpcc)
    }
}

/// What a store holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holds {
    /// Keys and values that follow from a number.
    Numbers,
    /// Records of YCSB.
    Records,
    /// Tables of TPC-C.
    Orders,
}

/// Where stores are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// All on the same disk, this engine's records in DRAM with a log there, with the same memory.
    Disk,
    /// All in the same tmpfs: memory with a file system on it, which emulates persistent memory.
    Tmpfs,
    /// This engine's pool in tmpfs, everything else on the disk: what a machine with persistent memory would have. Not
    /// equal terms.
    Split,
    /// Tables on the same disk, with the same memory and the same persistent memory, for which tmpfs stands: this engine's
    /// pool, with a cache in it, and what the other has for a cache below its block cache.
    Hybrid,
}

impl Place {
    /// Whether all engines have their tables on the same disk, so that what is read there tells them apart.
    pub fn shares_disk(self) -> bool {
        matches!(self, Place::Disk | Place::Hybrid)
    }
}

/// What a completed put should survive. In a pool this engine's own are always durable on its device; what an engine keeps
/// it says itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Survives {
    /// Nothing: no log is written.
    Nothing,
    /// The end of the process.
    Kill,
    /// Power failure: a device was told to make it so.
    Power,
}

/// How data, memory and devices fit each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    /// Several times the pool or the memory, so that tables are written all the while.
    Spill,
    /// Ten times that.
    Long,
    /// All in the pool, or in the cache of the others.
    Pool,
    /// All in tables, and the cache holds them.
    Tables,
    /// All in tables, and the cache holds a small part.
    Cold,
    /// All in tables, four times the memory, and a few keys are read most of the time.
    Skewed,
    /// Nothing but commits, with as much memory as a store takes by default.
    Commits,
    /// All in memtables, and what is put for some seconds, too.
    Memtables,
    /// All in the pool, or in the cache of the others; what is put meanwhile may go to tables.
    Ample,
    /// Tables of TPC-C, as large as their scale says.
    Orders,
}

/// What a benchmark does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Puts each key once, in random order, into an empty store.
    Fill,
    /// Commits batches of so many puts of random keys.
    Commit(u32),
    /// Puts random keys for long; each put is timed.
    Steady,
    /// Gets random keys.
    Get,
    /// Gets keys that are not there.
    GetAbsent,
    /// Seeks random keys and reads on for a hundred entries.
    Scan,
    /// Gets random keys while one more thread puts, as fast as it can or so many times a second.
    GetWhilePut(Option<u32>),
    /// Gets random keys while one more thread scans the whole store, over and over, so many bytes a second.
    GetWhileScan(u64),
    /// Reads random keys and puts what was made of their values, each in a transaction.
    Update,
    /// Inserts each record of YCSB once.
    Insert,
    /// One of YCSB's workloads.
    Records(CoreWorkload),
    /// The transactions of TPC-C.
    Orders,
}

impl Work {
    /// Whether one more thread puts.
    pub fn is_beside_puts(self) -> bool {
        matches!(self, Work::GetWhilePut(_))
    }

    /// Whether it is something else than putting for a time, so that all engines hold the same at its end.
    pub fn leaves_all_alike(self) -> bool {
        match self {
            Work::Fill
            | Work::Get
            | Work::GetAbsent
            | Work::Scan
            | Work::GetWhileScan(_)
            | Work::Insert => true,
            Work::Records(workload) => !workload.puts(),
            Work::Commit(_) | Work::Steady | Work::GetWhilePut(_) | Work::Update | Work::Orders => {
                false
            }
        }
    }

    /// Whether one more thread scans.
    pub fn is_beside_a_scan(self) -> bool {
        matches!(self, Work::GetWhileScan(_))
    }
}

/// What the system's cache of files may do for a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageCache {
    /// All it does.
    Used,
    /// It begins empty, and so little is read that it stays so.
    Cold,
    /// Nothing: only engines that read past it (O_DIRECT).
    Past,
    /// Nothing for the engines that can; for the others it begins empty.
    PastIfAble,
}

impl PageCache {
    /// Whether an engine that can should read and write past it.
    pub fn is_passed(self) -> bool {
        matches!(self, PageCache::Past | PageCache::PastIfAble)
    }
}

/// What is done to a store before its first benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prepared {
    /// Nothing: it is empty.
    Empty,
    /// Several logs are filled, so that those to come are written as in long use.
    Primed,
    /// All keys are put, and what background threads owe for that is done.
    Loaded,
    /// All keys are put, and everything is where it stays.
    Compacted,
    /// The same; then the store is opened as its first benchmark needs it, and gets bring what they read to caches. It stays
    /// open from one benchmark to the next.
    Warm,
    /// All keys are put, then random ones until several times as many were put, and what background threads owe for that is
    /// done.
    Worn,
}
