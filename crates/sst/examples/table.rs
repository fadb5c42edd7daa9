//! Tells what a table is and whether it is sound: `cargo run -p strandline-sst --example table FILE`.
//!
//! Prints properties and findings of the check; with `--entries` the entries, too.

use std::sync::Arc;

use base::Result;
use sst::{FileReader, Layout, Table, Uncached};

fn main() -> Result<()> {
    let mut args: Vec<String> = std::env::args().skip(1).collect();
    let with_entries = args.iter().any(|arg| arg == "--entries");
    args.retain(|arg| arg != "--entries");
    let [path] = args.as_slice() else {
        eprintln!("usage: table [--entries] FILE");
        std::process::exit(2);
    };
    let file = FileReader::open(path)?;
    let layout = Arc::new(Layout::open(&file)?);
    println!("{path}: version {}, checksums {:?}", layout.version(), layout.checksum());
    for (name, value) in &layout.properties().raw {
        println!("  {name} = {}", value.escape_ascii());
    }
    let table = Arc::new(Table::new(layout, Uncached(file)));
    if with_entries {
        let mut cursor = table.cursor();
        cursor.first()?;
        while cursor.valid() {
            let (key, value) = (cursor.key().escape_ascii(), cursor.value().escape_ascii());
            println!("{key} @{} {:?} {value}", cursor.seq(), cursor.kind());
            cursor.next()?;
        }
        for range in table.range_deletes()? {
            let (begin, end) = (range.begin.escape_ascii(), range.end.escape_ascii());
            println!("{begin} to {end} @{} deleted", range.seq);
        }
    }
    let findings = table.verify()?;
    findings.iter().for_each(|finding| println!("{finding}"));
    if findings.is_empty() {
        println!("sound");
        return Ok(());
    }
    std::process::exit(1);
}
