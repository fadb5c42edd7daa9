//! The fixed parts of a table: footer, directory, properties, dictionary.

mod open;

use std::sync::Arc;

use base::{Error, ErrorKind, Result, Seq};
use bytes::Bytes;

use crate::block::cursor::BlockCursor;
use crate::block::{Block, BlockRefusal, Damage, Keys, Role, Shape, Values};
use crate::checksum::{Checksums, context};
use crate::compression::{self, Dictionary};
use crate::footer::Footer;
use crate::handle::{BLOCK_TRAILER, Handle};
use crate::io::ReadAt;
use crate::key::{RANGE_DELETE, RangeDelete, seq_of, split};
use crate::properties::Properties;

/// Longest block after decompression, unless the caller says otherwise.
const BLOCK_CAP: u64 = 1 << 30;
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
    checksums: Checksums,
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
        Self::open_with(file, block_cap, Checksums::Ignored)
    }

    /// A table for fuzzing one of its blocks: nothing else of it matters.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(crate) fn bare(len: u64, flags: u8, checksums: Checksums) -> Layout {
        let (checksum, block_cap) = (crate::Checksum::Xxh3, 1 << 16);
        let footer =
            Footer { version: 5, checksum, metaindex: Handle::default(), index: None, context: 0 };
        let mut layout = Self::empty("fuzz".into(), footer, len, block_cap, checksums);
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
        Self::open_with(file, block_cap, Checksums::Verified)
    }

    fn empty(
        name: String,
        footer: Footer,
        footer_at: u64,
        block_cap: u64,
        checksums: Checksums,
    ) -> Layout {
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
            checksums,
        }
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

    /// Whether every look-up reads that block: the whole filter, or the index's only or uppermost block.
    pub fn is_root(&self, handle: Handle, role: Role) -> bool {
        match role {
            Role::Index => handle == self.index,
            Role::Filter => self.filter == Filter::Full(handle),
            _ => false,
        }
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
        let mut bytes = self.buffer(handle)?;
        file.read_at(handle.offset, &mut bytes)?;
        self.decode(handle, bytes, role)
    }

    /// Room for the stored bytes of a block, from its offset to the end of its trailer: for reading several at once.
    ///
    /// # Errors
    /// `Corruption` where no block can lie there, `LimitExceeded` where there is no memory for it.
    pub fn buffer(&self, handle: Handle) -> Result<Vec<u8>> {
        let stored_len = self.stored_len(handle)?;
        let mut bytes = Vec::new();
        if bytes.try_reserve_exact(stored_len).is_err() {
            return Err(self.too_long(handle.offset, handle.size));
        }
        bytes.resize(stored_len, 0);
        Ok(bytes)
    }

    /// Bytes of a block as it is stored, from its offset to the end of its trailer: they are in the file.
    ///
    /// # Errors
    /// `Corruption` where no block can lie there.
    pub fn stored_len(&self, handle: Handle) -> Result<usize> {
        let len = handle.size.checked_add(BLOCK_TRAILER as u64);
        let end = len.and_then(|len| handle.offset.checked_add(len));
        match len.and_then(|len| usize::try_from(len).ok()) {
            Some(len) if end.is_some_and(|end| end <= self.footer_at) => Ok(len),
            _ => Err(self.damaged(handle.offset, "a block there would reach behind the last")),
        }
    }

    /// Verifies and decompresses the stored bytes of a block, which [`Layout::buffer`] made room for.
    ///
    /// # Errors
    /// As [`Layout::load`].
    pub fn decode(&self, handle: Handle, mut bytes: Vec<u8>, role: Role) -> Result<Block> {
        let at = handle.offset;
        let kind = self.verified(at, &bytes)?;
        bytes.truncate(bytes.len().saturating_sub(BLOCK_TRAILER));
        if kind != 0 {
            // Only data blocks build on the dictionary.
            let dictionary = self.dictionary.as_ref().filter(|_| role == Role::Data);
            bytes = compression::decompress(kind, &bytes, dictionary, self.block_cap)
                .map_err(|failure| self.not_decompressed(at, failure))?;
        } else if bytes.len() as u64 > self.block_cap {
            return Err(self.too_long(at, handle.size));
        }
        Block::parse(bytes, at, self.shape(role)).map_err(|refusal| self.refused(at, refusal))
    }

    /// Verifies a block that stays where it lies, and keeps `lender` as long as it lives. `lender` is asked once for the stored
    /// bytes, from the block's offset to the end of its trailer; they never change. What is compressed is copied all the same.
    ///
    /// # Errors
    /// As [`Layout::load`].
    pub fn lend<T>(&self, handle: Handle, lender: T, role: Role) -> Result<Block>
    where
        T: AsRef<[u8]> + Send + 'static,
    {
        let at = handle.offset;
        let mut stored = Bytes::from_owner(lender);
        if self.verified(at, &stored)? != 0 {
            return self.decode(handle, stored.to_vec(), role);
        }
        let len = stored.len().saturating_sub(BLOCK_TRAILER);
        if len as u64 > self.block_cap {
            return Err(self.too_long(at, handle.size));
        }
        stored.truncate(len);
        Block::lent(stored, at, self.shape(role)).map_err(|refusal| self.refused(at, refusal))
    }

    /// A block from its [bytes](Block::bytes), which were verified elsewhere, as a cache has them.
    ///
    /// # Errors
    /// As [`Layout::load`].
    pub fn restore(&self, offset: u64, bytes: Vec<u8>, role: Role) -> Result<Block> {
        Block::parse(bytes, offset, self.shape(role))
            .map_err(|refusal| self.refused(offset, refusal))
    }

    /// The kind of compression, once the checksum of block and kind holds.
    fn verified(&self, at: u64, stored: &[u8]) -> Result<u8> {
        let Some((front, sum)) = stored.split_last_chunk::<4>() else {
            return Err(self.damaged(at, "a block there is too short"));
        };
        let checksum = self.footer.checksum;
        let sum = u32::from_le_bytes(*sum).wrapping_sub(context(self.footer.context, at));
        let counts = checksum != crate::Checksum::None && self.checksums == Checksums::Verified;
        if counts && checksum.of(front) != sum {
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
            Role::Filter | Role::Dictionary | Role::Value => Shape::Raw,
        }
    }

    /// Keys and values of a small block.
    fn entries(&self, block: &Arc<Block>) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        let mut cursor = BlockCursor::new(block.clone());
        let (mut found, mut len) = (Vec::new(), 0);
        cursor.first().map_err(|damage| self.damage(block, damage))?;
        while cursor.valid() {
            // Keys that share a long prefix can be far longer in sum than their block.
            len += (cursor.key().len() + cursor.value().len()) as u64;
            if len > self.block_cap {
                return Err(self.too_long(block.offset(), len));
            }
            found.push((cursor.key().to_vec(), cursor.value().to_vec()));
            cursor.next().map_err(|damage| self.damage(block, damage))?;
        }
        Ok(found)
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
            let seq = self.global_seq.unwrap_or(seq_of(trailer));
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
        Error::corruption(READ, context).with_place(&self.name, at)
    }

    #[cold]
    pub(crate) fn unsupported(&self, what: &str) -> Error {
        let context = format!("{} has {what}; rewrite it with RocksDB, without that", self.name);
        Error::new(ErrorKind::NotSupported, READ, context)
    }

    #[cold]
    fn refused(&self, at: u64, refusal: BlockRefusal) -> Error {
        match refusal {
            BlockRefusal::Damaged(damage) => self.damaged(at, damage.what),
            BlockRefusal::Unsupported(what) => self.unsupported(what),
        }
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
            compression::Failure::Unsupported { what, remedy } => {
                let context = format!("{} has {what}; {remedy}", self.name);
                Error::new(ErrorKind::NotSupported, READ, context)
            }
        }
    }
}
