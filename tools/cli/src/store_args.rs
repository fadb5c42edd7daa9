//! Options of every command: which store, which keyspace, how to print, and the options of the engine.

use std::path::PathBuf;

use clap::{Arg, ArgMatches, Args, Command};
use strandline::{OPTIONS, Options, PRESETS, Row};

use crate::failure::Failure;

/// What every command takes, before or after its name.
#[derive(Args)]
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

    /// Print figures and records as JSON
    #[arg(long, global = true)]
    pub json: bool,

    /// Do not say what was done
    #[arg(long, short, global = true, conflicts_with = "json")]
    pub quiet: bool,

    /// Take and print keys and values as hexadecimal digits
    #[arg(long, global = true)]
    pub hex: bool,

    /// Take and print keys and values as they are, without escapes
    #[arg(long, global = true, conflicts_with = "hex")]
    pub literal: bool,

    /// Begin with the options of a system by its name; other options override them
    #[arg(long, global = true, value_name = "NAME", help_heading = STORE, long_help = presets())]
    pub preset: Option<String>,

    /// Set an option of the store by its name; later ones win (see the store options)
    #[arg(long = "option", global = true, value_name = "NAME=VALUE", help_heading = STORE)]
    pub option: Vec<String>,
}

const STORE: &str = "Store options";
/// The option of the engine that has another form here.
const CREATE: &str = "create_if_missing";

/// What presets there are, for the long help.
fn presets() -> String {
    let mut text = String::from(
        "Begin with the options of a system by its name; other options override them.\n",
    );
    for preset in PRESETS {
        text += &format!("\n{}: {}", preset.name, preset.doc);
        let settings = preset.settings.iter().map(|(name, value)| format!("{name}={value}"));
        let settings: Vec<String> = settings.collect();
        if !settings.is_empty() {
            text += &format!(" [{}]", settings.join(", "));
        }
    }
    text
}

/// `command` with a flag for each row of the engine's table of options.
pub fn with_flags(command: Command) -> Command {
    rows().fold(command, |command, row| command.arg(flag(row)))
}

/// The options of the engine that have a flag. Whether a store is made the flag `--create` says.
fn rows() -> impl Iterator<Item = &'static Row> {
    OPTIONS.iter().filter(|row| row.name != CREATE)
}

fn flag(row: &'static Row) -> Arg {
    let advice = format!("{} [{}] [default: {}]", row.doc, row.unit, row.default);
    let brief = row.doc.split_inclusive('.').next().unwrap_or(row.doc).trim_end_matches('.');
    Arg::new(row.name)
        .long(row.name.replace('_', "-"))
        .value_name(if row.unit.starts_with("bytes") { "SIZE" } else { "VALUE" })
        .help(format!("{brief} [default: {}]", row.default))
        .long_help(advice)
        .help_heading(STORE)
        .global(true)
}

/// The store's options: those of the preset, then named flags, then `--option` in order.
pub fn options(matches: &ArgMatches, args: &StoreArgs) -> Result<Options, Failure> {
    let mut options = args.preset.as_deref().map_or(Ok(Options::default()), Options::preset)?;
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
