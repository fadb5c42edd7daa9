//! The picture that `top` draws.

use std::collections::VecDeque;
use std::time::Duration;

use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{LineGauge, Paragraph, Sparkline, Widget};
use serde_json::{Value, json};
use strandline::{Properties, SsdProperties};

use super::top_levels;
use super::top_rates::Rates;
use crate::human;
use crate::render::memory::Memory;
use crate::watch::State;

/// Columns of a picture that is printed.
const WIDTH: u16 = 100;
/// Columns of what stands left of a bar, of the bar, and of the rates beside the history.
const NAME: u16 = 14;
const BAR: u16 = 32;
const RATES: u16 = 60;
const HEADING: Style = Style::new().add_modifier(Modifier::BOLD);
const WARNING: Style = Style::new().fg(Color::Red);
const FILLED: Style = Style::new().fg(Color::Cyan);

/// A store at one moment, and what it did since the moment before.
pub struct Picture {
    /// Where the store is.
    pub dir: String,
    pub state: State,
    pub now: Properties,
    /// The figures before, and how long ago that was.
    pub before: Option<(Box<Properties>, Duration)>,
    /// Records written per second, of each interval, newest last.
    pub writes: VecDeque<u64>,
}

/// How full something is.
struct Fill {
    name: &'static str,
    used: u64,
    /// Zero: there is no limit.
    limit: u64,
}

/// What `--json` prints: the rates, and whether there are any.
pub fn rates_json(picture: &Picture) -> Value {
    let now = &picture.now;
    json!({
        "running": picture.state == State::Running,
        "state": picture.standing(),
        "seconds": picture.before.as_ref().map(|(_, over)| over.as_secs_f64()),
        "per_second": picture.rates().map(Rates::to_json),
        "debt": now.debt,
        "visible_seq": now.visible_seq.get(),
        "space": fills(now).iter().map(|fill| json!({
            "name": fill.name,
            "used_bytes": fill.used,
            "limit_bytes": (fill.limit > 0).then_some(fill.limit),
        })).collect::<Vec<Value>>(),
        "trouble": picture.trouble(),
    })
}

impl Picture {
    /// What the store did since the figures before, if there are any of the same process.
    pub fn rates(&self) -> Option<Rates> {
        let (before, over) = self.before.as_ref()?;
        Some(Rates::between(before, &self.now, *over))
    }

    /// The picture as text: as long as it takes, and with nothing behind the text of a line.
    pub fn lines(&self) -> Vec<String> {
        let rows = self.blocks().iter().sum::<usize>();
        let area = Rect::new(0, 0, WIDTH, u16::try_from(rows).unwrap_or(u16::MAX));
        let mut buffer = Buffer::empty(area);
        self.render(area, &mut buffer);
        let rows = buffer.content.chunks(WIDTH.into());
        rows.map(|row| {
            let text: String = row.iter().map(|cell| cell.symbol()).collect();
            text.trim_end().to_owned()
        })
        .collect()
    }

    /// Rows of each part of the picture, from the top; those of parts with a heading include it.
    fn blocks(&self) -> [usize; 6] {
        [
            1,
            self.trouble().len(),
            self.throughput().len() + 1,
            fills(&self.now).len() + 1,
            self.work().len() + 1,
            top_levels::cells(&self.now).len() + 1,
        ]
    }

    /// What the store does, in a sentence.
    fn standing(&self) -> String {
        match &self.state {
            State::Closed => "no process has it open".into(),
            State::Running => "running".into(),
            State::Gone => {
                "the process that had it open is gone; these are its last figures".into()
            }
            State::Silent(why) => format!("its process gives no figures: {why}"),
        }
    }

    /// What a person should see to.
    fn trouble(&self) -> Vec<String> {
        let now = &self.now;
        let compactions = now.ssd.as_ref().and_then(|ssd| ssd.trouble.clone());
        // A look at a store that no process has open is read-only.
        let refused = now.refusing_writes.clone().filter(|_| self.state != State::Closed);
        let all = [
            ("writes are refused", refused),
            ("damage", now.damage_met.clone()),
            ("background work failed", compactions),
            ("a call of the application failed", now.hook_failure.clone()),
            ("the trace has ended", now.trace.as_ref().and_then(|trace| trace.ended.clone())),
        ];
        all.into_iter()
            .filter_map(|(what, why)| why.map(|why| format!("{what}: {}", why.escape_debug())))
            .collect()
    }

