//! The figures as text that Prometheus reads.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};

use crate::cache::PmCacheFigures;
use crate::observe::properties::{KeyspaceProperties, Properties, SsdProperties, TierProperties};
use crate::stream::slots::StreamFigures;

/// What all names begin with.
const PREFIX: &str = "strandline";

impl Properties {
    /// The figures as text in the format [OpenMetrics](https://prometheus.io/docs/specs/om/open_metrics_spec/), which
    /// Prometheus reads: give it for a scrape. All names begin with `strandline_`; sizes are in bytes, times in seconds.
    /// Counters, whose names end in `_total`, begin at zero when the store is opened. Figures of a keyspace
    /// have the label `keyspace`, those of a level also `level`; `level="0"` are the index runs.
    ///
    /// Takes the cargo feature `metrics`.
    ///
    /// ```
    /// use strandline::{Db, Options};
    ///
    /// # fn main() -> strandline::Result<()> {
    /// # let folder = std::env::temp_dir().join(format!("strandline-doc-metrics-{}", std::process::id()));
    /// let db = Db::open(&folder, Options::default().pm_size(16 << 20))?;
    /// db.put("apple", "red")?;
    /// let text = db.properties().prometheus();
    /// assert!(text.contains("strandline_memtable_records{keyspace=\"default\"} 1\n"));
    /// # db.close();
    /// # std::fs::remove_dir_all(&folder).expect("gone");
    /// # Ok(()) }
    /// ```
    pub fn prometheus(&self) -> String {
        let mut registry = Registry::with_prefix(PREFIX);
        registry.register_collector(Box::new(Scrape(self.clone())));
        let mut text = String::new();
        encode(&mut text, &registry).unwrap_or_else(|_| unreachable!("a string takes all text"));
        text
    }
}

/// The figures of one scrape.
#[derive(Debug)]
struct Scrape(Properties);

impl Collector for Scrape {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut figures = store(&self.0);
        figures.extend(media(&self.0));
        figures.extend(self.0.ssd.as_ref().map(ssd).into_iter().flatten());
        figures.extend(keyspaces(&self.0.keyspaces));
        figures.iter().try_for_each(|figure| figure.encode(&mut encoder))
    }
}

/// A figure: what it is called, what it means, and its values.
struct Figure {
    name: &'static str,
    help: &'static str,
    unit: Option<Unit>,
    kind: MetricType,
    samples: Vec<Sample>,
}

/// A value of a figure, and what it is the value of.
struct Sample {
    labels: Vec<(&'static str, String)>,
    value: Number,
}

#[derive(Clone, Copy)]
enum Number {
    Whole(u64),
    Real(f64),
}

impl Figure {
    fn new(kind: MetricType, name: &'static str, help: &'static str) -> Figure {
        Figure { name, help, unit: None, kind, samples: Vec::new() }
    }

    /// A figure that rises and falls.
    fn gauge(name: &'static str, help: &'static str) -> Figure {
        Figure::new(MetricType::Gauge, name, help)
    }

    /// A figure that only rises while the store is open.
    fn counter(name: &'static str, help: &'static str) -> Figure {
        Figure::new(MetricType::Counter, name, help)
    }

    fn in_unit(self, unit: Unit) -> Figure {
        Figure { unit: Some(unit), ..self }
    }

    /// Its only value.
    fn is(mut self, value: u64) -> Figure {
        self.samples.push(Sample { labels: Vec::new(), value: Number::Whole(value) });
        self
    }

    /// Its only value, which is a fraction.
    fn real(mut self, value: f64) -> Figure {
        self.samples.push(Sample { labels: Vec::new(), value: Number::Real(value) });
        self
    }

    /// A value for each keyspace.
    fn of_each(
        mut self,
        keyspaces: &[KeyspaceProperties],
        value: impl Fn(&KeyspaceProperties) -> u64,
    ) -> Figure {
        self.samples.extend(keyspaces.iter().map(|keyspace| Sample {
            labels: vec![("keyspace", keyspace.name.clone())],
            value: Number::Whole(value(keyspace)),
        }));
        self
    }

