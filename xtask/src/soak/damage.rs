//! Damage to a copy of a store: whatever is changed, a read gives what was there or an error, and a repair gives
//! values that were written.

use std::path::{Path, PathBuf};

use strandline::{Db, Hooks, Keyspace, Options, repair};
use testkit::Rng;

use super::guest::contents;
use crate::kill9::oracle::Contents;
use crate::kill9::plan::{KillPlan, SPACES};

/// What was done to a copy, and what came of it.
#[derive(Clone, Copy, Debug, Default)]
pub struct DamageOutcome {
    pub opened: u64,
    pub refused: u64,
    pub repaired: u64,
    /// Reads that said that something is damaged.
    pub reported: u64,
}

/// A store that is to be damaged, and what is in it.
pub struct Victim<'v> {
    pub dir: &'v Path,
    pub options: Options,
    pub hooks: Hooks,
    pub plan: &'v KillPlan,
    pub contents: &'v Contents,
}

impl Victim<'_> {
    /// Damages the store in one to three places, and looks what can be read of it.
    pub fn suffer(&self, rng: &mut Rng) -> Result<DamageOutcome, String> {
        let mut places = Vec::new();
        for _ in 0..=rng.below(3) {
            places.push(self.damage(rng)?);
        }
        let mut outcome = DamageOutcome::default();
        let judged = self.read(&mut outcome).and_then(|()| self.repair(&mut outcome));
        judged.map_err(|text| format!("{text}; damaged were {}", places.join(", ")))?;
        Ok(outcome)
    }

    /// Changes some bytes of some file; says which.
    fn damage(&self, rng: &mut Rng) -> Result<String, String> {
        let failed = |error: std::io::Error| format!("damaging: {error}");
        let mut files = Vec::new();
        files_in(self.dir, &mut files).map_err(failed)?;
        let file = rng.pick(&files);
        let mut bytes = std::fs::read(file).map_err(failed)?;
        if bytes.is_empty() {
            return Ok("nothing".into());
        }
        let at = rng.below(bytes.len() as u64) as usize;
        let len = (*rng.pick(&[1, 8, 64, 512])).min(bytes.len() - at);
        match rng.below(3) {
            0 => bytes[at] ^= 1 << rng.below(8),
            1 => bytes[at..at + len].fill(0),
            _ => bytes[at..at + len].iter_mut().for_each(|byte| *byte = rng.next() as u8),
        }
        std::fs::write(file, bytes).map_err(failed)?;
        Ok(format!("{len} bytes at {at} of {}", file.display()))
    }

    fn read(&self, outcome: &mut DamageOutcome) -> Result<(), String> {
        let db = Db::open_read_only_with(self.dir, self.options.clone(), self.hooks.clone());
        let Ok(db) = db else {
            outcome.refused += 1;
            return Ok(());
        };
        outcome.opened += 1;
        for key in self.plan.keys() {
            let Ok(space) = db.keyspace(SPACES[key.space]) else { continue };
            let expected = self.contents[key.space].get(&key.bytes());
            match space.get(key.bytes()) {
                Err(_) => outcome.reported += 1,
                Ok(found) if found.as_ref() == expected => {}
                Ok(found) => {
                    let len = |value: Option<&Vec<u8>>| value.map(Vec::len);
                    return Err(format!(
                        "{key:?} reads as {:?} bytes instead of {:?}, without an error",
                        len(found.as_ref()),
                        len(expected)
                    ));
                }
            }
        }
        (0..SPACES.len()).try_for_each(|at| self.scan(&db, at, outcome))
    }

    fn scan(&self, db: &Db, at: usize, outcome: &mut DamageOutcome) -> Result<(), String> {
        let Ok(space) = db.keyspace(SPACES[at]) else { return Ok(()) };
        match contents(&space, &strandline::ReadOptions::default()) {
            Err(_) => outcome.reported += 1,
            Ok(all) if all == self.contents[at] => {}
            Ok(_) => return Err(format!("a scan of {} differs, without an error", SPACES[at])),
        }
        Ok(())
    }

    /// What a repair saves was written once.
    fn repair(&self, outcome: &mut DamageOutcome) -> Result<(), String> {
        let to = self.dir.with_extension("repaired");
        let options = self.options.clone().create_if_missing(true);
        if repair(self.dir, &to, options).is_ok() {
            outcome.repaired += 1;
            self.judge_repaired(&to)?;
        }
        match std::fs::remove_dir_all(&to) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.to_string()),
            _ => Ok(()),
        }
    }

    fn judge_repaired(&self, dir: &Path) -> Result<(), String> {
        let failed = |error: strandline::Error| format!("a repaired store: {error}");
        let db = Db::open_read_only_with(dir, self.options.clone(), self.hooks.clone())
            .map_err(failed)?;
        let spaces: Vec<Option<Keyspace>> = SPACES.map(|name| db.keyspace(name).ok()).into();
        for key in self.plan.keys() {
            let Some(space) = &spaces[key.space] else { continue };
            let found = space.get(key.bytes()).map_err(failed)?;
            if found.is_some_and(|value| self.plan.writer(&key, &value).is_none()) {
                return Err(format!("a repair gave {key:?} a value that was never written"));
            }
        }
        Ok(())
    }
}

fn files_in(dir: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() { files_in(&path, files)? } else { files.push(path) }
    }
    files.sort();
    Ok(())
}
