//! Options from their text form.

use std::time::Duration;

use base::{Error, ErrorKind, Result};
use pmem::PmModel;
use ssd::SsdModel;
use sst::{Checksum, Compression, IndexKind};

use super::check::{
    COMPRESSION_LEVEL_MAX, FILTER_BITS_MAX, PM_BLOCK_BYTES, PM_PERCENT_MAX, THREADS_MAX,
};
use super::{
    CacheOutputs, CachePolicy, FastBlocks, Level0Form, MemorySource, Options, Placement, PmSource,
    SsdSource, TABLE, TierSource, TierSpec, WalDir, WalIo, WalSync,
};

/// Parts that a keyspace may be cut into at most.
const SUBRANGES_MAX: u32 = 1024;

impl Options {
    /// Sets the option called `name` from its text form.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] if there is no such option or the text does not parse; the message
    /// names the option and what it takes.
    pub fn set(&mut self, name: &str, text: &str) -> Result<()> {
        let row = TABLE.iter().find(|row| row.name == name).ok_or_else(|| {
            let known: Vec<&str> = TABLE.iter().map(|row| row.name).collect();
            Error::new(
                ErrorKind::InvalidArgument,
                "options",
                format!("no option {name}; there are {}", known.join(", ")),
            )
        })?;
        self.assign(name, text).ok_or_else(|| {
            // A model says itself which of its fields is wrong.
            let own = match name {
                "pm_model" => text.parse::<PmModel>().err(),
                "ssd_model" => text.parse::<SsdModel>().err(),
                "tiers" => tier_specs(text).err(),
                _ => None,
            };
            let why = match own {
                Some(error) => error.context().to_owned(),
                None => format!("expected {}", row.unit),
            };
            Error::new(ErrorKind::InvalidArgument, "options", format!("{name}={text}: {why}"))
        })
    }

    fn assign(&mut self, name: &str, text: &str) -> Option<()> {
        let count = || u32::try_from(parse_size(text)?).ok();
        let up_to = |most: u32| count().filter(|count| *count <= most);
        match name {
            "pm" => self.pm = pm_named(text)?,
            "pm_size" => self.pm_size = parse_size(text)?,
            "pm_model" => self.pm_model = model_named(text)?,
            "wal_dir" => self.wal_dir = wal_dir_named(text)?,
            "wal_sync" => self.wal_sync = wal_sync_named(text)?,
            "wal_io" => self.wal_io = wal_io_named(text)?,
            "memtable_memory" => self.memtable_memory = memory_named(text)?,
            "zone_size" => self.zone_size = parse_size(text)?,
            "create_if_missing" => self.create_if_missing = text.parse().ok()?,
            "memtable_bytes" => {
                self.memtable_bytes = parse_size(text).filter(|bytes| *bytes > 0)?
            }
            "immutable_memtables_max" => self.immutable_memtables_max = count()?,
            "level0" => self.level0 = level0_named(text)?,
            "subranges" => self.subranges = up_to(SUBRANGES_MAX)?,
            "dram_budget" => self.dram_budget = parse_size(text)?,
            "background_threads" => self.background_threads = up_to(THREADS_MAX)?,
            "ssd" => self.ssd = ssd_named(text)?,
            "tiers" => self.tiers = tiers_named(text)?,
            "placement" => self.placement = placement_named(text)?,
            "pm_block_bytes" => {
                self.pm_block_bytes =
                    count().filter(|bytes| PM_BLOCK_BYTES.contains(&u64::from(*bytes)))?;
            }
            "pm_tables" => self.pm_tables = up_to(PM_PERCENT_MAX)?,
            "pm_values" => self.pm_values = up_to(PM_PERCENT_MAX)?,
            "pm_cache" => self.pm_cache = up_to(PM_PERCENT_MAX)?,
            "pm_cache_policy" => self.pm_cache_policy = cache_policy_named(text)?,
            "ssd_size" => self.ssd_size = parse_size(text)?,
            "ssd_direct" => self.ssd_direct = text.parse().ok()?,
            "ssd_model" => self.ssd_model = model_named(text)?,
            "compression" => self.compression = compression_named(text)?,
            "compression_level" => {
                let level = text.parse().ok();
                self.compression_level = level.filter(|level| *level <= COMPRESSION_LEVEL_MAX)?;
            }
            "checksum" => self.checksum = checksum_named(text)?,
            "value_files_min" => self.value_files_min = parse_size(text)?,
            "value_space" => self.value_space = count()?,
            "table_bytes" => self.table_bytes = parse_size(text).filter(|bytes| *bytes > 0)?,
            "block_bytes" => self.block_bytes = count().filter(|bytes| *bytes > 0)?,
            "filter_bits" => self.filter_bits = up_to(FILTER_BITS_MAX)?,
            "index" => self.index = index_named(text)?,
            "cache_records" => self.cache_records = text.parse().ok()?,
            "hash_index" => self.hash_index = text.parse().ok()?,
            "block_cache" => self.block_cache = parse_size(text)?,
            "cache_outputs" => self.cache_outputs = cache_outputs_named(text)?,
            "fast_blocks" => self.fast_blocks = fast_blocks_named(text)?,
            "block_cache_memory" => self.block_cache_memory = memory_named(text)?,
            "lock_timeout" => self.lock_timeout = parse_duration(text)?,
            "lock_memory" => self.lock_memory = parse_size(text)?,
            "compaction_rate" => self.compaction_rate = parse_size(text)?,
            "recovery_threads" => self.recovery_threads = up_to(THREADS_MAX)?,
            "inspect" => self.inspect = text.parse().ok()?,
            _ => return None,
        }
        Some(())
    }
}