    /// A value for each change stream.
    fn of_streams(
        mut self,
        streams: &[StreamFigures],
        value: impl Fn(&StreamFigures) -> u64,
    ) -> Figure {
        self.samples.extend(streams.iter().map(|stream| Sample {
            labels: vec![("stream", stream.name.clone())],
            value: Number::Whole(value(stream)),
        }));
        self
    }

    /// A value for each directory of tables that has one.
    fn of_tiers(
        mut self,
        tiers: &[TierProperties],
        value: impl Fn(&TierProperties) -> Option<u64>,
    ) -> Figure {
        let known = tiers.iter().filter_map(|tier| Some((tier, value(tier)?)));
        self.samples.extend(known.map(|(tier, value)| Sample {
            labels: vec![("directory", tier.dir.display().to_string())],
            value: Number::Whole(value),
        }));
        self
    }

    /// A value for each level that has data.
    fn of_levels(
        mut self,
        keyspaces: &[KeyspaceProperties],
        value: impl Fn(&LevelFigures) -> u64,
    ) -> Figure {
        for keyspace in keyspaces {
            self.samples.extend(levels(keyspace).map(|level| Sample {
                labels: vec![
                    ("keyspace", keyspace.name.clone()),
                    ("level", level.level.to_string()),
                ],
                value: Number::Whole(value(&level)),
            }));
        }
        self
    }

    fn encode(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let mut metric =
            encoder.encode_descriptor(self.name, self.help, self.unit.as_ref(), self.kind)?;
        self.samples.iter().try_for_each(|sample| {
            if sample.labels.is_empty() {
                sample.value.encode(self.kind, &mut metric)
            } else {
                sample.value.encode(self.kind, &mut metric.encode_family(&sample.labels)?)
            }
        })
    }
}

impl Number {
    fn encode(self, kind: MetricType, metric: &mut MetricEncoder<'_>) -> fmt::Result {
        match (kind, self) {
            (MetricType::Counter, Number::Whole(value)) => {
                metric.encode_counter::<NoLabelSet, _, u64>(&value, None)
            }
            (MetricType::Counter, Number::Real(value)) => {
                metric.encode_counter::<NoLabelSet, _, u64>(&value, None)
            }
            (_, Number::Whole(value)) => metric.encode_gauge(&value),
            (_, Number::Real(value)) => metric.encode_gauge(&value),
        }
    }
}

/// What is told of a level.
struct LevelFigures {
    level: usize,
    files: u64,
    entries: u64,
    bytes: u64,
    pm_bytes: u64,
}

/// Level 0, whose index runs lie in persistent memory with their records, and all levels with tables.
fn levels(keyspace: &KeyspaceProperties) -> impl Iterator<Item = LevelFigures> + '_ {
    let bytes = keyspace.runs.iter().map(|run| run.record_bytes + run.index_bytes).sum();
    let runs = LevelFigures {
        level: 0,
        files: keyspace.runs.len() as u64,
        entries: keyspace.runs.iter().map(|run| run.entries).sum(),
        bytes,
        pm_bytes: bytes,
    };
    std::iter::once(runs).chain(keyspace.levels.iter().map(|level| LevelFigures {
        level: level.level,
        files: level.tables.len() as u64,
        entries: level.entries(),
        bytes: level.bytes(),
        pm_bytes: level.pm_bytes(),
    }))
}

