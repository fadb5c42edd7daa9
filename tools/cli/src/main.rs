//! The `strandline` command: one store, one task, one exit code.
//!
//! In layers, each of which uses only those below it:
//!
//! | file | what it does |
//! |---|---|
//! | [`scripts`] | the command line as data, for completion and manual pages |
//! | [`cli`] | the command line: commands, and which options each takes |
//! | [`cmd`] | one file for each command |
//! | [`render`], [`progress`] | what several commands print |
//! | [`look`], [`watch`] | look at a store, whether it is open elsewhere or not: once, and again and again |
//! | [`context`] | opens the store as the command needs it |
//! | [`store_args`], [`opening`], [`output`], [`input`] | options of the store; progress of an open; printed and read lines |
//! | [`text`], [`failure`], [`stderr`], [`human`] | bytes as text, exit codes and errors, notes, numbers |
#![forbid(unsafe_code)]

mod cli;
mod cmd;
mod context;
mod failure;
mod human;
mod input;
mod look;
mod opening;
mod output;
mod progress;
mod render;
mod scripts;
mod stderr;
mod store_args;
mod text;
mod watch;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::FromArgMatches;

use crate::cli::Cli;
use crate::cmd::CommandLine;
use crate::context::Context;
use crate::failure::{Failure, Outcome};

fn main() -> ExitCode {
    let argv: Vec<OsString> = std::env::args_os().collect();
    let form = cli::stderr_form(&argv);
    let code = run(argv).unwrap_or_else(|failure| failure.report(form));
    ExitCode::from(code)
}

fn run(argv: Vec<OsString>) -> Outcome {
    // `bench` has flags of its own, some of them spelt like ours (`--db=DIR`): it parses all of them.
    if let Some(at) = cli::bench_at(&argv) {
        return cmd::bench::run(cli::bench_args(argv, at)?);
    }
    let mut command = cli::command();
    let matches = command.try_get_matches_from_mut(argv).map_err(Failure::Arguments)?;
    let cli = Cli::from_arg_matches(&matches).map_err(Failure::Arguments)?;
    cli::check_heeded(&matches)?;
    let options = store_args::options(&matches, &cli.store)?;
    let context = Context::new(cli.store, options);
    let whole = CommandLine { parsed: command, complete: scripts::complete, pages: scripts::pages };
    cmd::run(&context, cli.command, whole)
}