    fn throughput(&self) -> Vec<(&'static str, String)> {
        let rates = self.rates();
        let per_second = |rate: fn(&Rates) -> f64, form: fn(u64) -> String| {
            rates
                .as_ref()
                .map_or_else(|| "-".into(), |rates| format!("{}/s", form(rate(rates) as u64)))
        };
        let slowed = rates.map_or_else(
            || "-".into(),
            |rates| format!("{:.3} s of writers' time a second", rates.slowed),
        );
        let to_memory = match Memory::of(&self.now) {
            Memory::Persistent => "to PM",
            Memory::Dram => "to DRAM",
        };
        let mut rows = vec![
            ("writes", per_second(|rates| rates.writes, human::count)),
            (to_memory, per_second(|rates| rates.pm_bytes, human::bytes)),
        ];
        if self.now.wal.is_some() {
            rows.push(("to the log", per_second(|rates| rates.log_bytes, human::bytes)));
        }
        if self.now.ssd.is_some() {
            rows.push(("to SSD", per_second(|rates| rates.ssd_bytes, human::bytes)));
            rows.push(("merges read", per_second(|rates| rates.read_bytes, human::bytes)));
            let hits = rates.filter(|rates| rates.looked_up > 0.0).map_or_else(
                || "-".into(),
                |rates| format!("{:.1} %", 100.0 * rates.hits / rates.looked_up),
            );
            rows.push(("cache hits", hits));
        }
        rows.push(("slowed", slowed));
        rows
    }

    fn work(&self) -> Vec<(&'static str, String)> {
        let now = &self.now;
        let mut rows = vec![
            ("debt", format!("{:.3}", f64::from(now.debt) / 1000.0)),
            ("slowed so far", human::time(now.slowed)),
            ("snapshots", human::count(now.snapshots as u64)),
            ("zones", format!("{} of {} wholly free", now.zones_free, now.zones)),
        ];
        if let Some(SsdProperties { compactions, .. }) = &now.ssd {
            rows.push((
                "compactions",
                format!(
                    "{} of level 0, {} of others, {} moves, {} failed",
                    compactions.level0, compactions.levels, compactions.moves, compactions.failed
                ),
            ));
            let busy = self.rates().map_or_else(
                || "-".into(),
                |rates| format!("{:.3} s ended a second", rates.compacted),
            );
            rows.push(("their time", busy));
        }
        rows
    }
}

fn fills(now: &Properties) -> Vec<Fill> {
    let used = now.pm_capacity.saturating_sub(now.pm_free);
    let (pool, [tables, values]) = match Memory::of(now) {
        Memory::Persistent => ("PM", ["tables in PM", "values in PM"]),
        Memory::Dram => ("pool in DRAM", ["tables in pool", "values in pool"]),
    };
    let mut fills = vec![
        Fill { name: pool, used, limit: now.pm_capacity },
        Fill { name: "DRAM", used: now.dram_bytes, limit: now.dram_budget },
    ];
    if let Some(ssd) = &now.ssd {
        let SsdProperties { cache, .. } = ssd;
        fills.push(Fill { name: "block cache", used: cache.charged, limit: cache.budget });
        if let Some(cache) = &ssd.pm_cache {
            fills.push(Fill { name: "cache in PM", used: cache.taken, limit: cache.limit });
        }
        let of_tables = Fill { name: tables, used: ssd.pm_bytes, limit: ssd.pm_limit };
        let of_values = Fill { name: values, used: ssd.pm_value_bytes, limit: ssd.pm_value_limit };
        fills.extend([of_tables, of_values].into_iter().filter(|fill| fill.limit > 0));
        fills.push(Fill { name: "SSD", used: ssd.bytes, limit: ssd.limit });
    }
    fills
}

