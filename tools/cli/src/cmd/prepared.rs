//! `prepared`: transactions that wait for a decision.

use clap::{Args, Subcommand};
use serde_json::json;
use strandline::{Error, ErrorKind, PreparedTransaction};

use crate::context::{Context, IfMissing};
use crate::failure::{Failure, OK, Outcome};
use crate::output::Out;

#[derive(Args)]
pub struct PreparedArgs {
    #[command(subcommand)]
    command: PreparedCommand,
}

#[derive(Subcommand)]
enum PreparedCommand {
    /// Print the names of prepared transactions
    List,
    /// Make the changes of one visible
    Commit {
        /// Its name
        name: String,
    },
    /// End one without its changes
    Rollback {
        /// Its name
        name: String,
    },
}

pub fn run(context: &Context, args: &PreparedArgs) -> Outcome {
    match &args.command {
        PreparedCommand::List => list(context),
        PreparedCommand::Commit { name } => end(context, name, |prepared| {
            prepared.commit().map(|seq| ("committed", Some(seq.get())))
        }),
        PreparedCommand::Rollback { name } => {
            end(context, name, |prepared| prepared.rollback().map(|()| ("rolled back", None)))
        }
    }
}

fn list(context: &Context) -> Outcome {
    let prepared = context.read()?.prepared_transactions();
    let names: Vec<&str> = prepared.iter().map(PreparedTransaction::name).collect();
    let mut out = Out::new();
    if context.json {
        out.json(&json!({ "prepared": names }))?;
    } else {
        names.iter().try_for_each(|name| out.line(name))?;
    }
    out.finish()?;
    Ok(OK)
}

fn end(
    context: &Context,
    name: &str,
    decide: impl FnOnce(PreparedTransaction) -> strandline::Result<(&'static str, Option<u64>)>,
) -> Outcome {
    let db = context.write(IfMissing::Fail)?;
    let mut all = db.prepared_transactions().into_iter();
    let prepared = all.find(|prepared| prepared.name() == name).ok_or_else(|| {
        let text = format!("no prepared transaction {name}; see `strandline prepared list`");
        Failure::from(Error::new(ErrorKind::NotFound, "prepared", text))
    })?;
    let (done, seq) = decide(prepared)?;
    context.report(
        format_args!("{done} {name}"),
        &json!({ "name": name, "done": done, "seq": seq }),
    )?;
    Ok(OK)
}
