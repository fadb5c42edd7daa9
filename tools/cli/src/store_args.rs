//! Options that commands have in common: which store, which keyspace, how to print, and the options of the engine.

use std::path::PathBuf;

use clap::{Arg, ArgMatches, Args, Command};
use strandline::{OPTIONS, Options, Row};

use crate::failure::Failure;

/// Options that stand before or after the name of a command.
#[derive(Args)]
#[command(next_help_heading = "Common options")]
pub struct StoreArgs {
    /// Directory of the store
    #[arg(
        long,
        global = true,
        value_name = "DIR",
        env = "STRANDLINE_DB",
        default_value = "strandline.db"
    )]
    pub db: PathBuf,

    /// Keyspace to work in [default: default]
    #[arg(long, global = true, value_name = "NAME")]
    pub keyspace: Option<String>,

    /// Print JSON: one value, or one a line; errors too, on standard error
    #[arg(long, global = true)]
    pub json: bool,

    /// Do not say what was done
    #[arg(long, short, global = true, conflicts_with = "json")]
    pub quiet: bool,

    /// Tell on standard error what happens in the store, such as flushes and compactions: a line each
    #[arg(long, global = true)]
    pub events: bool,

    /// Take and print keys and values as hexadecimal digits
    #[arg(long, global = true)]
    pub hex: bool,

    /// Take and print keys and values as they are, without escapes
    #[arg(long, global = true, conflicts_with = "hex")]
    pub literal: bool,

    /// Begin with the options of a preset; other options override them
    #[arg(long, global = true, value_name = "NAME", hide = true)]
    pub preset: Option<String>,

    /// Set an option of the store by its name; later ones win
    #[arg(long = "option", global = true, value_name = "NAME=VALUE", hide = true)]
    pub option: Vec<String>,
}

/// The option of the engine that has another form here: `create` and `--create`.
const CREATE: &str = "create_if_missing";
/// Ids of the options above that set options of the engine, as its table does.
const ENGINE: [&str; 2] = ["preset", "option"];

/// The options of the engine that have a flag.
pub fn rows() -> impl Iterator<Item = &'static Row> {
    OPTIONS.iter().filter(|row| row.name != CREATE)
}

/// The flag of an option, without its dashes.
pub fn flag_name(row: &Row) -> String {
    row.name.replace('_', "-")
}

/// Ids of all flags that set options of the engine.
pub fn engine_flags() -> impl Iterator<Item = &'static str> {
    ENGINE.into_iter().chain(rows().map(|row| row.name))
}

/// `command` with a flag for each row of the engine's table. `help options` shows them, the help of commands does not.
pub fn with_flags(command: Command) -> Command {
    rows().fold(command, |command, row| command.arg(flag(row)))
}

pub fn flag(row: &'static Row) -> Arg {
    let brief = row.doc.split_inclusive('.').next().unwrap_or(row.doc).trim_end_matches('.');
    Arg::new(row.name)
        .long(flag_name(row))
        .value_name(if row.unit.starts_with("bytes") { "SIZE" } else { "VALUE" })
        .help(format!("{brief} [default: {}]", row.default))
        .long_help(format!("{} [{}] [default: {}]", row.doc, row.unit, row.default))
        .help_heading("Options of the store")
        .global(true)
        .hide(true)
}

/// The store's options, with a socket to look at it: those of the preset, then named flags, then `--option` in order.
pub fn options(matches: &ArgMatches, args: &StoreArgs) -> Result<Options, Failure> {
    let mut options = args.preset.as_deref().map_or(Ok(Options::default()), Options::preset)?;
    options.inspect = true;
    for row in rows() {
        if let Some(text) = matches.get_one::<String>(row.name) {
            options.set(row.name, text)?;
        }
    }
    for setting in &args.option {
        let (name, text) = setting
            .split_once('=')
            .ok_or_else(|| Failure::Usage(format!("--option {setting}: expected NAME=VALUE")))?;
        if name == CREATE {
            let text = format!("--option {setting}: `strandline create` and --create make stores");
            return Err(Failure::Usage(text));
        }
        options.set(name, text)?;
    }
    Ok(options)
}
