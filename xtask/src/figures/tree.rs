//! The files of a tree: those that git tracks now, or those of a revision.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

/// A tree and its texts.
pub struct SourceTree {
    pub name: String,
    /// By path.
    pub files: BTreeMap<String, String>,
}

impl SourceTree {
    /// The working tree.
    pub fn now() -> Result<SourceTree, String> {
        let paths = git(&["ls-files"])?;
        let read = |path: &str| Some((path.to_owned(), std::fs::read_to_string(path).ok()?));
        let files = paths.lines().filter(|path| is_counted(path)).filter_map(read).collect();
        Ok(SourceTree { name: "now".into(), files })
    }

    /// The tree of revision `rev`, all its files by one process.
    pub fn of_revision(rev: &str) -> Result<SourceTree, String> {
        let listed = git(&["ls-tree", "-r", "--name-only", rev])?;
        let paths: Vec<String> =
            listed.lines().filter(|path| is_counted(path)).map(str::to_owned).collect();
        let failed = |error: std::io::Error| format!("git cat-file: {error}");
        let mut child = Command::new("git")
            .args(["cat-file", "--batch"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let (mut input, output) = input.zip(output).ok_or("git cat-file: no pipes")?;
        let asked = paths.iter().map(|path| format!("{rev}:{path}\n")).collect::<String>();
        // Both pipes are short: what is asked and what is answered go on at once.
        let files = std::thread::scope(|scope| {
            scope.spawn(move || input.write_all(asked.as_bytes()));
            texts(BufReader::new(output), paths)
        });
        child.wait().map_err(failed)?;
        Ok(SourceTree { name: rev.into(), files: files.map_err(failed)? })
    }
}

/// Whether a file has figures.
fn is_counted(path: &str) -> bool {
    path.ends_with(".rs") || path.ends_with(".md")
}

/// Reads what `git cat-file --batch` answers: a line that ends with a length, so many bytes, and an end of line.
fn texts(
    mut output: impl BufRead,
    paths: Vec<String>,
) -> std::io::Result<BTreeMap<String, String>> {
    let mut files = BTreeMap::new();
    for path in paths {
        let mut head = String::new();
        output.read_line(&mut head)?;
        let len: usize = head
            .split_whitespace()
            .nth(2)
            .and_then(|len| len.parse().ok())
            .ok_or_else(|| std::io::Error::other(format!("{path}: {}", head.trim_end())))?;
        let mut text = vec![0; len + 1];
        output.read_exact(&mut text)?;
        text.pop();
        files.insert(path, String::from_utf8_lossy(&text).into_owned());
    }
    Ok(files)
}

fn git(args: &[&str]) -> Result<String, String> {
    let failed = |why: String| format!("git {}: {}", args.join(" "), why.trim_end());
    let output =
        Command::new("git").args(args).output().map_err(|error| failed(error.to_string()))?;
    if !output.status.success() {
        return Err(failed(String::from_utf8_lossy(&output.stderr).into_owned()));
    }
    String::from_utf8(output.stdout).map_err(|error| failed(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_split_by_their_lengths() {
        let answer = &b"1f blob 4\na\nb\n\n2e blob 0\n\n"[..];
        let files = texts(answer, vec!["x.rs".into(), "y.rs".into()]).expect("texts");
        assert_eq!(files["x.rs"], "a\nb\n");
        assert_eq!(files["y.rs"], "");
        let missing = texts(&b"rev:x.rs missing\n"[..], vec!["x.rs".into()]);
        assert!(missing.is_err_and(|error| error.to_string().contains("x.rs")));
    }

    #[test]
    fn a_revision_that_is_not_there_is_named() {
        let error = SourceTree::of_revision("no-such-revision").err().expect("an error");
        assert!(error.contains("no-such-revision"), "{error}");
    }
}
