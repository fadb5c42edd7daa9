//! Numbers made of numbers, and how they are written.

/// The middle one; the mean of two where there is none, and 0 of nothing.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let (low, high) = (values.len().saturating_sub(1) / 2, values.len() / 2);
    match values.get(low..=high) {
        Some(middle) => middle.iter().sum::<f64>() / middle.len() as f64,
        None => 0.0,
    }
}

/// A number in thousands or millions.
pub fn count(number: f64) -> String {
    match number {
        n if n >= 1e6 => format!("{:.2} M", n / 1e6),
        n if n >= 1e4 => format!("{:.0} k", n / 1e3),
        n if n >= 1e3 => format!("{:.1} k", n / 1e3),
        n => format!("{n:.0}"),
    }
}

/// Microseconds, or milliseconds of many.
pub fn time(us: f64) -> String {
    match us {
        us if us >= 1e4 => format!("{:.0} ms", us / 1e3),
        us if us >= 1e3 => format!("{:.1} ms", us / 1e3),
        us if us >= 10.0 => format!("{us:.0} us"),
        us => format!("{us:.1} us"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0]), 2.5);
        assert_eq!(median(Vec::new()), 0.0);
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!([2.5e6, 12_345.0, 1234.0, 12.0].map(count), ["2.50 M", "12 k", "1.2 k", "12"]);
        assert_eq!([25e3, 2500.0, 25.0, 2.5].map(time), ["25 ms", "2.5 ms", "25 us", "2.5 us"]);
    }
}
