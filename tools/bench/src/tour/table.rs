//! The tour's table.

use strandline::Properties;

use crate::bench::Bench;
use crate::report::outcome::Outcome;
use crate::words::thousands;

/// What the store is, and the heads of the columns.
pub(super) fn head(bench: &Bench, properties: &Properties) -> String {
    let config = &bench.config;
    format!(
        "strandline bench: one store from empty to killed and recovered\n\n  \
         {:<15} {}\n  \
         {:<15} {} of {:.0} B keys and {} B values; {} in threads, {} s per workload\n  \
         {:<15} {} ({})\n\n  \
         {:<15} {:>12} {:>10} {:>10}   {}",
        "pool",
        format_args!("{}, {} MiB", properties.pm, properties.pm_capacity >> 20),
        "records",
        thousands(config.num),
        config.keys().mean_len(config.num),
        config.value_size,
        config.threads,
        config.duration.unwrap_or(0.0),
        "a put survives",
        properties.durability,
        properties.durability_note,
        "what",
        "ops/s",
        "median",
        "p99",
        "survives",
    )
}

/// A workload's row, with what it is about below.
pub(super) fn row(title: &str, outcome: &Outcome, survives: &str, about: &str) -> String {
    let micros = |us: Option<f64>| us.map_or("-".into(), |us| format!("{us:.2} us"));
    let row = format!(
        "  {title:<15} {:>12} {:>10} {:>10}   {survives}",
        thousands(outcome.ops_per_second() as u64),
        micros(outcome.percentile_us(50.0)),
        micros(outcome.percentile_us(99.0)),
    );
    format!("{}\n  {:<15} {about}", row.trim_end(), "")
}

/// A row of one figure.
pub(super) fn note(title: &str, figure: &str, about: &str) -> String {
    format!("  {title:<15} {figure:>12}\n  {:<15} {about}", "")
}
