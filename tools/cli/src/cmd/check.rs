//! `check`: what is damaged, as far as the store can still be read.

use serde_json::{Value, json};
use strandline::{CheckReport, Doubled, ErrorKind, Owned, Owner, Place, SpaceReport, UnmergedKey};

use crate::context::Context;
use crate::failure::{Failure, NEGATIVE, OK, Outcome, plain};
use crate::human;
use crate::output::Out;
use crate::render::damage::{damage_json, what};
use crate::render::keyspace::name;
use crate::text::Form;

pub fn run(context: &Context) -> Outcome {
    let db = match context.read() {
        Ok(db) => db,
        // Damage where even reading begins is a finding, not a failure of the check.
        Err(Failure::Engine(error)) if error.kind() == ErrorKind::Corruption => {
            return unreadable(context, &error.to_string());
        }
        Err(failure) => return Err(failure),
    };
    let report = db.check()?;
    let mut out = Out::new();
    if context.json {
        out.json(&json!({
            "readable": true,
            "records": report.records,
            "blocks": report.blocks,
            "tables": report.tables,
            "entries": report.entries,
            "value_files": report.value_files,
            "values": report.values,
            "damage": report.damage.iter().map(damage_json).collect::<Vec<Value>>(),
            "unmerged": report.unmerged.iter().map(|key| unmerged_json(context.form, key)).collect::<Vec<Value>>(),
            "space": space_json(&report.space),
        }))?;
    } else {
        print(&report, &mut out)?;
    }
    out.finish()?;
    Ok(if is_sound(&report) { OK } else { NEGATIVE })
}

/// A process that was killed leaves space without an owner, which the next open for writing frees: that is no damage.
fn is_sound(report: &CheckReport) -> bool {
    report.damage.is_empty() && report.unmerged.is_empty() && report.space.doubled.is_empty()
}

fn unmerged_json(form: Form, unmerged: &UnmergedKey) -> Value {
    let key = form.json(&unmerged.key);
    json!({ "keyspace": unmerged.keyspace, "key": key, "what": unmerged.what })
}

fn print(report: &CheckReport, out: &mut Out) -> Result<(), Failure> {
    let (records, blocks) = (human::count(report.records), human::count(report.blocks));
    out.line(format_args!("{records} records and {blocks} index blocks verified"))?;
    if report.tables > 0 {
        let (tables, entries) = (human::count(report.tables), human::count(report.entries));
        out.line(format_args!("{tables} tables with {entries} entries verified"))?;
    }
    if report.value_files > 0 {
        let (files, values) =
            (human::plural(report.value_files, "value file"), human::count(report.values));
        out.line(format_args!("{files} with {values} values that tables refer to verified"))?;
    }
    print_space(&report.space, out)?;
    for unmerged in &report.unmerged {
        out.line(format_args!("cannot be read: {}", plain(&unmerged.what)))?;
    }
    if report.damage.is_empty() {
        return out.line("no damage");
    }
    let plural = if report.damage.len() == 1 { " place" } else { " places" };
    out.line(format_args!("{}{plural} damaged:", report.damage.len()))?;
    let mut rows = vec![["file", "zone", "offset", "bytes", "what"].map(String::from).to_vec()];
    rows.extend(report.damage.iter().map(|damage| {
        let zone = damage.zone.map_or_else(|| "-".into(), |zone| zone.to_string());
        let file = damage.file.as_deref().and_then(|file| file.file_name());
        let file = file.map_or_else(|| "pool".into(), |name| name.to_string_lossy().into_owned());
        vec![file, zone, damage.at.to_string(), damage.len.to_string(), what(damage).into()]
    }));
    out.table(&rows)
}

/// Kind, keyspace and number of an owner.
fn parts(owner: &Owner) -> (&'static str, &str, Option<u64>) {
    match owner {
        Owner::Zone { keyspace, no } => ("zone", keyspace, Some(u64::from(*no))),
        Owner::Value { keyspace } => ("value", keyspace, None),
        Owner::Run { keyspace, id } => ("run", keyspace, Some(*id)),
        Owner::Table { keyspace, id } => ("table", keyspace, Some(*id)),
        Owner::Values { keyspace, id } => ("value file", keyspace, Some(*id)),
        Owner::Cache { no } => ("cache", "", Some(u64::from(*no))),
        Owner::Manifest => ("manifest", "", None),
        Owner::Going => ("going", "", None),
        Owner::Free => ("free", "", None),
        _ => ("other", "", None),
    }
}

/// Says what has no owner, or two; who owns what the JSON form tells.
fn print_space(space: &SpaceReport, out: &mut Out) -> Result<(), Failure> {
    for place in &space.leaked {
        out.line(format_args!("leaked: {}; the next open for writing frees it", lies(place)))?;
    }
    for Doubled { place, owners: [one, other] } in &space.doubled {
        let (one, other) = (named(one), named(other));
        out.line(format_args!("owned twice: {}, by {one} and by {other}", lies(place)))?;
    }
    Ok(())
}

fn lies(place: &Place) -> String {
    match place {
        Place::Pool(extent) => format!("{} bytes at {} of the pool", extent.len, extent.at),
        Place::File { tier: 0, id } => format!("file {id} of tables or values"),
        Place::File { tier, id } => format!("file {id} of tables or values in tier {tier}"),
    }
}

fn named(owner: &Owner) -> String {
    match parts(owner) {
        (kind, "", _) => kind.into(),
        (kind, keyspace, Some(id)) => format!("{kind} {id} of keyspace {}", name(keyspace)),
        (kind, keyspace, None) => format!("a {kind} of keyspace {}", name(keyspace)),
    }
}

fn space_json(space: &SpaceReport) -> Value {
    let owner = |owner: &Owner| {
        let (kind, keyspace, id) = parts(owner);
        json!({ "kind": kind, "keyspace": keyspace, "id": id })
    };
    let place = |place: &Place| match place {
        Place::Pool(extent) => json!({ "offset": extent.at.get(), "bytes": extent.len }),
        Place::File { tier, id } => json!({ "table": id, "tier": tier }),
    };
    let owned =
        |owned: &Owned| json!({ "owner": owner(&owned.owner), "place": place(&owned.place) });
    let doubled = |doubled: &Doubled| json!({ "place": place(&doubled.place), "owners": doubled.owners.each_ref().map(owner) });
    json!({
        "whole": space.whole,
        "owned": space.owned.iter().map(owned).collect::<Vec<Value>>(),
        "leaked": space.leaked.iter().map(place).collect::<Vec<Value>>(),
        "doubled": space.doubled.iter().map(doubled).collect::<Vec<Value>>(),
    })
}

fn unreadable(context: &Context, what: &str) -> Outcome {
    let mut out = Out::new();
    if context.json {
        out.json(&json!({
            "readable": false,
            "records": 0,
            "blocks": 0,
            "damage": [{ "zone": null, "offset": null, "bytes": null, "what": what }],
        }))?;
    } else {
        out.line("the store cannot be read:")?;
        out.line(plain(what))?;
    }
    out.finish()?;
    Ok(NEGATIVE)
}
