//! `help [COMMAND…]` and `help options`.

use clap::{Arg, Args, Command};
use serde_json::{Value, json};

use crate::context::Context;
use crate::failure::{Failure, OK, Outcome};
use crate::output::Out;
use crate::render::options;

#[derive(Args)]
pub struct HelpArgs {
    /// A command, or `options` for the options of the store
    topic: Vec<String>,
}

/// `command`: the whole command line.
pub fn run(context: &Context, args: &HelpArgs, command: &mut Command) -> Outcome {
    let mut out = Out::new();
    command.build();
    let topic: Vec<&str> = args.topic.iter().map(String::as_str).collect();
    match (&topic[..], context.json) {
        (["options"], true) => out.json(&options::to_json())?,
        (["options"], false) => out.bytes(options::text().as_bytes())?,
        (_, true) => out.json(&to_json(find(command, &topic)?))?,
        (_, false) => {
            let help = find(command, &topic)?.render_help().to_string();
            out.bytes(help.as_bytes())?;
        }
    }
    out.finish()?;
    Ok(OK)
}

fn find<'c>(command: &'c mut Command, topic: &[&str]) -> Result<&'c mut Command, Failure> {
    let Some((name, rest)) = topic.split_first() else { return Ok(command) };
    match command.find_subcommand_mut(name) {
        Some(sub) => find(sub, rest),
        None => Err(Failure::Usage(format!("help: no command {name}; strandline help lists them"))),
    }
}

/// A command with its own options and its commands.
fn to_json(command: &Command) -> Value {
    let about = command.get_about().map(ToString::to_string);
    let shown = command.get_arguments().filter(|arg| !arg.is_hide_set());
    json!({
        "name": command.get_name(),
        "about": about,
        "arguments": shown.map(argument_json).collect::<Vec<Value>>(),
        "commands": command.get_subcommands().map(to_json).collect::<Vec<Value>>(),
    })
}

fn argument_json(arg: &Arg) -> Value {
    let values = arg.get_num_args().is_some_and(|count| count.takes_values());
    let name = arg.get_value_names().and_then(<[_]>::first).map(ToString::to_string);
    json!({
        "name": arg.get_id().as_str(),
        "long": arg.get_long(),
        "short": arg.get_short(),
        "value": name.filter(|_| values),
        "required": arg.is_required_set(),
        "help": arg.get_help().map(ToString::to_string),
    })
}
