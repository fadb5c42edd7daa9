//! Flags of db_bench and YCSB that are taken and change nothing: what each says is so here in any case, or is said by another option. A note
//! tells that.

use super::table::{BOOLEAN, Flag, boolean, number};

pub(crate) const UNHEEDED: &[Flag] = &[
    Flag {
        name: "allow_concurrent_memtable_write",
        takes: BOOLEAN,
        doc: "Changes nothing: writers always insert into a memtable at the same time.",
        set: |_, text| boolean(text).map(drop),
    },
    Flag {
        name: "enable_pipelined_write",
        takes: BOOLEAN,
        doc: "Changes nothing: a write never waits in turn for the log and then for the memtable.",
        set: |_, text| boolean(text).map(drop),
    },
    Flag {
        name: "memtable_use_huge_page",
        takes: BOOLEAN,
        doc: "Changes nothing: records are in huge pages where the system has them (huge_pages).",
        set: |_, text| boolean(text).map(drop),
    },
    Flag {
        name: "use_cache_memkind_kmem_allocator",
        takes: BOOLEAN,
        doc: "Changes nothing: block_cache_memory=DIR puts the block cache in volatile persistent memory.",
        set: |_, text| boolean(text).map(drop),
    },
    Flag {
        name: "read_random_exp_range",
        takes: "0; draw and zipf_exponent say how keys are skewed",
        doc: "Changes nothing: 0, all keys alike, is the default (draw).",
        set: |_, text| number(text).filter(|range| *range == 0.0).map(drop),
    },
    Flag {
        name: "ycsb_read_all_fields",
        takes: BOOLEAN,
        doc: "Changes nothing: a record is one value, which is read whole.",
        set: |_, text| boolean(text).map(drop),
    },
];
