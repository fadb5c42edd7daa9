//! The command line as a whole: all commands, and which of the common options each takes.

use std::ffi::OsString;

use clap::parser::ValueSource;
use clap::{ArgMatches, Command, CommandFactory, Parser};

use crate::cmd;
use crate::failure::Failure;
use crate::stderr::Stderr;
use crate::store_args::{self, StoreArgs};

const AFTER: &str = "\
Options of the store:
  Memory, tables, caches, threads: strandline help options. Each command that opens a store takes them.

Text:
  Keys and values are bytes. In arguments, input and output, tab, newline, carriage return and
  backslash are written \\t, \\n, \\r and \\\\, and bytes that are not printable UTF-8 are written
  \\xNN; so one command takes what another prints. --hex writes bytes as hexadecimal digits,
  --literal takes and prints them as they are.

JSON:
  With --json standard output has one JSON value, or for records, entries and benchmarks one a line. An error is one
  object on standard error, {\"error\": {\"kind\", \"message\", \"exit_code\"}}; every other line there is an object too.
  Bytes are a string where they are UTF-8, else {\"hex\": \"...\"}.

Opening:
  No command makes a store unless it is told to: create, or --create.
  get, scan, dump, export, stats, top, lsm, manifest, checkpoint, pool, locks, zone, check, explain, streams and
  keyspace list open the store read-only: several of them may run at once, but not beside a writer. Of a store that
  another process has open stats, top, lsm, pool, locks, explain, streams and watch ask that process, if it has the
  option inspect: every command has, and a program may.
  An open that takes more than a second shows its progress on a terminal. Elsewhere
  STRANDLINE_PROGRESS=SECONDS asks for a line each so many seconds.

Exit codes:
  0  done
  1  the key is not there (get, explain), it has another value (put --if, put --if-absent, del --if), the store or a
     table is damaged (check, sst --verify; space that a killed process left is no damage), something was lost (repair),
     lines were rejected (load --strict), or no split of a cache reaches the goal (advise)
  2  wrong usage
  3  any other error";

/// What the help of commands that open a store ends with.
const AFTER_STORE: &str = "Options of the store, such as --pm-size: strandline help options";

/// An embedded, ordered key-value engine in persistent memory: its stores, from the command line.
#[derive(Parser)]
#[command(name = "strandline", version, after_help = AFTER, disable_help_subcommand = true)]
pub struct Cli {
    #[command(flatten)]
    pub store: StoreArgs,
    #[command(subcommand)]
    pub command: cmd::Command,
}

/// A group of common options. `--json` all commands take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Common {
    /// Where the store is, and whether what happens in it is told.
    Db,
    /// The options of the engine.
    Engine,
    /// Of these, the models of devices.
    Models,
    Keyspace,
    /// How keys and values are written.
    Form,
    Quiet,
}

use Common::{Db, Engine, Form, Keyspace, Models, Quiet};

/// Which common options each command takes. What stands here for none is refused, lest it seem to have an effect.
const TAKES: &[(&str, &[Common])] = &[
    ("create", &[Db, Engine, Quiet]),
    ("put", &[Db, Engine, Keyspace, Form, Quiet]),
    ("get", &[Db, Engine, Keyspace, Form]),
    ("merge", &[Db, Engine, Keyspace, Form, Quiet]),
    ("del", &[Db, Engine, Keyspace, Form, Quiet]),
    ("delete-range", &[Db, Engine, Keyspace, Form, Quiet]),
    ("scan", &[Db, Engine, Keyspace, Form]),
    ("load", &[Db, Engine, Keyspace, Form]),
    ("dump", &[Db, Engine, Keyspace, Form]),
    ("export", &[Db, Engine, Keyspace, Form, Quiet]),
    ("stats", &[Db, Engine]),
    ("top", &[Db, Engine]),
    ("watch", &[Db, Engine, Form, Quiet]),
    ("streams", &[Db, Engine, Quiet]),
    ("pool", &[Db, Engine]),
    ("locks", &[Db, Engine, Form]),
    ("prepared", &[Db, Engine, Quiet]),
    ("lsm", &[Db, Engine, Form]),
    ("manifest", &[Db, Engine]),
    ("sst", &[Form]),
    ("compact", &[Db, Engine, Keyspace, Form, Quiet]),
    ("flush", &[Db, Engine, Quiet]),
    ("checkpoint", &[Db, Engine, Quiet]),
    ("ingest", &[Db, Engine, Keyspace, Quiet]),
    ("import", &[Db, Engine, Quiet]),
    ("repair", &[Engine, Form]),
    ("convert", &[Db, Engine, Quiet]),
    ("destroy", &[Engine, Quiet]),
    ("zone", &[Db, Engine]),
    ("check", &[Db, Engine]),
    ("explain", &[Db, Engine, Keyspace, Form]),
    ("set-option", &[Db, Quiet]),
    ("keyspace", &[Db, Engine, Quiet]),
    ("reproduce", &[]),
    ("advise", &[Models]),
    ("bench", &[]),
    ("completions", &[]),
    ("man", &[Quiet]),
    ("help", &[]),
];

impl Common {
    /// Those that have each option once.
    const ALL: [Common; 5] = [Db, Engine, Keyspace, Form, Quiet];

    /// Ids of its options.
    fn ids(self) -> Vec<&'static str> {
        match self {
            Db => vec!["db", "events"],
            Engine => store_args::engine_flags().collect(),
            Models => vec!["pm_model", "ssd_model"],
            Keyspace => vec!["keyspace"],
            Form => vec!["hex", "literal"],
            Quiet => vec!["quiet"],
        }
    }
}

