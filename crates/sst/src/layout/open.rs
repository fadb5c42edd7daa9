//! Opening a table: from the footer to all that is fixed, refusing what this crate does not know.

use std::collections::BTreeMap;
use std::sync::Arc;

use base::{Error, ErrorKind, Result};

use super::{Filter, Layout};
use crate::block::{Keys, Role, Values};
use crate::checksum::Checksums;
use crate::compression::Dictionary;
use crate::filter;
use crate::footer::{self, FOOTER_LEN, Footer};
use crate::handle::Handle;
use crate::io::ReadAt;
use crate::properties::{BYTEWISE, Properties, name};

const OPEN: &str = "open table";

impl Layout {
    pub(super) fn open_with(
        file: &dyn ReadAt,
        block_cap: u64,
        checksums: Checksums,
    ) -> Result<Layout> {
        let name = file.name();
        let (footer, footer_at) = read_footer(file, &name, checksums)?;
        let mut layout = Self::empty(name, footer, footer_at, block_cap, checksums);
        let directory = layout.read_directory(file)?;
        let Some(properties) = directory.get("rocksdb.properties") else {
            return Err(layout.damaged(footer.metaindex.offset, "it has no properties"));
        };
        layout.properties = layout.read_properties(file, *properties)?;
        layout.check_supported()?;
        layout.learn_index(footer.index.or(directory.get("rocksdb.index").copied()))?;
        layout.learn_filter(&directory);
        layout.range_deletes = directory.get("rocksdb.range_del").copied();
        if layout.properties.external_version.is_some_and(|version| version >= 2) {
            layout.global_seq = Some(layout.properties.global_seq);
        }
        if let Some(dictionary) = directory.get("rocksdb.compression_dict") {
            let bytes = layout.load(file, *dictionary, Role::Dictionary)?.bytes().to_vec();
            if !bytes.is_empty() {
                let made = Dictionary::new(bytes);
                let lost = || layout.damaged(dictionary.offset, "its dictionary is unusable");
                layout.dictionary = Some(made.ok_or_else(lost)?);
            }
        }
        Ok(layout)
    }

    fn read_directory(&self, file: &dyn ReadAt) -> Result<BTreeMap<String, Handle>> {
        let at = self.footer.metaindex;
        let block = Arc::new(self.load(file, at, Role::MetaIndex)?);
        let mut found = BTreeMap::new();
        for (key, value) in self.entries(&block)? {
            let handle = Handle::read(&mut base::codec::Reader::new(&value));
            let handle =
                handle.ok_or_else(|| self.damaged(at.offset, "a handle does not decode"))?;
            found.insert(String::from_utf8_lossy(&key).into_owned(), handle);
        }
        Ok(found)
    }

    pub(crate) fn read_properties(&self, file: &dyn ReadAt, at: Handle) -> Result<Properties> {
        let block = Arc::new(self.load(file, at, Role::Properties)?);
        let entries = self.entries(&block)?.into_iter();
        let raw = entries.map(|(key, value)| (String::from_utf8_lossy(&key).into_owned(), value));
        Properties::decode(raw.collect()).map_err(|what| self.damaged(at.offset, &what))
    }

    fn check_supported(&self) -> Result<()> {
        let properties = &self.properties;
        let comparator = &properties.comparator;
        if !comparator.is_empty() && comparator != BYTEWISE {
            return Err(self.unsupported(&format!("keys in the order of {comparator}")));
        }
        if properties.number(name::TIMESTAMPS_KEPT) == Some(0) {
            return Err(self.unsupported("user-defined timestamps"));
        }
        if properties.number(name::OTHER_INDEX).is_some_and(|it| it != 0) {
            return Err(self.unsupported("a user-defined index"));
        }
        if properties.raw.contains_key(name::EMBEDDED_BLOBS) {
            return Err(self.unsupported("blobs within the table"));
        }
        if self.footer.version >= 7 {
            check_compression_manager(&properties.compression)
                .map_err(|what| self.unsupported(&what))?;
        }
        Ok(())
    }

    fn learn_index(&mut self, index: Option<Handle>) -> Result<()> {
        let missing = || self.damaged(self.footer_at, "nothing names its index");
        self.index = index.ok_or_else(missing)?;
        let properties = &self.properties;
        let number = |name| properties.number(name).unwrap_or_default();
        let kind = match properties.raw.get(name::INDEX_TYPE).map(Vec::as_slice) {
            None => 0,
            Some([kind, 0, 0, 0]) => *kind,
            Some(_) => return Err(self.unsupported("an index of unknown kind")),
        };
        let delta = number(name::INDEX_VALUE_IS_DELTA) != 0;
        if number(name::INDEX_KEY_IS_USER) != 0 {
            self.index_keys = Keys::Plain;
        }
        self.two_level = kind == 2;
        self.index_values = match (kind, delta) {
            // A hash index has the same entries as one for binary search, and more blocks beside it.
            (0..=3, false) => Values::SizedHandles,
            (0..=2, true) => Values::Handles,
            (3, true) => Values::HandlesAndKeys,
            (kind, _) => return Err(self.unsupported(&format!("an index of kind {kind}"))),
        };
        Ok(())
    }

    fn learn_filter(&mut self, directory: &BTreeMap<String, Handle>) {
        if self.properties.flag(name::WHOLE_KEYS) == Some(false) {
            return;
        }
        let full = directory.get(filter::FULL).map(|at| Filter::Full(*at));
        let parted = directory.get(filter::PARTED).map(|at| Filter::Parted(*at));
        self.filter = full.or(parted).unwrap_or(Filter::None);
    }
}

