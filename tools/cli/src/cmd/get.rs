//! `get KEY`.

use std::ffi::OsString;

use clap::Args;
use serde_json::json;

use crate::context::Context;
use crate::failure::{NEGATIVE, OK, Outcome};
use crate::output::Out;
use crate::text::Form;

#[derive(Args)]
pub struct GetArgs {
    /// The key
    key: OsString,
}

pub fn run(context: &Context, args: &GetArgs) -> Outcome {
    let key = context.form.argument("KEY", &args.key)?;
    let (_db, keyspace) = context.read_keyspace()?;
    let value = keyspace.get(&key)?;
    let mut out = Out::new();
    if context.json {
        let text = value.as_ref().map(|value| context.form.json(value));
        out.json(&json!({ "key": context.form.json(&key), "value": text }))?;
    } else if let Some(value) = &value {
        let mut text = Vec::with_capacity(value.len() + 1);
        context.form.print(value, &mut text);
        if context.form != Form::Literal {
            // A literal value goes into a file or another program: not a byte more than it has.
            text.push(b'\n');
        }
        out.bytes(&text)?;
    }
    out.finish()?;
    Ok(if value.is_some() { OK } else { NEGATIVE })
}
