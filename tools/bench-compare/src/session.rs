//! The benchmarks of a stage on each engine in turn, beginning with another each time, so that what changes on the machine
//! meanwhile changes for all.

use crate::child;
use crate::engines::{Maker, OURS, Result};
use crate::figures::count;
use crate::flags::Flags;
use crate::kept::Kept;
use crate::sample::{self, Sample};
use crate::stages::Stage;
use crate::verify::Digest;

/// Runs the stage's benchmarks that were asked for, on all engines that offer one, each run in a process of its own: what
/// an engine leaves in memory is not the next one's. `args` are the words that `flags` came from.
///
/// # Errors
/// Nothing can be added to `kept`; what fails in a run is.
pub fn run(
    flags: &Flags,
    args: &[String],
    stage: &'static Stage,
    kept: &mut Kept,
    tell: &dyn Fn(&str),
) -> Result<()> {
    let cases = flags.cases(stage);
    let Some(first) = cases.first() else { return Ok(()) };
    let first = sample::key(stage, first, flags.load.of(first));
    let name = first.shown();
    let offering = |maker: &&&Maker| cases.iter().any(|case| (maker.offers)(stage, case));
    let mut makers = vec![OURS];
    makers.extend(flags.rivals.iter().filter(offering));
    let mut digests: Vec<(&str, Digest)> = Vec::new();
    for run in 0..flags.runs {
        for maker in &makers {
            let what = format!("{} in run {} of {} B", maker.name, run + 1, first.values());
            match child::run(flags, args, stage, maker, run) {
                Ok(turn) => {
                    digests.extend(turn.digest.map(|digest| (maker.name, digest)));
                    for sample in turn.samples {
                        tell(&line(&sample));
                        kept.add(sample)?;
                    }
                }
                Err(error) => {
                    let failure = format!("{name}, {what}: {error}");
                    tell(&failure);
                    kept.fail(first, failure)?;
                }
            }
        }
        makers.rotate_left(1);
    }
    match unlike(&digests) {
        Some((one, other)) => kept.fail(
            first,
            format!("{one} and {other} hold different data after {name}: {digests:?}"),
        ),
        None => Ok(()),
    }
}

/// Two engines whose stores differ.
fn unlike<'d>(digests: &[(&'d str, Digest)]) -> Option<(&'d str, &'d str)> {
    let (first, digest) = digests.first()?;
    let (other, _) = digests.iter().find(|(_, other)| other != digest)?;
    Some((first, other))
}

/// What is told while others are still to come.
fn line(sample: &Sample) -> String {
    let rate = count(sample.measured.rate.per_second());
    let key = sample.key();
    format!(
        "{} in run {} of {} B: {}, {} threads: {rate}/s ({})",
        sample.engine,
        sample.run + 1,
        key.values(),
        key.shown(),
        key.threads,
        sample.promise
    )
}
