//! `keyspace list|create|drop`.

use clap::{Args, Subcommand};
use serde_json::json;

use crate::context::{Context, CreateArg, IfMissing};
use crate::failure::{OK, Outcome};
use crate::output::Out;

#[derive(Args)]
pub struct KeyspaceArgs {
    #[command(subcommand)]
    command: KeyspaceCommand,
}

#[derive(Subcommand)]
enum KeyspaceCommand {
    /// Print the names of all keyspaces
    List,
    /// Make a keyspace
    Create {
        /// Its name
        name: String,
        #[command(flatten)]
        store: CreateArg,
    },
    /// Drop a keyspace with everything in it
    Drop {
        /// Its name
        name: String,
    },
}

pub fn run(context: &Context, args: &KeyspaceArgs) -> Outcome {
    match &args.command {
        KeyspaceCommand::List => {
            let names = context.read()?.keyspaces();
            let mut out = Out::new();
            if context.json {
                out.json(&json!({ "keyspaces": names }))?;
            } else {
                names.iter().try_for_each(|name| out.line(name))?;
            }
            out.finish()?;
        }
        KeyspaceCommand::Create { name, store } => {
            context.write(store.if_missing())?.create_keyspace(name)?;
            context.report(format_args!("created keyspace {name}"), &json!({ "created": name }))?;
        }
        KeyspaceCommand::Drop { name } => {
            context.write(IfMissing::Fail)?.drop_keyspace(name)?;
            context.report(format_args!("dropped keyspace {name}"), &json!({ "dropped": name }))?;
        }
    }
    Ok(OK)
}
