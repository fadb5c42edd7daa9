//! `watch NAME`: what commits change, as a change stream gives it.

use std::path::Path;
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::{Value, json};
use strandline::{
    Changed, Error, ErrorKind, Inspector, Seq, Stream, StreamBatch, StreamOptions, StreamedChange,
    parse_size,
};

use crate::context::{Context, IfMissing};
use crate::failure::{Failure, OK, Outcome};
use crate::output::Out;

#[derive(Args)]
pub struct WatchArgs {
    /// Name of the stream
    name: String,
    /// Make the stream if there is none: it gives what is written from now on
    #[arg(long)]
    create: bool,
    /// Bytes that may be kept for a stream that is made [default: an eighth of the memory for records]
    #[arg(long, value_name = "SIZE", requires = "create")]
    max_bytes: Option<String>,
    /// End when all that has gathered is printed
    #[arg(long)]
    once: bool,
    /// Acknowledge nothing: it comes again
    #[arg(long)]
    keep: bool,
    /// Where changes are lost, since the stream lagged too far, go on behind them
    #[arg(long, conflicts_with = "keep")]
    skip_lost: bool,
}

/// Commits that are printed before they are acknowledged.
const GROUP: usize = 256;
/// Between two looks for what is new.
const PAUSE: Duration = Duration::from_millis(50);
/// A store that no process seems to have opened is looked at again after so long.
const LOOK: Duration = Duration::from_secs(10);

/// Where the stream is read.
enum Source {
    /// The store is open here.
    Opened(Box<Stream>),
    /// Another process has it open.
    Running(Inspector),
}

/// Why a source gives no more.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ended {
    CaughtUp,
    /// The process that had the store open has ended.
    Gone,
}

pub fn run(context: &Context, args: &WatchArgs) -> Outcome {
    let mut given = Seq::ZERO;
    loop {
        let ended = {
            let mut source = Source::reach(context, args)?;
            follow(context, args, &mut source, &mut given)?
        };
        if args.once && ended == Ended::CaughtUp {
            return Ok(OK);
        }
        // No one else writes to a store that is open here: it is closed until others have had it.
        if ended == Ended::CaughtUp {
            await_others(&context.db);
        }
    }
}

/// Waits until another process opens the store, or has had it open.
fn await_others(dir: &Path) {
    // A process makes its socket in this directory, and removes it.
    let changed = || std::fs::metadata(dir).and_then(|meta| meta.modified()).ok();
    let (before, began) = (changed(), Instant::now());
    while Inspector::connect(dir).is_err() && changed() == before && began.elapsed() < LOOK {
        std::thread::sleep(PAUSE);
    }
}

/// Prints what a source gives, and acknowledges it.
fn follow(
    context: &Context,
    args: &WatchArgs,
    source: &mut Source,
    given: &mut Seq,
) -> Result<Ended, Failure> {
    loop {
        let batches = match source.next(&args.name, *given) {
            Err(error) if error.kind() == ErrorKind::ChangesLost && args.skip_lost => {
                let oldest = error.oldest().unwrap_or_default();
                context.stderr().note(
                    format_args!("strandline: lost: changes before {oldest}"),
                    &json!({ "lost": { "before": oldest.get() } }),
                );
                source.ack(&args.name, oldest.previous())?;
                continue;
            }
            Err(error) if source.is_gone(context, &error) => return Ok(Ended::Gone),
            batches => batches?,
        };
        let Some(last) = batches.last().map(|batch| batch.last) else {
            if args.once || matches!(source, Source::Opened(..)) {
                return Ok(Ended::CaughtUp);
            }
            std::thread::sleep(PAUSE);
            continue;
        };
        let mut out = Out::new();
        batches.iter().try_for_each(|batch| print(context, batch, &mut out))?;
        out.finish()?;
        *given = last;
        if !args.keep {
            match source.ack(&args.name, last) {
                // What was printed comes again.
                Err(error) if source.is_gone(context, &error) => return Ok(Ended::Gone),
                acked => acked?,
            }
        }
    }
}

impl Source {
    fn reach(context: &Context, args: &WatchArgs) -> Result<Source, Failure> {
        let opened = match args.keep && !args.create {
            true => context.read(),
            false => context.write(IfMissing::Fail),
        };
        match opened {
            Ok(db) => {
                let stream = match db.stream(&args.name) {
                    Err(error) if args.create && error.kind() == ErrorKind::NotFound => {
                        db.create_stream(&args.name, options(args)?)?
                    }
                    Err(error) if error.kind() == ErrorKind::NotFound => {
                        return Err(no_stream(&args.name).into());
                    }
                    stream => stream?,
                };
                Ok(Source::Opened(Box::new(stream)))
            }
            Err(Failure::Engine(busy)) if busy.kind() == ErrorKind::Busy => {
                let Ok(inspector) = Inspector::connect(&context.db) else {
                    return Err(busy.into());
                };
                let streams = inspector.properties()?.streams;
                if !streams.iter().any(|stream| stream.name == args.name) {
                    if !args.create {
                        return Err(no_stream(&args.name).into());
                    }
                    inspector.create_stream(&args.name, &options(args)?)?;
                }
                Ok(Source::Running(inspector))
            }
            Err(failure) => Err(failure),
        }
    }

