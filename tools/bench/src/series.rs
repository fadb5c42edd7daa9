//! Throughput and the traffic of devices over time, while a benchmark runs.

use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use strandline::{Db, Properties};

use crate::config::Config;
use crate::report;

/// Columns of the CSV form. Bytes are per second; a field is empty where nothing counts it.
const HEAD: &str = "benchmark,seconds,ops_per_second,pm_read,pm_read_media,pm_written,pm_written_media,ssd_read,\
                    ssd_read_media,ssd_written,ssd_written_media";
/// How often the end is looked for.
const LOOK: Duration = Duration::from_millis(20);

/// Bytes that went to and from each device since the store was opened.
struct Traffic {
    /// Read, read by the media, written, written by the media.
    pm: [Option<u64>; 4],
    ssd: [Option<u64>; 4],
}

impl Traffic {
    fn of(properties: &Properties) -> Traffic {
        let (persisted, ssd) = (&properties.persisted, &properties.ssd_device);
        let pm = match (&properties.pm_model, &properties.wal) {
            (Some(model), _) => [
                Some(model.read_bytes),
                Some(model.read_media_bytes),
                Some(model.written_bytes),
                Some(model.written_media_bytes),
            ],
            // Without a model no one counts loads.
            (None, None) => {
                let written = persisted.bytes_stored + persisted.bytes_streamed;
                [None, None, Some(written), Some(persisted.media_bytes())]
            }
            (None, Some(_)) => [None; 4],
        };
        let ssd = [
            Some(ssd.read_bytes),
            Some(ssd.read_media_bytes),
            Some(ssd.written_bytes),
            Some(ssd.written_media_bytes),
        ];
        Traffic { pm, ssd }
    }

    /// Bytes per second since `before`.
    fn per_second(&self, before: &Traffic, seconds: f64) -> [Option<f64>; 8] {
        let mut rates = [None; 8];
        let now = self.pm.iter().chain(&self.ssd);
        let then = before.pm.iter().chain(&before.ssd);
        for (rate, (now, then)) in rates.iter_mut().zip(now.zip(then)) {
            *rate = now.zip(*then).map(|(now, then)| now.saturating_sub(then) as f64 / seconds);
        }
        rates
    }
}

/// Where rows go.
pub(crate) struct Series<'c> {
    config: &'c Config,
    every: Duration,
    file: Option<File>,
}

impl<'c> Series<'c> {
    /// None if the flags ask for none.
    ///
    /// # Errors
    /// The file cannot be made; in words.
    pub(crate) fn begin(config: &'c Config) -> Result<Option<Series<'c>>, String> {
        let Some(seconds) =
            config.stats_interval.or(config.series.as_ref().map(|_| config.series_every))
        else {
            return Ok(None);
        };
        let open = |path| {
            let shown = |error| format!("--series {}: {error}", config.series_shown());
            let file = OpenOptions::new().create(true).read(true).append(true).open(path);
            let mut file: File = file.map_err(shown)?;
            let mut head = Vec::new();
            // A pipe has none, and would be waited for.
            let kept = if file.metadata().map_err(shown)?.is_file() { Some(&file) } else { None };
            kept.map_or(Ok(0), |file| file.take(HEAD.len() as u64 + 1).read_to_end(&mut head))
                .map_err(shown)?;
            match head.strip_suffix(b"\n") {
                Some(head) if head == HEAD.as_bytes() => Ok(file),
                _ if head.is_empty() => writeln!(file, "{HEAD}").map(|()| file).map_err(shown),
                _ => Err(format!(
                    "--series {}: the file has other columns, or other contents; name a new one",
                    config.series_shown()
                )),
            }
        };
        let file = config.series.as_ref().map(open).transpose()?;
        Ok(Some(Series { config, every: Duration::from_secs_f64(seconds), file }))
    }

    /// Writes a row at each interval until `ended`; `done` counts operations.
    pub(crate) fn follow(
        &mut self,
        name: &str,
        db: &Db,
        done: &AtomicU64,
        ended: &AtomicBool,
    ) -> Result<(), String> {
        let began = Instant::now();
        let (mut last, mut due) = (began, began + self.every);
        let (mut before, mut before_done) = (Traffic::of(&db.properties()), 0);
        let mut is_last = false;
        while !is_last {
            std::thread::sleep(LOOK.min(due.saturating_duration_since(Instant::now())));
            // What is left of an interval at the end has a row, too.
            is_last = ended.load(Relaxed);
            let now = Instant::now();
            if now < due && !is_last {
                continue;
            }
            let (traffic, all) = (Traffic::of(&db.properties()), done.load(Relaxed));
            let seconds = (now - last).as_secs_f64();
            let rates = traffic.per_second(&before, seconds);
            let ops = (all - before_done) as f64 / seconds;
            self.tell(name, (now - began).as_secs_f64(), ops, &rates)?;
            (last, before, before_done) = (now, traffic, all);
            due = now + self.every;
        }
        Ok(())
    }

    fn tell(
        &mut self,
        name: &str,
        at: f64,
        ops: f64,
        rates: &[Option<f64>; 8],
    ) -> Result<(), String> {
        if let Some(file) = &mut self.file {
            let mut row = format!("{name},{at:.3},{ops:.1}");
            for rate in rates {
                row.push(',');
                if let Some(rate) = rate {
                    let _into_memory = write!(row, "{rate:.0}");
                }
            }
            writeln!(file, "{row}")
                .map_err(|error| format!("--series {}: {error}", self.config.series_shown()))?;
        }
        if self.config.stats_interval.is_some() {
            let megabytes = |rate: &Option<f64>| {
                rate.map_or_else(|| "-".into(), |rate| format!("{:.1}", rate / 1e6))
            };
            let rates: Vec<String> = rates.iter().map(megabytes).collect();
            let text = format!(
                "{name} {at:8.1} s {ops:10.0} ops/s; MB/s read (media), written (media): pm {} ({}), {} ({}); ssd {} ({}), {} ({})",
                rates[0], rates[1], rates[2], rates[3], rates[4], rates[5], rates[6], rates[7]
            );
            report::note(self.config, &text);
        }
        Ok(())
    }
}