/// A size such as `64M`, `4096` or `1.5G`; suffixes are powers of 1024.
pub fn parse_size(text: &str) -> Option<u64> {
    let text = text.trim();
    let split = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, suffix) = text.split_at(split);
    let scale: u64 = match suffix.to_ascii_uppercase().trim_end_matches("IB").trim_end_matches('B')
    {
        "" => 1,
        "K" => 1 << 10,
        "M" => 1 << 20,
        "G" => 1 << 30,
        "T" => 1 << 40,
        _ => return None,
    };
    if let Ok(whole) = number.trim().parse::<u64>() {
        return whole.checked_mul(scale);
    }
    let real: f64 = number.trim().parse().ok()?;
    (real.is_finite() && (0.0..1e19).contains(&real)).then_some((real * scale as f64) as u64)
}

/// A time such as `90`, `0.5`, `100ms`, `15m` or `7d`; seconds unless a unit is given.
pub(crate) fn parse_duration(text: &str) -> Option<Duration> {
    let text = text.trim();
    let units = [("ms", 0.001), ("s", 1.0), ("m", 60.0), ("h", 3600.0), ("d", 86_400.0)];
    let found = units.iter().find_map(|(unit, scale)| Some((text.strip_suffix(unit)?, *scale)));
    let (number, scale) = found.unwrap_or((text, 1.0));
    let seconds: f64 = number.parse().ok()?;
    Duration::try_from_secs_f64(seconds * scale).ok()
}

const COMPRESSIONS: [(&str, Compression); 4] = [
    ("none", Compression::None),
    ("snappy", Compression::Snappy),
    ("lz4", Compression::Lz4),
    ("zstd", Compression::Zstd),
];

pub(crate) fn compression_named(text: &str) -> Option<Compression> {
    COMPRESSIONS.iter().find(|(name, _)| *name == text).map(|(_, kind)| *kind)
}

pub(crate) fn compression_name(kind: Compression) -> &'static str {
    COMPRESSIONS.iter().find(|(_, known)| *known == kind).map_or("", |(name, _)| name)
}

fn pm_named(text: &str) -> Option<PmSource> {
    match text {
        "auto" => Some(PmSource::Auto),
        "heap" => Some(PmSource::Heap),
        "dram" => Some(PmSource::Dram),
        "" => None,
        path => Some(PmSource::Path(path.into())),
    }
}

/// A model by its text form; none for `none`.
fn model_named<M: std::str::FromStr>(text: &str) -> Option<Option<M>> {
    if text == "none" { Some(None) } else { text.parse().ok().map(Some) }
}

fn wal_dir_named(text: &str) -> Option<WalDir> {
    match text {
        "auto" => Some(WalDir::Auto),
        "" => None,
        path => Some(WalDir::Path(path.into())),
    }
}

fn memory_named(text: &str) -> Option<MemorySource> {
    match text {
        "dram" => Some(MemorySource::Dram),
        "" => None,
        path => Some(MemorySource::Dir(path.into())),
    }
}

fn wal_sync_named(text: &str) -> Option<WalSync> {
    match text {
        "always" => Some(WalSync::Always),
        "never" => Some(WalSync::Never),
        // Without a unit it could be taken for milliseconds.
        time if time.ends_with('s') => parse_duration(time).map(WalSync::Interval),
        _ => None,
    }
}

