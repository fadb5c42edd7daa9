//! Rows as text.

use super::{Report, Row, costs};
use crate::figures::count;
use crate::stages::Group;

/// Heads of the columns.
pub const HEADS: [&str; 10] = [
    "benchmark",
    "rival",
    "threads",
    "value",
    "ours/s",
    "rival's/s",
    "ratio (least-most)",
    "our puts survive",
    "rival's",
    "of the limit",
];

/// The cells of a row, under [`HEADS`]. The ratio says where the promises beside it differ.
pub fn cells(row: &Row) -> [String; 10] {
    let [ours, theirs] = row.ratio.promises();
    [
        row.case.shown(),
        row.rival.into(),
        row.case.threads.to_string(),
        row.case.values(),
        count(row.ours),
        count(row.theirs),
        row.ratio.to_string(),
        ours.words().into(),
        theirs.words().into(),
        row.limit.map_or("-".into(), |limit| format!("{:.0} %", limit * 100.0)),
    ]
}

/// The report for a terminal.
pub fn text(report: &Report) -> String {
    let rows = report.rows();
    let mut text = String::new();
    for group in Group::ALL {
        let of_group: Vec<&Row> = rows.iter().filter(|row| row.group == group).collect();
        if !of_group.is_empty() {
            text +=
                &format!("{} (--group={})\n{}\n", group.about(), group.name(), lines(&of_group));
        }
    }
    for sample in report.alone() {
        let rate = count(sample.measured.rate.per_second());
        let key = sample.key();
        text += &format!(
            "{} of {} B, {} threads, run {}: ours alone {rate}/s ({})\n    {}\n",
            key.shown(),
            key.values(),
            key.threads,
            sample.run + 1,
            sample.promise,
            costs::of(&[sample]),
        );
    }
    for failure in &report.failures {
        text += &format!("FAILED {failure}\n");
    }
    text
}

fn lines(rows: &[&Row]) -> String {
    let cells: Vec<[String; 10]> = rows.iter().map(|row| cells(row)).collect();
    let width = |column: usize| {
        let cells = cells.iter().map(|row| row[column].chars().count());
        cells.chain([HEADS[column].len()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..HEADS.len()).map(width).collect();
    let line = |cells: &[String]| {
        let padded = cells.iter().zip(&widths).enumerate().map(|(column, (cell, width))| {
            let is_text = column < 2 || (6..9).contains(&column);
            if is_text { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
        });
        format!("{}\n", padded.collect::<Vec<_>>().join("  ").trim_end())
    };
    let mut text = line(&HEADS.map(String::from));
    for (row, cells) in rows.iter().zip(&cells) {
        text += &line(cells);
        let [ours, theirs] = row.ratio.promises();
        text += &format!("    ours ({ours}):  {}\n", with_costs(row, 0));
        text += &format!("    rival ({theirs}): {}\n", with_costs(row, 1));
    }
    text
}

fn with_costs(row: &Row, side: usize) -> String {
    match row.costs[side].as_str() {
        "" => row.durability[side].clone(),
        costs => format!("{}; {costs}", row.durability[side]),
    }
}
