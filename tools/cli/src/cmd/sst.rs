//! `sst FILE`: a table by itself, whichever program wrote it.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use serde_json::{Value, json};
use sst::{EntryKind, FileReader, Layout, ReadAt, Table, Uncached, ValueRef};
use strandline::Seq;

use crate::context::Context;
use crate::failure::{Failure, NEGATIVE, OK, Outcome};
use crate::output::Out;

#[derive(Args)]
pub struct SstArgs {
    /// The table: a file in RocksDB's block-based format, or the pool that it lies in
    file: PathBuf,
    /// Offset of a table in the pool, as `lsm --files` tells it
    #[arg(long, requires = "len")]
    at: Option<u64>,
    /// Bytes of that table
    #[arg(long, requires = "at")]
    len: Option<u64>,
    /// Print all entries: key, sequence number, kind and value
    #[arg(long)]
    scan: bool,
    /// Read every block and compare what is there with what the table says; exit code 1 if anything is wrong
    #[arg(long)]
    verify: bool,
}

/// What a pool begins with.
const POOL: &[u8; 8] = b"strandln";

/// The bytes of a file that are a table.
struct Part {
    file: FileReader,
    at: u64,
    len: u64,
}

impl Part {
    fn new(file: FileReader, args: &SstArgs) -> Result<Part, Failure> {
        let (at, len) = (args.at.unwrap_or(0), args.len.unwrap_or(file.len()));
        let hint =
            "--at and --len say where in a pool a table lies; `strandline lsm --files` tells both";
        if at.checked_add(len).is_none_or(|end| end > file.len()) {
            let text = format!("{} has {} bytes; {hint}", file.name(), file.len());
            return Err(Failure::Usage(text));
        }
        let mut head = [0; POOL.len()];
        let is_pool = args.at.is_none() && len > 0 && file.read_at(0, &mut head).is_ok();
        if is_pool && head == *POOL {
            return Err(Failure::Usage(format!("{} is a pool; {hint}", file.name())));
        }
        Ok(Part { file, at, len })
    }
}

