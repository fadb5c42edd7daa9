//! Options of one keyspace. They are kept in the store, unlike those of an open.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use base::{Error, ErrorKind, Result};

use super::check::{COMPRESSION_LEVEL_MAX, FILTER_BITS_MAX, MEMTABLE_BYTES_MIN};
use super::text::{placement_name, placement_named};
use super::{
    Compression, Placement, Row, compression_name, compression_named, parse_duration, parse_size,
};

/// Options of a keyspace, given when it is made and kept in the store's manifest. What is not set follows the
/// [`Options`](crate::Options) of each open. Where its files go, [`Keyspace::set_options`](crate::Keyspace::set_options) changes.
///
/// ```
/// use strandline::{Db, KeyspaceOptions, Options, PmSource};
///
/// # fn main() -> strandline::Result<()> {
/// # let options = Options::default().pm(PmSource::Heap).pm_size(16 << 20);
/// # let db = Db::open("unused-for-heap", options)?;
/// let hits = db.create_keyspace_with("hits", KeyspaceOptions::new().merge_operator("add"))?;
/// hits.merge("home", 1_u64.to_le_bytes())?;
/// hits.merge("home", 1_u64.to_le_bytes())?;
/// assert_eq!(hits.get("home")?.as_deref(), Some(&2_u64.to_le_bytes()[..]));
/// assert_eq!(hits.options().merge_operator.as_deref(), Some("add"));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeyspaceOptions {
    /// How blocks of new tables are compressed.
    pub compression: Option<Compression>,
    /// Level for Zstandard; 0: its own default.
    pub compression_level: Option<i32>,
    /// Bits of a new table's Bloom filter for each key; 0: no filter.
    pub filter_bits: Option<u32>,
    /// Bytes of records at which a memtable of the keyspace is flushed, if that is less than what the store gives each.
    pub memtable_bytes: Option<u64>,
    /// Bytes of a value from which on it lies in a value file, apart from its key; 0: none does.
    pub value_files_min: Option<u64>,
    /// Which tier a file goes to, where the store has several.
    pub placement: Option<KeyspacePlacement>,
    /// The tiers that its files lie in.
    pub tiers: Option<KeyspaceTiers>,
    /// How long a value lives, in whole milliseconds. From then on the key counts as deleted. Reads at a snapshot judge by the
    /// time when they read; an iterator or cursor judges all that it shows by the time when it was made, but what a merge or a
    /// compaction has dropped since is gone. The space comes back as
    /// memtables are flushed, runs merged and tables compacted, and where nothing is written, as background work finds what
    /// holds nothing else; [`Db::compact`](crate::Db::compact) asks for it. Each value takes 8 bytes more. Such a keyspace takes
    /// no operands and no files from elsewhere.
    ///
    /// The store's clock never falls. If the system's jumps forward once, nothing expires until the real time catches up.
    pub ttl: Option<Duration>,
    /// Name of the merge operator: one of [`BuiltInOperator`](crate::operators::BuiltInOperator), or of
    /// [`Hooks::merge_operators`](crate::Hooks::merge_operators).
    pub merge_operator: Option<String>,
    /// Name of the compaction filter, one of [`Hooks::compaction_filters`](crate::Hooks::compaction_filters).
    pub compaction_filter: Option<String>,
}

/// How files of a keyspace are placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyspacePlacement {
    /// As those of the store ([`Options::placement`](crate::Options::placement)), as where nothing is said.
    Store,
    /// In its own way.
    As(Placement),
}

impl KeyspacePlacement {
    /// What it has of its own.
    pub(crate) fn own(self) -> Option<Placement> {
        match self {
            KeyspacePlacement::Store => None,
            KeyspacePlacement::As(placement) => Some(placement),
        }
    }

    fn named(text: &str) -> Option<KeyspacePlacement> {
        match text {
            STORE => Some(KeyspacePlacement::Store),
            text => placement_named(text).map(KeyspacePlacement::As),
        }
    }
}

impl From<Placement> for KeyspacePlacement {
    fn from(placement: Placement) -> KeyspacePlacement {
        KeyspacePlacement::As(placement)
    }
}

/// As options give it: `store`, or the name of a placement.
impl fmt::Display for KeyspacePlacement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.own().map_or(STORE, placement_name))
    }
}

/// Which of the store's directories of tables have the files of a keyspace.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyspaceTiers {
    /// Any of them, as where nothing is said.
    All,
    /// These of [`Options::tiers`](crate::Options::tiers), and that of [`Options::ssd`](crate::Options::ssd), in any order. The
    /// others have its files only as long as these are full. One that the store leaves is forgotten.
    Dirs(Vec<PathBuf>),
}

