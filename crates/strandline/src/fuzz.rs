//! What fuzzing runs, for `fuzz/` and for the tests below. No input may panic, overrun or go on for ever.
//!
//! Every target looks at its input as it is, and once more with checksums that hold, since hardly any input passes them.

use std::cell::OnceCell;
use std::path::Path;
use std::sync::Arc;

use base::{LINE, Seq};
use pmem::{Region, Site};
use pool::{Format, Pool};
use ssd::{Disk, Fs, Memory};

use crate::fences::Side;
use crate::level0::run;
use crate::level0::run::block::Block;
use crate::level0::run::{BLOCK_LEN, block};
use crate::manifest::ManifestState;
use crate::manifest::edit::Edit;
use crate::options::{WalIo, WalSync};
use crate::record::format::{self, RecordHead};
use crate::record::short::ShortHeader;
use crate::record::store::Media;
use crate::recovery::scan_zone::{self, Salvage};
use crate::wal;

/// One target: takes any bytes.
pub type Body = fn(&[u8]);

/// All targets by name.
pub const TARGETS: [(&str, Body); 5] = [
    ("edit", edit),
    ("records", records),
    ("run_block", run_block),
    ("run_meta", run_meta),
    ("segment", segment),
];

/// An edit of the manifest: decoded, applied to a new store's state.
pub fn edit(data: &[u8]) {
    let Some(edit) = Edit::decode(data) else { return };
    assert_eq!(Edit::decode(&edit.encode()).as_ref(), Some(&edit), "an edit is what it encodes");
    let Ok(state) =
        ManifestState::replay(&[ManifestState::fresh().encode_snapshot(), data.to_vec()])
    else {
        return;
    };
    let again = ManifestState::replay(&[state.encode_snapshot()]).expect("a snapshot is sound");
    assert_eq!(again, state, "a snapshot is the state");
    _ = state.to_string();
}

const ZONE: Format = Format { zone_len: 4 << 10, manifest_len: 512 };
const BASE_SEQ: Seq = Seq::new(1_000);

thread_local! {
    static MEDIA: OnceCell<Media> = const { OnceCell::new() };
}

fn new_media() -> Media {
    let region = Arc::new(Region::heap(64 << 10, None).expect("region"));
    let pool = Pool::create(Arc::clone(&region), ZONE, 7, b"").expect("pool");
    let media = Media::new(pool, region, None);
    media.set_zone(0, 1, BASE_SEQ);
    media
}

/// A zone of records: scanned and put back as after a crash, every record looked at both ways.
pub fn records(data: &[u8]) {
    MEDIA.with(|media| {
        let media = media.get_or_init(new_media);
        let mut zone = data[..data.len().min(ZONE.zone_len as usize)].to_vec();
        zone.resize(ZONE.zone_len as usize, 0);
        let start = media.pool.geometry().zone_at(0);
        scan_records(media, &zone);
        let zone_seed = media.zone_seed(1);
        for at in (0..zone.len()).step_by(LINE) {
            let seed = crate::record::store::record_seed(zone_seed, start + at as u64);
            format::mend(&mut zone[at..], seed, BASE_SEQ);
            let bytes = &zone[at..];
            let Some(head) = RecordHead::decode(bytes, seed, BASE_SEQ) else { continue };
            let Some(whole) = bytes.get(..head.len()) else { continue };
            if let Some(brief) = ShortHeader::verified(whole, seed, BASE_SEQ) {
                assert!(head.verify(whole, seed), "both ways find the checksum");
                let parts = |brief: ShortHeader| {
                    (brief.kind, brief.seq, brief.key_at, brief.key_len, brief.value_len)
                };
                assert_eq!(parts(brief), parts(head.brief()), "both ways find the same record");
            }
        }
        scan_records(media, &zone);
    });
}

