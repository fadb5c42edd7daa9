//! Every place where a thread of a store waits stands in one table, with what ends the wait.

use std::collections::BTreeSet;

use super::Finding;

/// The document with the table, and the heading above it.
pub const TABLE: &str = "docs/map.md";
const HEADING: &str = "## Waits";
/// What a wait looks like.
const WAITS: [&str; 6] =
    ["thread::sleep", "yield_now", "thread::park", "Condvar", "wait_timeout", "spin_loop"];

/// Checks files against the table of `document`; each is a path and a text.
pub fn check<'f>(document: &str, files: impl Iterator<Item = (&'f str, &'f str)>) -> Vec<Finding> {
    let mut listed = listed(document);
    let named = listed.clone();
    let mut findings = Vec::new();
    for (path, text) in files.filter(|(path, _)| is_source(path)) {
        let code = text.split("#[cfg(test)]").next().unwrap_or(text);
        let waits = |line: &str| {
            !line.trim_start().starts_with("//") && WAITS.iter().any(|w| line.contains(w))
        };
        let Some(at) = code.lines().position(waits) else { continue };
        if named.contains(path) {
            listed.remove(path);
        } else {
            let what =
                format!("a thread waits; say in {TABLE}, {HEADING}, what for and what ends it");
            findings.push(Finding::new(path, at + 1, what));
        }
    }
    let gone = listed.iter().map(|path| {
        Finding::new(
            TABLE,
            1,
            format!("{HEADING} names {path}, which waits for nothing; remove it"),
        )
    });
    findings.extend(gone);
    findings
}

/// Sources of what a store is made of; the simulator has threads of its own.
fn is_source(path: &str) -> bool {
    let mut parts = path.split('/');
    let ours = |name: &str| !["sim", "testkit"].contains(&name);
    parts.next() == Some("crates")
        && parts.next().is_some_and(ours)
        && parts.next() == Some("src")
        && path.ends_with(".rs")
        // Tests that have files of their own.
        && !path.contains("/tests/")
}

/// Paths of sources that the table names.
fn listed(document: &str) -> BTreeSet<&str> {
    let section = document.split(HEADING).nth(1).unwrap_or_default();
    let section = section.split("\n## ").next().unwrap_or_default();
    section.split('`').skip(1).step_by(2).filter(|path| path.ends_with(".rs")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOCUMENT: &str =
        "## Before\n`crates/a/src/no.rs`\n## Waits\n| `crates/a/src/x.rs` | x |\n\n## After\n";

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        check(DOCUMENT, files.iter().copied()).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn waits_stand_in_the_table() {
        let sleeps = "fn f() {\n    std::thread::sleep(STEP);\n}\n";
        let listed = ("crates/a/src/x.rs", sleeps);
        assert!(found(&[listed]).is_empty());
        assert!(
            found(&[listed, ("crates/a/src/no.rs", sleeps)])[0]
                .starts_with("crates/a/src/no.rs:2: ")
        );
        assert!(found(&[])[0].contains("names crates/a/src/x.rs"));
        let elsewhere = [listed, ("tools/b/src/y.rs", sleeps), ("crates/a/src/tests/z.rs", sleeps)];
        assert!(found(&elsewhere).is_empty());
        let tests = format!("fn g() {{}}\n#[cfg(test)]\nmod tests {{ {sleeps} }}\n");
        assert!(found(&[listed, ("crates/a/src/t.rs", &tests)]).is_empty());
    }
}
