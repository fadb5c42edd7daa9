//! `dump`: a keyspace as text that `load` takes.

use clap::Args;
use strandline::ReadOptions;

use crate::context::Context;
use crate::failure::{Failure, Outcome};
use crate::input::Format;
use crate::output::Out;
use crate::render::record::RecordPrinter;
use crate::text::Form;

#[derive(Args)]
pub struct DumpArgs {
    /// Format of the lines [default: tsv, or jsonl with --json]
    #[arg(long)]
    format: Option<Format>,
}

pub fn run(context: &Context, args: &DumpArgs) -> Outcome {
    let format = args.format.unwrap_or(context.record_format());
    if format == Format::Tsv && context.form == Form::Literal {
        return Err(Failure::Usage(
            "dump --literal: tabs and line ends in keys would not come back; leave --literal out, or use --format jsonl"
                .into(),
        ));
    }
    let (_db, keyspace) = context.read_keyspace()?;
    let mut iter = keyspace.cursor(&ReadOptions::default())?;
    let mut out = Out::new();
    let mut printer = RecordPrinter::new(context, format);
    iter.seek_to_first()?;
    while iter.valid() {
        printer.record(&iter, &mut out)?;
        iter.next()?;
    }
    out.finish()?;
    printer.end()
}
