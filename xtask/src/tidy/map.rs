//! The map of the code names files, and functions and types in them. All of them have to be there.

use std::collections::{BTreeMap, BTreeSet};

use super::Finding;

/// The page.
pub const PAGE: &str = "docs/map.md";
/// Where the paths on the page begin.
const ROOTS: [&str; 4] = ["", "crates/strandline/src/", "crates/strandline/", "docs/"];

/// Checks `page` against the tree; `files` are all tracked files with their texts.
pub fn check<'f>(page: &str, files: impl Iterator<Item = (&'f str, &'f str)>) -> Vec<Finding> {
    let tree = Tree::new(files);
    let mut findings = Vec::new();
    let mut fenced = false;
    for (at, line) in page.lines().enumerate() {
        fenced ^= line.starts_with("```");
        if !fenced {
            let missing = tree.missing(line);
            findings.extend(missing.into_iter().map(|what| Finding::new(PAGE, at + 1, what)));
        }
    }
    findings
}

struct Tree<'f> {
    paths: BTreeSet<&'f str>,
    /// The words of each source.
    words: BTreeMap<&'f str, BTreeSet<&'f str>>,
}

impl<'f> Tree<'f> {
    fn new(files: impl Iterator<Item = (&'f str, &'f str)>) -> Tree<'f> {
        let (mut paths, mut words) = (BTreeSet::new(), BTreeMap::new());
        for (path, text) in files {
            // Folders, too.
            paths.extend(path.match_indices('/').map(|(at, _)| &path[..at]));
            paths.insert(path);
            if path.ends_with(".rs") {
                let part = |c: char| !(c.is_alphanumeric() || c == '_');
                words.insert(path, text.split(part).collect());
            }
        }
        Tree { paths, words }
    }

    /// What a line names and the tree does not have. A name that follows a file, or names behind one, is in that file;
    /// any other name, and the type of a function, is in some source.
    fn missing(&self, line: &str) -> Vec<String> {
        let mut findings = Vec::new();
        let mut file = None;
        let mut pieces = line.split('`');
        let mut between = pieces.next().unwrap_or_default();
        while let (Some(quoted), Some(behind)) = (pieces.next(), pieces.next()) {
            if !matches!(between.trim(), "" | ",") {
                file = None;
            }
            between = behind;
            if is_path(quoted) {
                for path in alternatives(quoted) {
                    file = self.resolve(&path);
                    if file.is_none() {
                        findings.push(format!("names {path}, which is not there; mend the path"));
                    }
                }
            } else if let Some((owners, name)) = name(quoted) {
                let known =
                    self.holds(file, name) && owners.iter().all(|owner| self.holds(None, owner));
                if !known {
                    let place = file.unwrap_or("any source");
                    findings.push(format!("names {quoted}, which is not in {place}; mend the row"));
                }
            }
        }
        findings
    }

    fn resolve(&self, path: &str) -> Option<&'f str> {
        let path = path.trim_end_matches('/');
        let found = |root: &&str| self.paths.get(&format!("{root}{path}")[..]).copied();
        ROOTS.iter().find_map(found)
    }

    fn holds(&self, file: Option<&str>, name: &str) -> bool {
        match file.and_then(|file| self.words.get(file)) {
            Some(words) => words.contains(name),
            None => self.words.values().any(|words| words.contains(name)),
        }
    }
}

/// Whether what stands between back-quotes is a path.
fn is_path(text: &str) -> bool {
    let part = |c: char| c.is_alphanumeric() || "/._-{},".contains(c);
    text.chars().all(part) && (text.contains('/') || text.ends_with(".rs"))
}

/// The paths that `{a,b}` in `path` stands for.
fn alternatives(path: &str) -> Vec<String> {
    match path.split_once('{').and_then(|(head, rest)| Some((head, rest.split_once('}')?))) {
        Some((head, (list, tail))) => {
            list.split(',').map(|part| format!("{head}{part}{tail}")).collect()
        }
        None => vec![path.into()],
    }
}

/// A name of Rust: the last part, and those before it.
fn name(text: &str) -> Option<(Vec<&str>, &str)> {
    let is_name = |part: &&str| {
        let inside = |c: char| c.is_alphanumeric() || c == '_';
        !part.is_empty() && !part.starts_with(char::is_numeric) && part.chars().all(inside)
    };
    let mut parts: Vec<&str> = text.split("::").collect();
    let last = parts.iter().all(is_name).then(|| parts.pop()).flatten();
    last.map(|last| (parts, last))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILES: [(&str, &str); 3] = [
        ("crates/strandline/src/write/commit.rs", "impl Commit { fn fence() {} }"),
        ("crates/pool/src/log.rs", "fn append() {}"),
        ("docs/format/wal.md", "frame"),
    ];

    fn found(page: &str) -> Vec<String> {
        check(page, FILES.into_iter()).into_iter().map(|finding| finding.what).collect()
    }

    #[test]
    fn names_that_are_there() {
        let page = "| fence | `write/commit.rs` `Commit::fence`, `Commit` |\n\
                    | log | `crates/pool/src/{log}.rs` `append`; `fence`, `format/wal.md`, `crates/pool/` |\n\
                    ```\n`no.rs`\n```\n`level0=sst`, `I-PM-1`\n";
        assert_eq!(found(page), [""; 0]);
    }

    #[test]
    fn names_that_are_gone() {
        assert_eq!(
            found("`write/put.rs`"),
            ["names write/put.rs, which is not there; mend the path"]
        );
        let elsewhere = found("`crates/pool/src/log.rs` `Commit::fence`");
        assert_eq!(
            elsewhere,
            ["names Commit::fence, which is not in crates/pool/src/log.rs; mend the row"]
        );
        assert_eq!(found("`crates/pool/src/log.rs`, `append`; `frozen`").len(), 1);
        assert_eq!(found("`Batch::fence`").len(), 1);
    }
}
