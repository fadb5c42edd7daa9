//! `merge KEY OPERAND`.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

use clap::Args;
use serde_json::json;
use strandline::Keyspace;
use strandline::operators::{BuiltInOperator, encode_set};

use crate::context::{Context, DurabilityArg, IfMissing};
use crate::failure::{Failure, OK, Outcome};
use crate::human;

#[derive(Args)]
pub struct MergeArgs {
    /// The key
    key: OsString,
    /// What is merged into its value: with add a decimal number, with set-union a member, else bytes
    #[arg(allow_negative_numbers = true)]
    operand: OsString,
    /// OPERAND is bytes, whatever the operator: eight of them for add, a whole set for set-union
    #[arg(long)]
    raw: bool,
    #[command(flatten)]
    durability: DurabilityArg,
}

pub fn run(context: &Context, args: &MergeArgs) -> Outcome {
    let key = context.form.argument("KEY", &args.key)?;
    let db = context.write(IfMissing::Fail)?;
    let keyspace = context.keyspace(&db)?;
    let operand = operand(context, args, &keyspace)?;
    keyspace.merge_with(&key, &operand, &args.durability.options())?;
    let bytes = operand.len() as u64;
    context.report(
        format_args!("merged 1 operand ({})", human::plural(bytes, "byte")),
        &json!({ "merged": 1, "bytes": bytes }),
    )?;
    Ok(OK)
}

/// The operand as the keyspace's operator takes it.
fn operand(context: &Context, args: &MergeArgs, keyspace: &Keyspace) -> Result<Vec<u8>, Failure> {
    let name = keyspace.options().merge_operator.unwrap_or_default();
    match BuiltInOperator::named(&name).filter(|_| !args.raw) {
        Some(BuiltInOperator::Add) => number(args.operand.as_bytes()).map(|n| n.to_vec()),
        Some(BuiltInOperator::SetUnion) => {
            Ok(encode_set([context.form.argument("OPERAND", &args.operand)?]))
        }
        _ => context.form.argument("OPERAND", &args.operand),
    }
}

/// A decimal number as the operator `add` takes it: a negative one as its two's complement.
fn number(text: &[u8]) -> Result<[u8; 8], Failure> {
    let text = String::from_utf8_lossy(text);
    let unsigned = text.parse::<u64>().map(u64::to_le_bytes);
    unsigned.or_else(|_| text.parse::<i64>().map(i64::to_le_bytes)).map_err(|_| {
        let text = format!(
            "OPERAND: {text} is no whole number of 64 bits, which add takes; write one, or eight bytes with --raw"
        );
        Failure::Usage(text)
    })
}
