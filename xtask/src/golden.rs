//! `cargo xtask golden`: writes the golden stores with the engine as it is.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::Seq;

use sst::{EntryKind, Writer, WriterOptions};
use strandline::{
    Batch, Db, Hooks, IngestOptions, Keyspace, MergeOperator, Options, PmSource, Snapshot,
};
use testkit::golden::pack::{self, Entry};
use testkit::golden::{
    self, DROPPED, Form, GoldenChange, INGESTED, KEYSPACES, ROUNDS, Rounds, STORES, Store, Then,
};

const USAGE: &str = "usage: cargo xtask golden DIR

Writes every golden store with the engine as it is, packed, to a file of its name in the new directory DIR.
See crates/strandline/tests/golden/README.md.";
/// Entries that background work does at a time.
const QUANTUM: usize = 1000;

pub fn run(args: &[String]) -> Result<(), String> {
    let [dir] = args else { return Err(USAGE.into()) };
    let dir = Path::new(dir);
    std::fs::create_dir_all(dir).map_err(|error| format!("{}: {error}", dir.display()))?;
    for store in STORES {
        let packed = written(store)?;
        let file = dir.join(store.name);
        std::fs::write(&file, &packed).map_err(|error| format!("{}: {error}", file.display()))?;
        println!("{:8} bytes  {}", packed.len(), file.display());
    }
    Ok(())
}

/// Writes a store and packs it.
fn written(store: &Store) -> Result<Vec<u8>, String> {
    let scratch = tempfile::tempdir().map_err(|error| error.to_string())?;
    write(store, scratch.path()).map_err(|error| format!("{}: {error}", store.name))
}

/// Writes a store below `scratch`, which is empty, and packs it.
fn write(store: &Store, scratch: &Path) -> Result<Vec<u8>, String> {
    let failed = |error: strandline::Error| error.to_string();
    let home = scratch.join("store");
    let mut round = 0;
    for (number, life) in store.lives.iter().enumerate() {
        let db = open(store, &home)?;
        let mut held = Vec::new();
        for then in *life {
            apply(store, &db, round)?;
            match then {
                Then::Nothing => Ok(()),
                Then::Hold => {
                    held.push(db.snapshot());
                    Ok(())
                }
                Then::Flush => db.flush(),
                Then::Merge => db.compact(),
                Then::Sink => keyspaces(&db)?
                    .iter()
                    .try_for_each(|keyspace| db.compact_range(keyspace, None, None)),
                Then::Work => work(&db),
                Then::Again(times) => {
                    for _ in 0..*times {
                        apply(store, &db, round)?;
                        work(&db).map_err(failed)?;
                    }
                    Ok(())
                }
            }
            .map_err(failed)?;
            round += 1;
        }
        if number + 1 == store.lives.len() {
            return last(store, scratch, db, held);
        }
        let left = pack::read_dir(&home)?;
        drop((held, db));
        std::fs::remove_dir_all(&home).map_err(|error| error.to_string())?;
        pack::write_dir(&left, &home)?;
    }
    Err(format!("{round} of {ROUNDS} rounds"))
}

/// Packs what the store says is kept. Snapshots are held until then, or until the store is closed.
fn last(store: &Store, scratch: &Path, db: Db, held: Vec<Snapshot>) -> Result<Vec<u8>, String> {
    let failed = |error: strandline::Error| error.to_string();
    if store.ingested {
        ingest(&db, &scratch.join("external.sst"))?;
    }
    let home = scratch.join("store");
    let entries: Vec<Entry> = match store.form {
        Form::Open => pack::read_dir(&home)?,
        Form::Closed => {
            drop(held);
            db.close().map_err(failed)?;
            pack::read_dir(&home)?
        }
        Form::Checkpoint => {
            let copy = scratch.join("copy");
            db.checkpoint(&copy).map_err(failed)?;
            pack::read_dir(&copy)?
        }
    };
    Ok(pack::pack(&entries))
}

