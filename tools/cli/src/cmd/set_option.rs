//! `set-option NAME=VALUE`: options of a store that is open in another process.

use clap::Args;
use serde_json::{Map, Value, json};
use strandline::Inspector;

use crate::context::Context;
use crate::failure::{Failure, OK, Outcome};

#[derive(Args)]
pub struct SetOptionArgs {
    /// An option and its value; `help options` says which ones change while a store is open
    #[arg(required = true, value_name = "NAME=VALUE")]
    settings: Vec<String>,
}

pub fn run(context: &Context, args: &SetOptionArgs) -> Outcome {
    let split = |setting: &String| {
        let both = setting.split_once('=').map(|(name, text)| (name.to_owned(), text.to_owned()));
        both.ok_or_else(|| Failure::Usage(format!("{setting}: expected NAME=VALUE")))
    };
    let settings = args.settings.iter().map(split).collect::<Result<Vec<_>, Failure>>()?;
    let inspector = Inspector::connect(&context.db)?;
    for (name, text) in &settings {
        inspector.set_option(name, text)?;
    }
    let text: Vec<String> = settings.iter().map(|(name, text)| format!("{name}={text}")).collect();
    let set: Map<String, Value> =
        settings.into_iter().map(|(name, text)| (name, Value::String(text))).collect();
    context.report(
        format_args!("set {} until the store is closed", text.join(" ")),
        &json!({ "set": set }),
    )?;
    Ok(OK)
}