/// From version 7 on the property names who compressed: "manager;kinds in hex;".
fn check_compression_manager(compression: &str) -> Result<(), String> {
    let manager = compression.split(';').next().unwrap_or_default();
    match manager {
        "" | "BuiltinV2" => Ok(()),
        other => Err(format!("compression by the manager {other}")),
    }
}

fn read_footer(file: &dyn ReadAt, name: &str, checksums: Checksums) -> Result<(Footer, u64)> {
    let len = file.len();
    let Some(at) = len.checked_sub(FOOTER_LEN as u64) else {
        let context =
            format!("{name} has {len} bytes, too few for a table; restore it from a copy");
        return Err(Error::corruption(OPEN, context));
    };
    let mut bytes = [0; FOOTER_LEN];
    file.read_at(at, &mut bytes)?;
    let footer = Footer::decode(&bytes, at, checksums).map_err(|refusal| match refusal {
        footer::FooterRefusal::Damaged(what) => Error::corruption(
            OPEN,
            format!("{name}: footer at offset {at}: {what}; restore the file from a copy"),
        ),
        footer::FooterRefusal::Unsupported(what) => {
            Error::new(ErrorKind::NotSupported, OPEN, format!("{name} is {what}"))
        }
    })?;
    Ok((footer, at))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::build::BlockBuilder;
    use crate::checksum::Checksum;
    use crate::properties::Gathered;

    /// A table without entries that has these properties and directory entries, at `version`.
    fn table(properties: &[(&str, &[u8])], directory: &[&str], version: u8) -> Vec<u8> {
        let mut file = Vec::new();
        let mut put = |block: &Gathered| {
            let mut builder = BlockBuilder::new(usize::MAX);
            block.0.iter().for_each(|(name, value)| builder.add(name.as_bytes(), value));
            let mut bytes = Vec::new();
            builder.finish(&mut bytes);
            let handle = Handle { offset: file.len() as u64, size: bytes.len() as u64 };
            bytes.push(0);
            let sum = Checksum::Crc32c.of(&bytes);
            file.extend_from_slice(&bytes);
            file.extend_from_slice(&sum.to_le_bytes());
            handle
        };
        let mut block = Gathered::default();
        let index = put(&block);
        properties.iter().for_each(|(name, value)| _ = block.bytes(name, value));
        let (properties, mut at) = (put(&block), Vec::new());
        properties.put(&mut at);
        let mut block = Gathered::default();
        directory.iter().for_each(|name| _ = block.bytes(name, &at));
        let metaindex = put(&block);
        let mut footer = Footer::encode(Checksum::Crc32c, metaindex, index);
        footer[41] = version;
        file.extend_from_slice(&footer);
        file
    }

    fn refused(properties: &[(&str, &[u8])]) -> String {
        let file = table(properties, &["rocksdb.properties"], 5);
        let error = Layout::open(&file).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotSupported, "{error}");
        error.to_string()
    }

    #[test]
    fn unknown_features_are_refused_by_name() {
        let fine = table(&[], &["rocksdb.properties", "something.new"], 5);
        assert!(Layout::open(&fine).is_ok());
        for (name, value, named) in [
            (name::COMPARATOR, &b"mine.v1"[..], "in the order of mine.v1"),
            (name::TIMESTAMPS_KEPT, &[0], "user-defined timestamps"),
            (name::OTHER_INDEX, &[1], "user-defined index"),
            (name::EMBEDDED_BLOBS, &[], "blobs within the table"),
            (name::INDEX_TYPE, &[4, 0, 0, 0], "index of kind 4"),
            (name::INDEX_TYPE, &[0, 1, 0, 0], "index of unknown kind"),
        ] {
            let told = refused(&[(name, value)]);
            assert!(told.contains(named), "{told}");
        }
    }

    #[test]
    fn compression_managers() {
        for fine in ["", ";;", "BuiltinV2;04;", "BuiltinV2;;"] {
            assert_eq!(check_compression_manager(fine), Ok(()), "{fine}");
        }
        assert!(check_compression_manager("Mine;81;").unwrap_err().contains("manager Mine"));
    }

    #[test]
    fn what_is_missing_is_damage() {
        let damaged = |file: Vec<u8>| {
            let error = Layout::open(&file).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
        };
        damaged(table(&[], &[], 5));
        damaged(table(&[(name::ENTRIES, &[0x80])], &["rocksdb.properties"], 5));
        damaged(table(&[(name::GLOBAL_SEQ, &[1])], &["rocksdb.properties"], 5));
        damaged(Vec::new());
    }

    /// A little block may hold keys that are long in sum.
    #[test]
    fn shared_prefixes_are_capped() {
        let long = "k".repeat(200);
        let names: Vec<String> = (0..100).map(|i| format!("{long}{i:03}")).collect();
        let properties: Vec<(&str, &[u8])> =
            names.iter().map(|name| (name.as_str(), &b""[..])).collect();
        let file = table(&properties, &["rocksdb.properties"], 5);
        assert!(Layout::open_capped(&file, 25_000).is_ok());
        let error = Layout::open_capped(&file, 20_000).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
    }

    #[test]
    fn caps_hold() {
        let file = table(&[("a", &[0; 500])], &["rocksdb.properties"], 5);
        assert!(Layout::open_capped(&file, 1000).is_ok());
        let error = Layout::open_capped(&file, 400).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
    }
}
