//! A child that fills a store with single puts, says so, and waits for its end.

use std::io::{BufRead, BufReader};
use std::time::Instant;

use super::process::Running;
use crate::bench::Bench;
use crate::data::order::{Order, Share};
use crate::data::values::Marking;
use crate::flags;
use crate::report::say;
use crate::words::told;

const READY: &str = "filled";

/// The child's side: puts `num` keys, each once, in random order, from as many threads as recovery uses.
pub(crate) fn run(args: &[String]) -> Result<(), String> {
    let (config, _) = flags::parse(args)?;
    let mut bench = Bench::new(config)?;
    let db = bench.store.db()?;
    let (bench, threads) = (&bench, bench.store.recovery_threads());
    let put = |no: u64| {
        let share = Share { no, of: threads };
        let (keys, mut key) = (bench.config.keys(), Vec::new());
        let mut values = bench.source.values(no as usize, Marking::Telling);
        let mut order = Order::shared_out(bench.config.num, bench.config.seed, share);
        for _ in 0..share.len(bench.config.num) {
            let number = order.next();
            keys.write(number, &mut key);
            db.put(&key, values.next(number)).map_err(told)?;
        }
        Ok(())
    };
    let began = Instant::now();
    let filled: Result<(), String> = std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|no| scope.spawn(move || put(no))).collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, _>| {
            thread.join().unwrap_or_else(|_| Err("a thread failed".into()))
        };
        running.into_iter().try_for_each(join)
    });
    filled?;
    say(&format!("{READY} {}", began.elapsed().as_secs_f64()))?;
    // Until the parent kills this process, or is gone itself.
    loop {
        std::thread::sleep(std::time::Duration::from_millis(100));
        say("")?;
    }
}

/// The parent's side: lets a child fill the store with `records` keys, then kills it. Returns the seconds that the puts
/// took.
pub(crate) fn fill_and_kill(bench: &Bench, records: u64) -> Result<f64, String> {
    let further = [format!("--num={records}")];
    let (path, options) = (bench.store.path(), bench.store.options());
    let (mut child, output) =
        Running::start(&["--child-fill".into()], &bench.config, path, options, &further)?;
    let mut line = String::new();
    let read = BufReader::new(output).read_line(&mut line);
    let seconds = line.trim().strip_prefix(READY).and_then(|seconds| seconds.trim().parse().ok());
    match seconds.filter(|_| read.is_ok()) {
        Some(seconds) => child.kill().map(|()| seconds),
        None => Err("the child process that fills the store failed; its message is above".into()),
    }
}
