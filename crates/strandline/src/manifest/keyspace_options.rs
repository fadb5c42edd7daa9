//! How options of a keyspace are written: those that are set, each with its code. Tiers are written by their numbers, since
//! those are what they stay (I-TIER-1).

use std::time::Duration;

use base::codec::{Reader, put_varint};

use crate::options::{Compression, KeyspaceOptions, KeyspacePlacement, Placement};
use crate::tree::tiers::TierSet;

/// Codes of options; a closed list.
mod code {
    pub(super) const COMPRESSION: u8 = 1;
    pub(super) const COMPRESSION_LEVEL: u8 = 2;
    pub(super) const FILTER_BITS: u8 = 3;
    pub(super) const MEMTABLE_BYTES: u8 = 4;
    pub(super) const MERGE_OPERATOR: u8 = 5;
    pub(super) const COMPACTION_FILTER: u8 = 6;
    pub(super) const TTL: u8 = 7;
    pub(super) const VALUE_FILES_MIN: u8 = 8;
    pub(super) const PLACEMENT: u8 = 9;
    pub(super) const TIERS: u8 = 10;
}

/// Options of a keyspace as the manifest has them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct StoredOptions {
    /// All but `tiers`.
    pub options: KeyspaceOptions,
    pub tiers: TierSet,
}

impl StoredOptions {
    /// Without tiers: of another store, or of one whose tiers are told otherwise.
    pub(crate) fn without_tiers(options: &KeyspaceOptions) -> StoredOptions {
        let options = KeyspaceOptions { tiers: None, ..options.clone() };
        StoredOptions { options, tiers: TierSet::default() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.options.is_empty() && self.tiers.are_all()
    }
}

const COMPRESSIONS: [Compression; 4] =
    [Compression::None, Compression::Snappy, Compression::Lz4, Compression::Zstd];

/// Numbers are written: they must not change.
const PLACEMENTS: [Placement; 2] = [Placement::Benefit, Placement::Level];

/// Appends the number of options that are set, and each: its code, the length of its value, the value.
pub(super) fn put(out: &mut Vec<u8>, StoredOptions { options, tiers }: &StoredOptions) {
    let number = |value: u64| {
        let mut bytes = Vec::new();
        put_varint(&mut bytes, value);
        bytes
    };
    let KeyspaceOptions {
        compression,
        compression_level,
        filter_bits,
        memtable_bytes,
        value_files_min,
        placement,
        // By number, below.
        tiers: _,
        ttl,
        merge_operator,
        compaction_filter,
    } = options;
    let name = |name: &Option<String>| name.as_ref().map(|name| name.clone().into_bytes());
    let numbers = |all: &mut dyn Iterator<Item = u32>| {
        let mut bytes = Vec::new();
        all.for_each(|no| put_varint(&mut bytes, no.into()));
        bytes
    };
    let all = [
        (code::COMPRESSION, compression.map(|kind| vec![kind as u8])),
        (code::COMPRESSION_LEVEL, compression_level.map(|level| level.to_le_bytes().to_vec())),
        (code::FILTER_BITS, filter_bits.map(|bits| number(bits.into()))),
        (code::MEMTABLE_BYTES, memtable_bytes.map(number)),
        (code::MERGE_OPERATOR, name(merge_operator)),
        (code::COMPACTION_FILTER, name(compaction_filter)),
        (code::TTL, ttl.map(|ttl| number(u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX)))),
        (code::VALUE_FILES_MIN, value_files_min.map(number)),
        (code::PLACEMENT, placement.and_then(KeyspacePlacement::own).map(|own| vec![own as u8])),
        (code::TIERS, (!tiers.are_all()).then(|| numbers(&mut tiers.iter()))),
    ];
    let set: Vec<_> = all.into_iter().filter_map(|(code, value)| Some((code, value?))).collect();
    put_varint(out, set.len() as u64);
    for (code, value) in set {
        out.push(code);
        put_varint(out, value.len() as u64);
        out.extend_from_slice(&value);
    }
}