/// Space, memory and the pace of writers.
fn store(now: &Properties) -> Vec<Figure> {
    let (gauge, counter) = (Figure::gauge, Figure::counter);
    let mut figures = vec![
        gauge("pm_capacity", "Persistent memory for data.")
            .in_unit(Unit::Bytes)
            .is(now.pm_capacity),
        gauge("pm_free", "Persistent memory that is free.").in_unit(Unit::Bytes).is(now.pm_free),
        gauge("pm_headroom", "Persistent memory that writers may take before space is reclaimed.")
            .in_unit(Unit::Bytes)
            .is(now.pm_headroom),
        gauge("zones", "Zones of the pool.").is(now.zones.into()),
        gauge("zones_free", "Zones that are wholly free.").is(now.zones_free.into()),
        gauge("dram", "Memory that indexes and the block cache hold.")
            .in_unit(Unit::Bytes)
            .is(now.dram_bytes),
        gauge("dram_budget", "Memory that they may hold.").in_unit(Unit::Bytes).is(now.dram_budget),
        gauge("visible_seq", "Last sequence number that readers see.").is(now.visible_seq.get()),
        gauge("snapshots", "Open snapshots and iterators.").is(now.snapshots as u64),
        gauge("debt_ratio", "How much writers are slowed: from 0, not at all, to 1.")
            .real(f64::from(now.debt) / 1000.0),
        gauge("writes_refused", "1 if writes are refused, else 0.")
            .is(now.refusing_writes.is_some().into()),
        gauge("damage_met", "1 if a background merge met damage, else 0.")
            .is(now.damage_met.is_some().into()),
        counter("slowed", "Time that writers were slowed, all together.")
            .in_unit(Unit::Seconds)
            .real(now.slowed.as_secs_f64()),
        counter("scans_passed", "Deleted entries that scans have passed.").is(now.scans_passed),
        gauge("transactions_open", "Open transactions.").is(now.transactions.open as u64),
        counter("transactions_committed", "Transactions that committed changes.")
            .is(now.transactions.committed),
        counter("transaction_conflicts", "Transactions that lost against another commit.")
            .is(now.transactions.conflicts),
        counter(
            "transaction_looks",
            "Look-ups of what others wrote, before a transaction's number.",
        )
        .is(now.transactions.looks),
        counter("transaction_holds", "Look-ups that kept other writers out.")
            .is(now.transactions.holds),
        gauge("locks", "Locks that are held or waited for.").is(now.locks.held),
        gauge("lock_memory", "Memory of locks.").in_unit(Unit::Bytes).is(now.locks.bytes),
        counter("lock_waits", "Locks that were waited for.").is(now.locks.waits),
        counter("lock_waited", "Time for which locks were waited for, all together.")
            .in_unit(Unit::Seconds)
            .real(now.locks.wait_micros as f64 / 1e6),
        counter("lock_timeouts", "Waits that ended without the lock.").is(now.locks.timeouts),
        counter("deadlocks", "Deadlocks, each with one that was given up.").is(now.locks.deadlocks),
        counter("transactions_expired", "Transactions that lost their locks by time.")
            .is(now.locks.expired),
        counter("large_commits", "Commits that no zone takes.").is(now.large_commits.committed),
        counter("large_commit", "Bytes of their records.")
            .in_unit(Unit::Bytes)
            .is(now.large_commits.bytes),
        counter("hook_failures", "Calls of merge operators and compaction filters that failed.")
            .is(now.hook_failures),
    ];
    if !now.streams.is_empty() {
        figures.extend([
            gauge("stream_behind", "Numbers of commits that a change stream is behind.")
                .of_streams(&now.streams, |stream| stream.behind),
            gauge("stream_backlog", "Bytes that hold what it is behind with.")
                .in_unit(Unit::Bytes)
                .of_streams(&now.streams, |stream| stream.backlog_bytes),
            gauge("stream_lost_to", "Number up to which its changes are lost; 0: none are.")
                .of_streams(&now.streams, |stream| stream.lost.get()),
            gauge("pm_held_by_streams", "Persistent memory that only change streams need.")
                .in_unit(Unit::Bytes)
                .is(now.pm_held_by_streams),
        ]);
    }
    if let Some(bytes) = now.memory.bytes {
        let help = "Memory that the process could use when the store was opened.";
        figures.push(gauge("usable_memory", help).in_unit(Unit::Bytes).is(bytes));
    }
    if let Some(bytes) = now.anonymous_bytes {
        let help = "Memory of the whole process that maps no file.";
        figures.push(gauge("process_anonymous", help).in_unit(Unit::Bytes).is(bytes));
    }
    figures
}

