//! The rooms of the engine: folders, and single files beside them. Which room may use which is a table, from the
//! bottom up. A room uses only what stands above it in the table, so that there are no circles between rooms.

use std::collections::BTreeSet;

use super::Finding;

const ENGINE: &str = "crates/strandline/src/";
/// Rooms that every room may use. They use only each other.
const LEAVES: &[&str] = &[
    "busy",
    "caught",
    "count",
    "fences",
    "hooks",
    "machine",
    "operators",
    "options",
    "padded",
    "poison",
    "probe",
    "quantum",
    "socket",
    "span",
    "tracer",
    "ttl",
    "volatile",
];
/// Each other room, and the rooms it uses. A file belongs to the room with the longest name that its path begins with.
const ROOMS: [(&str, &[&str]); 39] = [
    ("level0/policy", &[]),
    ("record", &[]),
    ("cache/pm", &["record"]),
    ("cache", &["cache/pm", "record"]),
    ("ring", &[]),
    ("runtime", &["cache"]),
    ("throttle", &["level0/policy"]),
    ("wal", &[]),
    ("snapshot", &["ring"]),
    ("ranges", &["snapshot"]),
    ("memtable", &["ranges", "record", "snapshot"]),
    ("tree", &["cache", "cache/pm", "ranges", "record"]),
    ("compaction/policy", &["tree"]),
    ("level0/run", &["memtable", "ranges", "record"]),
    ("iter", &["level0/run", "memtable", "ranges", "record", "snapshot", "tree"]),
    (
        "compaction/merge",
        &[
            "compaction/policy",
            "iter",
            "level0/run",
            "memtable",
            "ranges",
            "record",
            "throttle",
            "tree",
        ],
    ),
    ("keyspace", &["level0/run", "memtable", "ranges", "record", "ring", "tree"]),
    ("locks", &["keyspace"]),
    ("manifest", &["level0/run", "tree"]),
    ("stream/kept", &["keyspace", "manifest", "record", "ring"]),
    (
        "recovery",
        &[
            "cache/pm",
            "keyspace",
            "level0/run",
            "manifest",
            "memtable",
            "record",
            "stream/kept",
            "tree",
        ],
    ),
    ("space", &["keyspace", "level0/run", "manifest", "record", "tree"]),
    (
        "compaction/under_way",
        &[
            "compaction/merge",
            "compaction/policy",
            "keyspace",
            "level0/run",
            "manifest",
            "memtable",
            "ranges",
            "record",
            "snapshot",
            "tree",
        ],
    ),
    (
        "engine",
        &[
            "cache/pm",
            "compaction/merge",
            "compaction/under_way",
            "keyspace",
            "locks",
            "manifest",
            "record",
            "recovery",
            "ring",
            "runtime",
            "snapshot",
            "space",
            "stream/kept",
            "throttle",
            "tree",
        ],
    ),
    (
        "check",
        &[
            "engine",
            "iter",
            "keyspace",
            "level0/run",
            "manifest",
            "memtable",
            "record",
            "recovery",
            "tree",
        ],
    ),
    (
        "compaction",
        &[
            "compaction/merge",
            "compaction/policy",
            "compaction/under_way",
            "engine",
            "iter",
            "keyspace",
            "level0/policy",
            "level0/run",
            "manifest",
            "memtable",
            "record",
            "throttle",
            "tree",
        ],
    ),
    (
        "read",
        &[
            "cache",
            "engine",
            "iter",
            "keyspace",
            "level0/run",
            "ranges",
            "record",
            "snapshot",
            "tree",
        ],
    ),
    (
        "write",
        &[
            "engine",
            "keyspace",
            "locks",
            "memtable",
            "record",
            "ring",
            "runtime",
            "stream/kept",
            "throttle",
        ],
    ),
    (
        "transaction",
        &[
            "engine",
            "iter",
            "keyspace",
            "level0/run",
            "locks",
            "memtable",
            "ranges",
            "read",
            "record",
            "ring",
            "tree",
            "write",
        ],
    ),
    (
        "stream",
        &["engine", "keyspace", "manifest", "record", "recovery", "stream/kept", "tree", "write"],
    ),
    (
        "level0",
        &[
            "compaction",
            "engine",
            "iter",
            "keyspace",
            "level0/policy",
            "level0/run",
            "manifest",
            "memtable",
            "ranges",
            "record",
            "snapshot",
            "throttle",
            "tree",
        ],
    ),
    (
        "observe",
        &[
            "cache",
            "compaction/policy",
            "compaction/under_way",
            "engine",
            "keyspace",
            "locks",
            "stream",
            "tree",
        ],
    ),
    (
        "admin",
        &[
            "engine",
            "keyspace",
            "level0",
            "level0/run",
            "manifest",
            "memtable",
            "record",
            "stream",
            "tree",
        ],
    ),
    ("background", &["engine", "keyspace", "level0", "level0/policy", "memtable", "runtime"]),
    (
        "inspect",
        &["cache", "compaction/under_way", "engine", "locks", "observe", "recovery", "stream"],
    ),
    (
        "open",
        &[
            "admin",
            "background",
            "cache",
            "engine",
            "inspect",
            "keyspace",
            "manifest",
            "record",
            "recovery",
            "runtime",
            "tree",
            "wal",
        ],
    ),
    (
        "backup",
        &[
            "cache",
            "compaction",
            "compaction/merge",
            "compaction/policy",
            "engine",
            "iter",
            "keyspace",
            "locks",
            "manifest",
            "memtable",
            "open",
            "ranges",
            "read",
            "record",
            "ring",
            "snapshot",
            "stream",
            "tree",
            "write",
        ],
    ),
    (
        "repair",
        &[
            "cache",
            "engine",
            "iter",
            "keyspace",
            "level0/run",
            "memtable",
            "open",
            "ranges",
            "record",
            "recovery",
            "snapshot",
            "tree",
            "write",
        ],
    ),
    (
        "db",
        &[
            "backup",
            "check",
            "engine",
            "keyspace",
            "locks",
            "memtable",
            "observe",
            "open",
            "read",
            "record",
            "recovery",
            "runtime",
            "snapshot",
            "stream",
            "transaction",
            "tree",
            "write",
        ],
    ),
];
/// Faces over all rooms.
const SHELL: [&str; 3] = ["lib", "fuzz", "steps"];