fn scan_records(media: &Media, zone: &[u8]) {
    let start = media.pool.geometry().zone_at(0);
    let end = start + zone.len() as u64;
    let _dirty = media.region.copy(Site::Record, start.get(), zone);
    let scan = scan_zone::scan(media, start..end, Seq::ZERO);
    for cut in [Seq::ZERO, BASE_SEQ + 10, Seq::MAX] {
        let mut keys = 0;
        let salvage = if cut == Seq::MAX { Salvage::WholeRecords } else { Salvage::Nothing };
        let replayed = scan_zone::replay(media, start..end, &scan, cut, salvage, |found| {
            keys += found.key(media).len() + found.value(media).len();
            Ok(())
        });
        assert!(replayed.expect("what was scanned is there") <= zone.len() as u64);
        assert!(keys <= zone.len(), "records do not overlap");
    }
    let staged = scan_zone::scan_staged(media, start..end, Seq::ZERO);
    let front = start..start + staged.front.len;
    let mut records = 0;
    let replayed =
        scan_zone::replay_staged(media, front, &staged, BASE_SEQ, Salvage::Nothing, |_| {
            records += 1;
            Ok(())
        });
    replayed.expect("what was scanned is there");
    assert_eq!(records, staged.front.records);
    for found in &staged.adopts {
        let (head, bytes) = media.verified(found.at).expect("what was scanned is there");
        _ = crate::record::adopt::decode(&bytes[head.key_at..][..head.value_len]);
    }
}

/// Eight bytes of a seed, then a block of an index run.
pub fn run_block(data: &[u8]) {
    let Some((seed, bytes)) = data.split_first_chunk() else { return };
    let seed = u64::from_le_bytes(*seed);
    walk_block(bytes, seed);
    if let Some(bytes) = bytes.first_chunk::<BLOCK_LEN>() {
        let mut bytes = *bytes;
        block::mend(&mut bytes, seed);
        walk_block(&bytes, seed);
    }
}

fn walk_block(bytes: &[u8], seed: u64) {
    let Some(block) = Block::verified(bytes, seed) else { return };
    for at in 0..block.len() {
        _ = block.leaf(at).at();
    }
    assert_eq!(block.leaves(0, block.len()).count(), block.len());
    for key in [&b""[..], b"key", bytes] {
        _ = block.position(key);
        assert!(block.tagged(base::checksum::key_hash(key)) < 1 << block.len());
    }
}

/// The meta stream of an index run: fences, zones, extents, range deletions.
pub fn run_meta(data: &[u8]) {
    let Some((fences, meta)) = run::decode_meta(data) else { return };
    for at in 0..fences.len().min(64) {
        assert!(fences.rank(fences.separator(at), Side::Before) <= fences.len());
    }
    _ = meta.ranges.bounds();
    let (_, again) = run::decode_meta(&run::encode_meta(&fences, &meta)).expect("what was encoded");
    assert_eq!(again, meta, "a meta stream is what it encodes");
}

/// Two bytes with the length of a first segment of a log, that segment, a second one: read to save what is left, and
/// opened to go on.
pub fn segment(data: &[u8]) {
    let Some((len, rest)) = data.split_first_chunk() else { return };
    let (first, second) = rest.split_at(usize::from(u16::from_le_bytes(*len)).min(rest.len()));
    let (mut first, mut second) = (first.to_vec(), second.to_vec());
    read_log(&first, &second, None);
    let headers = [wal::mend(&mut first, 1), wal::mend(&mut second, 2)];
    // The newest that there is, begun or not.
    let chain = headers.iter().flatten().last().map(wal::mended_chain);
    read_log(&first, &second, chain);
}

