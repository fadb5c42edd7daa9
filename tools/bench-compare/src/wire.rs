//! Samples as JSON: what a child tells its parent, and what a file keeps.

use serde_json::{Value, json};

use crate::crew::Rate;
use crate::data::Filling;
use crate::engines::{self, Result, Written};
use crate::measure::bytes::ProcessBytes;
use crate::measure::latency::Latency;
use crate::measure::misses::Hits;
use crate::promise::Promise;
use crate::sample::{self, CaseKey, Load, Sample};
use crate::stages::{self, Case, Stage};
use crate::turn::Turn;
use crate::verify::Digest;
use crate::work::{Conflicts, Measured, OfKind};
use bench::data::draw::Draw;

/// The line for `turn`.
pub fn line(turn: &Turn) -> String {
    json!({
        "samples": turn.samples.iter().map(of_sample).collect::<Vec<_>>(),
        "digest": turn.digest.map(|digest| [digest.count, digest.hash]),
    })
    .to_string()
}

/// The turn of a line.
///
/// # Errors
/// It is none.
pub fn turn(line: &str) -> Result<Turn> {
    let value: Value = serde_json::from_str(line).map_err(|error| format!("{line}: {error}"))?;
    let samples = value["samples"].as_array();
    let samples = samples.and_then(|samples| samples.iter().map(to_sample).collect());
    let digest = optional(&value["digest"], |digest| {
        Some(Digest { count: digest[0].as_u64()?, hash: digest[1].as_u64()? })
    });
    let (samples, digest) =
        samples.zip(digest).ok_or_else(|| format!("{line}: not what a run says"))?;
    Ok(Turn { samples, digest })
}

/// A sample as JSON.
pub fn of_sample(sample: &Sample) -> Value {
    json!({
        "engine": sample.engine,
        "run": sample.run,
        "benchmark": sample.case.name,
        "threads": sample.case.threads,
        "value_size": sample.stage.value_size,
        "filling": sample.load.filling.name(),
        "draw": sample.load.draw.name(),
        "keys": sample.keys,
        "promise": sample.promise.words(),
        "durability": sample.durability,
        "measured": of_measured(&sample.measured),
    })
}

/// The sample, if it is one of an engine and a benchmark that there are.
pub fn to_sample(value: &Value) -> Option<Sample> {
    let (stage, case) = to_case(value)?;
    let engine = value["engine"].as_str()?;
    Some(Sample {
        engine: engines::all().find(|maker| maker.name == engine)?.name,
        run: value["run"].as_u64()? as usize,
        stage,
        case,
        load: to_load(value)?,
        keys: value["keys"].as_u64()?,
        promise: Promise::named(value["promise"].as_str()?)?,
        durability: value["durability"].as_str()?.into(),
        measured: to_measured(&value["measured"])?,
    })
}

fn to_case(value: &Value) -> Option<(&'static Stage, &'static Case)> {
    let (name, threads) = (value["benchmark"].as_str()?, value["threads"].as_u64()?);
    stages::find(name, threads as usize, value["value_size"].as_u64()? as usize)
}

/// Older files say nothing of it: there was one filling and one draw.
fn to_load(value: &Value) -> Option<Load> {
    let filling = optional(&value["filling"], |name| Filling::named(name.as_str()?))?;
    let draw = optional(&value["draw"], |name| Draw::named(name.as_str()?))?;
    Some(Load { filling: filling.unwrap_or_default(), draw: draw.unwrap_or_default() })
}

/// Which benchmark it is, as JSON.
pub fn of_key(key: CaseKey) -> Value {
    json!({
        "benchmark": key.benchmark,
        "threads": key.threads,
        "value_size": key.value_size,
        "filling": key.load.filling.name(),
        "draw": key.load.draw.name(),
    })
}

/// The benchmark, if it is one that there is.
pub fn to_key(value: &Value) -> Option<CaseKey> {
    if let Some([name, threads, size]) = value.as_array().map(Vec::as_slice) {
        // So older files have it.
        return to_key(&json!({ "benchmark": name, "threads": threads, "value_size": size }));
    }
    let (stage, case) = to_case(value)?;
    Some(sample::key(stage, case, to_load(value)?))
}