/// Checks the imports of all files against the table, and the table against the imports.
pub fn check<'f>(files: impl Iterator<Item = (&'f str, &'f str)>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut used = BTreeSet::new();
    for (path, text) in files {
        let Some(file) = path.strip_prefix(ENGINE).and_then(|file| file.strip_suffix(".rs")) else {
            continue;
        };
        if SHELL.contains(&file) || file.ends_with("tests") || file.ends_with("model") {
            continue;
        }
        let Some(room) = room_of(file) else {
            findings.push(Finding::new(
                path,
                1,
                "in no room; add it to the table in tidy/rooms.rs",
            ));
            continue;
        };
        for (line, module) in imports(file, text) {
            let Some(other) = room_of(&module).filter(|other| *other != room) else { continue };
            used.insert((room, other));
            if !may_use(room, other) {
                let what =
                    format!("room {room} uses {other}; pass in what it needs, or move the code");
                findings.push(Finding::new(path, line, what));
            }
        }
    }
    for (room, uses) in ROOMS {
        for other in uses.iter().filter(|other| !used.contains(&(room, **other))) {
            let what = format!("room {room} does not use {other} any more; take it from the table");
            findings.push(Finding::new("xtask/src/tidy/rooms.rs", 1, what));
        }
    }
    findings
}

fn may_use(room: &str, other: &str) -> bool {
    let listed = ROOMS.iter().any(|(name, uses)| *name == room && uses.contains(&other));
    LEAVES.contains(&other) || listed
}

/// The room of a file or module; its path has `/` between folders.
fn room_of(file: &str) -> Option<&'static str> {
    let names = LEAVES.iter().chain(ROOMS.iter().map(|(name, _)| name));
    let within = |name: &&&str| {
        file.strip_prefix(**name).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    names.filter(within).max_by_key(|name| name.len()).copied()
}

