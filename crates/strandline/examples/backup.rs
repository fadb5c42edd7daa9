//! Backups of a store while it is written: a checkpoint is the store as of one moment, in a directory of its own, which can be
//! copied elsewhere, read, and opened as a store.

use std::error::Error;
use std::path::{Path, PathBuf};

use strandline::{Db, ErrorKind, Options};

fn options() -> Options {
    Options::default().pm_size(16 << 20)
}

/// Makes the backup `backups/<no>` and removes all but the newest `keep`.
fn back_up(db: &Db, backups: &Path, no: u32, keep: usize) -> Result<PathBuf, Box<dyn Error>> {
    std::fs::create_dir_all(backups)?;
    let target = backups.join(format!("{no:06}"));
    let last_seq = db.checkpoint(&target)?;
    println!("{} has everything up to {last_seq}", target.display());
    let listed = std::fs::read_dir(backups)?.map(|entry| entry.map(|entry| entry.path()));
    let mut all = listed.collect::<Result<Vec<_>, _>>()?;
    all.sort();
    for old in &all[..all.len().saturating_sub(keep)] {
        std::fs::remove_dir_all(old)?;
    }
    Ok(target)
}

/// Runs the example.
pub fn main() -> Result<(), Box<dyn Error>> {
    let dir = tempfile::tempdir()?;
    let (home, backups) = (dir.path().join("db"), dir.path().join("backups"));
    let db = Db::open(&home, options())?;
    let mut newest = PathBuf::new();
    for no in 0..4_u32 {
        for entry in 0..500_u32 {
            db.put(format!("{no}/{entry:04}"), format!("value {entry}"))?;
        }
        newest = back_up(&db, &backups, no, 2)?;
    }
    assert_eq!(std::fs::read_dir(&backups)?.count(), 2);
    // A backup is never written over.
    let refused = db.checkpoint(&newest).expect_err("it is there");
    assert_eq!(refused.kind(), ErrorKind::Exists);

    // An accident, and what comes back: everything up to the newest backup.
    db.put("4/0000", "after the backup")?;
    db.close()?;
    std::fs::remove_dir_all(&home)?;
    std::fs::rename(&newest, &home)?;
    let db = Db::open(&home, options())?;
    assert_eq!(db.keys().count(), 4 * 500);
    assert_eq!(db.get("3/0007")?.as_deref(), Some(&b"value 7"[..]));
    assert!(!db.contains_key("4/0000")?);
    assert!(db.check()?.damage.is_empty());
    Ok(())
}
