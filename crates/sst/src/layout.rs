//! The fixed parts of a table: footer, directory, properties, dictionary.

use std::collections::BTreeMap;
use std::sync::Arc;

use base::{Error, ErrorKind, Result, Seq};

use crate::block::cursor::BlockCursor;
use crate::block::{self, Block, Damage, Keys, Role, Shape, Values};
use crate::checksum::context;
use crate::compression::{self, Dictionary};
use crate::filter;
use crate::footer::{self, FOOTER_LEN, Footer};
use crate::handle::{BLOCK_TRAILER, Handle};
use crate::io::ReadAt;
use crate::key::{RANGE_DELETE, RangeDelete, split};
use crate::properties::{BYTEWISE, Properties, name};

/// Longest block after decompression, unless the caller says otherwise.
const BLOCK_CAP: u64 = 1 << 30;
const OPEN: &str = "open table";
const READ: &str = "read table";

/// How the filter is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Filter {
    /// None that this crate can ask.
    None,
    /// One block.
    Full(Handle),
    /// An index of parts.
    Parted(Handle),
}

/// Footer, directory, properties and handles: everything needed to find blocks. Small; never changes.
#[derive(Debug)]
pub struct Layout {
    name: String,
    footer: Footer,
    /// Where the footer stands, behind all blocks.
    footer_at: u64,
    index: Handle,
    two_level: bool,
    index_keys: Keys,
    index_values: Values,
    filter: Filter,
    range_deletes: Option<Handle>,
    dictionary: Option<Dictionary>,
    properties: Properties,
    global_seq: Option<Seq>,
    block_cap: u64,
    /// Whether checksums are looked at: always, but for fuzzing.
    verify: bool,
}

impl Layout {
    /// Reads and verifies the fixed parts of `file`.
    ///
    /// # Errors
    /// `NotSupported` names a feature that this crate does not read; `Corruption` and `Io` name the file
    /// and the offset.
    pub fn open(file: &dyn ReadAt) -> Result<Layout> {
        Self::open_capped(file, BLOCK_CAP)
    }