/// The modules of the crate that a file names outside its comments and tests, each with the line.
fn imports(file: &str, text: &str) -> Vec<(usize, String)> {
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or(text);
    let mut found = Vec::new();
    // Heads of groups that are open: `use crate::{` and the like.
    let mut groups: Vec<String> = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let code = line.split("//").next().unwrap_or(line);
        let in_use = code.contains("use ") || !groups.is_empty();
        let mut head = String::new();
        for (token, end) in tokens(code) {
            let module = match token.split_once("::").map_or((token, ""), |parts| parts) {
                ("crate", rest) => Some(rest.replace("::", "/")),
                ("super", rest) if !rest.is_empty() => Some(above(file, rest)),
                _ if !groups.is_empty() => {
                    Some(format!("{}/{}", groups.concat(), token.replace("::", "/")))
                }
                _ => None,
            };
            if let Some(module) = module {
                let module = module.trim_matches('/').to_string();
                found.push((at + 1, module.clone()));
                head = module;
            }
            match end {
                Some('{') if in_use && token.ends_with("::") => groups.push(head.clone()),
                Some('}') => drop(groups.pop()),
                _ => {}
            }
        }
        if code.contains(';') {
            groups.clear();
        }
    }
    found
}

/// Paths in a line, each with the mark behind it.
fn tokens(code: &str) -> impl Iterator<Item = (&str, Option<char>)> {
    let is_path = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    let mut rest = code;
    std::iter::from_fn(move || {
        let (first, mark) = (rest.find(is_path), rest.find('}'));
        if mark.is_some_and(|mark| first.is_none_or(|first| mark < first)) {
            rest = &rest[mark? + 1..];
            return Some(("", Some('}')));
        }
        rest = &rest[first?..];
        let end = rest.find(|c| !is_path(c)).unwrap_or(rest.len());
        let (token, behind) = rest.split_at(end);
        rest = behind;
        Some((token, behind.chars().next().filter(|mark| *mark == '{')))
    })
}

/// What `super::rest` names in a file.
fn above(file: &str, mut rest: &str) -> String {
    let mut parts: Vec<&str> = file.strip_suffix("/mod").unwrap_or(file).split('/').collect();
    parts.pop();
    while let Some(further) = rest.strip_prefix("super::") {
        rest = further;
        parts.pop();
    }
    parts.extend(rest.split("::"));
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(file: &str, text: &str) -> Vec<(usize, String)> {
        let path = format!("{ENGINE}{file}");
        let findings = check([(&path[..], text)].into_iter());
        let of_file = findings.into_iter().filter(|finding| finding.file == path);
        of_file.map(|finding| (finding.line, finding.what)).collect()
    }

    #[test]
    fn the_table_goes_from_the_bottom_up() {
        let names: Vec<&str> = ROOMS.iter().map(|(name, _)| *name).collect();
        for (at, (room, uses)) in ROOMS.iter().enumerate() {
            for other in *uses {
                let known = names[..at].contains(other);
                assert!(known, "{room} uses {other}, which does not stand before it: a circle");
            }
        }
    }

    #[test]
    fn a_room_uses_what_the_table_says() {
        let bad = "use base::Seq;\nuse crate::write::commit::Commit;\n";
        let [(2, what)] = &found("ring/mod.rs", bad)[..] else { panic!("not found") };
        assert!(what.contains("room ring uses write"), "{what}");
        assert_eq!(found("db.rs", bad), []);
        assert_eq!(found("steps.rs", bad), []);
        assert_eq!(found("ring/mod.rs", "use crate::padded::Padded;\nuse super::sync;\n"), []);
        assert_eq!(found("ring/mod.rs", "/// As [`crate::write::commit`].\n"), []);
        let test = "#[cfg(test)]\nmod tests {\n    use crate::write::commit::Commit;\n}\n";
        assert_eq!(found("ring/mod.rs", test), []);
    }

    #[test]
    fn all_forms_of_a_path_are_seen() {
        let forms = [
            "use crate::{\n    padded::Padded,\n    write::commit::Commit,\n};\n",
            "use crate::{padded::Padded, write::{commit::Commit, op::Op}};\n",
            "use super::super::write::commit;\n",
            "fn f() {\n    crate::write::commit::go();\n}\n",
        ];
        for form in forms {
            assert!(!found("level0/run/block.rs", form).is_empty(), "{form}");
        }
    }

    #[test]
    fn a_file_has_a_room() {
        assert_eq!(found("odd.rs", "")[0].0, 1);
        assert_eq!(room_of("compaction/policy/pick"), Some("compaction/policy"));
        assert_eq!(room_of("compaction/run"), Some("compaction"));
    }
}
