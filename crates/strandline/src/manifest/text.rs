//! The manifest's state as text: one line for each thing that it names.

use std::fmt;

use pool::Extent;

use super::edit::Fate;
use super::streams::{EventDesc, EventKind, SlotDesc, StreamsState};
use super::{ManifestState, RunState, StoredOptions};
use crate::level0::run::RunDesc;
use crate::tree::desc::{TableDesc, ValueFileState};
use crate::tree::tiers::OWN;

impl fmt::Display for ManifestState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "epoch {}, floor {}", self.epoch, self.floor)?;
        let (keyspace, run, table) = (self.next_keyspace, self.next_run, self.next_table);
        writeln!(f, "next: keyspace {keyspace}, run {run}, table {table}")?;
        if self.clock > 0 {
            writeln!(f, "clock at {} ms since 1970", self.clock)?;
        }
        for (id, keyspace) in &self.keyspaces {
            writeln!(f, "keyspace {id} {}", keyspace.name.escape_debug())?;
            let StoredOptions { options, tiers } = &keyspace.options;
            if !options.is_empty() {
                writeln!(f, "  options: {options}")?;
            }
            if !tiers.are_all() {
                let numbers: Vec<String> = tiers.iter().map(|no| no.to_string()).collect();
                writeln!(f, "  files in tiers {}", numbers.join(", "))?;
            }
            for (lower, id) in &keyspace.subranges {
                writeln!(f, "  subrange {id}: keys from {}", quoted(lower))?;
            }
            keyspace.runs.values().try_for_each(|run| write_run(f, run))?;
            keyspace.levels.tables().try_for_each(|table| write_table(f, table))?;
            keyspace.levels.value_files().try_for_each(|file| write_value_file(f, file))?;
        }
        for (no, (incarnation, fate)) in &self.zones {
            let (epoch, grant) = (incarnation >> 32, incarnation & u64::from(u32::MAX));
            write!(f, "zone {no}, incarnation {epoch}.{grant}: ")?;
            match fate {
                Fate::Live { keyspace, sealed } => {
                    writeln!(f, "live in keyspace {keyspace}, sealed at {sealed}")
                }
                Fate::Frozen => writeln!(f, "frozen"),
                Fate::Retired => writeln!(f, "retired"),
            }?;
        }
        write_streams(f, &self.streams)
    }
}

fn write_streams(f: &mut fmt::Formatter<'_>, streams: &StreamsState) -> fmt::Result {
    for (name, slot) in &streams.slots {
        let SlotDesc { acked, lost, max_bytes } = slot;
        let name = name.escape_debug();
        writeln!(f, "stream {name}: acknowledged {acked}, lost {lost}, at most {max_bytes} bytes")?;
    }
    for (epoch, cut) in &streams.ends {
        writeln!(f, "open {epoch} counts up to {cut} for streams")?;
    }
    for (number, EventDesc { keyspace, name, kind, .. }) in &streams.events {
        let what = match kind {
            EventKind::Created => "was created",
            EventKind::Dropped => "was dropped",
            EventKind::Ingested { .. } => "took in tables",
        };
        writeln!(f, "at {number} keyspace {keyspace} {} {what}", name.escape_debug())?;
    }
    Ok(())
}

fn quoted(key: &[u8]) -> String {
    format!("\"{}\"", key.escape_ascii())
}

fn write_run(f: &mut fmt::Formatter<'_>, run: &RunState) -> fmt::Result {
    let RunDesc { id, order, entries, min_seq, max_seq, .. } = &run.desc;
    let bytes = run.desc.bytes();
    let subranges: Vec<String> = run.subranges.iter().map(u32::to_string).collect();
    writeln!(
        f,
        "  run {id} of subrange {}: order {order}, {entries} entries, seqs {min_seq} to {max_seq}, {bytes} bytes",
        subranges.join(", ")
    )
}

fn write_table(f: &mut fmt::Formatter<'_>, table: &TableDesc) -> fmt::Result {
    let TableDesc { id, level, entries, deletions, range_deletes, min_seq, max_seq, len, .. } =
        table;
    let (smallest, largest) = (table.smallest.escape_ascii(), table.largest.escape_ascii());
    let before = if table.ends_before { "before " } else { "" };
    let place = place(table.extent, table.tier);
    writeln!(
        f,
        "  level {level}, table {id}: {entries} entries, {deletions} deletions, {range_deletes} range deletions, \
         seqs {min_seq} to {max_seq}, {len} bytes{place}, keys {smallest} to {before}{largest}"
    )
}

fn place(extent: Option<Extent>, tier: u32) -> String {
    match (extent, tier) {
        (Some(extent), _) => format!(" in persistent memory at {}", extent.at),
        (None, OWN) => String::new(),
        (None, tier) => format!(" in tier {tier}"),
    }
}

fn write_value_file(f: &mut fmt::Formatter<'_>, file: &ValueFileState) -> fmt::Result {
    let ValueFileState { desc, tables, live_values, live_bytes } = file;
    writeln!(
        f,
        "  value file {}: {live_values} of {} values and {live_bytes} of {} bytes live, in {tables} tables{}",
        desc.id,
        desc.values,
        desc.bytes(),
        place(desc.extent, desc.tier)
    )
}
