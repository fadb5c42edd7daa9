//! `keyspace list|create|set|drop`.

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
    /// Change where the files of a keyspace go: its placement, its tiers
    Set(SetArgs),
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
    /// Another option of the keyspace: compression, compression_level, filter_bits, memtable_bytes, value_files_min, placement or
    /// tiers; what is not set follows the options of the store
    #[arg(long = "set", value_name = "NAME=VALUE")]
    settings: Vec<String>,
    #[command(flatten)]
    store: CreateArg,
}

#[derive(Args)]
struct SetArgs {
    /// Its name
    name: String,
    /// placement=benefit, placement=level or placement=store, as the store's; tiers=DIR,DIR, directories of the store's tiers, or tiers=all
    #[arg(value_name = "NAME=VALUE", required = true)]
    settings: Vec<String>,
}

impl CreateArgs {
    fn options(&self) -> Result<KeyspaceOptions, Failure> {
        let operator = self.merge_operator.iter().map(|name| ("merge_operator", &name[..]));
        let named = operator.chain(self.ttl.iter().map(|ttl| ("ttl", &ttl[..])));
        options(named.map(Ok).chain(parted("--set ", &self.settings)))
    }
}

/// Names and values of `settings`, which stand behind `flag`.
fn parted<'s>(
    flag: &'s str,
    settings: &'s [String],
) -> impl Iterator<Item = Result<(&'s str, &'s str), Failure>> {
    settings.iter().map(move |setting| {
        let wanted = || Failure::Usage(format!("{flag}{setting}: expected NAME=VALUE"));
        setting.split_once('=').ok_or_else(wanted)
    })
}

/// Options of a keyspace, each given once.
fn options<'s>(
    settings: impl Iterator<Item = Result<(&'s str, &'s str), Failure>>,
) -> Result<KeyspaceOptions, Failure> {
    let (mut options, mut given) = (KeyspaceOptions::new(), Vec::new());
    for setting in settings {
        let (name, value) = setting?;
        if given.contains(&name) {
            let text = format!("{name}={value}: {name} is given twice; leave one out");
            return Err(Failure::Usage(text));
        }
        options.set(name, value).map_err(|error| Failure::Usage(error.context().to_owned()))?;
        given.push(name);
    }
    Ok(options)
}

pub fn run(context: &Context, args: &KeyspaceArgs) -> Outcome {
    match &args.command {
        KeyspaceCommand::List => list(context, &context.read()?)?,
        KeyspaceCommand::Create(args) => {
            let (name, options) = (&args.name, args.options()?);
            let db = context.write(args.store.if_missing())?;
            let keyspace = db.create_keyspace_with(name, options)?;
            context.report(
                format_args!("created keyspace {}", described(name, &keyspace.options())),
                &json!({ "created": name, "options": options_json(&keyspace.options()) }),
            )?;
        }
        KeyspaceCommand::Set(SetArgs { name, settings }) => {
            let changed = options(parted("", settings))?;
            let db = context.write(IfMissing::Fail)?;
            let keyspace = db.keyspace(name)?;
            keyspace.set_options(&changed)?;
            context.report(
                format_args!("set keyspace {}", described(name, &keyspace.options())),
                &json!({ "set": name, "options": options_json(&keyspace.options()) }),
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
            options.insert(name.clone(), options_json(&keyspace.options()));
        } else {
            out.line(described(name, &keyspace.options()))?;
        }
    }
    if context.json {
        out.json(&json!({ "keyspaces": names, "options": options }))?;
    }
    out.finish()
}
