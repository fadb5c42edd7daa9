//! Rules about crates: who may be unsafe, who may use whom, and what may come from outside.

use serde_json::Value;

use super::Finding;
use super::licence::is_permissive;

/// The only places with `unsafe` code.
const ISLANDS: [&str; 2] = ["crates/pmem", "crates/art"];
const FORBID: &str = "#![forbid(unsafe_code)]";
/// Crates that deny `unsafe` but in these files: the simulator rewrites memory as hardware would, and the kernel
/// uses the buffers of a ring while they are in it, and has files mapped.
const DENIES: [(&str, &str); 4] = [
    ("crates/sim", "crates/sim/src/lazy.rs"),
    ("crates/ssd", "crates/ssd/src/uring/ring.rs"),
    ("crates/ssd", "crates/ssd/src/mapped.rs"),
    // Opening LMDB is.
    ("tools/bench-compare", "tools/bench-compare/src/engines/lmdb.rs"),
];
const DENY: &str = "#![deny(unsafe_code)]";

/// Which crates of the project each may use; `base` is at the bottom, tools are on top.
const MAY_USE: [(&str, &[&str]); 15] = [
    ("strandline-base", &[]),
    ("strandline-pmem", &["strandline-base"]),
    ("strandline-art", &["strandline-base"]),
    ("strandline-cache", &[]),
    ("strandline-ssd", &["strandline-base"]),
    ("strandline-pool", &["strandline-base", "strandline-pmem"]),
    ("strandline-sst", &["strandline-base"]),
    ("strandline-trace", &["strandline-base"]),
    (
        "strandline",
        &[
            "strandline-art",
            "strandline-base",
            "strandline-cache",
            "strandline-pmem",
            "strandline-pool",
            "strandline-ssd",
            "strandline-sst",
            "strandline-trace",
        ],
    ),
    // It measures memory, pool and the memtable's index by themselves beside the engine.
    (
        "strandline-bench",
        &[
            "strandline",
            "strandline-art",
            "strandline-base",
            "strandline-cache",
            "strandline-pmem",
            "strandline-pool",
            "strandline-ssd",
            "strandline-trace",
        ],
    ),
    // It gives tables to RocksDB, and takes its.
    ("strandline-bench-compare", &["strandline", "strandline-bench", "strandline-sst"]),
    // It reads tables by themselves.
    ("strandline-cli", &["strandline", "strandline-bench", "strandline-sst"]),
    ("strandline-sim", &["strandline-base", "strandline-pmem", "strandline-ssd"]),
    ("strandline-testkit", &["strandline-base"]),
    ("strandline-models", &[]),
];
/// What anyone may use for tests, and no one otherwise.
const FOR_TESTS: [&str; 2] = ["strandline-sim", "strandline-testkit"];
/// Not a part of what is delivered: it may use everything.
const EXEMPT: &str = "xtask";

/// Checks that the root of a crate outside the islands forbids `unsafe`, and that no file allows it again.
pub fn check_unsafe(path: &str, text: &str) -> Option<Finding> {
    let allows = text.lines().position(|line| line.contains(concat!("allow(unsafe", "_code)")));
    let excepted = DENIES.iter().any(|(_, file)| path == *file);
    if let Some(at) = allows.filter(|_| path.ends_with(".rs") && !excepted) {
        let what = "allows unsafe code outside the islands; move it to crates/pmem or crates/art";
        return Some(Finding::new(path, at + 1, what));
    }
    let dir = path.strip_suffix("/src/lib.rs").or(path.strip_suffix("/src/main.rs"))?;
    let denies = DENIES.iter().any(|(denying, _)| dir == *denying);
    let wanted = if denies { DENY } else { FORBID };
    let fine = ISLANDS.contains(&dir) || text.lines().any(|line| line == wanted);
    (!fine).then(|| Finding::new(path, 1, format!("does not forbid unsafe code; add {wanted}")))
}

/// Checks what `cargo metadata` tells.
pub fn check_metadata(json: &str) -> Result<Vec<Finding>, String> {
    let metadata: Value = serde_json::from_str(json).map_err(|error| error.to_string())?;
    let strange = || "cargo metadata has another form than expected".to_string();
    let root = metadata["workspace_root"].as_str().ok_or_else(strange)?;
    let members = metadata["workspace_members"].as_array().ok_or_else(strange)?;
    let mut findings = Vec::new();
    for package in metadata["packages"].as_array().ok_or_else(strange)? {
        let text = |key: &str| package[key].as_str().unwrap_or_default();
        let file = text("manifest_path");
        let file = file.strip_prefix(root).map_or(file, |file| file.trim_start_matches('/'));
        if members.contains(&package["id"]) {
            let edges = package["dependencies"].as_array().ok_or_else(strange)?;
            findings.extend(check_edges(file, text("name"), edges));
            continue;
        }
        let name = text("name");
        let lock = |what| Finding::new("Cargo.lock", 1, what);
        if !text("source").starts_with("registry+") {
            findings.push(lock(format!(
                "{name} comes from {}; use a release of a registry",
                if text("source").is_empty() { file } else { text("source") }
            )));
        }
        if !is_permissive(text("license")) {
            findings.push(lock(format!(
                "{name} is under {:?}, not a permissive licence; do without it",
                text("license")
            )));
        }
    }
    Ok(findings)
}

