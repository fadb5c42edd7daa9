//! The same workloads on this engine and on others, side by side.
//!
//! | part | what it does |
//! |---|---|
//! | [`engines`] | one file per engine, behind one trait; their settings; bare loops |
//! | [`promise`] | what puts survive, and ratios that say where that differs |
//! | [`stages`], [`dram`], [`plan`] | which benchmarks there are, on which stores; their data and memory; their length |
//! | [`session`], [`child`], [`turn`] | runs them on the engines in turns; a process for each; what it does |
//! | [`work`], [`crew`], [`slices`] | what threads do, counted and timed; in turn with bare loops |
//! | [`sample`], [`wire`], [`kept`] | what was found; what a child tells; a file to which several commands add |
//! | [`mod@measure`], [`ground`] | times, bytes and memory; whether a disk is one, and its cache dropped |
//! | [`data`], [`draw`], [`verify`] | keys and values that follow from a number; which numbers come; comparing every answer |
//! | [`limits`], [`machine`] | what the machine allows and is |
//! | [`report`], [`figures`] | table, JSON, page; how numbers are written |
#![deny(unsafe_code)]

mod child;
mod crew;
mod data;
mod dram;
mod engines;
mod figures;
mod flags;
mod ground;
mod kept;
mod limits;
mod machine;
mod measure;
mod plan;
mod promise;
mod report;
mod sample;
mod session;
mod slices;
mod stages;
mod turn;
mod verify;
mod wire;
mod work;

use std::io::{ErrorKind, Write};
use std::process::ExitCode;

use engines::Result;
use flags::Flags;
use kept::{Command, Kept};
use report::{Report, docs, json, table};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    // What stands by to remove folders is this program, too.
    if args.first().is_some_and(|first| first == "bench") {
        return match bench::run(&args[1..]) {
            Ok(code) => ExitCode::from(u8::try_from(code).unwrap_or(1)),
            Err(error) => fail(&error.to_string(), 1),
        };
    }
    if let Some((_, words)) = args.split_first().filter(|(first, _)| *first == child::WORD) {
        // A parent reads the last line.
        return match child::main(words) {
            Ok(line) => tell(&format!("{line}\n"))
                .map_or_else(|error| fail(&error, 2), |()| ExitCode::SUCCESS),
            Err(error) => {
                let told = tell(&format!("{}\n", error.replace('\n', " ")));
                told.map_or_else(|error| fail(&error, 2), |()| ExitCode::from(1))
            }
        };
    }
    match Flags::parse(&args) {
        Err(error) => fail(&error, 2),
        Ok(flags) if flags.help => {
            tell(&Flags::help()).map_or_else(|error| fail(&error, 1), |()| ExitCode::SUCCESS)
        }
        Ok(flags) => match compare(&flags, &args) {
            Ok(true) => ExitCode::SUCCESS,
            Ok(false) => ExitCode::from(1),
            Err(error) => fail(&error, 1),
        },
    }
}

fn fail(error: &str, code: u8) -> ExitCode {
    eprintln!("bench-compare: {error}");
    ExitCode::from(code)
}

/// Writes to standard output. A reader that left wants no more, and nothing is wrong.
fn tell(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(format!("writing standard output: {error}"))
        }
        _ => Ok(()),
    }
}

/// Runs what was asked for and tells it; whether all of it went well.
fn compare(flags: &Flags, args: &[String]) -> Result<bool> {
    let mut kept = Kept::open(flags.into.clone())?;
    if !flags.report {
        measure(flags, args, &mut kept)?;
    }
    let report = Report::of(kept.newest());
    tell(&match flags.json {
        true => format!("{}\n", json::object(&report)),
        false => format!("{}{}", head(&report), table::text(&report)),
    })?;
    if flags.docs {
        let before = std::fs::read_to_string(docs::PAGE).unwrap_or_default();
        std::fs::write(docs::PAGE, docs::page(&report, &before))
            .map_err(|error| format!("{}: {error}; run it in the repository's root", docs::PAGE))?;
    }
    Ok(report.failures.is_empty())
}

/// Runs what was asked for.
fn measure(flags: &Flags, args: &[String], kept: &mut Kept) -> Result<()> {
    if flags.uses_disk() {
        ground::check(&flags.disk)?;
    }
    // The file is of this machine; who runs it again has another.
    let shown = args.iter().map(|arg| if arg.starts_with("--into=") { "--into=FILE" } else { arg });
    let words = shown.collect::<Vec<_>>().join(" ");
    let words = format!("cargo run --release -p strandline-bench-compare -- {words}");
    kept.begin(Command {
        words: words.trim_end_matches([' ', '-']).to_string(),
        facts: machine::facts(flags),
        limits: limits::measure(flags)?,
    })?;
    stages::all()
        .try_for_each(|stage| session::run(flags, args, stage, kept, &|text| eprintln!("{text}")))
}

/// Machine and settings, before the table.
fn head(report: &Report) -> String {
    let facts = report.commands.last().map(|command| &command.facts);
    let facts = facts.into_iter().flatten();
    let mut lines: Vec<String> = facts.map(|(name, value)| format!("{name:<28} {value}")).collect();
    for maker in engines::all() {
        lines.push(format!("{:<28} {}", maker.version, maker.settings));
    }
    lines.push(String::new());
    lines.join("\n") + "\n"
}