impl KeyspaceTiers {
    fn named(text: &str) -> KeyspaceTiers {
        if text == ALL {
            return KeyspaceTiers::All;
        }
        let dirs = text.split(',').map(str::trim).filter(|dir| !dir.is_empty());
        KeyspaceTiers::Dirs(dirs.map(PathBuf::from).collect())
    }
}

/// As options give it: `all`, or directories with commas between.
impl fmt::Display for KeyspaceTiers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let KeyspaceTiers::Dirs(dirs) = self else { return f.write_str(ALL) };
        let dirs: Vec<String> = dirs.iter().map(|dir| dir.display().to_string()).collect();
        f.write_str(&dirs.join(","))
    }
}

/// As the store's, as text.
const STORE: &str = "store";

/// All tiers, as text.
const ALL: &str = "all";

/// Every option of a keyspace.
pub const KEYSPACE_TABLE: &[Row] = &[
    Row {
        name: "compression",
        unit: "none, snappy, lz4 or zstd",
        default: "the store's",
        doc: "How blocks of new tables are compressed.",
    },
    Row {
        name: "compression_level",
        unit: "a whole number",
        default: "the store's",
        doc: "Level for zstd, up to 22; 0 is its own default.",
    },
    Row {
        name: "filter_bits",
        unit: "bits per key, at most 100; 0: no filter",
        default: "the store's",
        doc: "Size of the Bloom filters of new tables.",
    },
    Row {
        name: "memtable_bytes",
        unit: "bytes",
        default: "the store's",
        doc: "Records that a memtable of the keyspace holds before it is flushed; less than the store gives each.",
    },
    Row {
        name: "value_files_min",
        unit: "bytes; 0: none",
        default: "the store's",
        doc: "Values from this size on are written to value files, apart from their keys.",
    },
    Row {
        name: "placement",
        unit: "benefit, level or store",
        default: "store",
        doc: "Which tier a file goes to, where the store has several; store: as the store's. It can be changed.",
    },
    Row {
        name: "tiers",
        unit: "all or DIR,DIR",
        default: "all",
        doc: "The directories of the store's tiers that have the files of the keyspace, as long as there is room. It can be changed.",
    },
    Row {
        name: "ttl",
        unit: "seconds, such as 3600 or 0.5; or with s, m, h or d behind them",
        default: "none",
        doc: "How long a value lives. Not with a merge operator.",
    },
    Row {
        name: "merge_operator",
        unit: "a name",
        default: "the store's",
        doc: "Combines operands: add, max, min, append, append:SEPARATOR, set-union, or a name that the application \
              registers.",
    },
    Row {
        name: "compaction_filter",
        unit: "a name",
        default: "the store's",
        doc: "Looks at values as they are compacted; a name that the application registers.",
    },
];

/// Times to live: the shortest, and one beyond which the clock would end.
const TTL_MIN: Duration = Duration::from_millis(1);
const TTL_MAX: Duration = Duration::from_secs(1000 * 366 * 86_400);

/// Bytes of a name of a hook.
const HOOK_NAME_BYTES_MAX: usize = 255;

impl KeyspaceOptions {
    /// No option set: all follow the store's.
    pub fn new() -> KeyspaceOptions {
        KeyspaceOptions::default()
    }

    /// Sets [`compression`](KeyspaceOptions::compression).
    #[must_use]
    pub fn compression(self, compression: Compression) -> KeyspaceOptions {
        KeyspaceOptions { compression: Some(compression), ..self }
    }

    /// Sets [`compression_level`](KeyspaceOptions::compression_level).
    #[must_use]
    pub fn compression_level(self, level: i32) -> KeyspaceOptions {
        KeyspaceOptions { compression_level: Some(level), ..self }
    }

    /// Sets [`filter_bits`](KeyspaceOptions::filter_bits).
    #[must_use]
    pub fn filter_bits(self, bits: u32) -> KeyspaceOptions {
        KeyspaceOptions { filter_bits: Some(bits), ..self }
    }

    /// Sets [`memtable_bytes`](KeyspaceOptions::memtable_bytes).
    #[must_use]
    pub fn memtable_bytes(self, bytes: u64) -> KeyspaceOptions {
        KeyspaceOptions { memtable_bytes: Some(bytes), ..self }
    }

    /// Sets [`value_files_min`](KeyspaceOptions::value_files_min).
    #[must_use]
    pub fn value_files_min(self, bytes: u64) -> KeyspaceOptions {
        KeyspaceOptions { value_files_min: Some(bytes), ..self }
    }

