//! Rows as text.

use super::{Report, Row, count};

/// Heads of the columns.
pub const HEADS: [&str; 9] = [
    "benchmark",
    "rival",
    "threads",
    "value",
    "ours/s",
    "rival's/s",
    "ratio",
    "least-most",
    "of the limit",
];

/// The cells of a row, under [`HEADS`].
pub fn cells(row: &Row) -> [String; 9] {
    let [ratio, least, most] = row.ratio;
    [
        row.benchmark.into(),
        row.rival.into(),
        row.threads.to_string(),
        row.value_size.to_string(),
        count(row.ours),
        count(row.theirs),
        format!("{ratio:.2}"),
        format!("{least:.2}-{most:.2}"),
        row.limit.map_or("-".into(), |limit| format!("{:.0} %", limit * 100.0)),
    ]
}

/// The report for a terminal.
pub fn text(report: &Report) -> String {
    let rows = report.rows();
    let cells: Vec<[String; 9]> = rows.iter().map(cells).collect();
    let width = |column: usize| {
        let cells = cells.iter().map(|row| row[column].chars().count());
        cells.chain([HEADS[column].len()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..HEADS.len()).map(width).collect();
    let line = |cells: &[String]| {
        let padded = cells.iter().zip(&widths).enumerate().map(|(column, (cell, width))| {
            if column < 2 { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
        });
        format!("{}\n", padded.collect::<Vec<_>>().join("  ").trim_end())
    };
    let mut text = line(&HEADS.map(String::from));
    for (row, cells) in rows.iter().zip(&cells) {
        text += &line(cells);
        text += &format!("    ours:  {}\n", with_notes(row, 0));
        text += &format!("    rival: {}\n", with_notes(row, 1));
    }
    for sample in report.alone() {
        let rate = count(sample.measured.rate.per_second);
        text += &format!(
            "{} {} B, {} threads, run {}: ours alone {rate}/s\n",
            sample.case.name,
            sample.value_size,
            sample.case.threads,
            sample.run + 1
        );
    }
    for failure in &report.failures {
        text += &format!("FAILED {failure}\n");
    }
    text
}

fn with_notes(row: &Row, side: usize) -> String {
    match row.notes[side].as_str() {
        "" => row.durability[side].clone(),
        notes => format!("{}; {notes}", row.durability[side]),
    }
}
