//! A type has a name of its own in its crate, so that a reader need not ask which one is meant.

use std::collections::BTreeMap;

use super::Finding;

/// Files in whose place a build may take another with the same types: for its processor, for a feature that it is without.
const ALTERNATIVES: [&str; 2] =
    ["crates/pmem/src/cacheline/", "crates/sst/src/compression/no_zstd.rs"];

/// Checks that no two files of a crate define types of the same name. Types of tests do not count: they end with their
/// module.
pub fn check<'f>(files: impl Iterator<Item = (&'f str, &'f str)>) -> Vec<Finding> {
    let mut seen: BTreeMap<(&str, &str), &str> = BTreeMap::new();
    let mut findings = Vec::new();
    for (path, text) in files {
        let Some((root, _)) = path.split_once("/src/").filter(|_| path.ends_with(".rs")) else {
            continue;
        };
        if ALTERNATIVES.iter().any(|dir| path.starts_with(dir)) {
            continue;
        }
        let code = text.split("#[cfg(test)]\nmod ").next().unwrap_or(text);
        for (line, name) in types(code) {
            let first = *seen.entry((root, name)).or_insert(path);
            if first != path {
                let what = format!("{name} is also a type of {first}; name each after what it is");
                findings.push(Finding::new(path, line, what));
            }
        }
    }
    findings
}

/// The types that a text defines, with their lines. Associated types are indented and have no name of their own.
fn types(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().filter_map(|(at, line)| {
        let item = match line.strip_prefix("pub") {
            Some(rest) if rest.starts_with('(') => rest.split_once(") ")?.1,
            Some(rest) => rest.strip_prefix(' ')?,
            None => line,
        };
        let (keyword, rest) = item.split_once(' ')?;
        let defines = matches!(keyword, "struct" | "enum" | "union" | "trait" | "type");
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        defines.then_some((at + 1, &rest[..end]))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        check(files.iter().copied()).iter().map(Finding::to_string).collect()
    }

    #[test]
    fn a_name_is_defined_once_in_a_crate() {
        let a = ("crates/x/src/a.rs", "/// One.\npub(crate) struct Head<'a> {\n}\n");
        let b = ("crates/x/src/b/c.rs", "\nenum Head {\n}\n");
        let what = "crates/x/src/b/c.rs:2: Head is also a type of crates/x/src/a.rs; name each after what it is";
        assert_eq!(found(&[a, b]), [what]);
        let other = ("crates/y/src/b.rs", b.1);
        assert!(found(&[a, other]).is_empty());
    }

    #[test]
    fn all_kinds_of_types_count() {
        for kind in ["pub struct", "pub(super) enum", "union", "pub trait", "type"] {
            let text = format!("{kind} Thing: X {{}}\n");
            let files = [("crates/x/src/a.rs", &text[..]), ("crates/x/src/b.rs", &text[..])];
            assert_eq!(found(&files).len(), 1, "{kind}");
        }
    }

    #[test]
    fn tests_associated_types_and_alternatives_do_not_count() {
        let of = |text: &'static str| [("crates/x/src/a.rs", text), ("crates/x/src/b.rs", text)];
        assert!(found(&of("#[cfg(test)]\nmod tests {\nstruct Head;\n}\n")).is_empty());
        assert!(found(&of("impl X for Y {\n    type Head = u8;\n}\n")).is_empty());
        assert!(found(&of("use a::Head;\nfn f() {}\n")).is_empty());
        let x86 = ("crates/pmem/src/cacheline/x86_64.rs", "pub struct Flusher;\n");
        let arm = ("crates/pmem/src/cacheline/aarch64.rs", "pub struct Flusher;\n");
        assert!(found(&[x86, arm]).is_empty());
    }
}
