//! `keyspace list|create|drop`.

use clap::{Args, Subcommand};
use serde_json::{Map, json};
use strandline::{Db, KeyspaceOptions};

use crate::context::{Context, CreateArg, IfMissing};
use crate::failure::{Failure, OK, Outcome};
use crate::output::Out;
use crate::render::keyspace::{self, described, options_json};

#[derive(Args)]
pub struct KeyspaceArgs {
    #[command(subcommand)]
    command: KeyspaceCommand,
}

#[derive(Subcommand)]
enum KeyspaceCommand {
    /// Print the names of all keyspaces, and the options that they have of their own
    List,
    /// Make a keyspace
    Create(CreateArgs),
    /// Drop a keyspace with everything in it
    Drop {
        /// Its name
        name: String,
    },
}

#[derive(Args)]
struct CreateArgs {
    /// Its name
    name: String,
    /// Merge operator: add, max, min, append, append:SEPARATOR or set-union
    #[arg(long, value_name = "NAME")]
    merge_operator: Option<String>,
    /// How long a value lives: seconds, or with s, m, h or d behind them; not with a merge operator
    #[arg(long, value_name = "TIME")]
    ttl: Option<String>,
    /// Another option of the keyspace: compression, compression_level, filter_bits or memtable_bytes; what is not set
    /// follows the options of the store
    #[arg(long = "set", value_name = "NAME=VALUE")]
    settings: Vec<String>,
    #[command(flatten)]
    store: CreateArg,
}

impl CreateArgs {
    fn options(&self) -> Result<KeyspaceOptions, Failure> {
        let (mut options, mut given) = (KeyspaceOptions::new(), Vec::new());
        let operator = self.merge_operator.iter().map(|name| ("merge_operator", &name[..]));
        let named = operator.chain(self.ttl.iter().map(|ttl| ("ttl", &ttl[..])));
        let settings = self.settings.iter().map(|setting| {
            let wanted = || Failure::Usage(format!("--set {setting}: expected NAME=VALUE"));
            setting.split_once('=').ok_or_else(wanted)
        });
        for setting in named.map(Ok).chain(settings) {
            let (name, value) = setting?;
            if given.contains(&name) {
                return Err(Failure::Usage(format!(
                    "--set {name}={value}: {name} is given twice; leave one out"
                )));
            }
            options.set(name, value).map_err(|error| Failure::Usage(error.context().to_owned()))?;
            given.push(name);
        }
        Ok(options)
    }
}

pub fn run(context: &Context, args: &KeyspaceArgs) -> Outcome {
    match &args.command {
        KeyspaceCommand::List => list(context, &context.read()?)?,
        KeyspaceCommand::Create(args) => {
            let (name, options) = (&args.name, args.options()?);
            let db = context.write(args.store.if_missing())?;
            let keyspace = db.create_keyspace_with(name, options)?;
            context.report(
                format_args!("created keyspace {}", described(name, keyspace.options())),
                &json!({ "created": name, "options": options_json(keyspace.options()) }),
            )?;
        }
        KeyspaceCommand::Drop { name } => {
            context.write(IfMissing::Fail)?.drop_keyspace(name)?;
            let line = format!("dropped keyspace {}", keyspace::name(name));
            context.report(line, &json!({ "dropped": name }))?;
        }
    }
    Ok(OK)
}

fn list(context: &Context, db: &Db) -> Result<(), Failure> {
    let names = db.keyspaces();
    let mut out = Out::new();
    let mut options = Map::new();
    for name in &names {
        let keyspace = db.keyspace(name)?;
        if context.json {
            options.insert(name.clone(), options_json(keyspace.options()));
        } else {
            out.line(described(name, keyspace.options()))?;
        }
    }
    if context.json {
        out.json(&json!({ "keyspaces": names, "options": options }))?;
    }
    out.finish()
}
