//! Numbers for people.

use std::time::Duration;

use indicatif::{BinaryBytes, HumanCount};

/// `64.00 MiB`.
pub fn bytes(bytes: u64) -> String {
    BinaryBytes(bytes).to_string()
}

/// `1,234`.
pub fn count(count: u64) -> String {
    HumanCount(count).to_string()
}

/// `1 table`, `2 tables`.
pub fn plural(count: u64, what: &str) -> String {
    let s = if count == 1 { "" } else { "s" };
    format!("{} {what}{s}", HumanCount(count))
}

/// `1.234 s`, `12.3 ms`.
pub fn time(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    if seconds >= 1.0 { format!("{seconds:.3} s") } else { format!("{:.3} ms", seconds * 1e3) }
}

/// `part` of `whole`, one decimal; `-` of nothing.
pub fn per(part: u64, whole: u64) -> String {
    ratio(part, whole).map_or_else(|| "-".into(), |ratio| format!("{ratio:.1}"))
}

/// `part` of `whole`, if there is a whole.
pub fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}