fn check_edges(file: &str, name: &str, edges: &[Value]) -> Vec<Finding> {
    if name == EXEMPT {
        return Vec::new();
    }
    let Some((_, may)) = MAY_USE.iter().find(|(who, _)| *who == name) else {
        let what = format!("crate {name} has no place; give it a row in xtask/src/tidy/crates.rs");
        return vec![Finding::new(file, 1, what)];
    };
    let wrong = edges.iter().filter(|edge| edge["path"].is_string()).filter(|edge| {
        let used = edge["name"].as_str().unwrap_or_default();
        // A crate whose tests need a feature of its own uses itself.
        let for_tests = edge["kind"] == "dev" && (FOR_TESTS.contains(&used) || used == name);
        !for_tests && !may.contains(&used)
    });
    wrong
        .map(|edge| {
            let what =
                format!("{name} uses {}, which is not below it; turn the edge round", edge["name"]);
            Finding::new(file, 1, what)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roots_forbid_unsafe() {
        let allows = concat!("//! Doc.\n#![allow(unsafe", "_code)]\n");
        assert_eq!(check_unsafe("crates/sim/src/media.rs", allows).unwrap().line, 2);
        assert!(DENIES.iter().all(|(_, file)| check_unsafe(file, allows).is_none()));
        assert!(check_unsafe("crates/sim/src/lib.rs", "").is_some());
        assert_eq!(check_unsafe("crates/sim/src/lib.rs", DENY), None);
        assert!(check_unsafe("crates/pool/src/lib.rs", "//! Doc.\n").is_some());
        assert!(check_unsafe("tools/cli/src/main.rs", "// #![forbid(unsafe_code)]").is_some());
        assert_eq!(
            check_unsafe("crates/pool/src/lib.rs", "//! Doc.\n#![forbid(unsafe_code)]\n"),
            None
        );
        assert_eq!(check_unsafe("crates/pmem/src/lib.rs", ""), None);
        assert_eq!(check_unsafe("crates/pool/src/pool.rs", ""), None);
    }

    fn edges(name: &str, edges: &str) -> usize {
        let edges: Value = serde_json::from_str(edges).unwrap();
        check_edges("Cargo.toml", name, edges.as_array().unwrap()).len()
    }

    #[test]
    fn edges_lead_down() {
        let pmem = r#"[{"name": "strandline-pmem", "path": "/p", "kind": null}]"#;
        assert_eq!(edges("strandline-pool", pmem), 0);
        assert_eq!(edges("strandline-base", pmem), 1);
        assert_eq!(edges("newcomer", pmem), 1);
        assert_eq!(edges("xtask", pmem), 0);
        let sim = r#"[{"name": "strandline-sim", "path": "/p", "kind": "dev"}]"#;
        assert_eq!(edges("strandline-pool", sim), 0);
        assert_eq!(edges("strandline-pool", &sim.replace("\"dev\"", "null")), 1);
        assert_eq!(edges("strandline-base", r#"[{"name": "serde", "kind": null}]"#), 0);
    }

    #[test]
    fn what_comes_from_outside() {
        let of = |source: &str, license: &str| {
            let json = format!(
                r#"{{"workspace_root": "/r", "workspace_members": ["a"], "packages": [
                    {{"id": "a", "name": "strandline-base", "manifest_path": "/r/Cargo.toml",
                      "dependencies": []}},
                    {{"id": "b", "name": "other", "manifest_path": "/else/Cargo.toml",
                      "source": {source}, "license": {license}}}]}}"#
            );
            check_metadata(&json).unwrap().len()
        };
        assert_eq!(of(r#""registry+https://x""#, r#""MIT""#), 0);
        assert_eq!(of(r#""git+https://x""#, r#""MIT""#), 1);
        assert_eq!(of("null", r#""MIT""#), 1);
        assert_eq!(of(r#""registry+https://x""#, r#""MPL-2.0""#), 1);
        assert_eq!(of(r#""registry+https://x""#, "null"), 1);
        assert!(check_metadata("{}").is_err());
    }
}
