//! `cargo xtask tidy`: rules of the house that no compiler holds. Each finding says where it is and what to do.
//!
//! A rule is a function from texts to findings; only this file reads the tree.

mod crates;
mod licence;
mod links;
mod map;
mod names;
mod prose;
mod rooms;
mod text;
mod waits;

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;
use std::process::Command;

/// Inputs of fuzzing: bytes, even where they happen to be text.
const FOREIGN: &str = "fuzz/corpus/";

/// A place that breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    file: String,
    line: usize,
    /// What is wrong, and what to do.
    what: String,
}

impl Finding {
    fn new(file: &str, line: usize, what: impl Into<String>) -> Finding {
        Finding { file: file.into(), line, what: what.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.what)
    }
}

/// A tracked file.
struct File {
    path: String,
    text: String,
}

pub fn run(args: &[String]) -> Result<(), String> {
    if !args.is_empty() {
        return Err("usage: cargo xtask tidy".into());
    }
    let tracked = output("git", &["ls-files"])?;
    let paths: BTreeSet<&str> = tracked.lines().collect();
    let files: Vec<File> = paths.iter().filter_map(|path| read(path)).collect();
    let mut findings = Vec::new();
    if !paths.contains("Cargo.lock") {
        findings.push(Finding::new("Cargo.lock", 1, "not tracked; commit it"));
    }
    let exists = |path: &str| Path::new(path).exists();
    for file in &files {
        if !file.path.starts_with(FOREIGN) {
            findings.extend(text::check(&file.path, &file.text));
        }
        findings.extend(links::check(&file.path, &file.text, exists));
        findings.extend(prose::check(&file.path, &file.text));
        findings.extend(crates::check_unsafe(&file.path, &file.text));
    }
    let text_of =
        |path: &str| files.iter().find(|file| file.path == path).map_or("", |file| &file.text);
    let all = files.iter().map(|file| (&file.path[..], &file.text[..]));
    findings.extend(waits::check(text_of(waits::TABLE), all.clone()));
    findings.extend(map::check(text_of(map::PAGE), all.clone()));
    findings.extend(names::check(all.clone()));
    findings.extend(rooms::check(all));
    let metadata = output("cargo", &["metadata", "--format-version", "1", "--locked"])?;
    findings.extend(crates::check_metadata(&metadata)?);
    for finding in &findings {
        println!("{finding}");
    }
    match findings.len() {
        0 => {
            println!("tidy: {} files, nothing found", files.len());
            Ok(())
        }
        count => Err(format!("tidy: {count} findings")),
    }
}

/// The file's text; nothing if it is no text, or was deleted and that is not committed yet.
fn read(path: &str) -> Option<File> {
    let text = std::fs::read_to_string(path).ok()?;
    Some(File { path: path.into(), text })
}

fn output(program: &str, args: &[&str]) -> Result<String, String> {
    let failed = |why: String| format!("{program} {}: {why}", args.join(" "));
    let output =
        Command::new(program).args(args).output().map_err(|error| failed(error.to_string()))?;
    if !output.status.success() {
        return Err(failed(String::from_utf8_lossy(&output.stderr).into_owned()));
    }
    String::from_utf8(output.stdout).map_err(|error| failed(error.to_string()))
}