    /// Sets [`placement`](KeyspaceOptions::placement).
    #[must_use]
    pub fn placement(self, placement: impl Into<KeyspacePlacement>) -> KeyspaceOptions {
        KeyspaceOptions { placement: Some(placement.into()), ..self }
    }

    /// Sets [`tiers`](KeyspaceOptions::tiers).
    #[must_use]
    pub fn tiers(self, tiers: KeyspaceTiers) -> KeyspaceOptions {
        KeyspaceOptions { tiers: Some(tiers), ..self }
    }

    /// Sets [`ttl`](KeyspaceOptions::ttl).
    #[must_use]
    pub fn ttl(self, ttl: Duration) -> KeyspaceOptions {
        KeyspaceOptions { ttl: Some(ttl), ..self }
    }

    /// Sets [`merge_operator`](KeyspaceOptions::merge_operator).
    #[must_use]
    pub fn merge_operator(self, name: impl Into<String>) -> KeyspaceOptions {
        KeyspaceOptions { merge_operator: Some(name.into()), ..self }
    }

    /// Sets [`compaction_filter`](KeyspaceOptions::compaction_filter).
    #[must_use]
    pub fn compaction_filter(self, name: impl Into<String>) -> KeyspaceOptions {
        KeyspaceOptions { compaction_filter: Some(name.into()), ..self }
    }

    /// Sets the option called `name` from its text form.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] if there is no such option or the text does not parse.
    pub fn set(&mut self, name: &str, text: &str) -> Result<()> {
        let row = KEYSPACE_TABLE.iter().find(|row| row.name == name).ok_or_else(|| {
            let known: Vec<&str> = KEYSPACE_TABLE.iter().map(|row| row.name).collect();
            refused(format!("no option {name} of keyspaces; there are {}", known.join(", ")))
        })?;
        self.assign(name, text)
            .ok_or_else(|| refused(format!("{name}={text}: expected {}", row.unit)))
    }

    fn assign(&mut self, name: &str, text: &str) -> Option<()> {
        match name {
            "compression" => self.compression = Some(compression_named(text)?),
            "compression_level" => self.compression_level = Some(text.parse().ok()?),
            "filter_bits" => self.filter_bits = Some(text.parse().ok()?),
            "memtable_bytes" => self.memtable_bytes = Some(parse_size(text)?),
            "value_files_min" => self.value_files_min = Some(parse_size(text)?),
            "placement" => self.placement = Some(KeyspacePlacement::named(text)?),
            "tiers" => self.tiers = Some(KeyspaceTiers::named(text)),
            "ttl" => self.ttl = Some(parse_duration(text)?),
            "merge_operator" => self.merge_operator = Some(text.to_owned()),
            "compaction_filter" => self.compaction_filter = Some(text.to_owned()),
            _ => return None,
        }
        Some(())
    }

    /// The options that are set, by name and in text form.
    pub fn entries(&self) -> Vec<(&'static str, String)> {
        let text = |value: Option<u64>| value.map(|value| value.to_string());
        let all = [
            ("compression", self.compression.map(|kind| compression_name(kind).to_owned())),
            ("compression_level", self.compression_level.map(|level| level.to_string())),
            ("filter_bits", text(self.filter_bits.map(u64::from))),
            ("memtable_bytes", text(self.memtable_bytes)),
            ("value_files_min", text(self.value_files_min)),
            ("placement", self.placement.map(|placement| placement.to_string())),
            ("tiers", self.tiers.as_ref().map(KeyspaceTiers::to_string)),
            ("ttl", self.ttl.map(|ttl| format!("{}s", ttl.as_secs_f64()))),
            ("merge_operator", self.merge_operator.clone()),
            ("compaction_filter", self.compaction_filter.clone()),
        ];
        all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
    }

    /// Whether none is set.
    pub fn is_empty(&self) -> bool {
        *self == KeyspaceOptions::default()
    }