impl Widget for &Picture {
    fn render(self, area: Rect, buffer: &mut Buffer) {
        let heights =
            self.blocks().map(|rows| Constraint::Length(u16::try_from(rows).unwrap_or(u16::MAX)));
        let [head, trouble, throughput, space, work, levels] =
            Layout::vertical(heights).areas(area);
        let title = format!("{}  {}", self.dir.escape_debug(), self.standing());
        let state = if self.state == State::Running { HEADING } else { HEADING.patch(WARNING) };
        Line::styled(title, state).render(head, buffer);
        let told: Vec<Line<'_>> = self.trouble().into_iter().map(Line::from).collect();
        Paragraph::new(told).style(WARNING).render(trouble, buffer);

        let [rates, history] =
            Layout::horizontal([Constraint::Length(RATES), Constraint::Min(0)]).areas(throughput);
        named_rows("throughput", self.throughput(), rates, buffer);
        draw_history(&self.writes, history, buffer);
        Line::styled("space", HEADING).render(space, buffer);
        for (fill, row) in fills(&self.now).iter().zip(space.rows().skip(1)) {
            draw_fill(fill, row, buffer);
        }
        named_rows("background", self.work(), work, buffer);
        top_levels::table(top_levels::cells(&self.now), HEADING).render(levels, buffer);
    }
}

