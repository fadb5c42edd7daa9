//! `flush`: memtables into index runs.

use serde_json::json;

use crate::context::{Context, IfMissing};
use crate::failure::{OK, Outcome};
use crate::human;

pub fn run(context: &Context) -> Outcome {
    let db = context.write(IfMissing::Fail)?;
    let waiting =
        || db.properties().keyspaces.iter().map(|keyspace| keyspace.memtable_records).sum();
    let before: u64 = waiting();
    db.flush()?;
    let records = before.saturating_sub(waiting());
    context.report(
        format_args!("flushed {}", human::plural(records, "record")),
        &json!({ "flushed": records }),
    )?;
    Ok(OK)
}
