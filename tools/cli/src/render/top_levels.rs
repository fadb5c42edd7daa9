//! Where each keyspace has its data, as a table: memtables, level 0, levels.

use std::cmp::Reverse;

use ratatui::layout::{Alignment, Constraint};
use ratatui::style::Style;
use ratatui::text::Text;
use ratatui::widgets::{Row, Table};
use strandline::{KeyspaceProperties, LevelProperties, Properties};

use crate::human;
use crate::render::keyspace;

/// Keyspaces that are shown: those with the most bytes.
const SHOWN: usize = 20;
const HEADS: [&str; 7] = ["keyspace", "", "number", "entries", "bytes", "target", "in pool"];
const WIDTHS: [u16; 7] = [24, 9, 9, 15, 12, 12, 12];

/// The cells of all rows but the heading.
pub fn cells(figures: &Properties) -> Vec<[String; 7]> {
    let mut keyspaces: Vec<&KeyspaceProperties> = figures.keyspaces.iter().collect();
    keyspaces.sort_by_key(|keyspace| Reverse(bytes_of(keyspace)));
    let beyond = keyspaces.len().saturating_sub(SHOWN);
    keyspaces.truncate(SHOWN);
    let mut rows: Vec<[String; 7]> = keyspaces.into_iter().flat_map(keyspace_cells).collect();
    if beyond > 0 {
        let mut row = <[String; 7]>::default();
        row[0] = format!("and {} smaller", human::count(beyond as u64));
        rows.push(row);
    }
    rows
}

/// The table of `cells`.
pub fn table(cells: Vec<[String; 7]>, heading: Style) -> Table<'static> {
    let heads = row(HEADS.map(String::from)).style(heading);
    Table::new(cells.into_iter().map(row), WIDTHS.map(Constraint::Length)).header(heads)
}

/// Numbers stand to the right.
fn row(cells: [String; 7]) -> Row<'static> {
    Row::new(cells.into_iter().enumerate().map(|(at, text)| {
        Text::from(text).alignment(if at < 2 { Alignment::Left } else { Alignment::Right })
    }))
}

fn run_bytes(keyspace: &KeyspaceProperties) -> u64 {
    keyspace.runs.iter().map(|run| run.record_bytes + run.index_bytes).sum()
}

fn bytes_of(keyspace: &KeyspaceProperties) -> u64 {
    let levels = keyspace.levels.iter().map(LevelProperties::bytes).sum::<u64>();
    keyspace.memtable_bytes + run_bytes(keyspace) + levels
}

fn keyspace_cells(keyspace: &KeyspaceProperties) -> Vec<[String; 7]> {
    let entries = keyspace.runs.iter().map(|run| run.entries).sum();
    let mut rows = vec![
        [
            keyspace::name(&keyspace.name),
            "memtables".into(),
            human::count(keyspace.memtables as u64),
            human::count(keyspace.memtable_records),
            human::bytes(keyspace.memtable_bytes),
            String::new(),
            String::new(),
        ],
        [
            String::new(),
            "level 0".into(),
            human::count(keyspace.runs.len() as u64),
            human::count(entries),
            human::bytes(run_bytes(keyspace)),
            human::bytes(keyspace.level0_target),
            String::new(),
        ],
    ];
    rows.extend(keyspace.levels.iter().map(|level| {
        [
            String::new(),
            format!("level {}", level.level),
            human::count(level.tables.len() as u64),
            human::count(level.entries()),
            human::bytes(level.bytes()),
            level.target.map_or_else(|| "no limit".into(), human::bytes),
            human::bytes(level.pm_bytes()),
        ]
    }));
    rows
}
