//! The tour's table.

use strandline::{MemoryPages, Properties};

use crate::bench::Bench;
use crate::data::draw::Draw;
use crate::machine::about::about;
use crate::report::outcome::Outcome;
use crate::report::sparkline::sparkline;
use crate::words::thousands;

/// Columns of throughput over time.
const SPARK: usize = 18;

/// What figures depend on: durability, pages and machine; then what the store is, and the heads of the columns.
pub(super) fn head(bench: &Bench, properties: &Properties, pages: MemoryPages) -> String {
    let config = &bench.config;
    let pages = pages.records.map(|pages| pages.to_string());
    let rows = [
        ("a put survives", properties.durability.to_string()),
        ("", properties.durability_note.to_string()),
        ("pages of pool", pages.unwrap_or_else(|| "not told by this system".into())),
        ("machine", about()),
        ("pool", format!("{}, {} MiB", properties.pm, properties.pm_capacity >> 20)),
        (
            "records",
            format!(
                "{} of {:.0} B keys and {} B values; {} {}, {} s per workload",
                thousands(config.num),
                config.keys().mean_len(config.num),
                config.value_size,
                config.threads,
                if config.threads == 1 { "thread" } else { "threads" },
                config.duration.unwrap_or(0.0)
            ),
        ),
    ];
    let drawn = (config.draw != Draw::Uniform).then(|| ("keys drawn", config.draw_shown()));
    let mut text = String::from("strandline bench: a store from empty to killed and recovered\n\n");
    for (name, value) in rows.iter().chain(&drawn).filter(|(_, value)| !value.is_empty()) {
        text += &format!("  {name:<15} {value}\n");
    }
    text + "\n" + &heads()
}

/// The heads of the columns.
pub(super) fn heads() -> String {
    format!(
        "  {:<15} {:>10} {:>10} {:>10} {:>10} {:>10}  {}",
        "what", "ops/s", "median", "p99", "p99.9", "longest", "ops/s over time"
    )
}

/// A workload's row, with what it is about below.
pub(super) fn row(title: &str, outcome: &Outcome, about: &str) -> String {
    let percentile = |percent| time(outcome.percentile_us(percent));
    let row = format!(
        "  {title:<15} {:>10} {:>10} {:>10} {:>10} {:>10}  {}",
        thousands(outcome.ops_per_second() as u64),
        percentile(50.0),
        percentile(99.0),
        percentile(99.9),
        time(outcome.longest_us()),
        sparkline(&outcome.timeline, SPARK),
    );
    format!("{}\n  {:<15} {about}", row.trim_end(), "")
}

/// A time of so many microseconds, in a unit that suits.
fn time(us: Option<f64>) -> String {
    match us {
        None => "-".into(),
        Some(us) if us < 1000.0 => format!("{us:.2} us"),
        Some(us) if us < 1e6 => format!("{:.2} ms", us / 1e3),
        Some(us) => format!("{:.2} s", us / 1e6),
    }
}

/// A row of one figure.
pub(super) fn note(title: &str, figure: &str, about: &str) -> String {
    format!("  {title:<15} {figure:>12}\n  {:<15} {about}", "")
}
