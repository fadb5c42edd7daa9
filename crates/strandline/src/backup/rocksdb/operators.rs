//! Merge operators that both engines have, by the name that each has for them.

use std::borrow::Cow;

use crate::operators::BuiltInOperator;

/// RocksDB's words for operators that do the same as ours.
const ADD: [&str; 2] = ["UInt64AddOperator", "uint64add"];
const MAX: [&str; 2] = ["MaxOperator", "max"];
const APPEND: [&str; 2] = ["StringAppendOperator", "stringappend"];

/// What RocksDB's OPTIONS file says for `operator`, if RocksDB has it and that file can say it.
pub(super) fn rocksdb_text(operator: &BuiltInOperator) -> Option<String> {
    // The file has marks of its own: what they would change is no separator there.
    let plain = |separator: &str| {
        let marks = ['{', '}', ';', '=', '#', ':', '\\', ','];
        let safe = |c: char| c.is_ascii_graphic() && !marks.contains(&c);
        !separator.is_empty() && separator.chars().all(safe)
    };
    match operator {
        BuiltInOperator::Add => Some(ADD[0].to_owned()),
        BuiltInOperator::Max => Some(MAX[0].to_owned()),
        BuiltInOperator::Append { separator } if separator == "," || plain(separator) => {
            Some(format!("{{id={};delimiter={separator};}}", APPEND[0]))
        }
        BuiltInOperator::Append { .. } | BuiltInOperator::Min | BuiltInOperator::SetUnion => None,
    }
}

/// Our operator for what an OPTIONS file says of a column family's: a name, or `{id=NAME;delimiter=…;}`.
pub(super) fn of_rocksdb(text: &str) -> Option<BuiltInOperator> {
    let inner = text.strip_prefix('{').and_then(|text| text.strip_suffix('}'));
    let fields: Vec<&str> = inner.map_or(vec![], |inner| inner.split(';').collect());
    let field = |name: &str| {
        let mut pairs = fields.iter().filter_map(|field| field.trim().split_once('='));
        pairs.find(|(known, _)| *known == name).map(|(_, value)| value)
    };
    let name = if inner.is_some() { field("id")? } else { text };
    if ADD.contains(&name) {
        return Some(BuiltInOperator::Add);
    }
    if MAX.contains(&name) {
        return Some(BuiltInOperator::Max);
    }
    let separator = field("delimiter").or_else(|| field("delim")).unwrap_or(",");
    let known = APPEND.contains(&name) && !separator.contains(['{', '\\']);
    known.then(|| BuiltInOperator::Append { separator: Cow::Owned(separator.to_owned()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_that_both_have_keep_their_meaning() {
        for name in ["add", "max", "append", "append:/", "append:--"] {
            let operator = BuiltInOperator::named(name).expect(name);
            let text = rocksdb_text(&operator).expect(name);
            assert_eq!(of_rocksdb(&text).expect(&text).name(), name);
        }
        for name in ["min", "set-union", "append:", "append:;", "append:\n", "append: "] {
            assert_eq!(rocksdb_text(&BuiltInOperator::named(name).expect(name)), None, "{name}");
        }
        for text in ["uint64add", "{id=uint64add}", "{ id=UInt64AddOperator; }"] {
            assert_eq!(of_rocksdb(text), Some(BuiltInOperator::Add), "{text}");
        }
        assert_eq!(of_rocksdb("stringappend").expect("a comma").name(), "append");
        for text in ["nullptr", "mine", "{delimiter=,}", "{id=StringAppendOperator;delimiter={;};}"]
        {
            assert_eq!(of_rocksdb(text), None, "{text}");
        }
    }
}
