//! The JSON form: one object per benchmark.

use serde_json::{Map, Value, json};

use super::outcome::{OperationOutcome, Outcome, PERCENTILES};
use crate::config::{Config, Latency};
use crate::meter::SAMPLE;
use crate::words::round;

/// An outcome as an object; figures that were not taken are null.
pub(crate) fn object(config: &Config, outcome: &Outcome) -> Value {
    let micros = |value: Option<f64>| value.map(|us| round(us, 3));
    let mut object = Map::new();
    let fields = [
        ("benchmark", json!(outcome.name)),
        ("ops", json!(outcome.ops)),
        ("seconds", json!(round(outcome.seconds, 6))),
        ("ops_per_sec", json!(round(outcome.ops_per_second(), 1))),
        ("mb_per_sec", json!(outcome.mb_per_second().map(|rate| round(rate, 3)))),
        ("p50_us", json!(micros(outcome.percentile_us(50.0)))),
        ("p99_us", json!(micros(outcome.percentile_us(99.0)))),
        ("p999_us", json!(micros(outcome.percentile_us(99.9)))),
        ("max_us", json!(micros(outcome.longest_us()))),
        ("user_bytes_written", json!(outcome.user_bytes_written)),
        ("pm_bytes_written", json!(outcome.written.pm)),
        ("ssd_bytes_written", json!(outcome.written.ssd)),
        ("ssd_zeros_written", json!(outcome.written.zeros)),
        ("dram_bytes", json!(outcome.dram_bytes)),
        ("pm_bytes", json!(outcome.pm_bytes)),
        ("durability", json!(outcome.durability)),
        ("basis", json!(outcome.basis())),
        ("threads", json!(config.threads)),
        ("key_size", json!(round(config.keys().mean_len(config.num), 1))),
        ("value_size", json!(config.value_size)),
        ("batch_size", json!(config.batch_size)),
        ("reads", json!(outcome.reads)),
        ("found", json!(outcome.found)),
        ("draw", json!(outcome.draw)),
        ("cpu_us_per_op", json!(per_op(outcome, outcome.cpu_seconds * 1e6))),
        ("thread_cpu_us_per_op", json!(per_op(outcome, outcome.thread_cpu_seconds * 1e6))),
        ("media_per_user_byte", json!(per_user_byte(outcome, outcome.written.pm))),
        ("ssd_per_user_byte", json!(per_user_byte(outcome, outcome.written.ssd))),
        ("latency_of_every", json!(latency_of_every(config, outcome))),
    ];
    object.extend(fields.map(|(name, value)| (name.to_string(), value)));
    if !outcome.operations.is_empty() {
        let kinds = outcome.operations.iter().map(|kind| (kind.name.to_string(), operation(kind)));
        object.insert("operations".into(), Value::Object(kinds.collect()));
    }
    object.extend(outcome.extra.clone());
    Value::Object(object)
}

fn operation(kind: &OperationOutcome) -> Value {
    let names = PERCENTILES.map(|(name, _)| name).into_iter().chain(["max_us"]);
    let latencies = kind.latencies_us().map(|value| json!(value.map(|us| round(us, 3))));
    let count = ("count", json!(kind.count));
    let fields = std::iter::once(count).chain(names.zip(latencies));
    Value::Object(fields.map(|(name, value)| (name.to_string(), value)).collect())
}

fn per_op(outcome: &Outcome, value: f64) -> f64 {
    round(value / outcome.ops.max(1) as f64, 4)
}

fn per_user_byte(outcome: &Outcome, bytes: u64) -> Option<f64> {
    let user = outcome.user_bytes_written;
    (user > 0).then(|| round(bytes as f64 / user as f64, 4))
}

/// One in how many operations was timed.
fn latency_of_every(config: &Config, outcome: &Outcome) -> Option<u32> {
    outcome.histogram.as_ref()?;
    Some(if config.latency() == Latency::Sampled { SAMPLE } else { 1 })
}
