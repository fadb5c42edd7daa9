//! The report as a page.

use std::fmt::Write;

use super::{Report, table};
use crate::engines::{OURS, RIVALS};
use crate::stages::ABOUT;

/// Where the page goes, from the root of the repository.
pub const PAGE: &str = "docs/benchmarks.md";

/// The page.
pub fn page(report: &Report) -> String {
    let mut page = String::from("# This engine beside others\n\n");
    let mut line = |text: &str| {
        let _strings_do_not_fail = writeln!(page, "{text}");
    };
    line(
        "Written by `tools/bench-compare`; run it again rather than change figures here. Each benchmark ran on the",
    );
    line(
        "engines in turns, with the same keys and values, on the same device; every answer was compared with what it",
    );
    line(
        "should be, and every store read whole at the end. A ratio above 1 means that this engine is faster; least and",
    );
    let runs = report.samples.iter().map(|sample| sample.run + 1).max().unwrap_or(0);
    line(&format!(
        "most are those of single turns. Figures are medians of this many runs: {runs}.\n"
    ));
    line("```sh");
    line("scripts/install-rivals");
    line(&report.command);
    line("```\n");
    line("| machine | |\n|---|---|");
    report.facts.iter().for_each(|(name, value)| line(&format!("| {name} | {value} |")));
    let [small, large] = report.limits.persist_ns;
    line(&format!(
        "| limit: a record of 128 B, of 1 KiB, persisted in memory | {small:.0} ns, {large:.0} ns |"
    ));
    if let Some(us) = report.limits.read_us {
        line(&format!("| limit: a random block of 4 KiB read from the disk | {us:.1} us |"));
    }
    line("\n| engine | settings |\n|---|---|");
    for maker in std::iter::once(OURS).chain(RIVALS) {
        line(&format!("| {} | {} |", maker.version, maker.settings));
    }
    line("\n## Figures\n");
    line(&format!("| {} |", table::HEADS.join(" | ")));
    line(&format!("|{}", "---|".repeat(table::HEADS.len())));
    let rows = report.rows();
    rows.iter().for_each(|row| line(&format!("| {} |", table::cells(row).join(" | "))));
    line("\n## What puts survived\n");
    line("| engine | a put survives |\n|---|---|");
    for maker in std::iter::once(OURS).chain(RIVALS) {
        let samples = report.samples.iter().filter(|sample| sample.engine == maker.name);
        let cases: Vec<(&str, &str)> =
            samples.map(|sample| (sample.case.name, &sample.durability[..])).collect();
        if !cases.is_empty() {
            line(&format!("| {} | {} |", maker.name, survives(&cases)));
        }
    }
    line("\n## What puts cost\n");
    line("| benchmark | rival | threads | value | ours | rival's |\n|---|---|---|---|---|---|");
    for row in rows.iter().filter(|row| row.notes.iter().any(|note| !note.is_empty())) {
        let [ours, theirs] = &row.notes;
        line(&format!(
            "| {} | {} | {} | {} | {ours} | {theirs} |",
            row.benchmark, row.rival, row.threads, row.value_size,
        ));
    }
    if !report.failures.is_empty() {
        line("\n## What failed\n");
        report.failures.iter().for_each(|failure| line(&format!("- {failure}")));
    }
    line("\n## What they are\n");
    line("| benchmark | |\n|---|---|");
    ABOUT.iter().for_each(|(name, about)| line(&format!("| {name} | {about} |")));
    page
}

/// What puts of an engine survive; of each benchmark, that. What holds in most benchmarks comes first, without their names.
fn survives(cases: &[(&str, &str)]) -> String {
    let mut groups: Vec<(&str, Vec<&str>)> = Vec::new();
    for &(benchmark, class) in cases {
        match groups.iter_mut().find(|(known, _)| *known == class) {
            Some((_, benchmarks)) if benchmarks.contains(&benchmark) => {}
            Some((_, benchmarks)) => benchmarks.push(benchmark),
            None => groups.push((class, vec![benchmark])),
        }
    }
    groups.sort_by_key(|(_, benchmarks)| std::cmp::Reverse(benchmarks.len()));
    let texts = groups.iter().enumerate().map(|(place, (class, benchmarks))| match place {
        0 => (*class).to_string(),
        _ => format!("{}: {class}", benchmarks.join(", ")),
    });
    texts.collect::<Vec<String>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::survives;

    #[test]
    fn one_line_for_each_engine() {
        let cases =
            [("fill", "process"), ("sync", "power"), ("read", "process"), ("fill", "process")];
        assert_eq!(survives(&cases), "process; sync: power");
        assert_eq!(survives(&cases[..1]), "process");
    }
}