impl ReadAt for Part {
    fn read_at(&self, at: u64, out: &mut [u8]) -> Result<(), strandline::Error> {
        self.file.read_at(self.at + at, out)
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn name(&self) -> String {
        self.file.name()
    }
}

pub fn run(context: &Context, args: &SstArgs) -> Outcome {
    let file = FileReader::open(&args.file)?;
    let file = Part::new(file, args)?;
    let layout = Arc::new(Layout::open(&file)?);
    let table = Arc::new(Table::new(layout, Uncached(file)));
    let findings = if args.verify { Some(table.verify()?) } else { None };
    let mut out = Out::new();
    if args.scan {
        scan(&table, context, &mut out)?;
    }
    let texts = |findings: &Vec<sst::Finding>| {
        findings.iter().map(ToString::to_string).collect::<Vec<String>>()
    };
    if context.json && !args.scan {
        let mut json = properties_json(table.layout());
        json["findings"] = findings.as_ref().map(texts).into();
        out.json(&json)?;
    } else {
        if !args.scan {
            out.rows(&properties(table.layout()))?;
        }
        for finding in findings.iter().flat_map(texts) {
            if context.json {
                out.json(&json!({ "finding": finding }))?;
            } else {
                out.line(finding)?;
            }
        }
    }
    out.finish()?;
    Ok(if findings.is_some_and(|findings| !findings.is_empty()) { NEGATIVE } else { OK })
}

fn properties(layout: &Layout) -> Vec<(&'static str, String)> {
    let properties = layout.properties();
    let seqs = match (layout.global_seq(), properties.min_seq, properties.max_seq) {
        (Some(seq), ..) => format!("{seq} for all"),
        (None, Some(min), Some(max)) => format!("{min} to {max}"),
        _ => "not told".into(),
    };
    let said =
        |text: &str| if text.is_empty() { "-".into() } else { text.escape_debug().to_string() };
    vec![
        ("format", layout.version().to_string()),
        ("checksum", format!("{:?}", layout.checksum())),
        ("compression", said(&properties.compression)),
        ("order of keys", said(&properties.comparator)),
        ("merge operator", said(&properties.merge_operator)),
        (
            "column family",
            format!("{} {}", properties.column_family_id, said(&properties.column_family_name)),
        ),
        ("entries", properties.entries.to_string()),
        ("deletions", properties.deletions.to_string()),
        ("merge operands", properties.merges.to_string()),
        ("range deletions", properties.range_deletes.to_string()),
        ("sequence numbers", seqs),
        ("external version", properties.external_version.map_or("-".into(), |v| v.to_string())),
        ("raw keys", format!("{} bytes", properties.raw_key_size)),
        ("raw values", format!("{} bytes", properties.raw_value_size)),
        ("data", format!("{} bytes in {} blocks", properties.data_size, properties.data_blocks)),
        ("index", format!("{} bytes", properties.index_size)),
        (
            "filter",
            format!("{} bytes, {}", properties.filter_size, said(&properties.filter_policy)),
        ),
    ]
}

fn properties_json(layout: &Layout) -> Value {
    let properties = layout.properties();
    json!({
        "format": layout.version(),
        "checksum": format!("{:?}", layout.checksum()),
        "compression": properties.compression,
        "comparator": properties.comparator,
        "merge_operator": properties.merge_operator,
        "column_family": { "id": properties.column_family_id, "name": properties.column_family_name },
        "entries": properties.entries,
        "deletions": properties.deletions,
        "merges": properties.merges,
        "range_deletes": properties.range_deletes,
        "global_seq": layout.global_seq().map(Seq::get),
        "min_seq": properties.min_seq.map(Seq::get),
        "max_seq": properties.max_seq.map(Seq::get),
        "external_version": properties.external_version,
        "raw_key_size": properties.raw_key_size,
        "raw_value_size": properties.raw_value_size,
        "data_size": properties.data_size,
        "data_blocks": properties.data_blocks,
        "index_size": properties.index_size,
        "filter_size": properties.filter_size,
    })
}

fn scan(
    table: &Arc<Table<Uncached<Part>>>,
    context: &Context,
    out: &mut Out,
) -> Result<(), Failure> {
    let mut cursor = table.cursor();
    cursor.first()?;
    while cursor.valid() {
        let (key, seq, kind) = (cursor.key(), cursor.seq(), cursor.kind());
        // Behind a time, which only the store knows of, it stays as it is.
        let place = match kind {
            EntryKind::ValueRef => ValueRef::decode(cursor.value()).map(place),
            _ => None,
        };
        let value = place.as_ref().map_or(cursor.value(), String::as_bytes);
        Entry { key, seq, kind: name(kind), value }.print(context, out)?;
        cursor.next()?;
    }
    for delete in table.range_deletes()? {
        let (key, seq, value) = (&delete.begin, delete.seq, &delete.end);
        Entry { key, seq, kind: "range deletion", value }.print(context, out)?;
    }
    Ok(())
}

/// Where a value lies.
fn place(of: ValueRef) -> String {
    format!("{} bytes at {} of {:06}.blob", of.len, of.at, of.file)
}

/// An entry of a table; the value of a range deletion is where the range ends.
struct Entry<'t> {
    key: &'t [u8],
    seq: Seq,
    kind: &'static str,
    value: &'t [u8],
}

impl Entry<'_> {
    fn print(&self, context: &Context, out: &mut Out) -> Result<(), Failure> {
        let Entry { key, seq, kind, value } = *self;
        let form = context.form;
        if context.json {
            let (key, value) = (form.json(key), form.json(value));
            return out
                .json(&json!({ "key": key, "seq": seq.get(), "kind": kind, "value": value }));
        }
        out.line(format_args!("{}\t{seq}\t{kind}\t{}", form.text(key), form.text(value)))
    }
}

fn name(kind: EntryKind) -> &'static str {
    match kind {
        EntryKind::Delete => "deletion",
        EntryKind::Value => "value",
        EntryKind::Merge => "merge operand",
        EntryKind::SingleDelete => "single deletion",
        EntryKind::ValueRef => "value in a file",
    }
}
