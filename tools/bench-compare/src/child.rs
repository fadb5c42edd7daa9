//! A process for each run of an engine: this program again, with words of its own before the flags.

use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::{Signal, set_parent_process_death_signal};

use crate::engines::{self, Maker, Result};
use crate::flags::Flags;
use crate::measure::group::{self, MemoryGroup};
use crate::stages::{self, Stage};
use crate::turn::{self, Turn};
use crate::wire;

/// The word that makes this program a child.
pub const WORD: &str = "run-child";

/// Runs the benchmarks of `stage` on `maker` in a process of its own.
///
/// # Errors
/// What the child says, or how it ended.
pub fn run(
    flags: &Flags,
    args: &[String],
    stage: &'static Stage,
    maker: &Maker,
    run: usize,
) -> Result<Turn> {
    let number = stages::all().position(|other| std::ptr::eq(other, stage));
    let number = number.ok_or("a stage that is none")?.to_string();
    let program = std::env::current_exe().map_err(|error| format!("this program: {error}"))?;
    let name = format!("strandline-bench-{}-{number}-{}-{run}", std::process::id(), maker.name);
    let group = match &flags.group {
        Some(parent) => Some(MemoryGroup::within(parent, &name)?),
        None => None,
    };
    let mut command = Command::new(program);
    command.args([WORD, &number, maker.name, &run.to_string()]).args(args);
    if let Some(group) = &group {
        command.arg(format!("--cgroup={}", group.path().display()));
    }
    let output = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("starting a process: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    // What libraries print comes before.
    match text.lines().last() {
        Some(line) if output.status.success() => wire::turn(line),
        Some(line) if output.status.code() == Some(1) => Err(line.to_string()),
        _ => Err(format!("its process ended with {}", output.status)),
    }
}

/// What the child does: `args` are the words behind [`WORD`]. Returns what is to be printed.
///
/// # Errors
/// What went wrong.
pub fn main(args: &[String]) -> Result<String> {
    // Figures that no parent reads are not worth the work.
    set_parent_process_death_signal(Some(Signal::TERM)).map_err(|error| error.to_string())?;
    let [number, name, run, flags @ ..] = args else {
        return Err(format!("{WORD} is followed by a stage, an engine, a run and flags"));
    };
    let flags = Flags::parse(flags)?;
    let stage = number.parse().ok().and_then(|number| stages::all().nth(number));
    let stage = stage.ok_or_else(|| format!("{number}: no stage"))?;
    let maker = engines::all().find(|maker| maker.name == name);
    let maker = maker.ok_or_else(|| format!("{name}: no engine"))?;
    let run = run.parse().map_err(|_| format!("{run}: no run"))?;
    flags.group.as_deref().map_or(Ok(()), |folder: &Path| group::join(folder))?;
    let turn = turn::run(&flags, stage, &flags.cases(stage), maker, run)?;
    Ok(wire::line(&turn))
}
