//! Progress of an open that takes long, on standard error: a bar on a terminal, lines where `STRANDLINE_PROGRESS` asks
//! for them, else nothing.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;
use strandline::{Db, Hooks, RecoveryProgress, RecoveryStep};

use crate::human;
use crate::stderr::Stderr;

/// Names the variable that asks for lines: seconds before the first and between them.
const VARIABLE: &str = "STRANDLINE_PROGRESS";
/// An open that is done by then shows nothing.
const PATIENCE: Duration = Duration::from_secs(1);

/// Opens a store with `open`, and shows how far it has got.
pub fn shown(
    stderr: Stderr,
    hooks: Hooks,
    open: impl FnOnce(Hooks) -> strandline::Result<Db>,
) -> strandline::Result<Db> {
    let every = match std::env::var(VARIABLE) {
        Ok(seconds) => seconds.parse().ok().and_then(|s| Duration::try_from_secs_f64(s).ok()),
        Err(_) if stderr.shows_bars() => None,
        Err(_) => return open(hooks),
    };
    let every = every.unwrap_or(PATIENCE);
    let bar = stderr.shows_bars().then(bar);
    let state =
        OpeningState { step: RecoveryStep::Scan, done: 0, next: Instant::now() + every, bar };
    let opening = Arc::new(Opening { every, stderr, state: Mutex::new(state) });
    let told: Arc<dyn RecoveryProgress> = Arc::clone(&opening) as _;
    let opened = open(hooks.recovery_progress(told));
    opening.finish();
    opened
}

/// An open under way.
struct Opening {
    every: Duration,
    stderr: Stderr,
    state: Mutex<OpeningState>,
}

struct OpeningState {
    step: RecoveryStep,
    done: u64,
    /// When there is something to show again.
    next: Instant,
    bar: Option<ProgressBar>,
}

impl Opening {
    /// Takes the bar away.
    fn finish(&self) {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bar) = &state.bar {
            bar.finish_and_clear();
        }
    }
}

impl RecoveryProgress for Opening {
    fn advanced(&self, step: RecoveryStep, done: u64, total: u64) {
        let now = Instant::now();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if now < state.next || (step, done) <= (state.step, state.done) {
            return;
        }
        (state.step, state.done) = (step, done);
        let what = match step {
            RecoveryStep::Scan => "verifying records",
            RecoveryStep::Rebuild => "rebuilding indexes",
            _ => "recovering",
        };
        if let Some(bar) = &state.bar {
            bar.set_length(total);
            bar.set_message(what);
            bar.set_position(done);
        } else {
            state.next = now + self.every;
            let percent = human::ratio(100 * done, total).unwrap_or(0.0);
            let json = json!({ "opening": what, "done_bytes": done, "total_bytes": total });
            let (done, total) = (human::bytes(done), human::bytes(total));
            let text = format!("opening: {what}, {done} of {total} ({percent:.0}%)");
            self.stderr.note(text, &json);
        }
    }
}

/// Invisible until something is set.
fn bar() -> ProgressBar {
    let template = "opening: {msg} {bar:30} {binary_bytes}/{binary_total_bytes}; {eta} left";
    let style = ProgressStyle::with_template(template);
    ProgressBar::new(0).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}
