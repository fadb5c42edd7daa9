//! The command line as a whole: all commands, and the options that each takes before or after its name.

use clap::{Command, CommandFactory, Parser};

use crate::cmd;
use crate::store_args::{self, StoreArgs};

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

/// The whole command, with a flag for each row of the engine's table of options.
pub fn command() -> Command {
    store_args::with_flags(Cli::command())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::FromArgMatches;
    use strandline::{OPTIONS, Options, PmSource};

    use crate::store_args::options;

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
        for row in OPTIONS.iter().filter(|row| row.name != "create_if_missing") {
            let flag = row.name.replace('_', "-");
            let (_, options) = parse(&format!("strandline stats --{flag}={}", row.default));
            assert_eq!(options, Options::default(), "{flag}");
        }
    }
}
