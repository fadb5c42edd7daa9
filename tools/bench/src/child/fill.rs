//! A child that fills a store with single puts, says so, and waits for its end.

use std::io::{BufRead, BufReader};

use super::Running;
use crate::bench::Bench;
use crate::data::order::Order;
use crate::flags;
use crate::report::say;

const READY: &str = "filled";

/// The child's side: puts `num` keys, each once, in random order.
pub(super) fn run(args: &[String]) -> Result<(), String> {
    let (config, _) = flags::parse(args)?;
    let mut bench = Bench::new(config)?;
    let db = bench.store.db()?;
    let (keys, mut key) = (bench.config.keys(), Vec::new());
    let mut values = bench.source.values(0, true);
    let mut order = Order::permuted(bench.config.num, bench.config.seed);
    for _ in 0..bench.config.num {
        let number = order.next();
        keys.write(number, &mut key);
        db.put(&key, values.next(number)).map_err(|error| error.to_string())?;
    }
    say(READY)?;
    // Until the parent kills this process, or is gone itself.
    loop {
        std::thread::sleep(std::time::Duration::from_millis(100));
        say("")?;
    }
}

/// The parent's side: lets a child fill the store with `records` keys, then kills it.
pub(crate) fn fill_and_kill(bench: &Bench, records: u64) -> Result<(), String> {
    let further = [format!("--num={records}")];
    let (path, options) = (bench.store.path(), bench.store.options());
    let (mut child, output) =
        Running::start(&["--child-fill".into()], &bench.config, path, options, &further)?;
    let mut line = String::new();
    let read = BufReader::new(output).read_line(&mut line);
    if read.is_err() || line.trim() != READY {
        return Err("the child process that fills the store failed; its message is above".into());
    }
    child.kill()
}
