//! A store in a directory of its own, and runs of the command on it.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

/// A directory, removed at the end.
pub struct Store {
    dir: tempfile::TempDir,
}

/// How a run ended.
pub struct Ran {
    pub code: i32,
    pub out: Vec<u8>,
    /// Standard error, without the line about durability.
    pub err: String,
    /// What it said of the durability of a store that it opened.
    pub durability: Option<String>,
}

/// Whether a line of standard error says what a write survives.
pub fn is_durability(line: &str) -> bool {
    line.starts_with("durability: ") || line.starts_with("{\"durability\":")
}

impl Ran {
    fn new(output: Output) -> Ran {
        let err = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!err.contains("panicked"), "{err}");
        let (said, rest): (Vec<&str>, Vec<&str>) =
            err.split_inclusive('\n').partition(|line| is_durability(line));
        assert!(said.len() < 2, "{err}");
        let durability = said.first().map(|line| line.trim_end().to_owned());
        let code = output.status.code().expect("not killed by a signal");
        Ran { code, out: output.stdout, err: rest.concat(), durability }
    }

    pub fn text(&self) -> String {
        String::from_utf8(self.out.clone()).expect("output is text")
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.out)
            .unwrap_or_else(|error| panic!("{error}: {}{}", self.text(), self.err))
    }

    #[track_caller]
    pub fn ok(self) -> Ran {
        assert_eq!(self.code, 0, "{}{}", self.text(), self.err);
        self
    }

    /// The run must have failed with `code`, saying one line that has `part`.
    #[track_caller]
    pub fn failed(self, code: i32, part: &str) -> Ran {
        assert_eq!(self.code, code, "{}{}", self.text(), self.err);
        let last = self.err.trim_end();
        assert!(last.starts_with("strandline: ") && !last.contains('\n'), "{last}");
        assert!(last.contains(part), "{last} lacks {part}");
        self
    }
}

impl Store {
    /// In memory, where there is a directory of it, so that stores have pools.
    pub fn new() -> Store {
        let memory = Path::new("/dev/shm");
        let temporary = std::env::temp_dir();
        Store::within(if memory.is_dir() { memory } else { &temporary })
    }

    /// Under the system's temporary directory, most often on a disk.
    pub fn on_disk() -> Store {
        Store::within(&std::env::temp_dir())
    }

    fn within(parent: &Path) -> Store {
        let made = tempfile::Builder::new().prefix("strandline-cli-").tempdir_in(parent);
        Store { dir: made.expect("a temporary directory") }
    }

    /// The directory that holds the store, for files beside it.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    pub fn pool(&self) -> PathBuf {
        self.dir().join("db/pool")
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_strandline"));
        command
            .args(args)
            .env("STRANDLINE_DB", self.dir().join("db"))
            .current_dir(self.dir())
            .stdin(Stdio::null());
        command
    }

    pub fn run(&self, args: &[&str]) -> Ran {
        Ran::new(self.command(args).output().expect("the command runs"))
    }

    /// A run with `input` on its standard input.
    pub fn run_with(&self, args: &[&str], input: impl AsRef<[u8]>) -> Ran {
        let mut child = self.spawn(args);
        let mut stdin = child.stdin.take().expect("a pipe");
        // A command that ends early leaves the rest unread.
        let _unread = stdin.write_all(input.as_ref());
        drop(stdin);
        Ran::new(child.wait_with_output().expect("the command ends"))
    }

    pub fn spawn(&self, args: &[&str]) -> Child {
        self.command(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the command runs")
    }

    /// Makes a small store of `records` records `key00000<TAB>value 0`, and so on.
    pub fn filled(records: u32, args: &[&str]) -> Store {
        let store = Store::new();
        let lines: String = (0..records).map(|at| format!("key{at:05}\tvalue {at}\n")).collect();
        let mut all = vec!["load", "--create", "--pm-size", "32M"];
        all.extend(args);
        store.run_with(&all, lines).ok();
        store
    }

    /// Like [`Store::filled`], with most of the records under runs: the writer itself flushes memtables.
    pub fn with_runs(records: u32) -> Store {
        let flush = ["--memtable-bytes", "64K", "--immutable-memtables-max", "1"];
        Store::filled(records, &[&flush[..], &["--background-threads", "0"]].concat())
    }

    /// Flips a bit of each byte at `places` of the pool.
    pub fn flip(&self, places: &[usize]) {
        let mut bytes = std::fs::read(self.pool()).expect("the pool is there");
        places.iter().for_each(|at| bytes[*at] ^= 0x20);
        std::fs::write(self.pool(), bytes).expect("the pool is writable");
    }

    /// Where `bytes` are in the pool; they must be there once.
    pub fn find(&self, bytes: &[u8]) -> usize {
        let pool = std::fs::read(self.pool()).expect("the pool is there");
        let mut places = pool.windows(bytes.len()).enumerate().filter(|(_, found)| *found == bytes);
        let (at, _) = places.next().expect("the bytes are in the pool");
        assert!(places.next().is_none(), "the bytes are there twice");
        at
    }
}
