//! What explains that Intel lost 1 to 21 percent with the block cache in persistent memory, and McGill up to 70.

use std::io::Write;

use super::super::intel::{DELTA, RATIO};
use super::super::request::{Request, say};
use super::cell::{ALL_CACHED, CellFigures, MixCell, Parts};
use super::{COUNTS, ROWS, lost};

/// Of a mix: what operations take longer with the cache in persistent memory, and where that goes.
pub(super) fn mix(rows: &[CellFigures; ROWS.len()], out: &mut dyn Write) -> Result<(), String> {
    for (name, it) in [("delta", &rows[1]), ("ratio", &rows[3])] {
        let more = it.cpu - rows[0].cpu;
        say(
            out,
            &format!(
                "cache in PM, {name}: {more:+.2} us an operation, {:.2} of them waits for {:.1} lines read and {:.3} blocks copied ({:.0} B written);\n  \
                 {:.0} % of our part of the bandwidth read, {:.0} % written",
                it.waited, it.lines, it.copies, it.pm[1], it.bandwidth[0], it.bandwidth[1],
            ),
        )?;
    }
    Ok(())
}

/// What a hit costs: gets alone, all data cached; and the mix that McGill lost most in, with as many hits as it had.
pub(super) fn hits(every: &MixCell, request: &Request, out: &mut dyn Write) -> Result<(), String> {
    let all = MixCell { cache: ALL_CACHED * every.size, ..*every };
    say(
        out,
        "All data cached: nanoseconds of an operation in DRAM, and with the cache in persistent memory",
    )?;
    for (name, reads, threads) in
        [("gets alone, one thread", 100, 1), ("90 % reads, all threads", 90, every.threads)]
    {
        let cell = MixCell { reads, threads, ..all };
        let dram = cell.measure(request)?;
        let nanos = |it: &CellFigures| 1e3 * it.cpu;
        for model in [DELTA, RATIO] {
            // What the model itself takes, without its waits, is no cost of the memory.
            let counted =
                MixCell { parts: Parts::CacheInPm, model: COUNTS, ..cell }.measure(request)?;
            let pm = MixCell { parts: Parts::CacheInPm, model, ..cell }.measure(request)?;
            let text = format!(
                "  {name:<24} {:>6.0} {:>6.0} ({:.1} % lost; {:.1} % of what counting alone leaves) {model}: {:.1} lines, {:.0} ns of waits, {:.3} blocks copied, {:.1} % hits",
                nanos(&dram),
                nanos(&pm),
                lost(&pm, &dram),
                lost(&pm, &counted),
                pm.lines,
                1e3 * pm.waited,
                pm.copies,
                pm.hits[0],
            );
            say(out, &text)?;
        }
    }
    say(out, EXPLAINED)
}

const EXPLAINED: &str = "\
What is lost is what persistent memory adds to an operation, by what the operation takes without it. Intel's 32 clients took 6.7 us a get with
all data cached, and 1.8 us more (21 %); with the SSD asked, 145 us and more, and 1 to 8 us more (1 %). McGill's 16 threads took 66 us an
operation, if each moved a key and a value, and 150 us more (70 %); if its reads found nothing, 6.6 us and 15 us more. Either is more than lines
and copied blocks take, here or by the published figures: of those 15 to 150 us they explain the few that are told above. What is left
is of how it was put there: allocations by memkind, faults of small pages of a file, perhaps the other socket's memory.
";
