//! `create`: a new, empty store.

use serde_json::json;
use strandline::{Error, ErrorKind};

use crate::context::{Context, IfMissing};
use crate::failure::{Failure, OK, Outcome};
use crate::human;

pub fn run(context: &Context) -> Outcome {
    // Reading changes nothing, so whatever is there stays as it is.
    match context.read() {
        Ok(_) => {
            let text = format!("a store is at {} already", context.db.display());
            return Err(Error::new(ErrorKind::Exists, "create", text).into());
        }
        Err(Failure::Engine(error)) if error.kind() == ErrorKind::NotFound => {}
        Err(failure) => return Err(failure),
    }
    let db = context.write(IfMissing::Create)?;
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
        }),
    )?;
    Ok(OK)
}