fn wal_io_named(text: &str) -> Option<WalIo> {
    match text {
        "auto" => Some(WalIo::Auto),
        "cached" => Some(WalIo::Cached),
        "direct" => Some(WalIo::Direct),
        _ => None,
    }
}

fn level0_named(text: &str) -> Option<Level0Form> {
    match text {
        "global-index" => Some(Level0Form::GlobalIndex),
        "index-runs" => Some(Level0Form::IndexRuns),
        "sst" => Some(Level0Form::Sst),
        _ => None,
    }
}

fn ssd_named(text: &str) -> Option<SsdSource> {
    match text {
        "auto" => Some(SsdSource::Auto),
        "none" => Some(SsdSource::None),
        "" => None,
        path => Some(SsdSource::Path(path.into())),
    }
}

fn cache_policy_named(text: &str) -> Option<CachePolicy> {
    CachePolicy::ALL.into_iter().find(|policy| policy.name() == text)
}

fn cache_outputs_named(text: &str) -> Option<CacheOutputs> {
    CacheOutputs::ALL.into_iter().find(|outputs| outputs.name() == text)
}

fn fast_blocks_named(text: &str) -> Option<FastBlocks> {
    FastBlocks::ALL.into_iter().find(|fast| fast.name() == text)
}

pub(super) fn placement_named(text: &str) -> Option<Placement> {
    match text {
        "benefit" => Some(Placement::Benefit),
        "level" => Some(Placement::Level),
        _ => None,
    }
}

pub(super) fn placement_name(placement: Placement) -> &'static str {
    match placement {
        Placement::Benefit => "benefit",
        Placement::Level => "level",
    }
}

fn tiers_named(text: &str) -> Option<TierSource> {
    match text {
        "auto" => Some(TierSource::Auto),
        "none" => Some(TierSource::Dirs(Vec::new())),
        list => tier_specs(list).ok().map(TierSource::Dirs),
    }
}

/// Directories with their sizes and models. A comma parts them, and parts the fields of a model too: what has no `:` and a `=`
/// belongs to the model before it.
fn tier_specs(text: &str) -> Result<Vec<TierSpec>> {
    let mut parts: Vec<String> = Vec::new();
    for part in text.split(',') {
        let is_field = !part.contains(':') && part.contains('=');
        match parts.last_mut() {
            Some(last) if is_field && last.contains('@') => {
                last.push(',');
                last.push_str(part);
            }
            _ => parts.push(part.to_owned()),
        }
    }
    parts.iter().map(|part| tier_spec(part.trim())).collect()
}

fn tier_spec(text: &str) -> Result<TierSpec> {
    let sized = |text: &str| {
        let (dir, size) = text.rsplit_once(':')?;
        (!dir.is_empty()).then_some(TierSpec::new(dir, parse_size(size)?))
    };
    // A directory may have an `@` in its name, and no model has a `/` or a `:`.
    let (place, model) = match text.rsplit_once('@') {
        Some((place, model)) if !model.contains(['/', ':']) => (place, Some(model)),
        _ => (text, None),
    };
    let spec = sized(place).ok_or_else(|| {
        let text = format!(
            "{place:?} is no directory with its size; expected DIR:SIZE or DIR:SIZE@MODEL, such as /mnt/fast:3G@optane-ssd, with \
             commas between, or auto, or none"
        );
        Error::new(ErrorKind::InvalidArgument, "options", text)
    })?;
    match model {
        None | Some("none") => Ok(spec),
        Some(model) => Ok(spec.model(model.parse()?)),
    }
}

fn checksum_named(text: &str) -> Option<Checksum> {
    match text {
        "xxh3" => Some(Checksum::Xxh3),
        "crc32c" => Some(Checksum::Crc32c),
        _ => None,
    }
}

