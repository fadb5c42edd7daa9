//! The `strandline` command: one store, one task, one exit code.
//!
//! In layers, each of which uses only those below it:
//!
//! | file | what it does |
//! |---|---|
//! | [`cli`] | the command line: commands, options, help |
//! | [`cmd`] | one file for each command |
//! | [`render`], [`progress`] | what several commands print |
//! | [`context`] | opens the store as the command needs it |
//! | [`store_args`], [`opening`], [`output`], [`input`] | options of the store; progress of an open; printed and read lines |
//! | [`text`], [`failure`], [`human`] | bytes as text, exit codes, numbers |
#![forbid(unsafe_code)]

mod cli;
mod cmd;
mod context;
mod failure;
mod human;
mod input;
mod opening;
mod output;
mod progress;
mod render;
mod store_args;
mod text;

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use clap::FromArgMatches;

use crate::cli::Cli;
use crate::context::Context;
use crate::failure::{FAILED, Failure, OK, Outcome, USAGE};

fn main() -> ExitCode {
    let argv: Vec<OsString> = std::env::args_os().collect();
    let code = match run(argv) {
        Ok(code) => code,
        Err(failure) => report(&failure),
    };
    ExitCode::from(code)
}

fn run(argv: Vec<OsString>) -> Outcome {
    // `bench` has flags of its own, some of them spelt like ours (`--db=DIR`): they are never looked at here.
    if argv.get(1).is_some_and(|first| first == "bench") {
        return cmd::bench::run(argv.into_iter().skip(2));
    }
    let matches = match cli::command().try_get_matches_from(argv) {
        Ok(matches) => matches,
        Err(error) => return Ok(answer(&error)),
    };
    let cli = match Cli::from_arg_matches(&matches) {
        Ok(cli) => cli,
        Err(error) => return Ok(answer(&error)),
    };
    let options = store_args::options(&matches, &cli.store)?;
    let context = Context::new(cli.store, options);
    cmd::run(&context, cli.command)
}

/// Prints what clap has to say: help, the version, or what is wrong with the arguments.
fn answer(error: &clap::Error) -> u8 {
    match error.print() {
        // Nobody reads the rest of the help.
        Err(failed) if failed.kind() == std::io::ErrorKind::BrokenPipe => OK,
        _ => u8::try_from(error.exit_code()).unwrap_or(USAGE),
    }
}

fn report(failure: &Failure) -> u8 {
    let (code, text) = match failure {
        Failure::ClosedPipe => return OK,
        Failure::Engine(error) if error.kind() == strandline::ErrorKind::InvalidArgument => {
            (USAGE, error.to_string())
        }
        Failure::Engine(error) => (FAILED, error.to_string()),
        Failure::Usage(text) => (USAGE, text.clone()),
        Failure::Other(text) => (FAILED, text.clone()),
    };
    // A closed stderr is no reason to panic.
    let _unheard = writeln!(std::io::stderr(), "strandline: {text}");
    code
}
