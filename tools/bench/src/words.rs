//! Errors and figures in the form in which they are printed.

use std::time::Duration;

/// An error of the engine as text.
pub(crate) fn told(error: strandline::Error) -> String {
    error.to_string()
}

/// `value` with so many digits behind the point.
pub(crate) fn round(value: f64, digits: i32) -> f64 {
    let scale = 10_f64.powi(digits);
    (value * scale).round() / scale
}

/// Microseconds, with so many digits behind the point.
pub(crate) fn micros(time: Duration, digits: i32) -> f64 {
    round(time.as_nanos() as f64 / 1e3, digits)
}

/// A number with commas.
pub(crate) fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `64 KiB`, in the greatest unit that is not above it.
pub(crate) fn length(len: u64) -> String {
    match len {
        0..1024 => format!("{len} B"),
        1024..0x10_0000 => format!("{} KiB", len >> 10),
        0x10_0000..0x4000_0000 => format!("{} MiB", len >> 20),
        _ => format!("{:.1} GiB", len as f64 / f64::from(1 << 30)),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn commas() {
        assert_eq!(
            [0, 999, 1000, 1_234_567].map(super::thousands),
            ["0", "999", "1,000", "1,234,567"]
        );
    }
}