fn read_log(first: &[u8], second: &[u8], chain: Option<Vec<u8>>) {
    let dir = Path::new("/wal");
    let fs = Memory::new(Disk::new(512));
    fs.create_dir_all(dir).expect("directory");
    let segments = [(1, first), (2, second)].map(|(no, bytes)| (wal::segment_path(dir, no), bytes));
    let chain = chain.as_deref().map(|bytes| (dir.join(wal::CHAIN), bytes));
    for (path, bytes) in segments.into_iter().chain(chain).filter(|(_, bytes)| !bytes.is_empty()) {
        let mut file = fs.create(&path).expect("file");
        file.append(bytes).and_then(|()| file.sync()).expect("write");
    }
    let setting = || wal::Setting {
        fs: Arc::new(fs.clone()),
        dir: dir.to_owned(),
        medium: wal::LogMedium::Device,
        mode: wal::LogMode { sync: WalSync::Never, io: WalIo::Cached },
        memory: None,
        entropy: 0,
        accepts: |_| Ok(()),
        lock: None,
    };
    _ = wal::read(setting());
    let opened = wal::open(setting(), || Ok(None));
    if let Ok(Some(region)) = opened {
        let before = region.bytes(0, region.len() as usize).to_vec();
        drop(region);
        let again = wal::open(setting(), || Ok(None)).expect("a log that was opened");
        let again = again.expect("the log is there");
        assert!(again.bytes(0, before.len()) == before, "an open changes nothing");
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use pool::Extent;
    use sst::RangeDelete;

    use base::PmOffset;

    use super::*;
    use crate::fences::FencesBuilder;
    use crate::level0::run::RunDesc;
    use crate::level0::run::pieces::Pieces;
    use crate::manifest::edit::{Fate, VersionEdit};
    use crate::ranges::Ranges;
    use crate::record::format::{Kind, Role, Segment, SeqForm, Shape};
    use crate::record::store::Leaf;
    use crate::tree::desc::TableDesc;

    fn folder(name: &str) -> PathBuf {
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(name)
    }

    #[test]
    fn corpus_and_mutants() {
        for (name, target) in TARGETS {
            testkit::corpus::replay(&testkit::corpus::inputs(&folder(name)), 300, target);
        }
    }

    fn write(target: &str, name: &str, bytes: &[u8]) {
        std::fs::create_dir_all(folder(target)).expect("folder");
        std::fs::write(folder(target).join(name), bytes).expect("write");
    }

    /// Writes first inputs with the engine's own encoders.
    #[test]
    #[ignore = "writes to fuzz/corpus"]
    fn make_corpus() {
        make_edits();
        make_records();
        make_runs();
        make_segments();
    }

    fn make_edits() {
        let pieces =
            Pieces { extents: vec![Extent { at: PmOffset::new(4096), len: 512 }], len: 300 };
        let run = RunDesc {
            id: 3,
            keyspace: 0,
            order: 2,
            entries: 15,
            min_seq: Seq::new(1),
            max_seq: Seq::new(20),
            blocks: pieces.clone(),
            filter: pieces.clone(),
            meta: pieces,
            meta_sum: 5,
        };
        let table = |extent| TableDesc {
            tier: 0,
            id: 4,
            extent,
            keyspace: 0,
            level: 1,
            len: 100,
            sum: 9,
            entries: 7,
            deletions: 1,
            range_deletes: 1,
            min_seq: Seq::new(1),
            max_seq: Seq::new(6),
            global_seq: Seq::ZERO,
            smallest: b"a".to_vec(),
            largest: b"m".to_vec(),
            ends_before: true,
            values: Vec::new(),
        };
        let split = vec![(1, Vec::new()), (2, b"k".to_vec())];
        let on = |changes: Vec<VersionEdit>| Edit { floor: Seq::new(7), changes }.encode();
        let subranges = VersionEdit::Subranges { keyspace: 0, old: vec![0], new: split };
        let add = VersionEdit::AddRun { run: Box::new(run), subranges: vec![1, 2] };
        let zone = |fate| VersionEdit::Zone { no: 1, incarnation: 1 << 32, fate };
        write("edit", "snapshot", &ManifestState::fresh().encode_snapshot());
        write("edit", "runs", &on(vec![subranges.clone(), add.clone()]));
        let leave = |subrange| VersionEdit::LeaveRun { keyspace: 0, id: 3, subrange };
        write("edit", "leave", &on(vec![subranges, add, leave(1), leave(2)]));
        let extent = Some(Extent { at: PmOffset::new(8192), len: 256 });
        let tables = [None, extent].map(|extent| VersionEdit::AddTable(Box::new(table(extent))));
        tables.into_iter().zip(["table", "table-in-pool"]).for_each(|(add, name)| {
            let remove =
                VersionEdit::RemoveTable { keyspace: 0, level: 1, id: 4, smallest: b"a".to_vec() };
            write("edit", name, &on(vec![add, remove]));
        });
        let name = "orders".to_owned();
        let create = VersionEdit::CreateKeyspace { id: 1, name };
        write("edit", "keyspaces", &on(vec![create, VersionEdit::DropKeyspace { id: 1 }]));
        let zones = [Fate::Live { keyspace: 0, sealed: 64 }, Fate::Frozen, Fate::Retired].map(zone);
        let mut zones = zones.to_vec();
        zones.push(VersionEdit::ForgetZone { no: 1, incarnation: 1 << 32 });
        zones.push(VersionEdit::Epoch(2));
        zones.push(VersionEdit::NextIds { keyspace: 4, run: 5, table: 6 });
        write("edit", "zones", &on(zones));
    }

    fn make_records() {
        let media = new_media();
        let part = |place, records, index| {
            Role::First(Segment { place, commit_records: 3, records, index, segments: 2 })
        };
        let all = [
            (Kind::Put, Role::Solo, 1, SeqForm::Narrow),
            (Kind::Delete, Role::Solo, 2, SeqForm::Wide),
            (Kind::Put, part(0, 2, 0), 3, SeqForm::Narrow),
            (Kind::Merge, Role::Follower, 4, SeqForm::Narrow),
            (Kind::RangeDelete, part(2, 1, 1), 5, SeqForm::Wide),
            (Kind::PutExtent, Role::Solo, 6, SeqForm::Narrow),
            (Kind::Blank, Role::Solo, 7, SeqForm::Narrow),
            (Kind::Put, Role::Moved, 8, SeqForm::Narrow),
        ];
        let staged = [
            (Kind::Put, Role::Follower, 1, SeqForm::Narrow),
            (Kind::Delete, Role::Follower, 2, SeqForm::Narrow),
            (Kind::Adopt, part(0, 1, 0), 3, SeqForm::Wide),
        ];
        for (name, records) in [("all-kinds", &all[..]), ("staged", &staged)] {
            write("records", name, &zone_of(&media, records));
        }
    }

    fn zone_of(media: &Media, records: &[(Kind, Role, usize, SeqForm)]) -> Vec<u8> {
        let start = media.pool.geometry().zone_at(0);
        let mut zone = Vec::new();
        for &(kind, role, seq, form) in records {
            let is_listed = matches!(kind, Kind::PutExtent | Kind::Adopt);
            let value = vec![b'v'; if is_listed { 24 } else { 20 * seq }];
            let shape = Shape { kind, role, key_len: 3, value_len: value.len() };
            let at = start + zone.len() as u64;
            let seed = crate::record::store::record_seed(media.zone_seed(1), at);
            let seq = BASE_SEQ + seq as u64;
            let place = format::ZoneBinding { seed, base_seq: BASE_SEQ, form };
            format::encode(&mut zone, &shape, place, seq, BASE_SEQ, b"key", &value);
        }
        zone
    }

    fn make_runs() {
        let keys: Vec<String> = (0..15).map(|i| format!("/usr/share/doc/{:02}", i * 3)).collect();
        let entries: Vec<(&[u8], Leaf)> = keys
            .iter()
            .map(|key| {
                (
                    key.as_bytes(),
                    Leaf::new(PmOffset::new(64), 64, base::checksum::key_hash(key.as_bytes())),
                )
            })
            .collect();
        for count in [1, 15] {
            let mut block = 9_u64.to_le_bytes().to_vec();
            block.extend(block::encode(9, &entries[..count]));
            write("run_block", &format!("entries-{count}"), &block);
        }
        let mut fences = FencesBuilder::default();
        keys.iter().for_each(|key| fences.push_raw(key.as_bytes()));
        let delete = |begin: &[u8], end: &[u8], seq| RangeDelete {
            begin: begin.to_vec(),
            end: end.to_vec(),
            seq,
        };
        let meta = run::Meta {
            zones: vec![(1, 1 << 32, 640)],
            extents: vec![Extent { at: PmOffset::new(4096), len: 512 }],
            ranges: Ranges::new(&[
                delete(b"a", b"k", Seq::new(5)),
                delete(b"c", b"z", Seq::new(9)),
            ]),
        };
        write("run_meta", "whole", &run::encode_meta(&fences.finish(), &meta));
    }

    /// Those of version 1 stay as they are.
    fn make_segments() {
        let fs = Memory::new(Disk::new(512));
        let dir = Path::new("/wal");
        fs.create_dir_all(dir).expect("directory");
        let setting = || wal::Setting {
            fs: Arc::new(fs.clone()),
            dir: dir.to_owned(),
            medium: wal::LogMedium::Device,
            mode: wal::LogMode { sync: WalSync::Always, io: WalIo::Cached },
            memory: None,
            entropy: 0,
            accepts: |_| Ok(()),
            lock: None,
        };
        for round in 0..2 {
            let owner = wal::LogOwner { id: 7, region_len: 4096 };
            let region = wal::open(setting(), || Ok(Some(owner))).expect("open");
            let region = region.expect("a region");
            for at in [0, 256, 1024, 0] {
                let bytes = vec![round + 1; 64 + at / 8];
                let _durable = region.fence(region.copy_nt(Site::Record, at as u64, &bytes));
            }
        }
        let bytes = |number| {
            let file = fs.open(&wal::segment_path(dir, number)).expect("segment");
            let mut bytes = vec![0; file.len() as usize];
            file.read_at(0, &mut bytes).expect("read");
            bytes
        };
        let (first, second) = (bytes(1), bytes(2));
        let mut input = (first.len() as u16).to_le_bytes().to_vec();
        input.extend(&first);
        write("segment", "one", &input);
        input.extend(&second);
        write("segment", "two", &input);
    }
}
