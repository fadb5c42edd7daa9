//! The table of options: what each is called, what it takes, and advice.

/// One row of the options table.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Row {
    /// Name in text form and on the command line.
    pub name: &'static str,
    /// Unit, or the values it may have.
    pub unit: &'static str,
    /// Default, in text form.
    pub default: &'static str,
    /// Meaning and advice.
    pub doc: &'static str,
}

/// Options that [`Db::set_option`](crate::Db::set_option) changes.
const WHILE_OPEN: &[&str] = &[
    "immutable_memtables_max",
    "placement",
    "pm_cache_policy",
    "compression",
    "compression_level",
    "checksum",
    "value_files_min",
    "value_space",
    "block_bytes",
    "filter_bits",
    "index",
    "hash_index",
    "block_cache",
    "cache_records",
    "cache_outputs",
    "lock_timeout",
    "lock_memory",
    "compaction_rate",
];

impl Row {
    /// Whether [`Db::set_option`](crate::Db::set_option) changes it. Options of a keyspace have ways of their own.
    pub fn changes_while_open(&self) -> bool {
        WHILE_OPEN.contains(&self.name)
    }
}

/// Every option.
pub const TABLE: &[Row] = &[
    Row {
        name: "pm",
        unit: "auto, heap, dram or a path",
        default: "auto",
        doc: "Where persistent memory comes from. auto: what an existing store has; for a new one a file `pool` in its \
              directory if that is on persistent memory (DAX) or on tmpfs, which emulates it, else as dram. heap: memory of \
              this process; nothing outlives it. dram: memory of this process, with a log on SSD: see wal_dir. Or a file or device of your own.",
    },
    Row {
        name: "pm_size",
        unit: "bytes; 0 chooses",
        default: "0",
        doc: "Size of a new store's pool; it cannot change later. A pool is allocated at once, 1 GiB if 0. With records in \
              DRAM: what they may take, as they come; the log takes two to three times as much on SSD. 0: a thirty-second of the \
              memory that the machine or its container has, 16 to 256 MiB.",
    },
    Row {
        name: "pm_model",
        unit: "none, or a model such as optane-100x6-delta",
        default: "none",
        doc: "What memory the pool stands for: threads wait, spinning, as long as that would take beyond what this machine does. \
              For measurements on machines without it. -delta adds the published difference to DRAM, -ratio multiplies what \
              this machine takes. Fields may follow: optane-100x6-delta,read=+300ns. Every figure says emulated then. With \
              records in DRAM it is for what wal_dir, memtable_memory and block_cache_memory put in memory, and refused without these.",
    },
    Row {
        name: "wal_dir",
        unit: "auto or a path",
        default: "auto",
        doc: "With records in DRAM: where a new store has its log. auto: in its directory `wal`. Or a directory of your own, for this \
              store alone, such as one on persistent memory: there, and on tmpfs, which emulates it, the log is streamed past the \
              caches, and a write is durable, as far as that memory is, when it returns, whatever wal_sync says. With ssd_model and no pm_model tmpfs \
              stands for an SSD.",
    },
    Row {
        name: "wal_sync",
        unit: "always, never, or a time such as 100ms or 1s",
        default: "always",
        doc: "With records in DRAM: whether the log is synced before a write is acknowledged. With never, a write survives the end \
              of the process at once, and power failure after Db::sync_wal or a write that asks for it. With a time, 1 ms to 1 h, \
              a background thread syncs the log once it has passed, while others write on; a write syncs it if one that returned \
              twice as long ago is not synced; a close syncs it. Of two writes that have returned, power failure takes no earlier \
              one that had returned more than two intervals before the later one began.",
    },
    Row {
        name: "wal_io",
        unit: "auto, cached or direct",
        default: "auto",
        doc: "With records in DRAM and wal_sync=always: whether the log is written through the system's page cache or past it \
              (O_DIRECT). Auto begins with the cache, tries the other way now and then, a file of the log at a time, and changes \
              after three wins in a row, each of 15 % of the time of at least 512 syncs. Where the file system cannot go past its \
              cache, or writes blocks to a new place each time, it is the cache.",
    },
    Row {
        name: "memtable_memory",
        unit: "dram or a directory",
        default: "dram",
        doc: "With records in DRAM and a log (pm=dram): memory for them, as long as they are not in tables. A directory on persistent memory \
              (DAX), or on tmpfs, which stands for it: a file without a name there, of pm_size bytes, which goes with the process. \
              The trees that lead to records stay in DRAM. pm_model says how slow it is.",
    },
    Row {
        name: "zone_size",
        unit: "bytes, power of two; 0 chooses",
        default: "0",
        doc: "Size of a new store's zones. A value above an eighth of it gets an extent of its own; a batch beyond a \
              quarter of it gets zones of its own.",
    },
    Row {
        name: "create_if_missing",
        unit: "true or false",
        default: "true",
        doc: "Make the store if there is none.",
    },
    Row {
        name: "memtable_bytes",
        unit: "bytes",
        default: "64M",
        doc: "Records that a memtable holds before it is flushed; at most a quarter of the pool. Larger: fewer runs and \
              less index written. Smaller: less DRAM and quicker recovery.",
    },
    Row {
        name: "immutable_memtables_max",
        unit: "count",
        default: "4",
        doc: "Memtables that may wait to be flushed. Beyond that, writers are slowed to the rate of flushes.",
    },
    Row {
        name: "level0",
        unit: "global-index, index-runs or sst",
        default: "global-index",
        doc: "What level 0 is made of. global-index: each memtable becomes an index run, and runs are merged into one \
              index for each subrange; records stay where they are. index-runs: runs are not merged until they are \
              compacted to tables; less work, slower reads. sst: memtables are written out as tables, as in RocksDB. \
              index-runs and sst need tables.",
    },
    Row {
        name: "subranges",
        unit: "count, at most 1024; 0 chooses",
        default: "0",
        doc: "Parts that the keys of each keyspace are cut into. Each has memtables, runs and zones of its own, so that \
              little is compacted at a time. 0: they are split and joined as writes fall. A number: cut once, from the \
              first run's keys, at most one for each 4 zones.",
    },
    Row {
        name: "dram_budget",
        unit: "bytes; 0 chooses",
        default: "0",
        doc: "DRAM for the block cache, memtable indexes and fence keys. 0: an eighth of the memory that the machine or its \
              container has, 1 MiB to 1 GiB, less the records if they are in DRAM; strandline stats \
              tells what was found. A memtable is flushed early when its index takes its share: a quarter of the budget \
              without cache and runs, divided by the keyspaces.",
    },
    Row {
        name: "ssd",
        unit: "auto, none or a path",
        default: "auto",
        doc: "Where tables go when persistent memory fills up. auto: a directory `sst` in the store's directory. none: all \
              data stays in persistent memory. Or a directory of your own.",
    },
    Row {
        name: "tiers",
        unit: "auto, none or DIR:SIZE,DIR:SIZE, each with @MODEL behind it or not",
        default: "auto",
        doc: "More directories of tables, fastest first, each with the bytes that files there may take (0: what the device has). \
              The directory of ssd comes last, or where it stands among them. auto: those that the store has. One that is \
              left out is emptied in the background, and a later open forgets it. Persistent memory is faster than all: see \
              pm_tables. A model as of ssd_model may follow, for this open: /mnt/fast:3G@optane-ssd,read=12us.",
    },
    Row {
        name: "placement",
        unit: "benefit or level",
        default: "benefit",
        doc: "Which tier a table goes to. benefit: tables that are read most for their bytes, past the caches, lie in the \
              fastest tiers, as far as these have room; tables move as what is read changes. level: upper levels lie in the \
              fastest tiers, as far as these have room for whole levels, as with db_paths in RocksDB.",
    },
    Row {
        name: "pm_tables",
        unit: "percent, at most 75",
        default: "0",
        doc: "Share of persistent memory for tables of the upper levels, which are merged again soon. Tables that find no \
              room there go to SSD. Level 0 has this much less. Not with a log or ssd=none.",
    },
    Row {
        name: "pm_values",
        unit: "percent, at most 75, pm_tables included",
        default: "0",
        doc: "Share of persistent memory for value files (value_files_min), whose values are read where they lie: not compressed, \
              not copied, and not in block_cache. Value files that find no room there go to SSD. Level 0 has this much \
              less. Not with a log or ssd=none.",
    },
    Row {
        name: "pm_cache",
        unit: "percent, at most 75, pm_tables and pm_values included",
        default: "0",
        doc: "Share of persistent memory for a cache below block_cache: blocks of tables and values of value files that are on \
              SSD. What is there is found again after an open, a kill or a power failure. Level 0 has this much less, and \
              takes it back where it needs to. About 110 bytes of block_cache lead to each block, half of it at most. Not with a \
              log or ssd=none.",
    },
    Row {
        name: "pm_cache_policy",
        unit: "dram-first, pm-first, both-ways or auto",
        default: "auto",
        doc: "How blocks move between block_cache and pm_cache. dram-first: what is read goes to block_cache, what makes room there \
              to pm_cache, and is read there. pm-first: what is read goes to pm_cache, and to block_cache when it is found \
              there for the second time. both-ways: as dram-first, and back when it is found for the second time. auto: \
              as both-ways, but a full pm_cache takes only what is read again and again.",
    },
    Row {
        name: "pm_block_bytes",
        unit: "bytes, 256 to 4096",
        default: "1K",
        doc: "Size at which a data block of a table in persistent memory is cut. These blocks are read where they lie: not \
              compressed, not copied, and not in block_cache. Smaller: a get reads and verifies less. Larger: the index, \
              which is in DRAM, takes less of it.",
    },
    Row {
        name: "ssd_size",
        unit: "bytes; 0: no limit",
        default: "0",
        doc: "Bytes that files of tables may take. At most an eighth of it (of 1 MiB and less up to a half) is a reserve \
              for work that frees space. Writes get NoSpace before they would touch the reserve, or once all of persistent \
              memory would no longer fit; deletions go on. If files take more at an open, merges may add as much again, \
              and the size of persistent memory, until enough is deleted.",
    },
    Row {
        name: "ssd_direct",
        unit: "true or false",
        default: "false",
        doc: "Read and write tables past the page cache (O_DIRECT).",
    },
    Row {
        name: "ssd_model",
        unit: "none, or a model such as nvme-tlc",
        default: "none",
        doc: "What device tables and log stand for: threads sleep as long as that would take. For measurements, with the store on \
              tmpfs. Each read goes to the device, as with ssd_direct. Fields may follow: nvme-tlc,read=100us. Every figure says \
              emulated then.",
    },
    Row {
        name: "compression",
        unit: "none, snappy, lz4 or zstd",
        default: "lz4",
        doc: "How blocks of new tables are compressed; zstd in builds with the feature of that name. Not those of tables in \
              persistent memory.",
    },
    Row {
        name: "compression_level",
        unit: "a whole number",
        default: "0",
        doc: "Level for zstd, up to 22; 0 is its own default. The others have no levels.",
    },
    Row {
        name: "checksum",
        unit: "xxh3 or crc32c",
        default: "xxh3",
        doc: "How blocks of new tables are protected; crc32c for RocksDB before 6.27.",
    },
    Row {
        name: "value_files_min",
        unit: "bytes; 0: none",
        default: "4K",
        doc: "Values from this size on are written to value files, apart from their keys, when level 0 is compacted: merges of levels then \
              move references, not values. Faster writes; scans read more places.",
    },
    Row {
        name: "value_space",
        unit: "percent, 110 to 10000",
        default: "150",
        doc: "What value files may take for what is live in them. Beyond that, the live values of the worst files are written anew, \
              and the files go. Less: less space, more written.",
    },
    Row {
        name: "table_bytes",
        unit: "bytes",
        default: "32M",
        doc: "Size at which a table is cut. Larger: fewer files. Smaller: less is rewritten at a time.",
    },
    Row {
        name: "block_bytes",
        unit: "bytes",
        default: "4K",
        doc: "Size at which a data block of a table in a file is cut, before compression. Larger: smaller indexes, better \
              compression. Smaller: a get reads less.",
    },
    Row {
        name: "filter_bits",
        unit: "bits per key, at most 100; 0: no filter",
        default: "10",
        doc: "Size of the Bloom filters of new tables. With 10, one table in a hundred is read in vain.",
    },
    Row {
        name: "index",
        unit: "binary or two-level",
        default: "binary",
        doc: "How new tables find their blocks. binary: one index block, kept in DRAM. two-level: small parts of the index \
              are read when needed; for stores whose indexes, a hundredth of long values, do not fit half of block_cache.",
    },
    Row {
        name: "hash_index",
        unit: "true or false",
        default: "false",
        doc: "Whether data blocks of new tables carry a hash index for gets. With keys of 16 bytes it gains nothing.",
    },
    Row {
        name: "block_cache",
        unit: "bytes",
        default: "256M",
        doc: "DRAM, out of dram_budget and at most half of it, for data, index and filter blocks of tables. Data in persistent \
              memory is not among them.",
    },
    Row {
        name: "cache_records",
        unit: "true or false",
        default: "true",
        doc: "Whether block_cache, once it is full, also keeps single records that are read: a hot key then takes its own bytes, not \
              a block's. Not in keyspaces with a compaction filter, nor with block_cache_memory.",
    },
    Row {
        name: "cache_outputs",
        unit: "off or warm",
        default: "off",
        doc: "Whether data blocks of tables that a compaction wrote come to block_cache before they are read. warm: those that replace blocks \
              which were there; a background thread reads them once the tables are installed. off: all are read when they are needed.",
    },
    Row {
        name: "fast_blocks",
        unit: "low, bypass or equal",
        default: "low",
        doc: "What block_cache does with data on tiers whose reads take a quarter of those of the slowest, or less. low: it makes \
              room first, as long as it has more than a share that follows what misses cost. bypass: it is not kept once the \
              cache is nearly full. equal: it is as other data.",
    },
    Row {
        name: "block_cache_memory",
        unit: "dram or a directory",
        default: "dram",
        doc: "With records in DRAM and a log (pm=dram): where block_cache has data blocks and values. A directory as for memtable_memory: \
              a file without a name there, as long as block_cache, which then is no part of dram_budget. Indexes and filters of open \
              tables stay in DRAM, half of block_cache and of dram_budget at most. pm_model says how slow it is.",
    },
    Row {
        name: "lock_timeout",
        unit: "seconds, or a time such as 100ms",
        default: "1",
        doc: "How long a transaction waits for a lock that others hold, unless it says so itself, and a write outside transactions for one \
              that is in its way. Then it fails with TimedOut, and says who holds it.",
    },
    Row {
        name: "lock_memory",
        unit: "bytes",
        default: "64M",
        doc: "DRAM, beside dram_budget, that locks of pessimistic transactions may take: some 200 bytes for a key. Beyond it they fail with \
              LimitExceeded.",
    },
    Row {
        name: "compaction_rate",
        unit: "bytes per second; 0: no limit",
        default: "0",
        doc: "Bytes per second that compactions write at most. If it is too low, writers are slowed once persistent memory \
              fills up.",
    },
    Row {
        name: "background_threads",
        unit: "count, at most 64",
        default: "2",
        doc: "Threads that flush, merge and compact; 0 leaves that to the writers and to explicit calls.",
    },
    Row {
        name: "recovery_threads",
        unit: "count; 0: one per processor",
        default: "0",
        doc: "Threads that scan zones and rebuild indexes when a store is opened.",
    },
    Row {
        name: "inspect",
        unit: "true or false",
        default: "false",
        doc: "Whether other processes of the same user, and root, may look at the store while it is open for writing: \
              a socket `inspect.sock` in its directory answers strandline stats, top, lsm, pool, explain and set-option. \
              On in the command. Not with pm=heap.",
    },
];
