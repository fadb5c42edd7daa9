//! The command line: options that every command takes, and the commands.

use std::path::PathBuf;

use clap::{Arg, ArgMatches, Args, Command, CommandFactory, Parser};
use strandline::{OPTIONS, Options, PRESETS, Row};

use crate::cmd;
use crate::failure::Failure;

const AFTER: &str = "\
Text:
  Keys and values are bytes. In arguments, input and output, tab, newline, carriage return and
  backslash are written \\t, \\n, \\r and \\\\, and bytes that are no printable UTF-8 are written
  \\xNN; so what one command prints another takes. --hex writes bytes as hexadecimal digits,
  --literal takes and prints them as they are.

Opening:
  get, scan, dump, stats, lsm, manifest, checkpoint, pool, zone, check, explain and keyspace list
  open the store read-only: several of them may run at once, but not beside a writer.
  An open that takes more than a second shows its progress on a terminal. Elsewhere
  STRANDLINE_PROGRESS=SECONDS asks for a line each so many seconds.

Exit codes:
  0  done
  1  the key is not there (get, explain), the store or table is damaged (check, sst --verify; space that a
     killed process left is no damage),
     something was lost (repair), or lines were rejected (load --strict)
  2  wrong usage
  3  any other error";

/// An embedded, ordered key-value engine in persistent memory: its stores, from the command line.
#[derive(Parser)]
#[command(name = "strandline", version, after_help = AFTER)]
pub struct Cli {
    #[command(flatten)]
    pub store: StoreArgs,
    #[command(subcommand)]
    pub command: cmd::Command,
}

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

    /// Keyspace to work in
    #[arg(long, global = true, value_name = "NAME", default_value = "default")]
    pub keyspace: String,

    /// Print figures and records as JSON
    #[arg(long, global = true)]
    pub json: bool,

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

/// The whole command, with a flag for each row of the engine's table of options.
pub fn command() -> Command {
    OPTIONS.iter().fold(Cli::command(), |command, row| command.arg(flag(row)))
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
    for row in OPTIONS {
        if let Some(text) = matches.get_one::<String>(row.name) {
            options.set(row.name, text)?;
        }
    }
    for setting in &args.option {
        let (name, text) = setting
            .split_once('=')
            .ok_or_else(|| Failure::Usage(format!("--option {setting}: expected NAME=VALUE")))?;
        options.set(name, text)?;
    }
    Ok(options)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::FromArgMatches;
    use strandline::PmSource;

    fn parse(line: &str) -> (Cli, Options) {
        let matches = command().try_get_matches_from(line.split(' ')).expect(line);
        let cli = Cli::from_arg_matches(&matches).expect(line);
        let options = options(&matches, &cli.store).expect(line);
        (cli, options)
    }

    #[test]
    fn the_command_is_well_formed() {
        command().debug_assert();
    }

    #[test]
    fn options_may_stand_before_and_after_the_command() {
        let (cli, options) = parse("strandline --db a --pm-size 16M get k");
        assert_eq!((cli.store.db.to_str(), options.pm_size), (Some("a"), 16 << 20));
        let (cli, options) = parse("strandline get k --db a --option pm_size=16M --json");
        assert_eq!((cli.store.db.to_str(), options.pm_size), (Some("a"), 16 << 20));
        assert!(cli.store.json);
    }

    #[test]
    fn options_override_a_preset_wherever_it_stands() {
        let (_, options) = parse("strandline --subranges 3 stats --preset classic");
        assert_eq!((options.subranges, options.pm), (3, PmSource::Dram));
    }

    #[test]
    fn every_option_has_a_flag() {
        for row in OPTIONS {
            let flag = row.name.replace('_', "-");
            let (_, options) = parse(&format!("strandline stats --{flag}={}", row.default));
            assert_eq!(options, Options::default(), "{flag}");
        }
    }
}