fn of_measured(measured: &Measured) -> Value {
    let rate = |rate: Rate| json!([rate.ops, rate.seconds]);
    json!({
        "rate": rate(measured.rate),
        "commits": measured.commits,
        "conflicts": measured.conflicts.map(of_conflicts),
        "kinds": measured.kinds.iter().map(of_kind).collect::<Vec<_>>(),
        "aside": measured.aside.map(rate),
        "hits": measured.hits.map(|hits| json!([hits.looked, hits.found])),
        "latency": measured.latency.map(of_latency),
        "aside_latency": measured.aside_latency.map(of_latency),
        "written": measured.written.map(|w| json!([w.files, w.pm, w.syncs])),
        "user_bytes": measured.user_bytes,
        "cut": measured.cut,
        "moved": [measured.moved.given, measured.moved.dirtied, measured.moved.read],
        "settled": measured.settled,
        "memory": measured.memory,
        "space": measured.space,
        "group_memory": measured.group_memory,
    })
}

fn of_latency(latency: Latency) -> Value {
    let Latency { samples, p50, p99, p999, p9999, longest } = latency;
    json!([samples, p50, p99, p999, longest, p9999])
}

fn of_conflicts(conflicts: Conflicts) -> Value {
    json!([conflicts.lost, conflicts.retried, conflicts.most])
}

fn of_kind(kind: &OfKind) -> Value {
    json!({
        "name": kind.name,
        "count": kind.count,
        "rolled_back": kind.rolled_back,
        "conflicts": kind.conflicts.map(of_conflicts),
        "latency": kind.latency.map(of_latency),
    })
}

fn to_measured(value: &Value) -> Option<Measured> {
    let moved = &value["moved"];
    Some(Measured {
        rate: to_rate(&value["rate"])?,
        commits: value["commits"].as_u64()?,
        conflicts: optional(&value["conflicts"], to_conflicts)?,
        // Older files have none.
        kinds: match &value["kinds"] {
            Value::Null => Vec::new(),
            kinds => kinds.as_array()?.iter().map(to_kind).collect::<Option<_>>()?,
        },
        aside: optional(&value["aside"], to_rate)?,
        hits: optional(&value["hits"], |hits| {
            Some(Hits { looked: hits[0].as_u64()?, found: hits[1].as_u64()? })
        })?,
        latency: optional(&value["latency"], to_latency)?,
        aside_latency: optional(&value["aside_latency"], to_latency)?,
        written: optional(&value["written"], |written| {
            Some(Written {
                files: written[0].as_u64()?,
                pm: written[1].as_u64()?,
                syncs: written[2].as_u64(),
            })
        })?,
        user_bytes: value["user_bytes"].as_u64()?,
        cut: optional(&value["cut"], |cut| Some([cut[0].as_u64()?, cut[1].as_u64()?]))?,
        moved: ProcessBytes {
            given: moved[0].as_u64()?,
            dirtied: moved[1].as_u64()?,
            read: moved[2].as_u64()?,
        },
        settled: value["settled"].as_f64(),
        memory: value["memory"].as_u64()?,
        space: value["space"].as_u64(),
        group_memory: value["group_memory"].as_u64(),
    })
}

fn to_rate(value: &Value) -> Option<Rate> {
    Some(Rate { ops: value[0].as_u64()?, seconds: value[1].as_f64()? })
}

fn to_latency(value: &Value) -> Option<Latency> {
    Some(Latency {
        samples: value[0].as_u64()?,
        p50: value[1].as_f64()?,
        p99: value[2].as_f64(),
        p999: value[3].as_f64(),
        longest: value[4].as_f64()?,
        p9999: value[5].as_f64(),
    })
}

fn to_conflicts(value: &Value) -> Option<Conflicts> {
    Some(Conflicts {
        lost: value[0].as_u64()?,
        retried: value[1].as_u64()?,
        most: value[2].as_u64()?,
    })
}

