//! A child process that is there to be killed.

use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use strandline::Options;

use crate::config::Config;

/// A running child; killed, if it still runs, when this goes.
pub(crate) struct Running {
    child: Child,
}

impl Running {
    /// Starts a child in `mode`, its first arguments, on the store at `path`.
    pub(crate) fn start(
        mode: &[String],
        config: &Config,
        path: &Path,
        options: &Options,
        further: &[String],
    ) -> Result<(Running, ChildStdout), String> {
        let failed = |error: std::io::Error| format!("starting a child process: {error}");
        let program = std::env::current_exe().map_err(failed)?;
        let mut command = Command::new(program);
        command.arg("bench").args(mode);
        for (name, value) in &config.given {
            if name != "benchmarks" && name != "preset_report" {
                command.arg(format!("--{name}={value}"));
            }
        }
        command.arg(format!("--db={}", path.display())).arg("--use_existing_db=true");
        command.arg(format!("--pm_size={}", options.pm_size));
        command.arg(format!("--memtable_bytes={}", options.memtable_bytes));
        command.arg(format!("--dram_budget={}", options.dram_budget));
        command.args(further).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(failed)?;
        let output = child.stdout.take().ok_or("a child process without standard output")?;
        Ok((Running { child }, output))
    }

    /// Kills it with SIGKILL, which it cannot notice, and waits until it is gone.
    pub(crate) fn kill(&mut self) -> Result<(), String> {
        self.child.kill().map_err(|error| format!("killing a child process: {error}"))?;
        self.child.wait().map(drop).map_err(|error| format!("waiting for a child process: {error}"))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _gone_already = self.child.kill();
        let _reaped = self.child.wait();
    }
}
