//! A child process: this program again, with a pipe from its standard output to here.

use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::message::{LEN, Message, read_all};

/// The subcommand of a child.
pub const CHILD: &str = "kill9-child";
const SIGKILL: i32 = 9;

/// Kills its process, if it still runs, when it goes.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _gone_already = self.0.kill();
        let _reaped = self.0.wait();
    }
}

/// When a child is killed.
#[derive(Clone, Copy, Debug)]
pub enum When {
    /// So long after it began to open the store.
    Opening(Duration),
    /// So long after it had the store open.
    Open(Duration),
}

/// Lets a child run this program's subcommand `command`, kills it, and returns all that it told; an error if it ended by
/// itself.
pub fn run_and_kill(command: &str, args: &[String], when: When) -> Result<Vec<Message>, String> {
    let failed = |error: std::io::Error| format!("a child process: {error}");
    let program = std::env::current_exe().map_err(failed)?;
    let mut child = Command::new(program)
        .arg(command)
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map(Running)
        .map_err(failed)?;
    let mut out = child.0.stdout.take().ok_or("a child process without standard output")?;
    let mut told = read_one(&mut out);
    let wait = match when {
        When::Opening(wait) => wait,
        When::Open(wait) => {
            told.append(&mut read_one(&mut out));
            wait
        }
    };
    let told = std::thread::scope(|scope| {
        let listener = scope.spawn(move || out.read_to_end(&mut told).map(|_| told));
        std::thread::sleep(wait);
        child.0.kill().map_err(failed)?;
        listener.join().map_err(|_| "the listener panicked")?.map_err(failed)
    })?;
    let status = child.0.wait().map_err(failed)?;
    if status.signal() != Some(SIGKILL) {
        return Err(format!("the child ended by itself, {status}; its message is above"));
    }
    read_all(&told)
}

/// The next message, or nothing if the child is gone.
fn read_one(out: &mut impl Read) -> Vec<u8> {
    let mut word = vec![0; LEN];
    if out.read_exact(&mut word).is_ok() { word } else { Vec::new() }
}
