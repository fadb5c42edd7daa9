//! `cargo xtask figures`: how long files and functions are, how much is commented, what functions take; of each crate,
//! for the tree as it is and for earlier revisions beside it.

mod code;
mod functions;
mod measure;
mod tree;

use std::collections::BTreeMap;

use measure::{HEADS, Measured};
use tree::SourceTree;

const USAGE: &str = "usage: cargo xtask figures [--rev REV]...\n\
    Sources of each crate without their tests: lines of a median file, files over 500 lines; functions, lines of a \
    median and of the longest one, those over 70; comments in 100 lines that are not blank, in all and inside functions; \
    parameters that are bool or tuples; lines that ask for a planted bug, and those at the head of a function; lines of \
    code. Then words of documents.";
const DOCUMENTS: [&str; 2] = ["ARCHITECTURE.md", "README.md"];

pub fn run(args: &[String]) -> Result<(), String> {
    let mut trees = Vec::new();
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let rev = match (arg.as_str(), arg.strip_prefix("--rev=")) {
            (_, Some(rev)) => rev,
            ("--rev", _) => args.next().ok_or(USAGE)?,
            _ => return Err(USAGE.into()),
        };
        trees.push(SourceTree::of_revision(rev)?);
    }
    trees.push(SourceTree::now()?);
    print!("{}", table(&trees));
    Ok(())
}

/// A row for each crate and tree, those of a crate together, then the words of the documents.
fn table(trees: &[SourceTree]) -> String {
    let measured: Vec<_> = trees.iter().map(|tree| (tree, crates(tree))).collect();
    let mut names: Vec<&str> = measured.iter().flat_map(|(_, of)| of.keys().copied()).collect();
    names.sort_unstable();
    names.dedup();
    let mut rows = vec![row("crate", "tree", HEADS.map(str::to_owned).to_vec())];
    for name in names {
        for (tree, of) in &measured {
            let Some(measured) = of.get(name) else { continue };
            rows.push(row(name, &tree.name, measured.cells()));
        }
    }
    for (tree, of) in &measured {
        let mut all = Measured::default();
        of.values().for_each(|measured| all.join(measured));
        rows.push(row("all", &tree.name, all.cells()));
    }
    let mut text = aligned(&rows) + "\n";
    let mut rows = vec![vec!["document".to_owned(), "tree".into(), "words".into()]];
    for document in DOCUMENTS {
        for tree in trees {
            let words = tree.files.get(document).map_or(0, |text| text.split_whitespace().count());
            rows.push(row(document, &tree.name, vec![words.to_string()]));
        }
    }
    text += &aligned(&rows);
    text
}

fn row(name: &str, tree: &str, cells: Vec<String>) -> Vec<String> {
    [name.to_owned(), tree.to_owned()].into_iter().chain(cells).collect()
}

/// The figures of each crate's sources.
fn crates(tree: &SourceTree) -> BTreeMap<&str, Measured> {
    let mut crates: BTreeMap<&str, Measured> = BTreeMap::new();
    for (path, text) in &tree.files {
        let Some((root, inside)) = path.split_once("/src/").filter(|_| path.ends_with(".rs"))
        else {
            continue;
        };
        // A file of tests is included by a module under `cfg(test)`.
        if inside == "tests.rs" || inside.ends_with("/tests.rs") {
            continue;
        }
        crates.entry(root).or_default().add(text);
    }
    crates
}

/// Names to the left, figures to the right.
fn aligned(rows: &[Vec<String>]) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |at: usize| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().zip(&widths).enumerate().map(|(at, (cell, width))| match at {
            0 | 1 => format!("{cell:<width$}"),
            _ => format!("{cell:>width$}"),
        });
        text += cells.collect::<Vec<_>>().join("  ").trim_end();
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(name: &str, files: &[(&str, &str)]) -> SourceTree {
        let files = files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned()));
        SourceTree { name: name.into(), files: files.collect() }
    }

    #[test]
    fn trees_stand_side_by_side() {
        let old =
            tree("old", &[("crates/x/src/a.rs", "fn a() {\n}\n"), ("README.md", "one two three")]);
        let new = tree(
            "now",
            &[
                ("crates/x/src/a.rs", "fn a() {\n    b();\n}\n"),
                ("crates/x/src/tests.rs", "fn t() {}\n"),
                ("crates/x/tests/t.rs", "fn t() {}\n"),
                ("README.md", "one"),
            ],
        );
        let text = table(&[old, new]);
        let words = |begin: &str| -> Vec<Vec<&str>> {
            let lines = text.lines().filter(|line| line.starts_with(begin));
            lines.map(|line| line.split_whitespace().collect()).collect()
        };
        let x = words("crates/x");
        assert_eq!((x[0][1], x[0][3], x[1][1], x[1][3]), ("old", "2", "now", "3"), "{text}");
        assert_eq!((x[1][2], x[1].len()), ("1", 16), "{text}");
        assert_eq!(words("README.md"), [["README.md", "old", "3"], ["README.md", "now", "1"]]);
    }

    #[test]
    fn wrong_arguments_show_the_usage() {
        for wrong in [&["--rev"][..], &["now"]] {
            let args: Vec<String> = wrong.iter().map(|arg| (*arg).to_owned()).collect();
            assert!(run(&args).is_err_and(|error| error.starts_with("usage: ")), "{wrong:?}");
        }
    }
}
