//! `zone [NO]`: what the zone table says, and how worn the zones are.

use std::collections::BTreeMap;

use clap::Args;
use serde_json::{Value, json};
use strandline::{Db, HeaderState, ZoneKind};

use crate::context::Context;
use crate::failure::{Failure, OK, Outcome};
use crate::output::Out;
use crate::render::keyspace;

#[derive(Args)]
pub struct ZoneArgs {
    /// One zone; without it, all whose header says something
    no: Option<u32>,
    /// All zones, also those without a header (free, or used for extents)
    #[arg(long, conflicts_with = "no")]
    all: bool,
}

/// A zone, as text for the table and as JSON.
struct ZoneLine {
    row: Vec<String>,
    json: Value,
}

pub fn run(context: &Context, args: &ZoneArgs) -> Outcome {
    let db = context.read()?;
    let zones = db.properties().zones;
    if let Some(no) = args.no.filter(|no| *no >= zones) {
        return Err(Failure::Usage(format!(
            "zone {no}: the pool has {zones} zones, counted from 0"
        )));
    }
    let names = names(&db)?;
    let numbers = args.no.map_or(0..zones, |no| no..no + 1);
    let shown: Vec<ZoneLine> = numbers
        .filter_map(|no| db.zone(no).map(|zone| (no, zone)))
        .filter(|(_, (_, state, _))| args.no.is_some() || args.all || *state != HeaderState::Free)
        .map(|(no, (at, state, wear))| {
            let mut shown = show(no, at, state, &names);
            shown.row.push(format!("{wear:.1}"));
            shown.json["wear"] = wear.into();
            shown
        })
        .collect();
    let mut out = Out::new();
    if context.json {
        let zones_json: Vec<Value> = shown.into_iter().map(|zone| zone.json).collect();
        out.json(&json!({ "zones": zones, "headers": zones_json }))?;
    } else {
        let heads = ["zone", "offset", "header", "keyspace", "epoch", "grant", "base seq", "wear"];
        let mut rows = vec![heads.map(String::from).to_vec()];
        let count = shown.len();
        rows.extend(shown.into_iter().map(|zone| zone.row));
        out.table(&rows)?;
        if args.no.is_none() {
            let wear = db.wear();
            out.line(format_args!(
                "{count} of {zones} zones, filled {:.1} times each, the most worn {:.2} of that",
                wear.mean,
                wear.spread()
            ))?;
        }
    }
    out.finish()?;
    Ok(OK)
}

/// Names of keyspaces by the number in zone headers.
fn names(db: &Db) -> Result<BTreeMap<u32, String>, Failure> {
    let mut names = BTreeMap::new();
    for name in db.keyspaces() {
        names.insert(db.keyspace(&name)?.id(), name);
    }
    Ok(names)
}

fn show(no: u32, at: u64, state: HeaderState, names: &BTreeMap<u32, String>) -> ZoneLine {
    let word = match &state {
        HeaderState::Free => "none",
        HeaderState::Torn => "torn",
        HeaderState::Granted(header) => match header.kind {
            ZoneKind::Memtable => "memtable",
            ZoneKind::Clean => "clean",
            ZoneKind::Cache => "cache",
            ZoneKind::Staged => "staged",
        },
    };
    let HeaderState::Granted(header) = state else {
        let dash = || "-".to_owned();
        return ZoneLine {
            row: vec![no.to_string(), at.to_string(), word.into(), dash(), dash(), dash(), dash()],
            json: json!({ "zone": no, "offset": at, "header": word }),
        };
    };
    // A zone that outlived its keyspace keeps the number until the next open for writing.
    let dropped = || format!("#{} (dropped)", header.keyspace);
    let keyspace = match header.kind {
        ZoneKind::Cache => "-".to_owned(),
        _ => names.get(&header.keyspace).map_or_else(dropped, |name| keyspace::name(name)),
    };
    ZoneLine {
        row: vec![
            no.to_string(),
            at.to_string(),
            word.into(),
            keyspace,
            header.epoch.to_string(),
            header.grant.to_string(),
            header.base_seq.to_string(),
        ],
        json: json!({
            "zone": no,
            "offset": at,
            "header": word,
            "keyspace": names.get(&header.keyspace).filter(|_| header.kind != ZoneKind::Cache),
            "keyspace_id": header.keyspace,
            "subrange": header.subrange,
            "epoch": header.epoch,
            "grant": header.grant,
            "incarnation": header.incarnation(),
            "base_seq": header.base_seq.get(),
        }),
    }
}
