//! `advise`: how much DRAM and persistent memory should cache the data of a trace, at given prices.

use std::path::PathBuf;

use bench::advise::{Advice, AdviceRequest, CacheSplit, Goal, Prices};
use clap::Args;
use serde_json::{Value, json};
use strandline::{Options, PmModel, SsdModel};

use crate::context::Context;
use crate::failure::{Failure, NEGATIVE, OK, Outcome};
use crate::human;
use crate::output::Out;

/// Models of devices, where the command line names no others.
const PM: &str = "optane-100x6-delta";
const SSD: &str = "nvme-tlc";
/// Splits of the front that are printed as text.
const FRONT_ROWS: usize = 12;

#[derive(Args)]
pub struct AdviseArgs {
    /// The trace, of bench --trace or Db::start_trace
    #[arg(long, value_name = "FILE")]
    trace: PathBuf,
    /// What a GiB costs, in any currency: dram=4,pm=2,ssd=0.1; there are no defaults
    #[arg(long, value_name = "PRICES", value_parser = prices)]
    prices: Option<Prices>,
    /// What is to be reached by one thread: throughput=READS_PER_SECOND, or latency=TIME (such as 5us); without it the best are those
    /// with the least of price times time
    #[arg(long, value_name = "GOAL", value_parser = goal)]
    goal: Option<Goal>,
    /// Keys that are sampled at most: more make the curve truer, and take memory
    #[arg(long, value_name = "COUNT", default_value = "16384", value_parser = clap::value_parser!(u64).range(1..=1 << 30))]
    samples: u64,
    /// Draw the miss-ratio curve into this file
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

fn prices(text: &str) -> Result<Prices, String> {
    let example = "give a price per GiB for each, such as dram=4,pm=2,ssd=0.1";
    let mut given = [None; 3];
    for part in text.split(',') {
        let wrong = || format!("{part:?} is no price; {example}");
        let (name, price) = part.split_once('=').ok_or_else(wrong)?;
        let at = ["dram", "pm", "ssd"].iter().position(|known| *known == name);
        let price = price.parse().ok().filter(|price| (0.0..=1e12).contains(price));
        given[at.ok_or_else(wrong)?] = Some(price.ok_or_else(wrong)?);
    }
    match given {
        [Some(dram), Some(pm), Some(ssd)] => Ok(Prices { dram, pm, ssd }),
        _ => Err(format!("a price is missing; {example}")),
    }
}

fn goal(text: &str) -> Result<Goal, String> {
    let wrong = || {
        format!(
            "{text:?} is no goal; give throughput=100000 (reads a second) or latency=5us (ns, us, ms or s)"
        )
    };
    let (name, value) = text.split_once('=').ok_or_else(wrong)?;
    let number =
        |text: &str| text.parse::<f64>().ok().filter(|number| *number > 0.0 && number.is_finite());
    match name {
        "throughput" => number(value).map(Goal::Throughput),
        "latency" => {
            let units = [("ns", 1e-9), ("us", 1e-6), ("ms", 1e-3), ("s", 1.0)];
            let with_unit =
                |(unit, scale): &(&str, f64)| Some(number(value.strip_suffix(unit)?)? * scale);
            units.iter().find_map(with_unit).map(Goal::Latency)
        }
        _ => None,
    }
    .ok_or_else(wrong)
}

/// The models that the options name, or else the defaults.
fn models(options: &Options) -> Result<(PmModel, SsdModel), Failure> {
    let pm = options.pm_model.clone().map_or_else(|| PM.parse(), Ok)?;
    let ssd = options.ssd_model.clone().map_or_else(|| SSD.parse(), Ok)?;
    Ok((pm, ssd))
}

pub fn run(context: &Context, args: &AdviseArgs) -> Outcome {
    let prices = args.prices.ok_or_else(|| {
        let text = "--prices: there are no defaults; give yours per GiB, such as --prices dram=4,pm=2,ssd=0.1";
        Failure::Usage(text.into())
    })?;
    let (pm, ssd) = models(&context.options)?;
    let request = AdviceRequest {
        trace: args.trace.clone(),
        prices,
        goal: args.goal,
        pm,
        ssd,
        keys_max: usize::try_from(args.samples).unwrap_or(usize::MAX),
    };
    let advice = Advice::on(&request).map_err(Failure::Other)?;
    if let Some(text) = &advice.early_end {
        context.stderr().note(format_args!("advise: {text}"), &json!({ "note": text }));
    }
    if let Some(path) = &args.svg {
        std::fs::write(path, advice.svg()).map_err(|error| {
            Failure::Other(format!("writing {}: {error}; name another file", path.display()))
        })?;
    }
    let mut out = Out::new();
    if context.json {
        out.json(&to_json(&request, &advice))?;
    } else {
        print(&request, &advice, &mut out)?;
    }
    out.finish()?;
    Ok(if advice.best.is_empty() { NEGATIVE } else { OK })
}

fn basis(request: &AdviceRequest) -> String {
    format!("simulated (pm: {}, ssd: {})", request.pm, request.ssd)
}

fn to_json(request: &AdviceRequest, advice: &Advice) -> Value {
    let splits = |splits: &[CacheSplit]| splits.iter().map(split_json).collect::<Vec<Value>>();
    let counts = advice.counts;
    let points = advice.curve.iter();
    let curve = points.map(|at| json!({ "bytes": at.bytes.round(), "miss_ratio": at.miss_ratio }));
    json!({
        "basis": basis(request),
        "trace": {
            "reads": counts.reads,
            "all_reads": counts.all_reads,
            "absent": counts.absent,
            "writes": counts.writes,
            "left_out": counts.left_out,
            "one_of": advice.one_of,
            "early_end": advice.early_end,
        },
        "keys_sampled": advice.keys,
        "objects": advice.objects.round(),
        "bytes": advice.bytes.round(),
        "object_bytes": advice.object_bytes,
        "read_ns": {
            "dram": advice.times.dram * 1e9,
            "pm": advice.times.pm * 1e9,
            "ssd": advice.times.ssd * 1e9,
        },
        "goal_ns": request.goal.map(|goal| goal.seconds() * 1e9),
        "best": splits(&advice.best),
        "front": splits(&advice.front),
        "curve": curve.collect::<Vec<Value>>(),
    })
}

fn split_json(split: &CacheSplit) -> Value {
    json!({
        "dram_bytes": split.dram.round(),
        "pm_bytes": split.pm.round(),
        "dram_hits": split.dram_hits,
        "pm_hits": split.pm_hits,
        "mean_ns": split.seconds * 1e9,
        "reads_per_sec": split.rate(),
        "price": split.price,
    })
}

fn print(request: &AdviceRequest, advice: &Advice, out: &mut Out) -> Result<(), Failure> {
    let counts = advice.counts;
    let us = |seconds: f64| format!("{:.3} us", seconds * 1e6);
    let bytes = |bytes: f64| human::bytes(bytes as u64);
    let of = match advice.one_of {
        1 => String::new(),
        keys => format!("; of one of {keys} keys, {} reads in all", human::count(counts.all_reads)),
    };
    out.rows(&[
        ("figures", basis(request)),
        (
            "trace",
            format!(
                "{} reads, {} of absent keys, {} writes; {} seeks and range deletions left out{of}",
                human::count(counts.reads),
                human::count(counts.absent),
                human::count(counts.writes),
                human::count(counts.left_out)
            ),
        ),
        (
            "data",
            format!(
                "{} in {} objects, by {} keys; {:.0} B of one that is read",
                bytes(advice.bytes),
                human::count(advice.objects as u64),
                human::count(advice.keys as u64),
                advice.object_bytes
            ),
        ),
        (
            "a read",
            format!(
                "{} from DRAM, {} from PM, {} from SSD",
                us(advice.times.dram),
                us(advice.times.pm),
                us(advice.times.ssd)
            ),
        ),
    ])?;
    match request.goal {
        Some(goal) if advice.best.is_empty() => {
            let fastest = advice.front.last().map_or(0.0, |split| split.seconds);
            let (wanted, fastest) = (us(goal.seconds()), us(fastest));
            out.line(format_args!(
                "\nNo split reaches {wanted}: the fastest takes {fastest}. Lower the goal, or name faster devices."
            ))?;
        }
        Some(goal) => {
            out.line(format_args!("\nThe cheapest with a mean of at most {}", us(goal.seconds())))?;
            table(&advice.best, out)?;
        }
        None => {
            out.line("\nThe least of price times time")?;
            table(&advice.best, out)?;
        }
    }
    out.line("\nNone other is both cheaper and faster")?;
    // Evenly, with both ends.
    let (front, last) = (&advice.front, advice.front.len().saturating_sub(1));
    let rows = FRONT_ROWS.min(front.len());
    let shown = (0..rows).map(|row| front[row * last / rows.saturating_sub(1).max(1)]);
    table(&shown.collect::<Vec<_>>(), out)
}

fn table(splits: &[CacheSplit], out: &mut Out) -> Result<(), Failure> {
    let heads = ["DRAM", "PM", "DRAM hits", "PM hits", "mean us", "reads/s", "price"];
    let mut rows = vec![heads.map(String::from).to_vec()];
    rows.extend(splits.iter().map(|split| {
        vec![
            human::bytes(split.dram as u64),
            human::bytes(split.pm as u64),
            format!("{:.4}", split.dram_hits),
            format!("{:.4}", split.pm_hits),
            format!("{:.3}", split.seconds * 1e6),
            format!("{:.0}", split.rate()),
            format!("{:.4}", split.price),
        ]
    }));
    out.table(&rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_and_goals_are_taken_or_refused_with_an_example() {
        let wanted = Prices { dram: 4.0, pm: 2.5, ssd: 0.0 };
        assert_eq!(prices("ssd=0,dram=4,pm=2.5"), Ok(wanted));
        for wrong in
            ["", "dram=4", "dram=4,pm=2", "dram=x,pm=1,ssd=1", "dram=-1,pm=1,ssd=1", "disk=1"]
        {
            assert!(prices(wrong).expect_err(wrong).contains("such as dram="), "{wrong}");
        }
        assert_eq!(goal("throughput=1e5"), Ok(Goal::Throughput(1e5)));
        assert_eq!(goal("latency=5us"), Ok(Goal::Latency(5.0 * 1e-6)));
        for wrong in [
            "",
            "latency",
            "latency=5",
            "latency=0us",
            "throughput=-1",
            "speed=1",
            "throughput=inf",
        ] {
            assert!(goal(wrong).expect_err(wrong).contains("latency=5us"), "{wrong}");
        }
    }
}