/// Whether the command called `command` takes the options of the engine.
pub fn takes_engine(command: &str) -> bool {
    takes(command).contains(&Engine)
}

fn takes(command: &str) -> &'static [Common] {
    TAKES.iter().find(|(name, _)| *name == command).map_or(&[], |(_, takes)| *takes)
}

/// Ids of the common options that a command does not take.
fn foreign(command: &str) -> impl Iterator<Item = &'static str> {
    let taken: Vec<&str> = takes(command).iter().flat_map(|common| common.ids()).collect();
    let all = Common::ALL.into_iter().flat_map(Common::ids);
    all.filter(move |id| !taken.contains(id))
}

/// The whole command. The help of each command shows its own options, and the common ones that it takes.
pub fn command() -> Command {
    let command = store_args::with_flags(Cli::command());
    let common: Vec<clap::Arg> = command.get_arguments().cloned().collect();
    command.mut_subcommands(|sub| {
        let name = sub.get_name().to_owned();
        let hidden = foreign(&name).filter_map(|id| common.iter().find(|arg| arg.get_id() == id));
        let sub = hidden.fold(sub, |sub, arg| sub.arg(arg.clone().hide(true)));
        if takes_engine(&name) { sub.after_help(AFTER_STORE) } else { sub }
    })
}

/// Refuses common options that the command does not take.
pub fn check_heeded(matches: &ArgMatches) -> Result<(), Failure> {
    let Some(name) = matches.subcommand_name() else { return Ok(()) };
    let given = |id: &&str| matches.value_source(id) == Some(ValueSource::CommandLine);
    match foreign(name).find(given) {
        None => Ok(()),
        Some(id) => {
            let flag = id.replace('_', "-");
            Err(Failure::Usage(format!("{name} takes no --{flag}; leave it out")))
        }
    }
}

/// Where the word `bench` stands, if that is the command. Options may stand before it.
pub fn bench_at(argv: &[OsString]) -> Option<usize> {
    let command = store_args::with_flags(Cli::command());
    let mut at = 1;
    loop {
        let word = argv.get(at)?.to_str()?;
        if word == "bench" {
            return Some(at);
        }
        let (flag, value) = match word.split_once('=') {
            Some((flag, value)) => (flag, Some(value)),
            None => (word, None),
        };
        let is_called = |arg: &&clap::Arg| {
            let long = flag.strip_prefix("--").is_some_and(|long| arg.get_long() == Some(long));
            let short = flag.strip_prefix('-').and_then(|short| short.parse().ok());
            long || short.is_some() && arg.get_short() == short
        };
        let takes_value = command.get_arguments().find(is_called)?.get_action().takes_values();
        at += if takes_value && value.is_none() { 2 } else { 1 };
    }
}

/// What `bench`, the word at `at`, is asked for: the options before it, and what follows.
pub fn bench_args(mut argv: Vec<OsString>, at: usize) -> Result<Vec<OsString>, Failure> {
    let after = argv.split_off(at + 1);
    let before = &argv[1..at];
    // The others are flags of bench, too.
    for refused in ["--keyspace", "--hex", "--literal", "--quiet", "-q"] {
        let is_it = |word: &OsString| {
            let word = word.to_string_lossy();
            word.split('=').next() == Some(refused)
        };
        if before.iter().any(is_it) {
            return Err(Failure::Usage(format!("bench takes no {refused}; leave it out")));
        }
    }
    Ok(before.iter().cloned().chain(after).collect())
}

/// The form of errors, which must be known before the command line is parsed.
pub fn stderr_form(argv: &[OsString]) -> Stderr {
    let mut options = argv.iter().skip(1).take_while(|arg| *arg != "--");
    // `bench` takes single dashes and values, too.
    let is_bench = bench_at(argv).is_some();
    let asks = |arg: &OsString| {
        arg == "--json"
            || is_bench && (arg == "-json" || arg == "--json=true" || arg == "-json=true")
    };
    if options.any(asks) { Stderr::Json } else { Stderr::Text }
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
    fn the_table_names_all_commands() {
        let command = command();
        let commands: Vec<&str> = command.get_subcommands().map(Command::get_name).collect();
        let mut named: Vec<&str> = TAKES.iter().map(|(name, _)| *name).collect();
        assert!(commands.iter().all(|name| named.contains(name)), "{commands:?}");
        named.retain(|name| !commands.contains(name));
        assert_eq!(named, [""; 0], "no such commands");
    }

    #[test]
    fn help_of_a_command_shows_its_own_options() {
        let mut command = command();
        command.build();
        for sub in command.get_subcommands_mut() {
            let text = sub.render_long_help().to_string();
            assert!(!text.contains("--memtable-bytes") && !text.contains("--preset"), "{text}");
        }
    }

    #[test]
    fn options_without_effect_are_refused() {
        for line in [
            "strandline sst x --db y",
            "strandline --pm-size 1G reproduce",
            "strandline stats --hex",
        ] {
            let matches = command().try_get_matches_from(line.split(' ')).expect(line);
            assert!(check_heeded(&matches).is_err(), "{line}");
        }
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
            let inspect = row.name != "inspect";
            assert_eq!(options, Options::default().inspect(inspect), "{flag}");
        }
    }
}
