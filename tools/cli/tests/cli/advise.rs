//! advise: from a trace to sizes of caches.

use serde_json::Value;

use crate::store::Store;

const PRICES: &str = "dram=4,pm=1,ssd=0.1";

/// A store with a trace of skewed reads of 5000 keys of 16 bytes, with values of 100.
fn traced(flags: &[&str]) -> Store {
    let store = Store::new();
    let work = [
        "bench",
        "--pm=heap",
        "--pm_size=64M",
        "--num=5000",
        "--reads=100000",
        "--benchmarks=filluniquerandom,readrandom",
        "--draw=zipf",
        "--trace=reads",
    ];
    store.run(&[&work[..], flags].concat()).ok();
    store
}

fn advice(store: &Store, args: &[&str]) -> Value {
    let all = ["advise", "--trace=reads", "--prices", PRICES, "--json"];
    store.run(&[&all[..], args].concat()).ok().json()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value}"))
}

/// Where the curve is at about so many bytes.
fn miss_ratio(advice: &Value, bytes: f64) -> f64 {
    let curve = advice["curve"].as_array().expect("a curve");
    let point = curve.iter().find(|point| number(&point["bytes"]) >= bytes);
    number(&point.expect("a point")["miss_ratio"])
}

#[test]
fn a_trace_leads_to_the_cheapest_split_that_is_fast_enough() {
    let store = traced(&[]);
    let advice = advice(&store, &["--goal", "latency=20us", "--svg", "curve.svg"]);
    assert_eq!(advice["basis"], "simulated (pm: optane-100x6-delta, ssd: nvme-tlc)");
    assert_eq!(
        (&advice["trace"]["reads"], &advice["object_bytes"]),
        (&100_000.into(), &116.0.into())
    );
    // Each key is read; the first read of each is a miss.
    assert!((4700.0..=5000.0).contains(&number(&advice["objects"])), "{advice}");
    let cold = number(&advice["objects"]) / 1e5;
    assert!((miss_ratio(&advice, number(&advice["bytes"])) - cold).abs() < 0.001, "{advice}");
    let best = advice["best"].as_array().expect("splits");
    assert!((1..=10).contains(&best.len()));
    assert!(best.iter().all(|split| number(&split["mean_ns"]) <= 20_000.0), "{advice}");
    let front = advice["front"].as_array().expect("splits");
    let fast = front.iter().find(|split| number(&split["mean_ns"]) <= 20_000.0);
    assert_eq!(fast.expect("one")["price"], best[0]["price"]);
    let svg = std::fs::read_to_string(store.dir().join("curve.svg")).expect("it is there");
    assert!(svg.starts_with("<svg ") && svg.contains("(simulated)"), "{svg}");
    assert!(svg.contains("<polyline points=") && svg.ends_with("</svg>\n"), "{svg}");
    let text = store.run(&["advise", "--trace=reads", "--prices", PRICES]).ok().text();
    for part in [
        "figures",
        "simulated",
        "100,000 reads",
        "0.182 us from DRAM",
        "DRAM hits",
        "The least of price",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
}

/// Fewer keys, by the trace or here, tell nearly the same.
#[test]
fn a_sample_of_keys_is_enough() {
    let whole = advice(&traced(&[]), &[]);
    let few = advice(&traced(&[]), &["--samples=1000"]);
    assert_eq!(few["keys_sampled"], 1000);
    let sampled = advice(&traced(&["--trace_one_of=4"]), &[]);
    assert_eq!(sampled["trace"]["one_of"], 4);
    assert_eq!(sampled["trace"]["all_reads"], 100_000);
    for part in [0.05, 0.2, 0.6] {
        let bytes = part * number(&whole["bytes"]);
        let of = |advice: &Value| miss_ratio(advice, bytes);
        for sample in [&few, &sampled] {
            assert!(
                (of(&whole) - of(sample)).abs() < 0.05,
                "{part}: {} {}",
                of(&whole),
                of(sample)
            );
        }
    }
}

/// Devices are those that the options of the store name.
#[test]
fn devices_are_named_as_elsewhere() {
    let store = traced(&[]);
    let models = ["--pm-model=cxl-dram-delta", "--ssd-model", "optane-ssd,read=20us"];
    let advice = advice(&store, &models);
    assert_eq!(advice["basis"], "simulated (pm: cxl-dram-delta, ssd: optane-ssd,read=20us)");
    assert!((20_000.0..22_000.0).contains(&number(&advice["read_ns"]["ssd"])), "{advice}");
    let args = ["advise", "--trace=reads", "--prices", PRICES];
    store.run(&[&args[..], &["--pm-model=floppy"]].concat()).failed(2, "no model floppy");
    store.run(&[&args[..], &["--pm-size=1G"]].concat()).failed(2, "advise takes no --pm-size");
}

#[test]
fn advice_is_refused_with_a_remedy() {
    let store = traced(&[]);
    store
        .run(&["advise", "--trace=reads"])
        .failed(2, "--prices: there are no defaults; give yours");
    let priced = |args: &[&str]| store.run(&[&["advise", "--prices", PRICES][..], args].concat());
    priced(&["--trace=none"]).failed(3, "make a trace with bench --trace");
    assert_eq!(priced(&["--trace=reads", "--goal=latency=5"]).code, 2);
    let prices = store.run(&["advise", "--trace=reads", "--prices=dram=4"]);
    assert!(
        prices.code == 2 && prices.err.contains("such as dram=4,pm=2,ssd=0.1"),
        "{}",
        prices.err
    );
    let unreached = priced(&["--trace=reads", "--goal=latency=1ns"]);
    assert!(
        unreached.code == 1
            && unreached.text().contains("No split reaches 0.001 us: the fastest takes")
    );
    let svg = ["--trace=reads", "--svg=no/such/file"];
    priced(&svg).failed(3, "writing no/such/file");
    let work = [
        "bench",
        "--pm=heap",
        "--pm_size=64M",
        "--num=100",
        "--benchmarks=fillseq",
        "--trace=puts",
    ];
    store.run(&work).ok();
    priced(&["--trace=puts"]).failed(3, "puts has no gets that found a value");
}