fn index_named(text: &str) -> Option<IndexKind> {
    match text {
        "binary" => Some(IndexKind::Binary),
        "two-level" => Some(IndexKind::TwoLevel),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_and_the_struct_agree() {
        let mut options = Options {
            pm_size: 1,
            memtable_bytes: 1,
            immutable_memtables_max: 9,
            level0: Level0Form::Sst,
            subranges: 9,
            dram_budget: 1,
            background_threads: 0,
            create_if_missing: false,
            recovery_threads: 5,
            zone_size: 7,
            pm: PmSource::Heap,
            pm_model: "zero".parse().ok(),
            wal_dir: WalDir::Path("d".into()),
            wal_sync: WalSync::Never,
            wal_io: WalIo::Direct,
            memtable_memory: MemorySource::Dir("d".into()),
            block_cache_memory: MemorySource::Dir("d".into()),
            ssd: SsdSource::None,
            tiers: TierSource::Dirs(vec![TierSpec::new("d", 1)]),
            placement: Placement::Level,
            pm_tables: 9,
            pm_values: 8,
            pm_cache: 7,
            pm_cache_policy: CachePolicy::PmFirst,
            pm_block_bytes: 1,
            ssd_size: 1,
            ssd_direct: true,
            ssd_model: "nvme-tlc".parse().ok(),
            compression: Compression::Zstd,
            compression_level: 1,
            checksum: Checksum::Crc32c,
            value_files_min: 1,
            value_space: 1,
            table_bytes: 1,
            block_bytes: 1,
            filter_bits: 1,
            index: IndexKind::TwoLevel,
            cache_records: false,
            cache_outputs: CacheOutputs::Warm,
            hash_index: true,
            block_cache: 1,
            fast_blocks: FastBlocks::Equal,
            lock_timeout: Duration::ZERO,
            lock_memory: 1,
            compaction_rate: 1,
            inspect: true,
        };
        for row in TABLE {
            options.set(row.name, row.default).expect(row.name);
        }
        assert_eq!(options, Options::default());
        assert!(options.set("pm_size", "much").is_err());
        assert!(options.set("pm_tables", "75").is_ok() && options.set("pm_tables", "76").is_err());
        assert!(options.set("nonsense", "1").is_err());
    }

    #[test]
    fn tiers_have_sizes_and_models() {
        let model = |text: &str| text.parse::<SsdModel>().expect("model");
        let fast = TierSpec::new("/fast", 3 << 30);
        let slow = TierSpec::new("/slow", 0);
        let mut options = Options::default();
        let mut read = |text: &str| {
            options.set("tiers", text).expect(text);
            options.tiers.clone()
        };
        let dirs = TierSource::Dirs;
        assert_eq!(read("/fast:3G, /slow:0"), dirs(vec![fast.clone(), slow.clone()]));
        assert_eq!(
            read("/fast:3G@optane-ssd,read=2us,buffer=0,/slow:0@nvme-tlc,read=100us"),
            dirs(vec![
                fast.clone().model(model("optane-ssd,read=2us,buffer=0")),
                slow.clone().model(model("nvme-tlc,read=100us")),
            ])
        );
        assert_eq!(read("/fast:3G@none,/slow:0"), dirs(vec![fast.clone(), slow.clone()]));
        assert_eq!(read("/a@b/c:7"), dirs(vec![TierSpec::new("/a@b/c", 7)]));
        assert_eq!(read("a=b:7"), dirs(vec![TierSpec::new("a=b", 7)]));
        assert_eq!(
            read("/fast:3G@sata-ssd,a=b:7"),
            dirs(vec![fast.model(model("sata-ssd")), TierSpec::new("a=b", 7)]),
            "a directory has a size, a field has none"
        );
    }

    #[test]
    fn tiers_that_cannot_be_told_name_the_option_and_what_it_takes() {
        for (wrong, remedy) in [
            ("", "DIR:SIZE"),
            ("/fast", "DIR:SIZE"),
            ("/fast:3Q", "DIR:SIZE"),
            (":3G", "DIR:SIZE"),
            ("/fast@nvme-tlc", "DIR:SIZE"),
            ("/fast:3G,read=2us", "DIR:SIZE"),
            ("/fast:3G@floppy", "nvme-tlc"),
            ("/fast:3G@nvme-tlc,speed=9", "fields are read"),
            ("/fast:3G@nvme-tlc,", "DIR:SIZE"),
        ] {
            let error = Options::default().set("tiers", wrong).expect_err(wrong);
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{wrong}");
            let told = error.to_string();
            assert!(told.contains(&format!("tiers={wrong}: ")) && told.contains(remedy), "{told}");
        }
    }

    #[test]
    fn sizes() {
        assert_eq!(parse_size("64M"), Some(64 << 20));
        assert_eq!(parse_size("1.5GiB"), Some(3 << 29));
        assert_eq!(parse_size("12kb"), Some(12 << 10));
        assert_eq!(parse_size("-1"), None);
        assert_eq!(parse_size("99999999999T"), None);
    }
}