fn to_kind(value: &Value) -> Option<OfKind> {
    Some(OfKind {
        name: value["name"].as_str()?.into(),
        count: value["count"].as_u64()?,
        rolled_back: value["rolled_back"].as_u64()?,
        conflicts: optional(&value["conflicts"], to_conflicts)?,
        latency: optional(&value["latency"], to_latency)?,
    })
}

/// What may be missing; none of all if it is there and not understood.
fn optional<T>(value: &Value, of: impl Fn(&Value) -> Option<T>) -> Option<Option<T>> {
    if value.is_null() { Some(None) } else { of(value).map(Some) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_benchmark_comes_over_and_older_ones_had_the_usual_load() {
        let (stage, case) = stages::find("disk-fill", 2, 1024).unwrap();
        for (filling, draw) in [(Filling::Half, Draw::Zipf), (Filling::Random, Draw::Uniform)] {
            let key = sample::key(stage, case, Load { filling, draw });
            assert_eq!(to_key(&of_key(key)), Some(key));
        }
        let older = json!({"benchmark": "disk-fill", "threads": 2, "value_size": 1024});
        assert_eq!(to_key(&older), Some(sample::key(stage, case, Load::default())));
        assert_eq!(to_key(&json!(["disk-fill", 2, 1024])), to_key(&older));
        let other =
            json!({"benchmark": "disk-fill", "threads": 2, "value_size": 1024, "draw": "latest"});
        assert_eq!(to_key(&other), None);
    }

    #[test]
    fn a_turn_comes_over_as_it_was() {
        let times = Latency {
            samples: 9,
            p50: 1.5,
            p99: Some(2.0),
            p999: None,
            p9999: None,
            longest: 4.25,
        };
        let conflicts = Conflicts { lost: 5, retried: 3, most: 2 };
        let kind = OfKind {
            name: "payment".into(),
            count: 7,
            rolled_back: 1,
            conflicts: Some(conflicts),
            latency: Some(Latency { p999: Some(3.0), p9999: Some(3.5), ..times }),
        };
        let full = Measured {
            rate: Rate { ops: 7, seconds: 0.5 },
            commits: 3,
            conflicts: Some(conflicts),
            kinds: vec![kind, OfKind { name: "read".into(), ..OfKind::default() }],
            aside: Some(Rate { ops: 1, seconds: 1e9 }),
            hits: Some(Hits { looked: 20, found: 15 }),
            latency: Some(times),
            aside_latency: Some(Latency { p999: Some(3.5), ..times }),
            written: Some(Written { files: 5, pm: 6, syncs: Some(2) }),
            user_bytes: 8,
            cut: Some([3, 4]),
            moved: ProcessBytes { given: 9, dirtied: 10, read: 11 },
            settled: Some(0.25),
            memory: 12,
            space: Some(14),
            group_memory: Some(13),
        };
        let (stage, case) = stages::find("disk-sync", 16, 1024).unwrap();
        let sample = |measured: &Measured| Sample {
            engine: "lmdb",
            run: 2,
            stage,
            case,
            load: Load { filling: Filling::Random, draw: Draw::Zipf },
            keys: 100,
            promise: Promise::ProcessCrashOrStore,
            durability: "NO_SYNC".into(),
            measured: measured.clone(),
        };
        for measured in [full, Measured::default()] {
            let digest = Some(Digest { count: 100, hash: u64::MAX });
            let turn = Turn { samples: vec![sample(&measured)], digest };
            let over = super::turn(&line(&turn)).unwrap();
            assert_eq!(over.digest, digest);
            assert_eq!(over.samples[0].measured, measured);
            assert_eq!(over.samples[0].key(), turn.samples[0].key());
            assert_eq!(format!("{over:?}"), format!("{turn:?}"));
        }
        assert!(super::turn("{}").unwrap_err().contains("not what a run says"));
        assert!(super::turn("panic").is_err());
    }
}
