//! `convert`: the store moves to the memory that `--pm` says.

use serde_json::json;
use strandline::ErrorKind;

use crate::context::{Context, IfMissing};
use crate::failure::{Failure, OK, Outcome};

pub fn run(context: &Context) -> Outcome {
    let conversion = context.convert()?;
    // The first line says what a write survives from now on. Who has the store already hears it there.
    match context.write(IfMissing::Fail) {
        Err(Failure::Engine(error)) if error.kind() == ErrorKind::Busy => {}
        opened => drop(opened?),
    }
    let (from, to) = (&conversion.from, &conversion.to);
    let json = json!({ "from": from, "to": to });
    match from == to {
        true => context.report(format_args!("the store stays as it is: {to}"), &json)?,
        false => context.report(format_args!("moved from {from} to {to}"), &json)?,
    }
    Ok(OK)
}