    /// Refuses values that make no keyspace.
    pub(crate) fn check(&self) -> Result<()> {
        self.compression.map_or(Ok(()), |kind| kind.require("create keyspace"))?;
        let beyond = |name: &str, value: String, bounds: String| {
            Err(refused(format!("{name}={value}: {bounds}")))
        };
        if let Some(level) = self.compression_level.filter(|level| *level > COMPRESSION_LEVEL_MAX) {
            let bounds = format!("at most {COMPRESSION_LEVEL_MAX}");
            return beyond("compression_level", level.to_string(), bounds);
        }
        if let Some(bits) = self.filter_bits.filter(|bits| *bits > FILTER_BITS_MAX) {
            return beyond("filter_bits", bits.to_string(), format!("at most {FILTER_BITS_MAX}"));
        }
        if let Some(bytes) = self.memtable_bytes.filter(|bytes| *bytes < MEMTABLE_BYTES_MIN) {
            let bounds = format!("at least {MEMTABLE_BYTES_MIN}");
            return beyond("memtable_bytes", bytes.to_string(), bounds);
        }
        if self.tiers == Some(KeyspaceTiers::Dirs(Vec::new())) {
            let bounds = "no directory; name some of those in the store's tiers, or all".to_owned();
            return beyond("tiers", String::new(), bounds);
        }
        if let Some(ttl) = self.ttl {
            if !(TTL_MIN..=TTL_MAX).contains(&ttl) || ttl.subsec_nanos() % 1_000_000 != 0 {
                let bounds = "whole milliseconds, from 1 ms to 1000 years".to_owned();
                return beyond("ttl", format!("{}s", ttl.as_secs_f64()), bounds);
            }
            if self.merge_operator.is_some() {
                let text = "ttl and merge_operator: operands have no time of their own; leave one of them out";
                return Err(refused(text.into()));
            }
        }
        for (option, name) in [
            ("merge_operator", &self.merge_operator),
            ("compaction_filter", &self.compaction_filter),
        ] {
            let len = name.as_ref().map_or(1, String::len);
            if len == 0 || len > HOOK_NAME_BYTES_MAX {
                let text = format!("{option}: a name of {len} bytes; 1 to {HOOK_NAME_BYTES_MAX}");
                return Err(refused(text));
            }
        }
        Ok(())
    }
}

/// As `name=value`, separated by blanks; empty if none is set.
impl fmt::Display for KeyspaceOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut blank = "";
        for (name, value) in self.entries() {
            write!(f, "{blank}{name}={}", value.escape_debug())?;
            blank = " ";
        }
        Ok(())
    }
}

fn refused(text: String) -> Error {
    Error::new(ErrorKind::InvalidArgument, "keyspace options", text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_and_the_struct_agree() {
        let texts =
            ["zstd", "3", "0", "65536", "4096", "level", "/fast,/slow", "90s", "append:;", "old"];
        let mut options = KeyspaceOptions::new();
        assert!(options.is_empty() && options.to_string().is_empty());
        for (row, text) in KEYSPACE_TABLE.iter().zip(texts) {
            options.set(row.name, text).expect(row.name);
        }
        let entries = options.entries();
        let names: Vec<&str> = KEYSPACE_TABLE.iter().map(|row| row.name).collect();
        assert_eq!(entries.iter().map(|(name, _)| *name).collect::<Vec<_>>(), names);
        assert_eq!(entries.iter().map(|(_, text)| &text[..]).collect::<Vec<_>>(), texts);
        let shown = options.to_string();
        assert!(
            shown.starts_with("compression=zstd compression_level=3 filter_bits=0 "),
            "{shown}"
        );
    }

    #[test]
    fn values_that_make_no_keyspace_are_refused() {
        for (name, text) in [
            ("compression", "bzip"),
            ("filter_bits", "many"),
            ("memtable_bytes", "-1"),
            ("memtable", "1"),
            ("placement", "fast"),
            ("ttl", "soon"),
            ("ttl", "-1"),
        ] {
            assert!(KeyspaceOptions::new().set(name, text).is_err(), "{name}={text}");
        }
        for (name, text) in [
            ("compression_level", "23"),
            ("filter_bits", "101"),
            ("memtable_bytes", "255"),
            ("tiers", ""),
            ("tiers", " , "),
            ("ttl", "0"),
            ("ttl", "0.0005"),
            ("ttl", "400000d"),
            ("merge_operator", ""),
            ("compaction_filter", &"x".repeat(256)),
        ] {
            let mut options = KeyspaceOptions::new();
            options.set(name, text).expect("it parses");
            let refused = options.check().expect_err("out of bounds");
            assert!(refused.to_string().contains(name), "{refused}");
        }
        let both = KeyspaceOptions::new().ttl(Duration::from_secs(1)).merge_operator("add");
        assert!(both.check().is_err());
        for (text, seconds) in [("1.5", 1.5), ("2m", 120.0), ("1h", 3600.0), ("7d", 604_800.0)] {
            assert_eq!(parse_duration(text), Duration::try_from_secs_f64(seconds).ok());
        }
        let large = KeyspaceOptions::new().filter_bits(100).memtable_bytes(256);
        assert!(large.compression_level(-5).check().is_ok());
    }
}