fn open(store: &Store, home: &Path) -> Result<Db, String> {
    let mut options = Options::default();
    let hooks = Hooks::default().merge_operator(Arc::new(Joined));
    store
        .settings()
        .try_for_each(|(name, text)| options.set(name, text))
        .and_then(|()| {
            // Not what this machine would choose.
            if options.pm == PmSource::Auto {
                options.pm = PmSource::Path(home.join("pool"));
            }
            Db::open_with(home, options, hooks)
        })
        .map_err(|error| error.to_string())
}

/// The operator of the golden stores.
struct Joined;

impl MergeOperator for Joined {
    fn merge(
        &self,
        _keyspace: &str,
        _key: &[u8],
        existing: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> Option<Vec<u8>> {
        Some(golden::merged(existing, operands.iter().copied()))
    }
}

fn keyspaces(db: &Db) -> Result<Vec<Keyspace>, String> {
    let opened = db.keyspaces().into_iter().map(|name| db.keyspace(&name));
    opened.collect::<strandline::Result<_>>().map_err(|error| error.to_string())
}

/// Writes a round: changes of all keyspaces one by one in the first rounds, in batches over all of them in the others.
fn apply(store: &Store, db: &Db, round: usize) -> Result<(), String> {
    let failed = |error: strandline::Error| format!("round {round}: {error}");
    let mut spaces = Vec::new();
    for (name, keys) in KEYSPACES {
        let space = db.keyspace(name).or_else(|_| db.create_keyspace(name)).map_err(failed)?;
        spaces.push((space, golden::changes(round, name, keys).into_iter()));
    }
    if round == 2 {
        let space = db.create_keyspace(DROPPED).map_err(failed)?;
        (0..20).try_for_each(|i| space.put(golden::key(i), DROPPED)).map_err(failed)?;
        db.drop_keyspace(DROPPED).map_err(failed)?;
    }
    let mut batch = Batch::new();
    loop {
        for (space, changes) in &mut spaces {
            if let Some(change) = changes.next() {
                add(&mut batch, space, &change);
            }
        }
        if batch.is_empty() {
            return Ok(());
        }
        // From some round on several changes of a keyspace are one batch.
        let left: usize = spaces.iter().map(|(_, changes)| changes.len()).sum();
        let parted = store.rounds == Rounds::Parted;
        if parted && (round < 3 || batch.len() >= 5) || left == 0 {
            db.write(&batch).map_err(failed)?;
            batch.clear();
        }
    }
}

fn add(batch: &mut Batch, space: &Keyspace, change: &GoldenChange) {
    match change {
        GoldenChange::Put(key, value) => batch.put(space, key, value),
        GoldenChange::Delete(key) => batch.delete(space, key),
        GoldenChange::DeleteRange(from, to) => batch.delete_range(space, from, to),
        GoldenChange::Merge(key, operand) => batch.merge(space, key, operand),
    }
}

fn work(db: &Db) -> strandline::Result<()> {
    while !db.work(QUANTUM)?.is_idle() {}
    Ok(())
}

fn ingest(db: &Db, file: &PathBuf) -> Result<(), String> {
    let options = WriterOptions { external: true, ..WriterOptions::default() };
    let mut writer = Writer::new(Vec::new(), options);
    for (key, value) in (0..INGESTED).map(golden::ingested) {
        writer.add(&key, Seq::ZERO, EntryKind::Value, &value).map_err(|error| error.to_string())?;
    }
    let (bytes, _) = writer.finish().map_err(|error| error.to_string())?;
    std::fs::write(file, bytes).map_err(|error| error.to_string())?;
    let taken =
        db.ingest(db.default_keyspace(), std::slice::from_ref(file), IngestOptions::default());
    taken.map(drop).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_store_is_written_with_all_its_files() {
        for store in STORES {
            let has_zstd = store.settings().any(|setting| setting == ("compression", "zstd"));
            if has_zstd && !cfg!(feature = "zstd") {
                continue;
            }
            let packed = written(store).expect("written");
            let entries = pack::unpack(&packed).expect("packed");
            let has = |name: &str| entries.iter().any(|entry| entry.path == Path::new(name));
            let logged = store.settings().any(|setting| setting == ("pm", "dram"));
            match store.form {
                Form::Checkpoint => assert!(has("sst") && !has("pool"), "{}", store.name),
                _ => assert!(has(if logged { "wal" } else { "pool" }), "{}", store.name),
            }
        }
    }
}