/// What was written to persistent memory, and to the log.
fn media(now: &Properties) -> Vec<Figure> {
    let (gauge, counter, persisted) = (Figure::gauge, Figure::counter, &now.persisted);
    let mut figures = vec![
        counter("pm_stored", "Bytes written to persistent memory with ordinary stores.")
            .in_unit(Unit::Bytes)
            .is(persisted.bytes_stored),
        counter("pm_streamed", "Bytes written to persistent memory with non-temporal stores.")
            .in_unit(Unit::Bytes)
            .is(persisted.bytes_streamed),
        counter("pm_media", "Bytes that reached the media: whole lines flushed or streamed.")
            .in_unit(Unit::Bytes)
            .is(persisted.media_bytes()),
        counter("pm_lines_flushed", "Cache lines flushed.").is(persisted.lines_flushed),
        counter("pm_fences", "Fences.").is(persisted.fences),
    ];
    if let Some(wal) = &now.wal {
        figures.extend([
            gauge("wal_segments", "Files of the log.").is(wal.segments),
            gauge("wal_size", "Bytes of the log's files.").in_unit(Unit::Bytes).is(wal.bytes),
            gauge("wal_live", "Bytes of the log that a recovery would need.")
                .in_unit(Unit::Bytes)
                .is(wal.live_bytes),
            counter("wal_written", "Bytes written to the log.")
                .in_unit(Unit::Bytes)
                .is(wal.written_bytes),
            counter("wal_writes", "Writes of the log.").is(wal.writes),
            counter("wal_syncs", "Syncs of a file of the log.").is(wal.syncs),
            counter("wal_recycled", "Files of the log that had been those of older parts of it.")
                .is(wal.recycled),
            counter("wal_made_ahead", "Files of the log that were made before they were needed.")
                .is(wal.made_ahead),
            counter("wal_direct", "Files of the log that were begun past the page cache.")
                .is(wal.direct),
            counter(
                "wal_zeroed",
                "Zeros written ahead to files of the log, besides what is written to it.",
            )
            .in_unit(Unit::Bytes)
            .is(wal.zeroed_bytes),
            counter("wal_streamed", "Bytes of the log that went to persistent memory.")
                .in_unit(Unit::Bytes)
                .is(wal.streamed_bytes),
        ]);
    }
    figures
}

/// The cache in persistent memory.
fn pm_cache(cache: &PmCacheFigures) -> Vec<Figure> {
    let (gauge, counter) = (Figure::gauge, Figure::counter);
    let bytes = Unit::Bytes;
    vec![
        gauge("pm_cache", "Persistent memory that the cache takes.")
            .in_unit(bytes.clone())
            .is(cache.taken),
        gauge("pm_cache_limit", "Persistent memory that the cache may take.")
            .in_unit(bytes.clone())
            .is(cache.limit),
        gauge("pm_cache_entries", "Blocks and values that are found there.").is(cache.entries),
        counter("pm_cache_hits", "Blocks that were looked up there and found.").is(cache.hits),
        counter("pm_cache_misses", "Blocks that were looked up there and had to be read.")
            .is(cache.misses),
        counter("pm_cache_inserts", "Blocks that were written there.").is(cache.inserts),
        counter("pm_cache_written", "Their bytes.").in_unit(bytes).is(cache.written_bytes),
        counter("pm_cache_given_back", "Zones of it that others needed.")
            .is(cache.zones_given_back),
        counter("pm_cache_failed", "Entries there that failed their checksums.").is(cache.failed),
    ]
}

