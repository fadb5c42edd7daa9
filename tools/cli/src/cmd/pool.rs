//! `pool`: the pool as it describes itself.

use serde_json::json;
use strandline::PoolFigures;

use crate::context::Context;
use crate::failure::{OK, Outcome};
use crate::look::{self, Look};
use crate::output::Out;

pub fn run(context: &Context) -> Outcome {
    let PoolFigures { properties: figures, wear, view } = look::ask(context, Look::pool)?;
    let mut out = Out::new();
    if context.json {
        out.json(&json!({
            "pm": figures.pm,
            "pm_capacity": figures.pm_capacity,
            "pm_free": figures.pm_free,
            "zone_bytes": figures.zone_bytes,
            "zones": figures.zones,
            "zones_free": figures.zones_free,
            "wear": {
                "least": wear.least,
                "mean": wear.mean,
                "most": wear.most,
                "spread": wear.spread(),
                "unknown": wear.unknown,
            },
            "view": view.lines().collect::<Vec<_>>(),
        }))?;
    } else {
        out.bytes(view.as_bytes())?;
    }
    out.finish()?;
    Ok(OK)
}
