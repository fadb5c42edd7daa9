//! Throughput over time as a row of bars.

const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Stands where nothing was done at all.
const STILL: char = '·';

/// Bars of `counts` in at most `width` columns; the highest is the most of any column.
pub(crate) fn sparkline(counts: &[u64], width: usize) -> String {
    let columns = counts.len().min(width);
    let sum = |at: usize| {
        let (from, to) = (at * counts.len() / columns, (at + 1) * counts.len() / columns);
        counts[from..to].iter().sum::<u64>() as f64 / (to - from) as f64
    };
    let means: Vec<f64> = (0..columns).map(sum).collect();
    let most = means.iter().copied().fold(0.0, f64::max);
    let bar = |mean: &f64| match *mean {
        0.0 => STILL,
        mean => BARS[((mean / most * 8.0).ceil() as usize).clamp(1, 8) - 1],
    };
    means.iter().map(bar).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_as_high_as_their_counts() {
        assert_eq!(sparkline(&[1, 2, 3, 4, 5, 6, 7, 8], 20), "▁▂▃▄▅▆▇█");
        assert_eq!(sparkline(&[100, 0, 50, 100], 20), "█·▄█");
        assert_eq!(sparkline(&[4, 4, 8, 8, 2, 2], 3), "▄█▂");
        assert_eq!(sparkline(&[], 20), "");
        assert_eq!(sparkline(&[7; 1000], 20), "█".repeat(20));
    }
}
