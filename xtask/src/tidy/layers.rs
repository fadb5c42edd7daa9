//! Inside the engine, `path` tells the stories and the parts are leaves: they do not know who calls them.

use super::Finding;

const ENGINE: &str = "crates/strandline/src/";
/// Who may name `path` besides itself, and why.
const MAY: [(&str, &str); 7] = [
    ("lib.rs", "re-exports what the stories return"),
    ("db.rs", "the public face: calls the stories"),
    ("fuzz.rs", "calls what reads foreign bytes, wherever it is"),
    ("db/iterator.rs", "the same, of iterators"),
    ("steps.rs", "the public face of single steps, for schedulers under test"),
    ("engine.rs", "holds the job under way and the report of the recovery that made it"),
    ("background/worker.rs", "drives background work and asks what it came to"),
];

/// Checks one file.
pub fn check(path: &str, text: &str) -> Vec<Finding> {
    let Some(file) = path.strip_prefix(ENGINE) else { return Vec::new() };
    if file.starts_with("path/") || MAY.iter().any(|(may, _)| *may == file) {
        return Vec::new();
    }
    let lines = text.lines().enumerate();
    lines
        .filter(|(_, line)| !line.trim_start().starts_with("//") && names_path(line))
        .map(|(at, _)| {
            let what = "a part of the engine names `path`; pass in what it needs instead";
            Finding::new(path, at + 1, what)
        })
        .collect()
}

fn names_path(line: &str) -> bool {
    let compact: String = line.split_whitespace().collect();
    let direct = ["crate::path::", "crate::path;", "crate::{path"];
    direct.iter().any(|form| compact.contains(form)) || compact.starts_with("path::")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_do_not_name_path() {
        let bad = "use crate::view::View;\nuse crate::path::job::Job;\n";
        assert_eq!(check("crates/strandline/src/ring/mod.rs", bad)[0].line, 2);
        assert_eq!(check("crates/strandline/src/background/jobs.rs", bad), []);
        assert_eq!(check("crates/strandline/src/db.rs", bad), []);
        assert_eq!(check("crates/pool/src/pool.rs", bad), []);
        let told = "/// See [`crate::path::read`].\nuse std::path::Path;\n";
        assert_eq!(check("crates/strandline/src/keyspace/view.rs", told), []);
        let list = "use crate::{path::job::Job, view::View};";
        assert_eq!(check("crates/strandline/src/keyspace/view.rs", list).len(), 1);
    }
}
