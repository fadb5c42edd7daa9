//! `top`: a store drawn again and again, as it runs.

use std::collections::VecDeque;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

use clap::Args;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use crate::context::Context;
use crate::failure::{Failure, OK, Outcome};
use crate::output::Out;
use crate::render::top::{Picture, rates_json};
use crate::watch::{Begun, Watch};

/// Seconds between two pictures: the least and the most.
const SECONDS: std::ops::RangeInclusive<f64> = 0.1..=3600.0;
/// Pictures whose rate of writes is remembered: as many as a wide terminal has columns.
const REMEMBERED: usize = 512;

#[derive(Args)]
pub struct TopArgs {
    /// Print one picture as text, of the first interval, and end; --json prints its figures
    #[arg(long)]
    once: bool,

    /// Draw the store once in so many seconds, from 0.1 to 3600
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = seconds)]
    interval: Duration,
}

/// A number of seconds from the command line.
fn seconds(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(seconds) if SECONDS.contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err(format!("expected a number from {} to {}", SECONDS.start(), SECONDS.end())),
    }
}

pub fn run(context: &Context, args: &TopArgs) -> Outcome {
    let mut screen = Screen::of(context)?;
    if args.once || context.json {
        return once(context, args.interval, &mut screen);
    }
    if !std::io::stdout().is_terminal() {
        let text = "standard output is not a terminal; ask for one picture with --once or --json";
        return Err(Failure::Usage(text.into()));
    }
    let mut terminal = ratatui::try_init().map_err(|error| Failure::output(&error))?;
    let ended = live(args.interval, &mut screen, &mut terminal);
    ratatui::restore();
    ended.map(|()| OK)
}

/// One picture. Of a store that runs it tells the rates of one interval; in a closed one nothing moves.
fn once(context: &Context, interval: Duration, screen: &mut Screen) -> Outcome {
    if screen.watch.is_running() {
        std::thread::sleep(interval);
        screen.advance();
    }
    let mut out = Out::new();
    if context.json {
        out.json(&rates_json(&screen.picture))?;
    } else {
        screen.picture.lines().iter().try_for_each(|line| out.line(line))?;
    }
    out.finish()?;
    Ok(OK)
}

/// What is watched, and how it looks now.
struct Screen {
    watch: Watch,
    picture: Picture,
    read_at: Instant,
}

impl Screen {
    fn of(context: &Context) -> Result<Screen, Failure> {
        let Begun { watch, figures } = Watch::begin(context)?;
        let picture = Picture {
            dir: context.db.display().to_string(),
            state: watch.state(),
            now: figures,
            before: None,
            writes: VecDeque::new(),
        };
        Ok(Screen { watch, picture, read_at: Instant::now() })
    }

    /// Reads the figures again, if a process has the store open.
    fn advance(&mut self) {
        let was_running = self.watch.is_running();
        let figures = self.watch.next();
        let picture = &mut self.picture;
        picture.state = self.watch.state();
        let Some(figures) = figures else {
            picture.before = None;
            return;
        };
        let (before, read_at) = (std::mem::replace(&mut picture.now, figures), Instant::now());
        // Counters begin anew with each open.
        picture.before = was_running.then(|| (Box::new(before), read_at - self.read_at));
        self.read_at = read_at;
        if let Some(rates) = picture.rates() {
            picture.writes.push_back(rates.writes as u64);
            let beyond = picture.writes.len().saturating_sub(REMEMBERED);
            picture.writes.drain(..beyond);
        }
    }
}

/// Draws until a key ends it.
fn live(
    interval: Duration,
    screen: &mut Screen,
    terminal: &mut DefaultTerminal,
) -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure::Other(format!("the terminal: {error}"));
    loop {
        terminal
            .draw(|frame| frame.render_widget(&screen.picture, frame.area()))
            .map_err(failed)?;
        let until = Instant::now() + interval;
        while let Some(left) = until.checked_duration_since(Instant::now()) {
            if !event::poll(left).map_err(failed)? {
                break;
            }
            match event::read().map_err(failed)? {
                Event::Key(key) if ends(key) => return Ok(()),
                Event::Resize(..) => {
                    let draw = |frame: &mut ratatui::Frame<'_>| {
                        frame.render_widget(&screen.picture, frame.area());
                    };
                    terminal.draw(draw).map_err(failed)?;
                }
                _ => {}
            }
        }
        screen.advance();
    }
}

/// Whether a key ends the command: `q`, Escape or Ctrl-C, which is a key like others in a terminal that is drawn on.
fn ends(key: KeyEvent) -> bool {
    let interrupts =
        key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
    let quits = matches!(key.code, KeyCode::Char('q') | KeyCode::Esc);
    key.kind == KeyEventKind::Press && (quits || interrupts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn q_escape_and_control_c_end_it() {
        let key = |code| KeyEvent::new(code, KeyModifiers::NONE);
        assert!(ends(key(KeyCode::Char('q'))) && ends(key(KeyCode::Esc)));
        assert!(ends(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL)));
        assert!(!ends(key(KeyCode::Char('c'))) && !ends(key(KeyCode::Enter)));
    }

    #[test]
    fn an_interval_is_a_number_of_seconds() {
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        for bad in ["0", "-1", "x", "NaN", "1e9"] {
            assert!(seconds(bad).is_err(), "{bad}");
        }
    }
}
