//! `check`: every byte that a read may rely on is verified, and what is damaged is listed.

mod order;
pub(crate) mod owners;
mod values;

use base::{PmOffset, Result};

use crate::check::owners::SpaceReport;
use crate::engine::Engine;
use crate::hooks::UnmergedKey;
use crate::keyspace::{KeyspaceState, ViewSources};
use crate::level0::run::{BLOCK_ENTRIES, BLOCK_LEN, BlockBatch, Run};
use crate::manifest::file;
use crate::memtable::Memtable;
use crate::record::store::{Entry, Leaf, Media};
use crate::recovery::recover::Damage;
use crate::tree::ahead::Probing;
use crate::tree::owner;
use crate::tree::table::Table;
use crate::tree::tables::Tables;
use crate::tree::tiers::{OWN, TierDir};
use crate::tree::verify;
use art::{Direction, Versions};
use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;

/// What a check saw.
///
/// ```
/// # use strandline::{Db, Options, PmSource};
/// # let options = Options::default().pm(PmSource::Heap).pm_size(16 << 20);
/// # let db = Db::open("unused-for-heap", options)?;
/// db.put("apple", "red")?;
/// let report = db.check()?;
/// assert_eq!(report.records, 1);
/// for place in &report.damage {
///     println!("{place:?}");
/// }
/// # assert!(report.damage.is_empty());
/// # Ok::<(), strandline::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct CheckReport {
    /// Records verified in memtables and runs.
    pub records: u64,
    /// Index blocks verified.
    pub blocks: u64,
    /// Tables verified, and entries in them.
    pub tables: u64,
    /// Entries of tables verified.
    pub entries: u64,
    /// Value files verified.
    pub value_files: u64,
    /// Values verified that tables refer to in them.
    pub values: u64,
    /// Places that fail.
    pub damage: Vec<Damage>,
    /// Keys that cannot be read though nothing is damaged.
    pub unmerged: Vec<UnmergedKey>,
    /// Who owns the space of the store.
    pub space: SpaceReport,
}

/// Verifies all records, runs and tables of all keyspaces, each by itself and their order among each other.
pub(crate) fn check(engine: &Engine) -> Result<CheckReport> {
    engine.check_open("check")?;
    let mut report =
        CheckReport { damage: engine.lifetime.recovered.damage.clone(), ..CheckReport::default() };
    report.space = engine.owners()?;
    let media = &*engine.media;
    check_slots(media, &mut report);
    if let Some(tables) = &engine.tables {
        check_owner(media, tables, &mut report)?;
    }
    for space in engine.keyspaces.all() {
        check_keyspace(engine, &space, &mut report);
    }
    Ok(report)
}

fn check_slots(media: &Media, report: &mut CheckReport) {
    let what = "a superblock slot fails its checksum; the other one counts, and an open for writing mends this";
    report.damage.extend(media.pool.damaged_slots().into_iter().map(|slot| Damage {
        file: None,
        zone: None,
        at: slot.at.get(),
        len: slot.len,
        what: what.into(),
    }));
}

/// Each source of a keyspace by itself, then their order among each other.
fn check_keyspace(engine: &Engine, space: &KeyspaceState, report: &mut CheckReport) {
    let media = &*engine.media;
    // Compactions may go on beside: tables and value files must be those of one tree.
    let tree = space.tree();
    for (level, table) in tree.tables() {
        check_table(level, table, report);
        values::check_references(space, &tree.values, table, report);
    }
    values::check_files(&tree.values, report);
    let ViewSources { memtables, runs } = ViewSources::of(space);
    let memtable_zones = memtables.iter().flat_map(|memtable| memtable.zones());
    let run_zones = runs.iter().flat_map(|run| run.zones.iter().map(|used| Arc::clone(&used.zone)));
    let zones: BTreeSet<u32> = memtable_zones.chain(run_zones).map(|zone| zone.no).collect();
    zones.into_iter().for_each(|no| check_header(media, no, report));
    memtables.iter().for_each(|memtable| check_memtable(media, memtable, report));
    runs.iter().for_each(|run| check_run(media, run, report));
    for subrange in space.subranges() {
        let view = subrange.view.load_full();
        report.damage.extend(order::check(engine, space, &subrange.span, &view));
    }
}

/// The filter, the index blocks and the records of a run. A damaged block is stepped over, so that the others are looked at.
fn check_run(media: &Media, run: &Run, report: &mut CheckReport) {
    report.damage.extend(run.damaged_filter_lines(media).map(|at| Damage {
        file: None,
        zone: None,
        at: at.get(),
        len: base::LINE as u64,
        what: format!(
            "a filter line of run {} fails its checksum: it hides nothing, but no longer helps",
            run.desc.id
        ),
    }));
    let mut last: Option<Entry> = None;
    let mut next = 0;
    while next < run.entries() {
        let mut leaves = Vec::new();
        report.blocks += 1;
        if let Err(error) = run.leaves(media, BlockBatch::forward(next, 1), &mut leaves) {
            let at = run.block_at(next / BLOCK_ENTRIES as u64);
            report.damage.push(found(media, at, BLOCK_LEN as u64, error));
            next += BLOCK_ENTRIES as u64;
            continue;
        }
        next += leaves.len() as u64;
        for leaf in leaves.into_iter().map(Leaf) {
            let Some(entry) = check_record(media, leaf, report) else { continue };
            if last.as_ref().is_some_and(|last| !is_before(media, last, &entry)) {
                let what = format!("run {} is out of order", run.desc.id);
                let at = leaf.at().get();
                report.damage.push(Damage { file: None, zone: None, at, len: 0, what });
            }
            last = Some(entry);
        }
    }
}

