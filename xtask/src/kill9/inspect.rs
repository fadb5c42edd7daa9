//! Looking at a store that a kill left behind, and emptying it.

use std::path::Path;

use strandline::{Batch, Db, Keyspace, ReadOptions, steps};

use super::child::{Settings, keyspaces};
use super::oracle::Contents;
use super::plan::{KillPlan, SPACES};

/// Deletes of a batch; their records stay below a quarter of a zone.
const DELETES: usize = 64;
/// Rounds of compaction after which what is not free stays so.
const ROUNDS: usize = 8;

fn failed(error: strandline::Error) -> String {
    error.to_string()
}

/// Opens the store.
pub fn open(dir: &Path, settings: Settings) -> Result<Db, String> {
    Db::open(dir, settings.options(dir).map_err(failed)?).map_err(failed)
}

/// Reads everything in every way there is, and verifies everything that can be verified alone.
pub fn read_all(db: &Db, plan: &KillPlan) -> Result<Contents, String> {
    let spaces = keyspaces(db).map_err(failed)?;
    let report = db.check().map_err(failed)?;
    if let Some(damage) = report.damage.first() {
        return Err(format!("check finds {} places damaged: {damage:?}", report.damage.len()));
    }
    let leaked = steps::leaked_zones(&spaces[0]);
    if leaked != 0 {
        return Err(format!("{leaked} zones are granted and held by nothing"));
    }
    let leaked = steps::leaked_tables(&spaces[0]).map_err(failed)?;
    if leaked != 0 {
        return Err(format!("{leaked} files of tables are named by nothing"));
    }
    let mut contents = Contents::default();
    for (contents, space) in contents.iter_mut().zip(&spaces) {
        walk(space, |key, value| {
            let _none = contents.insert(key.to_vec(), value.to_vec());
        })?;
    }
    for key in plan.keys() {
        let got = spaces[key.space].get(key.bytes()).map_err(failed)?;
        if got.as_ref() != contents[key.space].get(&key.bytes()) {
            return Err(format!("{key:?}: a get and a scan differ"));
        }
    }
    Ok(contents)
}

/// Everything that a read-only open sees.
pub fn read_only(dir: &Path, settings: Settings) -> Result<Contents, String> {
    let db = Db::open_read_only(dir, settings.options(dir).map_err(failed)?).map_err(failed)?;
    let mut contents = Contents::default();
    for (contents, name) in contents.iter_mut().zip(SPACES) {
        // A kill may have come before it was made.
        let Ok(space) = db.keyspace(name) else { continue };
        walk(&space, |key, value| {
            let _none = contents.insert(key.to_vec(), value.to_vec());
        })?;
    }
    Ok(contents)
}

/// Calls `each` with every key and value; an error if a walk back sees another number of keys.
fn walk(space: &Keyspace, mut each: impl FnMut(&[u8], &[u8])) -> Result<(), String> {
    let mut iter = space.cursor(&ReadOptions::default()).map_err(failed)?;
    let mut keys = 0_u64;
    iter.seek_to_first().map_err(failed)?;
    while let (Some(key), Some(value)) = (iter.key(), iter.value().map_err(failed)?) {
        each(key, value);
        keys += 1;
        iter.next().map_err(failed)?;
    }
    iter.seek_to_last().map_err(failed)?;
    while iter.valid() {
        keys = keys.checked_sub(1).ok_or("a walk back sees more keys")?;
        iter.prev().map_err(failed)?;
    }
    if keys == 0 { Ok(()) } else { Err(format!("a walk back sees {keys} keys fewer")) }
}

/// Deletes every key, drops the keyspace that can be dropped, and compacts until no more space comes free.
pub fn empty(db: Db) -> Result<(), String> {
    let space = db.default_keyspace();
    let mut keys = Vec::new();
    walk(space, |key, _| keys.push(key.to_vec()))?;
    for keys in keys.chunks(DELETES) {
        let mut batch = Batch::new();
        keys.iter().for_each(|key| batch.delete(space, key));
        db.write(&batch).map_err(failed)?;
    }
    db.drop_keyspace(SPACES[1]).map_err(failed)?;
    for _ in 0..ROUNDS {
        let before = db.properties().pm_free;
        db.compact().map_err(failed)?;
        if db.properties().pm_free <= before {
            break;
        }
    }
    drop(keyspaces(&db).map_err(failed)?);
    Ok(())
}

/// Bytes free in a store that is opened again, and a thousandth of all bytes.
pub fn free(dir: &Path, settings: Settings) -> Result<(u64, u64), String> {
    let properties = open(dir, settings)?.properties();
    let tables = properties.ssd.map_or(0, |ssd| ssd.bytes);
    if tables > 0 {
        return Err(format!("tables of nothing take {tables} bytes"));
    }
    Ok((properties.pm_free, properties.pm_capacity / 1000))
}

/// Bytes free in a store that never held anything.
pub fn free_when_new(dir: &Path, settings: Settings) -> Result<u64, String> {
    drop(keyspaces(&open(dir, settings)?).map_err(failed)?);
    Ok(free(dir, settings)?.0)
}
