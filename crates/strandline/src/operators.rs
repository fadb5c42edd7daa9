//! Merge operators that every build has, known by name to keyspaces and to the command.

use std::borrow::Cow;
use std::collections::BTreeSet;

use base::codec::{Reader, put_varint};

use crate::hooks::MergeOperator;

/// A merge operator of the library.
///
/// Each combines operands without the value below them, so long chains of operands stay short.
///
/// An operand that an operator cannot take is refused with `InvalidArgument` before anything is written. A put may be anything:
/// where operands follow a value that the operator cannot take, reads of that key fail with `Hook` until it is put anew or
/// deleted. No other key is concerned, flushes and compactions keep all of it, and [`Db::check`](crate::Db::check) lists such
/// keys.
///
/// A store can have one operator for all keyspaces:
///
/// ```
/// use std::sync::Arc;
///
/// use strandline::operators::BuiltInOperator;
/// use strandline::{Db, Hooks, Options, PmSource};
///
/// # fn main() -> strandline::Result<()> {
/// let hooks = Hooks::default().merge_operator(Arc::new(BuiltInOperator::Add));
/// let options = Options::default().pm(PmSource::Heap).pm_size(16 << 20);
/// let db = Db::open_with("unused-for-heap", options, hooks)?;
/// db.merge("visits", 2_u64.to_le_bytes())?;
/// db.merge("visits", 3_u64.to_le_bytes())?;
/// assert_eq!(db.get("visits")?.as_deref(), Some(&5_u64.to_le_bytes()[..]));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BuiltInOperator {
    /// `add`: the sum of numbers of 8 bytes, little-endian, as RocksDB's `uint64add`. Sums wrap around at 2^64, without an
    /// error: signed and unsigned numbers are the same bytes, and adding `(-5_i64).to_le_bytes()` subtracts 5. A key that is
    /// not there counts as 0.
    Add,
    /// `max`: the greatest of value and operands. They are compared as bytes, like keys: numbers compare as numbers do if they
    /// are unsigned, big-endian and of one length. Of `9` and `10` as text the greatest is `9`.
    Max,
    /// `min`: the least of value and operands, compared like those of `max`.
    Min,
    /// `append` (a comma), or `append:SEPARATOR`, whose separator may be empty: value and operands one behind the other, as
    /// RocksDB's `stringappend`.
    Append {
        /// What stands between two of them.
        separator: Cow<'static, str>,
    },
    /// `set-union`: all members of sets; see [`encode_set`].
    SetUnion,
}

/// Bytes of a number.
const NUMBER_LEN: usize = 8;
const SET_IS: &str =
    "a set is the length of each member as a varint and its bytes, members ascending";

impl BuiltInOperator {
    /// What stands between values by default.
    const COMMA: Cow<'static, str> = Cow::Borrowed(",");

    /// Names that [`BuiltInOperator::named`] knows, for help and messages.
    pub const NAMES: [&'static str; 6] =
        ["add", "max", "min", "append", "append:SEPARATOR", "set-union"];

    /// The operator called `name`.
    ///
    /// ```
    /// use strandline::operators::BuiltInOperator;
    ///
    /// let lines = BuiltInOperator::named("append:\n").expect("a built-in operator");
    /// assert_eq!(lines.name(), "append:\n");
    /// assert_eq!(BuiltInOperator::named("multiply"), None);
    /// ```
    pub fn named(name: &str) -> Option<BuiltInOperator> {
        Some(match name {
            "add" => BuiltInOperator::Add,
            "max" => BuiltInOperator::Max,
            "min" => BuiltInOperator::Min,
            "append" => BuiltInOperator::Append { separator: Self::COMMA },
            "set-union" => BuiltInOperator::SetUnion,
            _ => {
                let separator = name.strip_prefix("append:")?;
                BuiltInOperator::Append { separator: Cow::Owned(separator.to_owned()) }
            }
        })
    }

    /// Its name.
    pub fn name(&self) -> Cow<'static, str> {
        Cow::Borrowed(match self {
            BuiltInOperator::Add => "add",
            BuiltInOperator::Max => "max",
            BuiltInOperator::Min => "min",
            BuiltInOperator::Append { separator } if *separator == Self::COMMA => "append",
            BuiltInOperator::Append { separator } => {
                return Cow::Owned(format!("append:{separator}"));
            }
            BuiltInOperator::SetUnion => "set-union",
        })
    }