/// Keys ascend, and of one key the newest version comes first.
fn is_before(media: &Media, one: &Entry, other: &Entry) -> bool {
    let order = media.key(one).cmp(media.key(other));
    order.is_lt() || (order.is_eq() && one.seq > other.seq)
}

/// Whether the directories of tables say whose they are. Those of a checkpoint have no owner yet.
fn check_owner(media: &Media, tables: &Tables, report: &mut CheckReport) -> Result<()> {
    if tables.table_dir.fs.exists(&tables.dir().join(file::NAME))? {
        return Ok(());
    }
    tables.tiers.iter().try_for_each(|tier| check_owner_of(media, &tier.dir, report))
}

fn check_owner_of(media: &Media, tier: &TierDir, report: &mut CheckReport) -> Result<()> {
    let (fs, dir) = (&*tier.at.fs, &tier.at.dir);
    if !fs.exists(dir)? {
        return Ok(());
    }
    let what = match owner::is_claimed(fs, dir, Some(media.pool.id())) {
        Ok(true) => return Ok(()),
        Ok(false) if tier.no == OWN || tier.at.present()?.is_empty() => {
            format!("{} has none; the next open for writing sees to that", dir.display())
        }
        Ok(false) => format!(
            "{} has none, and the next open for writing is refused until it is written anew, as docs/format/manifest.md shows",
            dir.display()
        ),
        Err(error) => error.context().to_owned(),
    };
    let file = Some(dir.join(owner::NAME));
    report.damage.push(Damage { file, zone: None, at: 0, len: 0, what });
    Ok(())
}

/// Compares a table's bytes with their checksum, and what is in it with what the manifest and the table itself say.
fn check_table(level: usize, table: &Table, report: &mut CheckReport) {
    let desc = &table.desc;
    let (low, high) = (desc.smallest.escape_ascii(), desc.largest.escape_ascii());
    let mut damaged = |at: u64, len: u64, what: String| {
        let what = format!("{what} (level {level}, keys {low} to {high})");
        let at = table.start() + at;
        report.damage.push(Damage { file: table.path(), zone: None, at, len, what });
    };
    if let Err(error) = table.bytes().and_then(|file| verify::verify(&*file, desc.len, desc.sum)) {
        damaged(0, desc.len, error.context().to_owned());
    }
    let checked = table.uncached(Probing::Nothing).and_then(|open| Ok((open.verify()?, open)));
    let (findings, open) = match checked {
        Ok(checked) => checked,
        Err(error) => return damaged(0, desc.len, error.context().to_owned()),
    };
    findings.into_iter().for_each(|f| damaged(f.offset.unwrap_or(0), 0, f.what));
    let properties = open.layout().properties();
    if properties.entries != desc.entries + desc.range_deletes {
        damaged(0, 0, "the manifest knows another number of entries".into());
    }
    report.tables += 1;
    report.entries += desc.entries;
}

fn check_header(media: &Media, no: u32, report: &mut CheckReport) {
    if !media.pool.header_is_whole(no) {
        report.damage.push(Damage {
            file: None,
            zone: Some(no),
            at: media.pool.geometry().line_at(no).get(),
            len: base::LINE as u64,
            what: "a copy of the zone's header fails its checksum".into(),
        });
    }
}

fn check_memtable(media: &Media, memtable: &Memtable, report: &mut CheckReport) {
    // All at once: a damaged record has no key from which a second look could go on.
    let (mut leaves, forward) = (Vec::new(), Direction::Forward);
    memtable.index.scan(media, Bound::Unbounded, forward, Versions::All, usize::MAX, &mut leaves);
    for leaf in leaves {
        check_record(media, Leaf(leaf), report);
    }
}

fn check_record(media: &Media, leaf: Leaf, report: &mut CheckReport) -> Option<Entry> {
    report.records += 1;
    let checked = media.entry(leaf).and_then(|entry| media.value(&entry).map(|_| entry));
    match checked {
        Ok(entry) => Some(entry),
        Err(error) => {
            report.damage.push(found(media, leaf.at(), 64 * leaf.lines() as u64, error));
            None
        }
    }
}

fn found(media: &Media, at: PmOffset, len: u64, error: base::Error) -> Damage {
    Damage {
        file: None,
        zone: media.pool.geometry().zone_of(at),
        at: at.get(),
        len,
        what: error.context().to_owned(),
    }
}
