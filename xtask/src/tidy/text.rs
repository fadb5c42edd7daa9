//! Rules about lines and words.

use super::Finding;

/// Lines of a source file of a crate at most: beyond that it holds more than one idea.
const LINES_MAX: usize = 600;
/// Words that say something is not finished. Put together here so that this file passes.
const UNFINISHED: [&str; 6] = [
    concat!("to", "do!"),
    concat!("unimple", "mented!"),
    concat!("db", "g!"),
    concat!("FIX", "ME"),
    concat!("XX", "X"),
    concat!("TO", "DO"),
];
/// Places of one machine.
const MACHINE: [&str; 2] = [concat!("/wo", "rk/"), concat!("/ro", "ot/")];
/// Ends of type names that name no job.
const VAGUE: [&str; 4] = ["Manager", "Helper", "Helpers", "Utils"];

/// Checks one file.
pub fn check(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (at, line) in text.split('\n').enumerate() {
        let found = |what: String| Finding::new(path, at + 1, what);
        if line.ends_with('\r') {
            findings.push(found("ends in CR LF; use LF".into()));
        } else if line.trim_end() != line {
            findings.push(found("white space at the end; remove it".into()));
        }
        // Documents show what commands print.
        if line.contains('\t') && !path.ends_with(".md") {
            findings.push(found("a tab; use spaces, or \\t in a string".into()));
        }
        if let Some(place) = MACHINE.iter().find(|place| holds_place(line, place)) {
            findings.push(found(format!("{place} is a place of one machine; use a relative path")));
        }
        if !path.ends_with(".rs") {
            continue;
        }
        if let Some(word) = UNFINISHED.iter().find(|word| holds_word(line, word)) {
            findings.push(found(format!("{word} says that it is not finished; finish it")));
        }
        if let Some(name) = declared(line).filter(|name| is_vague(name)) {
            findings.push(found(format!("{name} does not say what it does; name its job")));
        }
    }
    let in_crate = path.starts_with("crates/") && path.split('/').nth(2) == Some("src");
    let lines = text.lines().count();
    if in_crate && path.ends_with(".rs") && lines > LINES_MAX {
        let what = format!("{lines} lines; at most {LINES_MAX}: move an idea to a file of its own");
        findings.push(Finding::new(path, lines, what));
    }
    findings
}

/// Whether `line` holds `word`, and not as a part of a longer one.
fn holds_word(line: &str, word: &str) -> bool {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| {
        let (before, after) = (&line[..at], &line[at + word.len()..]);
        let longer = word.ends_with(part) && after.starts_with(part);
        !longer && !before.ends_with(part)
    })
}

/// Whether `line` holds a path that begins with `place`.
fn holds_place(line: &str, place: &str) -> bool {
    let longer = |c: char| c.is_alphanumeric() || "._-*})>".contains(c);
    line.match_indices(place).any(|(at, _)| !line[..at].ends_with(longer))
}

/// The name of the type that the line declares.
fn declared(line: &str) -> Option<&str> {
    let mut words = line.split(|c: char| !c.is_alphanumeric() && c != '_');
    words.find(|word| ["struct", "enum", "trait", "type"].contains(word))?;
    words.next()
}

fn is_vague(name: &str) -> bool {
    VAGUE.iter().any(|end| name.ends_with(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whats(path: &str, text: &str) -> Vec<(usize, String)> {
        let found = check(path, text);
        found.into_iter().map(|f| (f.line, f.what.split(' ').next().unwrap().into())).collect()
    }

    #[test]
    fn white_space() {
        assert_eq!(whats("a.rs", "fine\n\nfine\n"), []);
        let found = whats("a.rs", "a \nb\r\n\tc");
        assert_eq!(found, [(1, "white".into()), (2, "ends".into()), (3, "a".into())]);
    }

    #[test]
    fn unfinished() {
        for word in UNFINISHED {
            assert_eq!(whats("a.rs", &format!("x {word}()"))[0].1, word);
        }
        assert_eq!(whats("a.rs", concat!("my_to", "do!() XX", "XX PREFIX", "MEs")), []);
        assert_eq!(whats("a.md", UNFINISHED[3]), []);
    }

    #[test]
    fn places() {
        assert_eq!(whats("a.md", &format!("see {}x", MACHINE[0])).len(), 1);
        assert_eq!(whats("a.md", &format!("\"{}x\"", MACHINE[1])).len(), 1);
        assert_eq!(whats("a.md", &format!("src{}mod.rs and ..{}", MACHINE[0], MACHINE[1])), []);
    }

    #[test]
    fn names() {
        assert_eq!(whats("a.rs", concat!("pub struct Zone", "Manager<T> {"))[0].1, "ZoneManager");
        assert_eq!(whats("a.rs", concat!("enum U", "tils {")).len(), 1);
        assert_eq!(whats("a.rs", "struct Zones; // a manager of zones"), []);
    }

    #[test]
    fn length() {
        let long = "//\n".repeat(LINES_MAX + 1);
        assert_eq!(whats("crates/base/src/a.rs", &long), [(LINES_MAX + 1, "601".into())]);
        assert_eq!(whats("crates/base/tests/a.rs", &long), []);
    }
}
