//! Where data lies: runs of level 0, tables, value files; on which device, and when they go.

#[path = "../common/mod.rs"]
mod common;

mod cached_records;
mod fast_blocks;
mod level0;
mod pm_cache;
mod pm_tables;
mod pm_values;
mod scans_beside;
mod space;
mod subranges;
mod tiers;
mod tiers_values;
mod values;
mod values_defects;
mod values_scans;
mod volatile;
mod warm_outputs;