    /// Some commits behind `given`; none if there are none now.
    fn next(&mut self, name: &str, given: Seq) -> strandline::Result<Vec<StreamBatch>> {
        match self {
            Source::Opened(stream) => {
                let mut batches = Vec::new();
                while batches.len() < GROUP {
                    match stream.poll() {
                        Ok(Some(batch)) if batch.last > given => batches.push(batch),
                        Ok(Some(_)) => {}
                        Ok(None) => break,
                        // What comes before it is given first; it is met again.
                        Err(_) if !batches.is_empty() => break,
                        Err(error) => return Err(error),
                    }
                }
                Ok(batches)
            }
            Source::Running(inspector) => inspector.read_stream(name, given),
        }
    }

    fn ack(&self, name: &str, seq: Seq) -> strandline::Result<()> {
        match self {
            Source::Opened(stream) => stream.ack(seq),
            Source::Running(inspector) => inspector.ack_stream(name, seq),
        }
    }

    /// Whether `error` came because the process that had the store open has ended, or closed it.
    fn is_gone(&self, context: &Context, error: &Error) -> bool {
        let may_be = matches!(error.kind(), ErrorKind::Closed | ErrorKind::NotFound);
        matches!(self, Source::Running(_)) && may_be && Inspector::connect(&context.db).is_err()
    }
}

fn options(args: &WatchArgs) -> Result<StreamOptions, Failure> {
    let Some(text) = &args.max_bytes else { return Ok(StreamOptions::new()) };
    let bytes = parse_size(text).ok_or_else(|| {
        Failure::Usage(format!("--max-bytes {text}: expected a size, such as 64M"))
    })?;
    Ok(StreamOptions::new().max_bytes(bytes))
}

fn no_stream(name: &str) -> Error {
    let text = format!("no stream {name}; make it with --create, or see `strandline streams`");
    Error::new(ErrorKind::NotFound, "watch", text)
}

fn print(context: &Context, batch: &StreamBatch, out: &mut Out) -> Result<(), Failure> {
    if context.json {
        let changes: Vec<Value> =
            batch.changes.iter().map(|change| change_json(context, change)).collect();
        return out.json(&json!({
            "number": batch.number.get(),
            "last": batch.last.get(),
            "changes": changes,
        }));
    }
    for change in &batch.changes {
        let mut line = change.seq.to_string().into_bytes();
        let mut field = |bytes: &[u8]| {
            line.push(b'\t');
            context.form.print(bytes, &mut line);
        };
        let (is, fields) = described(&change.what);
        field(change.keyspace.as_bytes());
        field(is.as_bytes());
        fields.into_iter().for_each(|(_, bytes)| field(bytes));
        line.push(b'\n');
        out.bytes(&line)?;
    }
    Ok(())
}

/// What a change is called, and the byte strings that it has.
fn described(what: &Changed) -> (&'static str, Vec<(&'static str, &[u8])>) {
    match what {
        Changed::Put { key, value, .. } => ("put", vec![("key", key), ("value", value)]),
        Changed::Delete { key } => ("delete", vec![("key", key)]),
        Changed::DeleteRange { begin, end } => {
            ("delete-range", vec![("begin", begin), ("end", end)])
        }
        Changed::Merge { key, operand } => ("merge", vec![("key", key), ("operand", operand)]),
        Changed::KeyspaceCreated => ("keyspace-created", Vec::new()),
        Changed::KeyspaceDropped => ("keyspace-dropped", Vec::new()),
        Changed::Ingested { smallest, largest, .. } => {
            ("ingested", vec![("smallest", smallest), ("largest", largest)])
        }
        _ => ("unknown", Vec::new()),
    }
}

fn change_json(context: &Context, change: &StreamedChange) -> Value {
    let (is, fields) = described(&change.what);
    let mut object = serde_json::Map::new();
    object.insert("seq".into(), change.seq.get().into());
    object.insert("keyspace".into(), (*change.keyspace).into());
    object.insert("is".into(), is.into());
    for (name, bytes) in fields {
        object.insert(name.into(), context.form.json(bytes));
    }
    match &change.what {
        Changed::Put { expires: Some(expires), .. } => {
            let millis = u64::try_from(expires.as_millis()).unwrap_or(u64::MAX);
            object.insert("expires_ms".into(), millis.into());
        }
        Changed::Ingested { tables, entries, .. } => {
            object.insert("tables".into(), (*tables).into());
            object.insert("entries".into(), (*entries).into());
        }
        _ => {}
    }
    Value::Object(object)
}
