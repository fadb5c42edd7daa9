//! `streams`: the change streams of a store, and how far each is.

use clap::Args;
use serde_json::{Value, json};
use strandline::{ErrorKind, Inspector, StreamFigures};

use crate::context::{Context, IfMissing};
use crate::failure::{Failure, OK, Outcome};
use crate::human;
use crate::look::{self, Look};
use crate::output::Out;
use crate::render::keyspace;

#[derive(Args)]
pub struct StreamsArgs {
    /// Drop this stream, with what is kept for it
    #[arg(long, value_name = "NAME")]
    drop: Option<String>,
}

pub fn run(context: &Context, args: &StreamsArgs) -> Outcome {
    if let Some(name) = &args.drop {
        drop_stream(context, name)?;
        let line = format!("dropped stream {}", keyspace::name(name));
        context.report(line, &json!({ "dropped": name }))?;
        return Ok(OK);
    }
    let streams = look::ask(context, Look::properties)?.streams;
    let mut out = Out::new();
    if context.json {
        let streams: Vec<Value> = streams.iter().map(figures_json).collect();
        out.json(&json!({ "streams": streams }))?;
    } else if streams.is_empty() {
        out.line("no streams")?;
    } else {
        out.table(&rows(&streams))?;
    }
    out.finish()?;
    Ok(OK)
}

fn drop_stream(context: &Context, name: &str) -> Result<(), Failure> {
    match context.write(IfMissing::Fail) {
        Ok(db) => Ok(db.drop_stream(name)?),
        Err(Failure::Engine(busy)) if busy.kind() == ErrorKind::Busy => {
            match Inspector::connect(&context.db) {
                Ok(inspector) => Ok(inspector.drop_stream(name)?),
                Err(_) => Err(busy.into()),
            }
        }
        Err(failure) => Err(failure),
    }
}

/// A row for each stream behind one that names the columns.
pub fn rows(streams: &[StreamFigures]) -> Vec<Vec<String>> {
    let head = ["stream", "acknowledged", "behind", "backlog", "held", "at most", "lost"];
    let row = |of: &StreamFigures| {
        vec![
            keyspace::name(&of.name),
            of.acked.to_string(),
            of.behind.to_string(),
            human::bytes(of.backlog_bytes),
            human::bytes(of.held_bytes),
            human::bytes(of.max_bytes),
            if of.lost > of.acked { format!("up to {}", of.lost) } else { "nothing".into() },
        ]
    };
    std::iter::once(head.map(str::to_owned).to_vec()).chain(streams.iter().map(row)).collect()
}

pub fn figures_json(of: &StreamFigures) -> Value {
    json!({
        "name": of.name,
        "acked": of.acked.get(),
        "lost": of.lost.get(),
        "behind": of.behind,
        "backlog_bytes": of.backlog_bytes,
        "held_bytes": of.held_bytes,
        "max_bytes": of.max_bytes,
    })
}
