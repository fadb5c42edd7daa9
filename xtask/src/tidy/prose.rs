//! Plain English: pages that are read from start to end stay short, and some words are left out everywhere.

use super::Finding;

/// Words of a page at most, counted as `wc -w` does.
const WORDS_MAX: [(&str, usize); 2] = [("ARCHITECTURE.md", 1300), ("README.md", 1200)];

/// Words and phrases that have a plainer form, and that form. Put together here so that this file passes.
const PLAINER: [(&str, &str); 10] = [
    (concat!("who", "ever"), "name the thread or caller"),
    (concat!("some", "body"), "name the thread, reader or owner"),
    (concat!("no", "body"), "name the thread, reader or owner, or say that it is unknown"),
    (concat!("any", "body"), "name the thread, reader or owner"),
    (concat!("what ", "leaves"), "name what it is: inputs, runs, tables"),
    (concat!("what ", "sinks"), "name what it is: inputs, runs, tables"),
    (concat!("who ", "waits"), "a thread that waits"),
    (concat!("when it ", "likes"), "say when"),
    (concat!("had ", "better"), "say what it does"),
    (concat!("of ", "which"), "make two sentences, or use whose, that or with"),
];
/// This one is plain.
const PLAIN: &str = concat!("each of ", "which");

/// Checks one file.
pub fn check(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = check_length(path, text);
    if path.ends_with(".rs") || path.ends_with(".md") {
        for (at, line) in text.lines().enumerate() {
            let line = line.to_lowercase().replace(PLAIN, "");
            let spelt = PLAINER.iter().filter(|(phrase, _)| holds(&line, phrase));
            findings.extend(spelt.map(|(phrase, remedy)| {
                Finding::new(path, at + 1, format!("\"{phrase}\" is hard to read: {remedy}"))
            }));
        }
    }
    findings
}

/// Whether `line` has `phrase` as whole words.
fn holds(line: &str, phrase: &str) -> bool {
    let ends = |rest: Option<char>| rest.is_none_or(|c| !c.is_alphanumeric() && c != '_');
    line.match_indices(phrase).any(|(at, _)| {
        ends(line[..at].chars().next_back()) && ends(line[at + phrase.len()..].chars().next())
    })
}

fn check_length(path: &str, text: &str) -> Vec<Finding> {
    let limit = WORDS_MAX.iter().find(|(page, _)| *page == path);
    let words = text.split_whitespace().count();
    let beyond = limit.filter(|(_, limit)| words > *limit);
    let what = |(_, limit): &(&str, usize)| {
        format!("{words} words; at most {limit}: move what is not for every reader below docs")
    };
    beyond.map(|beyond| Finding::new(path, 1, what(beyond))).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_pages() {
        let (page, limit) = WORDS_MAX[0];
        assert_eq!(check(page, &"word ".repeat(limit)), []);
        assert_eq!(check(page, &"word ".repeat(limit + 1)).len(), 1);
        assert_eq!(check("docs/map.md", &"word ".repeat(limit + 1)), []);
    }

    #[test]
    fn words_that_have_a_plainer_form() {
        let found = |line: &str| check("a.rs", line).len();
        assert_eq!(found(concat!("// No", "body holds it.")), 1);
        assert_eq!(
            found(concat!("// Two runs, of ", "which the first is read by any", "body.")),
            2
        );
        assert_eq!(found(concat!("// Two steps, each of ", "which waits.")), 0);
        assert_eq!(found(concat!("let no", "body_counts = 1;")), 0);
        assert_eq!(check("a.txt", concat!("no", "body")).len(), 0);
    }
}
