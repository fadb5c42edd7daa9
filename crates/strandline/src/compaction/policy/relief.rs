//! What to merge if there is little room in files: a pure function, like the pick.
//!
//! One table and those that it overlaps in the next level need no more room than the reserve has, and none once they are
//! merged. The merge drops what is deleted or overwritten; when all tables lie in the deepest level, nothing is left to drop.
//! A table that overlaps too much of the next level, because it was written before that had data, is first cut into several.

use crate::compaction::policy::pick::OVERLAP_MAX;
use crate::compaction::policy::pick::{
    Choice, PickerInput, enclosing, is_busy, overlapping, total_bytes,
};
use crate::tree::bounds::EXACT;
use crate::tree::desc::LEVELS;

/// The part of a table's entries, in thousandths, that must be deletions for it to be merged because of them.
const DELETES_MIN: u32 = 250;

/// Moves down the table with the most deletions, towards the entries that they delete.
pub(crate) fn of_deletes(input: &PickerInput<'_>) -> Option<Choice> {
    let all = steps(input).filter(|step| step.deletes >= DELETES_MIN);
    all.max_by_key(|step| step.deletes).map(|step| step.choice)
}

/// A table of the deepest level that has any which can go down.
pub(crate) fn any(input: &PickerInput<'_>) -> Option<Choice> {
    of_deletes(input).or_else(|| steps(input).last().map(|step| step.choice))
}

/// A table that may go down.
struct ReliefStep {
    deletes: u32,
    choice: Choice,
}

/// Those that there is room for, the uppermost first.
fn steps(input: &PickerInput<'_>) -> impl Iterator<Item = ReliefStep> {
    (1..LEVELS).flat_map(move |level| {
        let tables = input.level(level).iter().enumerate();
        let free = tables.filter(|(_, table)| !table.busy);
        free.filter_map(move |(position, _)| step(input, level, position))
    })
}

/// What is done with the table at `position` of a level, if there is room for that.
fn step(input: &PickerInput<'_>, level: usize, position: usize) -> Option<ReliefStep> {
    let table = &input.level(level)[position];
    let below = input.level(level + 1);
    let onto = overlapping(below, table.bounds);
    let overlapped = &below[onto.clone()];
    let deletes = table.deletes;
    let needed = if onto.is_empty() { 0 } else { table.bytes + total_bytes(overlapped) };
    // Only the merge finds out how much of it is deleted.
    if needed <= input.room.relief || deletes == 1000 {
        let bounds = enclosing(overlapped, table.bounds);
        let busy = is_busy(overlapped) || input.arrives(level + 1..=level + 1, bounds);
        let choice = Choice::Table { from: level, table: position, onto };
        return (!busy).then_some(ReliefStep { deletes, choice });
    }
    // As a table is cut when it is written.
    let passed = total_bytes(&overlapped[..overlapped.len() - 1]);
    let wide = passed > OVERLAP_MAX * input.room.cut_at;
    // Shortened bounds may reach beyond the keys of the parts, which would be cut again for ever.
    let exact = table.bounds.smallest.len().max(table.bounds.largest.len()) < EXACT;
    let arrives = input.arrives(level..=level, table.bounds);
    let choice = Choice::Parted { level, table: position };
    (wide && exact && !arrives && table.bytes <= input.room.relief)
        .then_some(ReliefStep { deletes, choice })
}