fn named_rows(
    heading: &'static str,
    rows: Vec<(&'static str, String)>,
    area: Rect,
    buffer: &mut Buffer,
) {
    let width = usize::from(NAME);
    let rows = rows.into_iter().map(|(name, text)| Line::from(format!("  {name:<width$}{text}")));
    let heading = Line::styled(heading, HEADING);
    Paragraph::new(std::iter::once(heading).chain(rows).collect::<Vec<_>>()).render(area, buffer);
}

/// The newest rates of writes as bars, as many as there are columns.
fn draw_history(writes: &VecDeque<u64>, area: Rect, buffer: &mut Buffer) {
    if writes.len() < 2 {
        return;
    }
    let [heading, bars] = Layout::vertical([Constraint::Length(1), Constraint::Min(0)]).areas(area);
    let shown = writes.len().min(area.width.into());
    let newest: Vec<u64> = writes.range(writes.len() - shown..).copied().collect();
    let most = newest.iter().max().copied().unwrap_or(0);
    Line::from(format!("writes, up to {}/s", human::count(most))).render(heading, buffer);
    Sparkline::default().data(newest).style(FILLED).render(bars, buffer);
}

fn draw_fill(fill: &Fill, area: Rect, buffer: &mut Buffer) {
    let widths = [Constraint::Length(NAME + 2), Constraint::Length(BAR + 2), Constraint::Min(0)];
    let [name, bar, text] = Layout::horizontal(widths).areas(area);
    Line::from(format!("  {}", fill.name)).render(name, buffer);
    let used = human::bytes(fill.used);
    let Some(share) = human::ratio(fill.used, fill.limit) else {
        return Line::from(format!("{used}, no limit")).render(bar, buffer);
    };
    // The empty label takes a column.
    LineGauge::default()
        .ratio(share.clamp(0.0, 1.0))
        .label("")
        .filled_symbol("█")
        .unfilled_symbol("░")
        .filled_style(FILLED)
        .render(Rect { width: bar.width.saturating_sub(1), ..bar }, buffer);
    let limit = human::bytes(fill.limit);
    Line::from(format!("{used} of {limit}, {:.0} %", 100.0 * share)).render(text, buffer);
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use strandline::{Db, Options, PmSource};

    /// A picture of a small store, whose figures then are set.
    fn picture() -> Picture {
        let dir = tempfile::tempdir().expect("a directory");
        let pool = PmSource::Path(dir.path().join("pool"));
        let db = Db::open(dir.path(), Options::default().pm(pool).pm_size(16 << 20));
        let db = db.expect("a store");
        db.put("k", "v").expect("written");
        db.flush().expect("flushed");
        db.compact().expect("compacted");
        db.put("l", "v").expect("written");
        let mut now = db.properties();
        (now.pm_capacity, now.pm_free, now.debt) = (64 << 20, 48 << 20, 250);
        (now.dram_bytes, now.dram_budget) = (3 << 20, 4 << 20);
        now.slowed = Duration::from_millis(1500);
        (now.persisted.bytes_streamed, now.persisted.lines_flushed) = (6 << 20, 0);
        let keyspace = &mut now.keyspaces[0];
        (keyspace.memtable_records, keyspace.memtable_bytes) = (1234, 5 << 20);
        let level = keyspace.levels.last_mut().expect("a level");
        (level.tables[0].bytes, level.tables[0].entries) = (7 << 20, 98_765);
        let mut before = now.clone();
        now.visible_seq += 4000;
        before.persisted.bytes_streamed = 2 << 20;
        before.slowed = Duration::from_millis(500);
        Picture {
            dir: "a/store".into(),
            state: State::Running,
            now,
            before: Some((Box::new(before), Duration::from_secs(2))),
            writes: VecDeque::new(),
        }
    }

    /// The rows of a terminal of `width` columns and `height` rows that shows `picture`.
    fn drawn(picture: &Picture, width: u16, height: u16) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal");
        terminal.draw(|frame| frame.render_widget(picture, frame.area())).expect("drawn");
        let cells = &terminal.backend().buffer().content;
        let row = |row: &[ratatui::buffer::Cell]| row.iter().map(|cell| cell.symbol()).collect();
        cells.chunks(width.into()).map(row).collect()
    }

    /// The words of the first row that begins with `name`.
    fn words<'a>(rows: &'a [String], name: &str) -> &'a str {
        let row = rows.iter().map(|row| row.trim()).find(|row| row.starts_with(name));
        row.unwrap_or_else(|| panic!("{name} in {rows:#?}"))[name.len()..].trim()
    }

    #[test]
    fn a_terminal_shows_rates_space_work_and_levels() {
        let picture = picture();
        let rows = drawn(&picture, 110, 40);
        assert_eq!(rows[0].trim(), "a/store  running");
        assert_eq!(words(&rows, "writes"), "2,000/s");
        assert_eq!(words(&rows, "to PM"), "2.00 MiB/s");
        assert_eq!(words(&rows, "slowed"), "0.500 s of writers' time a second");
        let pm = words(&rows, "PM");
        assert!(pm.ends_with("16.00 MiB of 64.00 MiB, 25 %"), "{pm}");
        assert_eq!(pm.matches('█').count(), 8, "a quarter of the bar: {pm}");
        assert!(words(&rows, "DRAM").ends_with("3.00 MiB of 4.00 MiB, 75 %"));
        assert_eq!(words(&rows, "debt"), "0.250");
        let memtables = words(&rows, "default");
        let memtables: Vec<&str> = memtables.split_whitespace().collect();
        assert_eq!(memtables, ["memtables", "1", "1,234", "5.00", "MiB"]);
        let level = picture.now.keyspaces[0].levels.last().expect("a level").level;
        let level = words(&rows, &format!("level {level}"));
        let level: Vec<&str> = level.split_whitespace().collect();
        assert_eq!(level[..4], ["1", "98,765", "7.00", "MiB"]);
    }

    #[test]
    fn printed_lines_are_what_a_terminal_shows() {
        let picture = picture();
        let lines = picture.lines();
        let rows = drawn(&picture, WIDTH, u16::try_from(lines.len()).expect("few"));
        let rows: Vec<&str> = rows.iter().map(|row| row.trim_end()).collect();
        assert_eq!(lines, rows);
        assert!(lines.last().is_some_and(|line| line.contains("level ")), "{lines:#?}");
    }

    #[test]
    fn a_process_that_is_gone_and_trouble_are_said() {
        let mut picture = picture();
        (picture.state, picture.before) = (State::Gone, None);
        picture.now.refusing_writes = Some("the disk is full".into());
        let rows = drawn(&picture, 110, 40);
        assert!(rows[0].contains("the process that had it open is gone"), "{}", rows[0]);
        assert_eq!(rows[1].trim(), "writes are refused: the disk is full");
        assert_eq!(words(&rows, "writes  "), "-", "no rates");
    }

    #[test]
    fn a_small_terminal_shows_what_fits() {
        let mut picture = picture();
        picture.writes = (1..=1000).collect();
        assert!(drawn(&picture, 100, 12).concat().contains("writes, up to 1,000/s"));
        for (width, height) in [(1, 1), (20, 5), (61, 8), (300, 2)] {
            let _drawn = drawn(&picture, width, height);
        }
    }

    #[test]
    fn many_keyspaces_are_counted() {
        let mut picture = picture();
        picture.now.keyspaces = vec![picture.now.keyspaces[0].clone(); 10_000];
        let lines = picture.lines();
        assert!(lines.len() < 120, "{}", lines.len());
        assert_eq!(lines.last().map(String::as_str), Some("and 9,980 smaller"));
    }
}