/// The levels of tables together, the block cache, compactions.
fn ssd(ssd: &SsdProperties) -> Vec<Figure> {
    let (gauge, counter) = (Figure::gauge, Figure::counter);
    let (cache, compactions) = (&ssd.cache, &ssd.compactions);
    let bytes = Unit::Bytes;
    let mut figures = ssd.pm_cache.as_ref().map_or_else(Vec::new, pm_cache);
    figures.extend([
        gauge("ssd_files", "Bytes of all files.").in_unit(bytes.clone()).is(ssd.bytes),
        gauge("ssd_limit", "Bytes that files may take; 0: what the device has.")
            .in_unit(bytes.clone())
            .is(ssd.limit),
        gauge("pm_tables", "Persistent memory that tables take.")
            .in_unit(bytes.clone())
            .is(ssd.pm_bytes),
        gauge("pm_tables_limit", "Persistent memory that tables may take.")
            .in_unit(bytes.clone())
            .is(ssd.pm_limit),
        gauge("pm_values", "Persistent memory that value files take.")
            .in_unit(bytes.clone())
            .is(ssd.pm_value_bytes),
        gauge("pm_values_limit", "Persistent memory that value files may take.")
            .in_unit(bytes.clone())
            .is(ssd.pm_value_limit),
        gauge("block_cache", "Bytes that the block cache takes.")
            .in_unit(bytes.clone())
            .is(cache.charged),
        gauge("block_cache_budget", "Bytes that it may take.")
            .in_unit(bytes.clone())
            .is(cache.budget),
        counter("block_cache_hits", "Blocks that were looked up and found.").is(cache.hits),
        counter("block_cache_misses", "Blocks that were looked up and had to be read.")
            .is(cache.misses),
        counter("block_cache_evictions", "Blocks that made room for others.").is(cache.evictions),
        gauge("cached_records", "Bytes of the block cache that single records take.")
            .in_unit(bytes.clone())
            .is(cache.record_bytes),
        counter("cached_record_hits", "Records that were looked up in the block cache and found.")
            .is(cache.record_hits),
        counter("cached_record_misses", "Records that were looked up there and not found.")
            .is(cache.record_misses),
        gauge("block_cache_low", "Of the bytes that it takes, those of blocks of fast devices.")
            .in_unit(bytes.clone())
            .is(cache.low),
        gauge("block_cache_low_share", "Bytes that these may take once it is full.")
            .in_unit(bytes.clone())
            .is(cache.low_share),
        counter("block_cache_low_hits", "Of the hits, those of blocks of fast devices.")
            .is(cache.low_hits),
        counter("block_cache_low_misses", "Blocks of fast devices that had to be read.")
            .is(cache.low_misses),
        counter("block_cache_bypassed", "Blocks of fast devices that were not kept.")
            .is(cache.bypassed),
        counter(
            "block_cache_warmed",
            "Blocks of new tables that were put in for those that they replaced.",
        )
        .is(cache.warmed),
        counter("block_cache_warmed", "Their bytes.").in_unit(bytes.clone()).is(cache.warmed_bytes),
        counter("block_cache_warm_failed", "Tables with such blocks that could not be read.")
            .is(cache.warm_failed),
        gauge("background_failing", "1 if the last compaction failed, else 0.")
            .is(ssd.trouble.is_some().into()),
        counter("compactions_level0", "Compactions of level 0.").is(compactions.level0),
        counter("compactions_levels", "Compactions of other levels.").is(compactions.levels),
        counter("compactions_moves", "Tables that only moved.").is(compactions.moves),
        counter("compactions_failed", "Compactions that failed.").is(compactions.failed),
        counter("compaction_entries", "Entries that compactions read.").is(compactions.entries),
        counter("compaction_read", "Bytes of tables that compactions read.")
            .in_unit(bytes.clone())
            .is(compactions.read_bytes),
        counter("compaction_written", "Bytes of tables that compactions wrote to files.")
            .in_unit(bytes.clone())
            .is(compactions.written_bytes),
        gauge("tier_files", "Bytes of files in a directory of tables.")
            .in_unit(bytes.clone())
            .of_tiers(&ssd.tiers, |tier| Some(tier.bytes)),
        gauge("tier_limit", "Bytes that they may take; 0: what the device has.")
            .in_unit(bytes.clone())
            .of_tiers(&ssd.tiers, |tier| Some(tier.limit)),
        counter("tier_read", "Bytes read from a directory that has a device of its own.")
            .in_unit(bytes.clone())
            .of_tiers(&ssd.tiers, |tier| Some(tier.device.as_ref()?.read_bytes)),
        counter("tier_written", "Bytes written to a directory that has a device of its own.")
            .in_unit(bytes.clone())
            .of_tiers(&ssd.tiers, |tier| Some(tier.device.as_ref()?.written_bytes)),
        counter("tier_moves", "Tables that were copied to another tier.")
            .is(compactions.tier_moves),
        counter("tier_moved", "Bytes of tables that were copied to another tier.")
            .in_unit(bytes.clone())
            .is(compactions.tier_move_bytes),
        counter("value_files_collected", "Value files whose live values were written anew.")
            .is(compactions.collected),
        counter("compaction_values_written", "Bytes of value files among them.")
            .in_unit(bytes.clone())
            .is(compactions.value_bytes),
        counter("compaction_pm_written", "Bytes of tables that they wrote to persistent memory.")
            .in_unit(bytes.clone())
            .is(compactions.pm_written_bytes),
        counter("compaction_pm_values_written", "Bytes of value files among these.")
            .in_unit(bytes)
            .is(compactions.pm_value_bytes),
        counter("compaction", "Time of compactions from begin to end, all together.")
            .in_unit(Unit::Seconds)
            .real(compactions.time.as_secs_f64()),
    ]);
    figures
}

