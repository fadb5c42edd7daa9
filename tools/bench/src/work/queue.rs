//! A queue: messages are appended at the tail, and the first is sought and deleted.

use std::time::Duration;

use super::done::Done;
use super::seek::seek_first;
use crate::bench::{Bench, Crew};
use crate::config::Latency;
use crate::data::keys::{Form, Keys};
use crate::words::{micros, told};
use crate::worker::Worker;

/// Seeks of the empty queue whose mean is told.
const SEEKS: u32 = 100;

/// One thread is both ends of the queue. Each seek is timed, with a new iterator, as a consumer would make it.
pub(super) fn queue(bench: &mut Bench) -> Result<Done, String> {
    let latency = bench.config.latency.replace(Latency::Off);
    let seeks = std::sync::Mutex::new(Seeks::default());
    let crew = Crew { threads: 1, aside: None };
    let measured = bench.measure("queue", crew, &|worker| {
        let taken = run(worker)?;
        *seeks.lock().map_err(|error| error.to_string())? = taken;
        Ok(())
    });
    bench.config.latency = latency;
    let mut outcome = measured?;
    let seeks = seeks.into_inner().map_err(|error| error.to_string())?;
    let depth = bench.config.queue_depth;
    let mean = micros(seeks.sum / u32::try_from(seeks.count).unwrap_or(u32::MAX).max(1), 2);
    outcome.message = format!(
        "(depth {depth}; seek to first {mean} us, longest {} us; drained: first {} us, then {} us)",
        micros(seeks.longest, 2),
        micros(seeks.drained_first, 2),
        micros(seeks.drained, 2),
    );
    outcome.note("queue_depth", depth);
    outcome.note("seek_mean_us", mean);
    outcome.note("seek_longest_us", micros(seeks.longest, 2));
    outcome.note("drained_first_us", micros(seeks.drained_first, 2));
    outcome.note("drained_seek_us", micros(seeks.drained, 2));
    outcome.note("scans_passed", bench.store.db()?.properties().scans_passed);
    Ok(outcome.into())
}

/// What seeks took.
#[derive(Default)]
struct Seeks {
    count: u64,
    sum: Duration,
    longest: Duration,
    /// The first of the drained queue, and the mean of those behind it.
    drained_first: Duration,
    drained: Duration,
}

fn run(worker: &mut Worker<'_>) -> Result<Seeks, String> {
    let keys = Keys { form: Form::Number, size: worker.config.key_size };
    let (messages, depth) = (worker.config.num, worker.config.queue_depth);
    let (mut tail, mut head, mut values) = (Vec::new(), Vec::new(), worker.values());
    let space = worker.db.default_keyspace();
    let mut seeks = Seeks::default();
    for message in 0..messages + depth {
        if message < messages {
            keys.write(message, &mut tail);
            let value = values.next(message);
            space.put(&tail, value).map_err(told)?;
            worker.wrote(tail.len() + value.len());
            worker.tally.ops += 1;
        }
        let Some(first) = message.checked_sub(depth) else { continue };
        keys.write(first, &mut head);
        let took = seek_first(space, Some(&head))?;
        seeks.count += 1;
        seeks.sum += took;
        seeks.longest = seeks.longest.max(took);
        space.delete(&head).map_err(told)?;
        worker.tally.reads += 1;
        worker.tally.found += 1;
        worker.tally.ops += 1;
    }
    seeks.drained_first = seek_first(space, None)?;
    for _ in 0..SEEKS {
        seeks.drained += seek_first(space, None)?;
    }
    seeks.drained /= SEEKS;
    Ok(seeks)
}
