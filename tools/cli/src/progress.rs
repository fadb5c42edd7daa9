//! Progress of a long input on standard error: a bar on a terminal, now and then a line elsewhere.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};

use crate::human;
use crate::stderr::Stderr;

const BAR_EVERY: Duration = Duration::from_millis(100);
const LINE_EVERY: Duration = Duration::from_secs(5);

/// Progress of one input.
pub struct Progress {
    stderr: Stderr,
    bar: Option<ProgressBar>,
    begun: Instant,
    next: Instant,
    size: Option<u64>,
}

impl Progress {
    /// `size`: bytes of the input, where that is known.
    pub fn new(stderr: Stderr, size: Option<u64>) -> Progress {
        let bar = stderr.shows_bars().then(|| bar(size));
        let begun = Instant::now();
        let next = begun + if bar.is_some() { BAR_EVERY } else { LINE_EVERY };
        Progress { stderr, bar, begun, next, size }
    }

    pub fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    /// `records` were loaded from `bytes` of the input.
    pub fn tick(&mut self, records: u64, bytes: u64) {
        let now = Instant::now();
        if now < self.next {
            return;
        }
        let rate = |done: u64| (done as f64 / self.begun.elapsed().as_secs_f64()) as u64;
        let rates = format!("{} records, {}/s", human::count(records), human::count(rate(records)));
        if let Some(bar) = &self.bar {
            bar.set_message(rates);
            bar.set_position(bytes);
            self.next = now + BAR_EVERY;
        } else {
            let share = match human::ratio(100 * bytes, self.size.unwrap_or(0)) {
                Some(percent) => format!(" ({percent:.0}%)"),
                None => String::new(),
            };
            let json = json!({ "records": records, "bytes_read": bytes, "bytes": self.size });
            let (bytes, speed) = (human::bytes(bytes), human::bytes(rate(bytes)));
            let text = format!("{rates}; {bytes} read{share}, {speed}/s");
            self.note(&text, &json);
            self.next = now + LINE_EVERY;
        }
    }

    /// A line on standard error that leaves the bar whole.
    pub fn note(&self, text: &str, json: &Value) {
        let write = || self.stderr.note(text, json);
        match &self.bar {
            Some(bar) => bar.suspend(write),
            None => write(),
        }
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn bar(size: Option<u64>) -> ProgressBar {
    let (bar, template) = match size {
        Some(size) => (
            ProgressBar::new(size),
            "{bar:30} {binary_bytes}/{binary_total_bytes}, {binary_bytes_per_sec}; {msg}; {eta} left",
        ),
        None => (
            ProgressBar::new_spinner(),
            "{spinner} {binary_bytes}, {binary_bytes_per_sec}; {msg}; {elapsed}",
        ),
    };
    bar.with_style(
        ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()),
    )
}
