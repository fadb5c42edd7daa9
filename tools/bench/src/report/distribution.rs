//! The distribution of latencies, in db_bench's words.

use std::fmt::Write;

use hdrhistogram::Histogram;

/// Count, mean, percentiles, and a row per power of two.
pub(crate) fn table(histogram: &Histogram<u64>) -> String {
    let us = |ns: u64| ns as f64 / 1e3;
    let at = |percent: f64| us(histogram.value_at_percentile(percent));
    let mut text = format!(
        "Microseconds per op:\nCount: {} Average: {:.4}  StdDev: {:.2}\nMin: {:.3}  Median: {:.4}  Max: {:.3}\n\
         Percentiles: P50: {:.2} P75: {:.2} P99: {:.2} P99.9: {:.2} P99.99: {:.2}\n\
         ------------------------------------------------------\n",
        histogram.len(),
        histogram.mean() / 1e3,
        histogram.stdev() / 1e3,
        us(histogram.min()),
        at(50.0),
        us(histogram.max()),
        at(50.0),
        at(75.0),
        at(99.0),
        at(99.9),
        at(99.99),
    );
    let (mut low, mut below) = (0, 0);
    for power in 5..41 {
        let high = 1_u64 << power;
        let count = histogram.count_between(low, high - 1);
        if count > 0 && below < histogram.len() {
            below += count;
            let share = 100.0 / histogram.len() as f64;
            let bar = "#".repeat((count as f64 * share / 5.0).round() as usize);
            let _never_fails = writeln!(
                text,
                "[{:>12.3}, {:>12.3} ) {count:>10} {:>8.3}% {:>8.3}% {bar}",
                us(low),
                us(high),
                count as f64 * share,
                below as f64 * share,
            );
        }
        low = high;
    }
    text
}
