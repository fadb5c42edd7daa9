//! `manifest`: what the store consists of, as it is made durable.

use serde_json::json;

use crate::context::Context;
use crate::failure::{OK, Outcome};
use crate::output::Out;

pub fn run(context: &Context) -> Outcome {
    let view = context.read()?.manifest_view();
    let mut out = Out::new();
    if context.json {
        out.json(&json!({ "view": view.lines().collect::<Vec<_>>() }))?;
    } else {
        out.bytes(view.as_bytes())?;
    }
    out.finish()?;
    Ok(OK)
}