/// What [`put`] wrote. Codes ascend, so none comes twice.
pub(super) fn take(reader: &mut Reader<'_>) -> Option<StoredOptions> {
    let mut options = KeyspaceOptions::default();
    let mut tiers = TierSet::default();
    let mut last = 0;
    for _ in 0..reader.varint()? {
        let code = reader.u8().filter(|code| *code > last)?;
        last = code;
        let len = usize::try_from(reader.varint()?).ok()?;
        let value = reader.take(len)?;
        let mut fields = Reader::new(value);
        let name = || String::from_utf8(value.to_vec()).ok();
        match code {
            code::COMPRESSION => {
                let stored = fields.u8()?;
                let kind = COMPRESSIONS.into_iter().find(|kind| *kind as u8 == stored)?;
                options.compression = Some(kind);
            }
            code::COMPRESSION_LEVEL => {
                options.compression_level = Some(i32::from_le_bytes(fields.u32()?.to_le_bytes()));
            }
            code::FILTER_BITS => options.filter_bits = Some(fields.varint()?.try_into().ok()?),
            code::MEMTABLE_BYTES => options.memtable_bytes = Some(fields.varint()?),
            code::MERGE_OPERATOR => options.merge_operator = Some(name()?),
            code::COMPACTION_FILTER => options.compaction_filter = Some(name()?),
            code::TTL => options.ttl = Some(Duration::from_millis(fields.varint()?)),
            code::VALUE_FILES_MIN => options.value_files_min = Some(fields.varint()?),
            code::PLACEMENT => {
                let stored = fields.u8()?;
                let placement = PLACEMENTS.into_iter().find(|each| *each as u8 == stored)?;
                options.placement = Some(placement.into());
            }
            code::TIERS => {
                let mut numbers = Vec::new();
                while fields.remaining() > 0 {
                    numbers.push(u32::try_from(fields.varint()?).ok()?);
                }
                if numbers.is_empty() {
                    return None;
                }
                tiers = TierSet::of(numbers);
            }
            _ => return None,
        }
        let is_name = matches!(code, code::MERGE_OPERATOR | code::COMPACTION_FILTER);
        if !is_name && fields.remaining() > 0 {
            return None;
        }
    }
    Some(StoredOptions { options, tiers })
}

#[cfg(test)]
mod tests {
    use base::Seq;

    use super::*;
    use crate::manifest::creation;
    use crate::manifest::edit::Edit;

    fn all_options() -> KeyspaceOptions {
        KeyspaceOptions::new()
            .compression(Compression::Zstd)
            .compression_level(-3)
            .filter_bits(0)
            .memtable_bytes(1 << 40)
            .merge_operator("append:;")
            .compaction_filter("expire")
            .ttl(Duration::from_millis(1500))
            .value_files_min(4096)
            .placement(Placement::Level)
    }

    #[test]
    fn options_of_a_keyspace_come_back_and_none_change_nothing() {
        let edit =
            |options: &StoredOptions| Edit { floor: Seq::ZERO, changes: creation(1, "a", options) };
        let plain = edit(&StoredOptions::default()).encode();
        assert_eq!(plain, [0, 1, 2, 1, 1, b'a'], "as every version wrote it");
        let tiers = TierSet::of(vec![300, 0, 2]);
        let whole = edit(&StoredOptions { options: all_options(), tiers });
        let bytes = whole.encode();
        assert_eq!(Edit::decode(&bytes), Some(whole));
        assert!((0..bytes.len()).all(|end| Edit::decode(&bytes[..end]).is_none()));
        // Behind floor, number of changes, the creation, code and keyspace: the number of options and the first of them.
        let first = plain.len() + 2;
        assert_eq!(bytes[first..first + 4], [10, 1, 1, 7]);
        assert_eq!(bytes[bytes.len() - 9..], [9, 1, 1, 10, 4, 0, 2, 172, 2], "placement, tiers");
        let (placement, tiers) = (bytes.len() - 7, bytes.len() - 5);
        for (at, value) in [
            (first + 1, 2),
            (first + 1, 11),
            (first + 3, 3),
            (placement, 2),
            (tiers, 0),
            (tiers + 4, 200),
        ] {
            let mut other = bytes.clone();
            other[at] = value;
            assert_eq!(Edit::decode(&other), None, "byte {at} as {value}");
        }
    }
}