fn keyspaces(all: &[KeyspaceProperties]) -> Vec<Figure> {
    let gauge = Figure::gauge;
    vec![
        gauge("memtables", "Memtables, the active one included.")
            .of_each(all, |of| of.memtables as u64),
        gauge("value_files", "Bytes of value files.")
            .in_unit(Unit::Bytes)
            .of_each(all, |of| of.value_files.iter().map(|file| file.bytes).sum()),
        gauge("value_files_pm", "Bytes of value files that lie in persistent memory.")
            .in_unit(Unit::Bytes)
            .of_each(all, |of| {
                let there = of.value_files.iter().filter(|file| file.pm_at.is_some());
                there.map(|file| file.bytes).sum()
            }),
        gauge("value_files_live", "Bytes in value files that tables refer to.")
            .in_unit(Unit::Bytes)
            .of_each(all, |of| of.value_files.iter().map(|file| file.live_bytes).sum()),
        gauge("memtable_records", "Versions in memtables.").of_each(all, |of| of.memtable_records),
        gauge("memtable", "Bytes of records in memtables.")
            .in_unit(Unit::Bytes)
            .of_each(all, |of| of.memtable_bytes),
        gauge("memtable_index", "Memory of the memtables' indexes.")
            .in_unit(Unit::Bytes)
            .of_each(all, |of| of.index_dram_bytes),
        gauge("run_fences", "Memory of the index runs' fences.")
            .in_unit(Unit::Bytes)
            .of_each(all, |of| of.fences_dram_bytes),
        gauge("subranges", "Subranges.").of_each(all, |of| of.subranges.len() as u64),
        gauge("level_files", "Index runs of level 0, or tables of a level.")
            .of_levels(all, |level| level.files),
        gauge("level_entries", "Entries, deletions included.")
            .of_levels(all, |level| level.entries),
        gauge("level", "Bytes of a level.")
            .in_unit(Unit::Bytes)
            .of_levels(all, |level| level.bytes),
        gauge("level_pm", "Bytes of a level that lie in persistent memory.")
            .in_unit(Unit::Bytes)
            .of_levels(all, |level| level.pm_bytes),
    ]
}
