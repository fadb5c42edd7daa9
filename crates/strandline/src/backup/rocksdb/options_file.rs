//! RocksDB's OPTIONS file: what of it a database needs to be read and compacted as it was meant.

use std::collections::BTreeMap;

use crate::options::Compression;

/// What the file says of a column family.
pub(super) struct FamilyOptions {
    pub name: String,
    /// As [`super::operators::rocksdb_text`] says it.
    pub merge_operator: Option<String>,
    pub compression: Compression,
    /// Bytes of a value from which on it lies apart; 0: none does.
    pub blobs_from: u64,
    /// Bits of a filter for each key; 0: no filter.
    pub filter_bits: u32,
}

/// The text of the file. The family `default` comes first.
pub(super) fn text(families: &[FamilyOptions]) -> String {
    // The first releases that read our tables with all that these options say.
    let mut out = "[Version]\n  rocksdb_version=6.27.3\n  options_file_version=1.1\n\n\
        [DBOptions]\n  paranoid_checks=true\n"
        .to_owned();
    for family in families {
        let name = escaped(&family.name);
        let compression = match family.compression {
            Compression::None => "kNoCompression",
            Compression::Snappy => "kSnappyCompression",
            Compression::Lz4 => "kLZ4Compression",
            Compression::Zstd => "kZSTD",
        };
        out += &format!("\n[CFOptions \"{name}\"]\n  comparator={}\n", super::BYTEWISE);
        out += &format!("  compression={compression}\n");
        if let Some(operator) = &family.merge_operator {
            out += &format!("  merge_operator={operator}\n");
        }
        if family.blobs_from > 0 {
            let from = family.blobs_from;
            out += &format!("  enable_blob_files=true\n  min_blob_size={from}\n");
            out += &format!(
                "  enable_blob_garbage_collection=true\n  blob_compression_type={compression}\n"
            );
        }
        out += &format!("\n[TableOptions/BlockBasedTable \"{name}\"]\n");
        if family.filter_bits > 0 {
            out += &format!("  filter_policy=bloomfilter:{}:false\n", family.filter_bits);
        }
    }
    out
}

/// What a file of RocksDB's says of a column family.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct FamilyHints {
    pub merge_operator: Option<String>,
    /// Bytes of a value from which on it lies apart, where values do.
    pub blobs_from: Option<u64>,
}

/// What a file says of column families, by their names. What it does not say, or says in another way, is not known.
pub(super) fn families(text: &str) -> BTreeMap<String, FamilyHints> {
    let mut found: BTreeMap<String, FamilyHints> = BTreeMap::new();
    let mut apart = Vec::new();
    for Setting { section, name, value } in settings(text) {
        let head = section.strip_prefix("CFOptions \"").and_then(|rest| rest.strip_suffix('"'));
        let Some(family) = head.map(unescaped) else { continue };
        let hints = found.entry(family.clone()).or_default();
        match (name, value) {
            ("merge_operator", "nullptr") => {}
            ("merge_operator", operator) => hints.merge_operator = Some(operator.to_owned()),
            ("enable_blob_files", "true") => apart.push(family),
            ("min_blob_size", bytes) => hints.blobs_from = bytes.parse().ok(),
            _ => {}
        }
    }
    for (family, hints) in &mut found {
        // 0 is all values there, and none here.
        hints.blobs_from =
            hints.blobs_from.filter(|_| apart.contains(family)).map(|from| from.max(1));
    }
    found
}

/// Where a file says that logs are, if that is a place of their own.
pub(super) fn wal_dir(text: &str) -> Option<&str> {
    let is_place =
        |setting: &Setting<'_>| setting.section == "DBOptions" && setting.name == "wal_dir";
    settings(text).find(is_place).map(|setting| setting.value).filter(|at| !at.is_empty())
}

/// A line of the file.
struct Setting<'t> {
    section: &'t str,
    name: &'t str,
    value: &'t str,
}

fn settings(text: &str) -> impl Iterator<Item = Setting<'_>> {
    let mut section = "";
    text.lines().map(str::trim).filter_map(move |line| {
        if let Some(head) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            section = head;
            return None;
        }
        let (name, value) = line.split_once('=')?;
        Some(Setting { section, name: name.trim(), value: value.trim() })
    })
}

/// A name as the file has it: what would be a mark there stands behind a backslash.
fn escaped(name: &str) -> String {
    let mut out = String::new();
    for c in name.chars() {
        match c {
            '\n' => out += "\\n",
            '\r' => out += "\\r",
            '#' | ':' | '\\' => out.extend(['\\', c]),
            _ => out.push(c),
        }
    }
    out
}

fn unescaped(text: &str) -> String {
    let mut out = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match (c, (c == '\\').then(|| chars.next()).flatten()) {
            (_, Some('n')) => out.push('\n'),
            (_, Some('r')) => out.push('\r'),
            (_, Some(marked)) => out.push(marked),
            (plain, None) => out.push(plain),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_of_families_is_found_under_their_names() {
        let family = |name: &str, operator: Option<&str>| FamilyOptions {
            name: name.into(),
            merge_operator: operator.map(Into::into),
            compression: Compression::Lz4,
            blobs_from: 100,
            filter_bits: 10,
        };
        let odd = "od#d\n\\ \"na:me\"";
        let all = [family("default", None), family(odd, Some("MaxOperator"))];
        let text = text(&all);
        assert!(text.contains("[CFOptions \"default\"]") && text.contains("min_blob_size=100"));
        assert!(!text.lines().any(|line| line.contains("\\\\n")), "{text}");
        let found = families(
            &(text + "\n[CFOptions \"a\"]\n  merge_operator=nullptr\n  min_blob_size=5\n"),
        );
        let hints = |operator: Option<&str>, blobs_from| FamilyHints {
            merge_operator: operator.map(Into::into),
            blobs_from,
        };
        let expected = [
            ("a".to_owned(), hints(None, None)),
            ("default".to_owned(), hints(None, Some(100))),
            (odd.to_owned(), hints(Some("MaxOperator"), Some(100))),
        ];
        assert_eq!(found, BTreeMap::from(expected));
        assert_eq!(wal_dir("[DBOptions]\n wal_dir=/logs\n"), Some("/logs"));
        assert_eq!(wal_dir("[DBOptions]\n wal_dir=\n[CFOptions \"a\"]\n wal_dir=x"), None);
    }
}
