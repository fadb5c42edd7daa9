//! What to merge where there is little room in files: a pure function, as the pick is.
//!
//! One table and what it overlaps of the next level need no more room than the reserve has, and none once they are merged.
//! What is deleted or overwritten goes on the way, and when all tables lie in the deepest level, nothing is left that could
//! go. A table that overlaps too much of the next level, as one may that was written before anything lay there, is cut into
//! several first.

use crate::compaction::policy::pick::OVERLAP_MAX;
use crate::compaction::policy::pick::{Choice, PickerInput, bytes, hull, is_busy, overlapping};
use crate::tree::bounds::EXACT;
use crate::tree::desc::LEVELS;
use crate::tree::facts::TableFacts;

/// Part of its entries, in thousandths, that deletes others in a table that is merged for that.
const DELETES_MIN: u32 = 250;

/// The table with the most deletions, to where they meet what they delete.
pub(crate) fn of_deletes(picture: &PickerInput<'_>) -> Option<Choice> {
    let all = steps(picture).filter(|step| step.deletes >= DELETES_MIN);
    all.max_by_key(|step| step.deletes).map(|step| step.choice)
}

/// A table of the deepest level that has any which can go down.
pub(crate) fn any(picture: &PickerInput<'_>) -> Option<Choice> {
    of_deletes(picture).or_else(|| steps(picture).last().map(|step| step.choice))
}

/// A table that may go down.
struct ReliefStep {
    deletes: u32,
    choice: Choice,
}

/// Those that there is room for, the uppermost first.
fn steps(picture: &PickerInput<'_>) -> impl Iterator<Item = ReliefStep> {
    (1..LEVELS).flat_map(move |level| {
        let tables = picture.level(level).iter().enumerate();
        let free = tables.filter(|(_, table)| !table.busy);
        free.filter_map(move |(position, table)| step(picture, level, (position, table)))
    })
}

fn step(
    picture: &PickerInput<'_>,
    level: usize,
    (position, table): (usize, &TableFacts<'_>),
) -> Option<ReliefStep> {
    let below = picture.level(level + 1);
    let onto = overlapping(below, table.smallest, table.largest);
    let overlapped = &below[onto.clone()];
    let deletes = table.deletes;
    let needed = if onto.is_empty() { 0 } else { table.bytes + bytes(overlapped) };
    // How much of that is deleted only the merge finds out.
    if needed <= picture.room.relief || deletes == 1000 {
        let (low, high) = hull(overlapped, (table.smallest, table.largest));
        let busy = is_busy(overlapped) || picture.arrives(level + 1..=level + 1, low, high);
        let choice = Choice::Table { from: level, table: position, onto };
        return (!busy).then_some(ReliefStep { deletes, choice });
    }
    // As a table is cut when it is written.
    let passed = bytes(&overlapped[..overlapped.len() - 1]);
    let wide = passed > OVERLAP_MAX * picture.room.cut_at;
    // Bounds that are not keys may reach far beyond what was cut, and would be cut again for ever.
    let exact = table.smallest.len().max(table.largest.len()) < EXACT;
    let arrives = picture.arrives(level..=level, table.smallest, table.largest);
    let choice = Choice::Parted { level, table: position };
    (wide && exact && !arrives && table.bytes <= picture.room.relief)
        .then_some(ReliefStep { deletes, choice })
}
