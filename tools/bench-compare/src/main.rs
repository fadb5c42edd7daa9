//! The same workloads on this engine and on others, side by side.
//!
//! | part | what it does |
//! |---|---|
//! | [`engines`] | one file per engine, behind one trait; their settings |
//! | [`stages`] | which benchmarks there are, and on which stores |
//! | [`session`] | runs them on the engines in turns |
//! | [`work`], [`crew`] | what threads do, counted and timed |
//! | [`data`], [`verify`] | keys and values that follow from a number; comparing every answer |
//! | [`limits`], [`machine`] | what the machine allows and is |
//! | [`report`] | table, JSON, page |
#![deny(unsafe_code)]

mod crew;
mod data;
mod engines;
mod flags;
mod limits;
mod machine;
mod report;
mod session;
mod stages;
mod verify;
mod work;

use std::io::{ErrorKind, Write};
use std::process::ExitCode;

use engines::Result;
use flags::Flags;
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
    let command = format!("cargo run --release -p strandline-bench-compare -- {}", args.join(" "));
    let facts = machine::facts(flags);
    let limits = limits::measure(flags)?;
    let mut report = Report {
        facts,
        command: command.trim_end_matches([' ', '-']).to_string(),
        limits,
        samples: Vec::new(),
        failures: Vec::new(),
    };
    for stage in stages::STAGES {
        let outcome = session::run(flags, stage, &|text| eprintln!("{text}"));
        report.samples.extend(outcome.samples);
        report.failures.extend(outcome.failures);
    }
    tell(&match flags.json {
        true => format!("{}\n", json::object(&report)),
        false => format!("{}{}", head(&report), table::text(&report)),
    })?;
    if flags.docs {
        std::fs::write(docs::PAGE, docs::page(&report))
            .map_err(|error| format!("{}: {error}; run it in the repository's root", docs::PAGE))?;
    }
    Ok(report.failures.is_empty())
}

/// Machine and settings, before the table.
fn head(report: &Report) -> String {
    let mut lines: Vec<String> =
        report.facts.iter().map(|(name, value)| format!("{name:<28} {value}")).collect();
    for maker in std::iter::once(engines::OURS).chain(engines::RIVALS) {
        lines.push(format!("{:<28} {}", maker.version, maker.settings));
    }
    lines.push(String::new());
    lines.join("\n") + "\n"
}
