//! `create`: a new, empty store.

use std::fs::File;
use std::path::PathBuf;

use rustix::fs::{FlockOperation, flock};
use serde_json::json;
use strandline::{Error, ErrorKind};

use crate::context::{Context, IfMissing};
use crate::failure::{Failure, OK, Outcome};
use crate::human;

pub fn run(context: &Context) -> Outcome {
    none_there(context)?;
    let claim = Claim::of(context.db.clone())?;
    // Another process may have made one before it let the directory go.
    none_there(context)?;
    let db = context.write(IfMissing::Create)?;
    claim.keep();
    let figures = db.properties();
    let (dir, durability) = (context.db.display().to_string(), figures.durability.to_string());
    let bytes = human::bytes(figures.pm_capacity);
    context.report(
        format_args!("created a store of {bytes} at {dir}; a write survives: {durability}"),
        &json!({
            "created": dir,
            "pm": figures.pm,
            "capacity": figures.pm_capacity,
            "durability": durability,
            "durability_note": figures.durability_note,
            "pm_choice": figures.pm_choice.to_string(),
        }),
    )?;
    Ok(OK)
}

/// Refuses to go on where a store is. Reading changes nothing, so whatever is there stays as it is.
fn none_there(context: &Context) -> Result<(), Failure> {
    match context.read() {
        Ok(_) => {
            let text = format!("a store is at {} already", context.db.display());
            Err(Error::new(ErrorKind::Exists, "create", text).into())
        }
        Err(Failure::Engine(error)) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(failure) => Err(failure),
    }
}

/// The directory of a store that this process makes: of several that make it at once, one says so.
struct Claim {
    /// Locked for as long as it is open.
    _dir: File,
    /// The directory, if it was made for the store that is not there yet.
    made: Option<PathBuf>,
}

impl Claim {
    fn of(path: PathBuf) -> Result<Claim, Failure> {
        let failed = |error: std::io::Error| {
            Failure::Other(format!(
                "create: {}: {error}; name another directory with --db",
                path.display()
            ))
        };
        let is_new = !path.exists();
        std::fs::create_dir_all(&path).map_err(failed)?;
        let dir = File::open(&path).map_err(failed)?;
        flock(&dir, FlockOperation::NonBlockingLockExclusive).map_err(|_| {
            let text = format!("another process makes a store at {}; wait for it", path.display());
            Error::new(ErrorKind::Busy, "create", text)
        })?;
        Ok(Claim { _dir: dir, made: is_new.then_some(path) })
    }

    /// The store is there, and with it the directory stays.
    fn keep(mut self) {
        self.made = None;
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if let Some(path) = &self.made {
            // With something in it, it stays.
            let _left = std::fs::remove_dir(path);
        }
    }
}
