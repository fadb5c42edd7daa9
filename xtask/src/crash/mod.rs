//! `cargo xtask crash`: campaigns that cut the power, and mutants that they must notice.

mod system;

use sim::{Limits, Mode, Shape};
use system::{Engine, KINDS};

pub fn run(args: &[String]) -> Result<(), String> {
    let n: u64 = args.first().and_then(|s| s.parse().ok()).unwrap_or(20);
    let engine = Engine { zones: 24, memtable_bytes: 700, planted: None };
    let shape = Shape {
        ops: 8,
        keys: 4,
        keyspaces: 2,
        value_lens: vec![8, 16, 90],
        batches: 20,
        reads: 10,
        abandons: 5,
        background: 15,
        kinds: KINDS,
        reopens: 3,
        ..Shape::default()
    };
    let limits = Limits::default();
    let begun = std::time::Instant::now();
    let counters =
        sim::campaign(&engine, &shape, Mode::Adr, 0..n, &limits).map_err(|failure| failure.to_string())?;
    println!("{counters}");
    println!("{:?}", begun.elapsed());
    Ok(())
}
