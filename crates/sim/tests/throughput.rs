//! How many images a core gets through: run with `--release --ignored --nocapture`.

#[path = "tables/mod.rs"]
mod tables;
#[path = "toy/mod.rs"]
mod toy;

use std::time::Instant;

use sim::{Lazily, Limits, Mode, Shape, System, campaign};
use tables::Tables;
use toy::Toy;

#[test]
#[ignore = "a measurement, not a check"]
fn images_per_second() {
    let shape = Shape { batches: 25, value_lens: vec![8, 60], ..Shape::default() };
    let deep = Limits { levels: 2, ..Limits::default() };
    let shallow = Limits { levels: 1, continue_one_in: 0, ..Limits::default() };
    let lazy = Limits { lazily: Lazily::Instead(20_000), ..shallow.clone() };
    for (name, limits) in [("recover only", shallow), ("two levels", deep), ("lazy", lazy)] {
        for len in [4 << 10, 32 << 10, 256 << 10] {
            measure(
                &format!("{name}, {} KiB", len >> 10),
                &Toy { len, bug: None },
                &shape,
                &limits,
            );
        }
        measure(&format!("{name}, with files"), &Tables { bug: None }, &shape, &limits);
    }
}

fn measure<S: System>(name: &str, system: &S, shape: &Shape, limits: &Limits) {
    let start = Instant::now();
    let counters = campaign(system, shape, Mode::Adr, 0..20, limits)
        .unwrap_or_else(|failure| panic!("{failure}"));
    let seconds = start.elapsed().as_secs_f64();
    let totals = counters.totals;
    let recoveries = totals.recoveries + totals.lazy_leaves;
    println!(
        "{name:>24}: {:>9.0} images/s, {:>8.0} recoveries/s ({recoveries} in {seconds:.2} s)",
        (totals.images + totals.lazy_leaves) as f64 / seconds,
        recoveries as f64 / seconds,
    );
}