    /// The same without looking at checksums, so that fuzzing reaches what lies behind them.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(crate) fn open_unverified(file: &dyn ReadAt, block_cap: u64) -> Result<Layout> {
        Self::open_with(file, block_cap, false)
    }

    /// A table of which only blocks matter: for fuzzing one of them.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(crate) fn bare(len: u64, flags: u8, verify: bool) -> Layout {
        let (checksum, block_cap) = (crate::Checksum::Xxh3, 1 << 16);
        let footer =
            Footer { version: 5, checksum, metaindex: Handle::default(), index: None, context: 0 };
        let mut layout = Self::empty("fuzz".into(), footer, len, block_cap, verify);
        layout.two_level = flags & 1 != 0;
        layout.index_keys = if flags & 2 != 0 { Keys::Plain } else { Keys::Internal };
        layout.index_values = match flags >> 2 & 3 {
            0 => Values::Handles,
            1 => Values::HandlesAndKeys,
            _ => Values::SizedHandles,
        };
        layout
    }

    /// The same, refusing blocks that become longer than `block_cap` bytes when decompressed.
    pub fn open_capped(file: &dyn ReadAt, block_cap: u64) -> Result<Layout> {
        Self::open_with(file, block_cap, true)
    }

    fn empty(name: String, footer: Footer, footer_at: u64, block_cap: u64, verify: bool) -> Layout {
        Layout {
            name,
            footer,
            footer_at,
            index: Handle::default(),
            two_level: false,
            index_keys: Keys::Internal,
            index_values: Values::SizedHandles,
            filter: Filter::None,
            range_deletes: None,
            dictionary: None,
            properties: Properties::default(),
            global_seq: None,
            block_cap: block_cap.min(u32::MAX.into()),
            verify,
        }
    }

    fn open_with(file: &dyn ReadAt, block_cap: u64, verify: bool) -> Result<Layout> {
        let name = file.name();
        let (footer, footer_at) = read_footer(file, &name, verify)?;
        let mut layout = Self::empty(name, footer, footer_at, block_cap, verify);
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

    /// The same table with sequence number `seq` for every entry, whatever the file says. RocksDB keeps that
    /// number of an ingested file in its manifest.
    pub fn with_global_seq(mut self, seq: Seq) -> Self {
        self.global_seq = Some(seq);
        self
    }

    /// What messages call the file.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Version of the format, 2 to 7.
    pub fn version(&self) -> u32 {
        self.footer.version
    }

    /// How blocks are protected.
    pub fn checksum(&self) -> crate::Checksum {
        self.footer.checksum
    }

    /// What the table says about itself.
    pub fn properties(&self) -> &Properties {
        &self.properties
    }

    /// Whether the table has a filter that this crate can ask.
    pub fn has_filter(&self) -> bool {
        self.filter != Filter::None
    }

    /// The sequence number that all entries share, where they do.
    pub fn global_seq(&self) -> Option<Seq> {
        self.global_seq
    }

    pub(crate) fn filter(&self) -> Filter {
        self.filter
    }

    pub(crate) fn index(&self) -> Handle {
        self.index
    }

    pub(crate) fn two_level(&self) -> bool {
        self.two_level
    }

    pub(crate) fn index_has_internal_keys(&self) -> bool {
        self.index_keys == Keys::Internal
    }

    /// Reads, verifies and decompresses one block; what a cache calls on a miss.
    ///
    /// # Errors
    /// `Corruption` where a checksum does not hold or the block makes no sense, `NotSupported` for kinds of
    /// compression or layout that this crate does not read, `LimitExceeded` above the cap.
    pub fn load(&self, file: &dyn ReadAt, handle: Handle, role: Role) -> Result<Block> {
        let at = handle.offset;
        let stored_len = handle.size.checked_add(BLOCK_TRAILER as u64);
        let end = stored_len.and_then(|len| at.checked_add(len));
        if end.is_none_or(|end| end > self.footer_at) {
            return Err(self.damaged(at, "a block there would reach behind the last"));
        }
        let mut bytes = Vec::new();
        let stored_len = stored_len.and_then(|len| usize::try_from(len).ok()).unwrap_or(usize::MAX);
        if bytes.try_reserve_exact(stored_len).is_err() {
            return Err(self.too_long(at, handle.size));
        }
        bytes.resize(stored_len, 0);
        file.read_at(at, &mut bytes)?;
        let kind = self.verified(at, &bytes)?;
        bytes.truncate(stored_len - BLOCK_TRAILER);
        if kind != 0 {
            // Only data blocks build on the dictionary.
            let dictionary = self.dictionary.as_ref().filter(|_| role == Role::Data);
            bytes = compression::decompress(kind, &bytes, dictionary, self.block_cap)
                .map_err(|failure| self.not_decompressed(at, failure))?;
        } else if bytes.len() as u64 > self.block_cap {
            return Err(self.too_long(at, handle.size));
        }
        Block::parse(bytes, at, self.shape(role)).map_err(|refusal| match refusal {
            block::Refusal::Damaged(damage) => self.damaged(at, damage.what),
            block::Refusal::Unsupported(what) => self.unsupported(what),
        })
    }

    /// The kind of compression, once the checksum of block and kind holds.
    fn verified(&self, at: u64, stored: &[u8]) -> Result<u8> {
        let Some((front, sum)) = stored.split_last_chunk::<4>() else {
            return Err(self.damaged(at, "a block there is too short"));
        };
        let checksum = self.footer.checksum;
        let sum = u32::from_le_bytes(*sum).wrapping_sub(context(self.footer.context, at));
        let has_sum = checksum != crate::Checksum::None;
        if has_sum && self.verify && checksum.of(front) != sum {
            return Err(self.damaged(at, "the checksum of the block there does not hold"));
        }
        Ok(front.last().copied().unwrap_or_default())
    }

    fn shape(&self, role: Role) -> Shape {
        match role {
            Role::Data | Role::RangeDeletes => Shape::Entries(Keys::Internal, Values::Sized),
            Role::Index => Shape::Entries(self.index_keys, self.index_values),
            Role::FilterIndex => {
                let sized = self.index_values == Values::SizedHandles;
                let values = if sized { Values::SizedHandles } else { Values::Handles };
                Shape::Entries(self.index_keys, values)
            }
            Role::Properties | Role::MetaIndex => Shape::Entries(Keys::Plain, Values::Sized),
            Role::Filter | Role::Dictionary => Shape::Raw,
        }
    }

    fn read_directory(&self, file: &dyn ReadAt) -> Result<BTreeMap<String, Handle>> {
        let at = self.footer.metaindex;
        let block = Arc::new(self.load(file, at, Role::MetaIndex)?);
        let mut found = BTreeMap::new();
        for entry in self.entries(&block)? {
            let (key, value) = entry;
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

    /// Keys and values of a small block.
    fn entries(&self, block: &Arc<Block>) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        let mut cursor = BlockCursor::new(block.clone());
        let mut found = Vec::new();
        cursor.first().map_err(|damage| self.damage(block, damage))?;
        while cursor.valid() {
            found.push((cursor.key().to_vec(), cursor.value().to_vec()));
            cursor.next().map_err(|damage| self.damage(block, damage))?;
        }
        Ok(found)
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

    /// All range deletions, ascending by begin, then descending by sequence number. Their ends may overlap.
    pub fn range_deletes(&self, file: &dyn ReadAt) -> Result<Vec<RangeDelete>> {
        let Some(handle) = self.range_deletes else { return Ok(Vec::new()) };
        self.range_deletes_in(&Arc::new(self.load(file, handle, Role::RangeDeletes)?))
    }

    pub(crate) fn range_deletes_at(&self) -> Option<Handle> {
        self.range_deletes
    }

    pub(crate) fn range_deletes_in(&self, block: &Arc<Block>) -> Result<Vec<RangeDelete>> {
        let mut found = Vec::new();
        for (key, end) in self.entries(block)? {
            let (begin, trailer) = split(&key);
            if trailer as u8 != RANGE_DELETE {
                return Err(self.damaged(block.offset(), "another kind among range deletions"));
            }
            let seq = self.global_seq.unwrap_or(trailer >> 8);
            found.push(RangeDelete { begin: begin.to_vec(), end, seq });
        }
        found.sort_by(|a, b| a.begin.cmp(&b.begin).then(b.seq.cmp(&a.seq)));
        Ok(found)
    }

    /// What is wrong in a block that was loaded.
    #[cold]
    pub(crate) fn damage(&self, block: &Block, damage: Damage) -> Error {
        let place = format!("{} (byte {} of the block there)", damage.what, damage.at);
        self.damaged(block.offset(), &place)
    }

    #[cold]
    pub(crate) fn damaged(&self, at: u64, what: &str) -> Error {
        let context = format!("{} at offset {at}: {what}; restore the file from a copy", self.name);
        Error::corruption(READ, context)
    }

    #[cold]
    pub(crate) fn unsupported(&self, what: &str) -> Error {
        let context = format!("{} has {what}; rewrite it with RocksDB, without that", self.name);
        Error::new(ErrorKind::NotSupported, READ, context)
    }

    #[cold]
    fn too_long(&self, at: u64, len: u64) -> Error {
        let context = format!(
            "{} at offset {at}: a block of {len} bytes is over the cap of {}; raise the cap",
            self.name, self.block_cap
        );
        Error::new(ErrorKind::LimitExceeded, READ, context)
    }

    #[cold]
    fn not_decompressed(&self, at: u64, failure: compression::Failure) -> Error {
        match failure {
            compression::Failure::Damaged(what) => {
                self.damaged(at, &format!("the block there does not decompress: {what}"))
            }
            compression::Failure::TooLong(len) => self.too_long(at, len),
            compression::Failure::Unsupported(what) => self.unsupported(&what),
        }
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

fn read_footer(file: &dyn ReadAt, name: &str, verify: bool) -> Result<(Footer, u64)> {
    let len = file.len();
    let Some(at) = len.checked_sub(FOOTER_LEN as u64) else {
        let context =
            format!("{name} has {len} bytes, too few for a table; restore it from a copy");
        return Err(Error::corruption(OPEN, context));
    };
    let mut bytes = [0; FOOTER_LEN];
    file.read_at(at, &mut bytes)?;
    let footer = Footer::decode(&bytes, at, verify).map_err(|refusal| match refusal {
        footer::Refusal::Damaged(what) => Error::corruption(
            OPEN,
            format!("{name}: footer at offset {at}: {what}; restore the file from a copy"),
        ),
        footer::Refusal::Unsupported(what) => {
            Error::new(ErrorKind::NotSupported, OPEN, format!("{name} is {what}"))
        }
    })?;
    Ok((footer, at))
}

/// How a table gets its blocks: the seam for a block cache.
pub trait Blocks {
    /// The block at `handle` of the file that `table` describes.
    fn get(&self, table: &Layout, handle: Handle, role: Role) -> Result<Arc<Block>>;
}

/// Reads and verifies every block each time.
#[derive(Clone, Debug)]
pub struct Uncached<F>(pub F);

impl<F: ReadAt> Blocks for Uncached<F> {
    fn get(&self, table: &Layout, handle: Handle, role: Role) -> Result<Arc<Block>> {
        table.load(&self.0, handle, role).map(Arc::new)
    }
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
            let mut builder = BlockBuilder::new(1);
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

    #[test]
    fn caps_hold() {
        let file = table(&[("a", &[0; 500])], &["rocksdb.properties"], 5);
        assert!(Layout::open_capped(&file, 1000).is_ok());
        let error = Layout::open_capped(&file, 400).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
    }
}
