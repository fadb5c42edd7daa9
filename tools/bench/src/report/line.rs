//! db_bench's line.

use super::outcome::Outcome;

/// The line as RocksDB's db_bench prints it, so that what reads those reads this.
pub(crate) fn line(outcome: &Outcome) -> String {
    let rate = outcome.mb_per_second().map(|rate| format!("{rate:6.1} MB/s"));
    let message = Some(outcome.message.clone()).filter(|message| !message.is_empty());
    // db_bench's line, unless a model makes it slower; what DRAM stands for is told in the head.
    let basis = outcome.has_model().then(|| format!("[{}]", outcome.basis()));
    // db_bench draws uniformly where it is not told.
    let draw = outcome.draw.as_ref().filter(|draw| *draw != "uniform");
    let draw = draw.map(|draw| format!("[{draw}]"));
    let extra: Vec<String> = [rate, message, draw, basis].into_iter().flatten().collect();
    format!(
        "{:<12} : {:11.3} micros/op {:.0} ops/sec {:.3} seconds {} operations;{}{}",
        outcome.name,
        outcome.micros_per_op(),
        outcome.ops_per_second().floor(),
        outcome.seconds,
        outcome.ops,
        if extra.is_empty() { "" } else { " " },
        extra.join(" "),
    )
}

/// A row for each kind of operations, with latencies in microseconds.
pub(crate) fn operations(outcome: &Outcome) -> String {
    let heads = ["p50", "p95", "p99", "p99.9", "max"].map(String::from);
    let rows = outcome.operations.iter().map(|kind| {
        let cells =
            kind.latencies_us().map(|us| us.map_or_else(|| "-".into(), |us| format!("{us:.2}")));
        operation_row(kind.name, &kind.count.to_string(), &cells)
    });
    let head = operation_row("microseconds", "operations", &heads);
    std::iter::once(head).chain(rows).collect::<Vec<_>>().join("\n")
}

fn operation_row(name: &str, count: &str, cells: &[String]) -> String {
    let cells: String = cells.iter().map(|cell| format!("{cell:>12}")).collect();
    format!("  {name:<18}{count:>12}{cells}")
}

/// The line of a benchmark that did not run.
pub(crate) fn skipped(name: &str, why: &str) -> String {
    format!("{name:<12} : skipped ({why})")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::outcome::OperationOutcome;

    #[test]
    fn kinds_of_operations_have_a_row_each() {
        let mut histogram =
            hdrhistogram::Histogram::new_with_bounds(1, 1 << 30, 3).expect("a histogram");
        (1..=1000).for_each(|ns| histogram.saturating_record(ns * 100));
        let read = OperationOutcome { name: "read", count: 16_000, histogram: Some(histogram) };
        let operations = vec![read, OperationOutcome::new("scan")];
        let text = super::operations(&Outcome { operations, ..Outcome::default() });
        let rows: Vec<Vec<&str>> =
            text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(rows[0][..3], ["microseconds", "operations", "p50"]);
        assert_eq!(rows[1], ["read", "16000", "50.02", "95.04", "99.01", "100.03", "100.03"]);
        assert_eq!(rows[2], ["scan", "0", "-", "-", "-", "-", "-"]);
    }

    #[test]
    fn the_line_is_that_of_db_bench() {
        let mut outcome = Outcome {
            name: "fillrandom".into(),
            ops: 5_000_000,
            seconds: 2.4,
            thread_seconds: 2.4,
            bytes: Some(580_059_955),
            ..Outcome::default()
        };
        assert_eq!(
            line(&outcome),
            "fillrandom   :       0.480 micros/op 2083333 ops/sec 2.400 seconds 5000000 operations;  230.5 MB/s"
        );
        outcome.message = "(7 of 9 found)".into();
        assert!(line(&outcome).ends_with("operations;  230.5 MB/s (7 of 9 found)"));
        outcome.bytes = None;
        assert!(line(&outcome).ends_with("operations; (7 of 9 found)"));
        outcome.draw = Some("uniform".into());
        assert!(line(&outcome).ends_with("operations; (7 of 9 found)"));
        outcome.draw = Some("zipf 0.99".into());
        assert!(line(&outcome).ends_with("(7 of 9 found) [zipf 0.99]"));
    }
}