    /// What is wrong with one value or operand.
    fn fault(&self, bytes: &[u8]) -> Option<String> {
        match self {
            BuiltInOperator::Add if bytes.len() != NUMBER_LEN => {
                Some(format!("has {} bytes, a number has {NUMBER_LEN}", bytes.len()))
            }
            BuiltInOperator::SetUnion if decode_set(bytes).is_none() => {
                Some(format!("of {} bytes is no set; {SET_IS}", bytes.len()))
            }
            _ => None,
        }
    }
}

impl MergeOperator for BuiltInOperator {
    fn merge(
        &self,
        _keyspace: &str,
        _key: &[u8],
        existing: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> Option<Vec<u8>> {
        let mut all = existing.into_iter().chain(operands.iter().copied());
        match self {
            BuiltInOperator::Add => {
                let sum = all.try_fold(0_u64, |sum, bytes| {
                    Some(sum.wrapping_add(u64::from_le_bytes(bytes.try_into().ok()?)))
                })?;
                Some(sum.to_le_bytes().to_vec())
            }
            BuiltInOperator::Max => all.max().map(<[u8]>::to_vec),
            BuiltInOperator::Min => all.min().map(<[u8]>::to_vec),
            BuiltInOperator::Append { separator } => {
                Some(all.collect::<Vec<_>>().join(separator.as_bytes()))
            }
            BuiltInOperator::SetUnion => {
                let mut members = BTreeSet::new();
                for set in all {
                    members.extend(decode_set(set)?);
                }
                Some(encode_set(members))
            }
        }
    }

    fn merge_operands(&self, keyspace: &str, key: &[u8], operands: &[&[u8]]) -> Option<Vec<u8>> {
        self.merge(keyspace, key, None, operands)
    }

    fn complaint(&self, existing: Option<&[u8]>, operands: &[&[u8]]) -> Option<String> {
        let told = |what: &str, bytes: &[u8]| {
            self.fault(bytes).map(|fault| format!("{}: {what} {fault}", self.name()))
        };
        let value = existing.and_then(|value| told("the value", value));
        value.or_else(|| operands.iter().find_map(|operand| told("an operand", operand)))
    }
}

/// A set as `set-union` stores it: for each member its length as a varint (7 bits a byte, low ones first, the high bit says
/// that more follow), then its bytes; members ascend, each once.
///
/// ```
/// use strandline::operators::{decode_set, encode_set};
///
/// let tags = encode_set(["red", "large", "red"]);
/// assert_eq!(tags, b"\x05large\x03red");
/// assert_eq!(decode_set(&tags), Some(vec![&b"large"[..], &b"red"[..]]));
/// assert_eq!(decode_set(b"\x05la"), None);
/// ```
pub fn encode_set<M: AsRef<[u8]>>(members: impl IntoIterator<Item = M>) -> Vec<u8> {
    let mut members: Vec<M> = members.into_iter().collect();
    members.sort_by(|a, b| a.as_ref().cmp(b.as_ref()));
    members.dedup_by(|a, b| a.as_ref() == b.as_ref());
    let mut set = Vec::new();
    for member in &members {
        put_varint(&mut set, member.as_ref().len() as u64);
        set.extend_from_slice(member.as_ref());
    }
    set
}

/// The members of a set that [`encode_set`] made, ascending; `None` if it is no such set.
pub fn decode_set(set: &[u8]) -> Option<Vec<&[u8]>> {
    let mut reader = Reader::new(set);
    let mut members: Vec<&[u8]> = Vec::new();
    while reader.remaining() > 0 {
        let len = usize::try_from(reader.varint()?).ok()?;
        let member = reader.take(len)?;
        if members.last().is_some_and(|last| *last >= member) {
            return None;
        }
        members.push(member);
    }
    Some(members)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<BuiltInOperator> {
        let names = BuiltInOperator::NAMES.iter().chain(&["append:", "append:, "]);
        names.map(|name| BuiltInOperator::named(name).expect(name)).collect()
    }

    fn merge(name: &str, existing: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
        BuiltInOperator::named(name).expect(name).merge("default", b"k", existing, operands)
    }

    #[test]
    fn names_name_what_they_parse_to() {
        for operator in all() {
            assert_eq!(BuiltInOperator::named(&operator.name()), Some(operator));
        }
        assert_eq!(BuiltInOperator::named("Add"), None);
    }

    #[test]
    fn each_does_what_its_name_says() {
        let number = |n: i64| n.to_le_bytes();
        let sum = merge("add", Some(&number(7)), &[&number(-9), &number(1)]);
        assert_eq!(sum.as_deref(), Some(&number(-1)[..]));
        assert_eq!(merge("add", None, &[&number(5)]).as_deref(), Some(&number(5)[..]));
        let wrapped = merge("add", Some(&[0xFF; 8]), &[&number(2)]);
        assert_eq!(wrapped.as_deref(), Some(&number(1)[..]), "it wraps around");
        assert_eq!(merge("max", Some(b"b"), &[b"a", b"ba"]).as_deref(), Some(&b"ba"[..]));
        assert_eq!(merge("min", Some(b"b"), &[b"ab", b"a"]).as_deref(), Some(&b"a"[..]));
        assert_eq!(merge("min", Some(b""), &[b"a"]).as_deref(), Some(&b""[..]));
        assert_eq!(merge("append", None, &[b"a", b"b"]).as_deref(), Some(&b"a,b"[..]));
        assert_eq!(merge("append", Some(b""), &[b"b"]).as_deref(), Some(&b",b"[..]));
        assert_eq!(merge("append:", Some(b"a"), &[b"b"]).as_deref(), Some(&b"ab"[..]));
        let union = merge("set-union", Some(&encode_set(["c", "a"])), &[&encode_set(["b", "a"])]);
        assert_eq!(union, Some(encode_set(["a", "b", "c"])));
    }

    /// Compactions may combine any neighbours among the operands first, or none.
    #[test]
    fn operands_combined_early_come_to_the_same() {
        for operator in all() {
            let operand = |n: u64| match operator {
                BuiltInOperator::SetUnion => encode_set([[n as u8 % 3].as_slice(), b"x"]),
                _ => (n * (u64::MAX / 5)).to_le_bytes().to_vec(),
            };
            let operands: Vec<Vec<u8>> = (0..6).map(operand).collect();
            let operands: Vec<&[u8]> = operands.iter().map(|operand| &operand[..]).collect();
            for existing in [None, Some(operands[5])] {
                let merged = operator.merge("default", b"k", existing, &operands);
                assert!(merged.is_some(), "{operator:?}");
                for (from, to) in (0..6).flat_map(|from| (from + 1..=6).map(move |to| (from, to))) {
                    let one = operator.merge_operands("default", b"k", &operands[from..to]);
                    let one = one.expect("operands can be combined");
                    let mut fewer = operands[..from].to_vec();
                    fewer.push(&one);
                    fewer.extend_from_slice(&operands[to..]);
                    assert_eq!(operator.merge("default", b"k", existing, &fewer), merged);
                }
            }
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused_and_named() {
        let set = encode_set(["a"]);
        let cases: [(&str, &[u8], &[u8], &str); 5] = [
            ("add", b"12345678", b"12", "add: an operand has 2 bytes, a number has 8"),
            ("add", b"", b"12345678", "add: the value has 0 bytes, a number has 8"),
            ("set-union", &set, b"\x05abc", "set-union: an operand of 4 bytes is no set"),
            ("set-union", b"\x01b\x01a", &set, "set-union: the value of 4 bytes is no set"),
            ("set-union", b"\x01b\x01b", &set, "set-union: the value of 4 bytes is no set"),
        ];
        for (name, existing, operand, why) in cases {
            assert_eq!(merge(name, Some(existing), &[operand]), None);
            let operator = BuiltInOperator::named(name).expect(name);
            let complaint = operator.complaint(Some(existing), &[operand]).expect(name);
            assert!(complaint.starts_with(why), "{complaint}");
        }
    }
}
