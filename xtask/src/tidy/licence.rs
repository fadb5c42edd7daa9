//! Licence expressions, as far as dependencies use them: names with `OR`, `AND`, `WITH`, `/` and parentheses.

/// Licences that ask for nothing but a notice.
const PERMISSIVE: [&str; 15] = [
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Unicode-DFS-2016",
    "Unlicense",
    "X11",
    "Zlib",
];

/// Whether the expression lets us choose permissive licences only.
pub fn is_permissive(expression: &str) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = &words[..];
    any(&mut rest) == Some(true) && rest.is_empty()
}

/// `AND` binds tighter than `OR`. `None`: not an expression.
fn any(rest: &mut &[&str]) -> Option<bool> {
    let mut found = all(rest)?;
    while take(rest, "OR") {
        found |= all(rest)?;
    }
    Some(found)
}

fn all(rest: &mut &[&str]) -> Option<bool> {
    let mut found = one(rest)?;
    while take(rest, "AND") {
        found &= one(rest)?;
    }
    Some(found)
}

fn one(rest: &mut &[&str]) -> Option<bool> {
    if take(rest, "(") {
        let inner = any(rest)?;
        return take(rest, ")").then_some(inner);
    }
    let (name, after) = rest.split_first()?;
    *rest = after;
    let mut name = (*name).to_string();
    if take(rest, "WITH") {
        let (exception, after) = rest.split_first()?;
        *rest = after;
        name = format!("{name} WITH {exception}");
    }
    Some(PERMISSIVE.contains(&name.as_str()))
}

fn take(rest: &mut &[&str], word: &str) -> bool {
    let is = rest.first() == Some(&word);
    if is {
        *rest = &rest[1..];
    }
    is
}

#[cfg(test)]
mod tests {
    use super::{PERMISSIVE, is_permissive};

    #[test]
    fn cargo_deny_allows_the_same() {
        let text = include_str!("../../../deny.toml");
        let listed = text.split_once("allow = [").and_then(|(_, rest)| rest.split_once(']'));
        let listed = listed.expect("a list").0.split(',').map(|name| name.trim().trim_matches('"'));
        assert_eq!(listed.filter(|name| !name.is_empty()).collect::<Vec<_>>(), PERMISSIVE);
    }

    #[test]
    fn expressions() {
        for good in [
            "MIT",
            "MIT/Apache-2.0",
            "MIT OR Apache-2.0 OR LGPL-2.1-or-later",
            "(MIT OR Apache-2.0) AND Unicode-3.0",
            "Apache-2.0 WITH LLVM-exception OR Apache-2.0 OR MIT",
            "GPL-3.0 AND MIT OR MIT",
        ] {
            assert!(is_permissive(good), "{good}");
        }
        for bad in [
            "",
            "MPL-2.0",
            "GPL-3.0",
            "MIT AND GPL-3.0",
            "(MIT OR Apache-2.0) AND MPL-2.0",
            "MIT OR",
            "MIT MIT",
            "(MIT",
            "MIT WITH surprises",
        ] {
            assert!(!is_permissive(bad), "{bad}");
        }
    }
}
