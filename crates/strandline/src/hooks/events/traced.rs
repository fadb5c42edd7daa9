//! Events of stores as events of the crate `tracing`, with the fields that [`Event::fields`] has.

use tracing::level_filters::LevelFilter;
use tracing::{debug, error, info, warn};

use super::{CompactionBegun, Event, FlushBegun};

/// What subscribers filter by.
const TARGET: &str = "strandline";

/// Whether there is a subscriber that wants anything at all.
pub(super) fn is_on() -> bool {
    LevelFilter::current() != LevelFilter::OFF
}

/// Tells the subscriber of the thread.
pub(super) fn emit(event: &Event) {
    match event {
        Event::FlushBegun(FlushBegun { job, keyspace, bytes, entries }) => {
            debug!(target: TARGET, job, keyspace, bytes, entries, "flush_begun");
        }
        Event::FlushCompleted(ended) => {
            let FlushBegun { job, keyspace, bytes, entries } = &ended.begun;
            let seconds = ended.duration.as_secs_f64();
            match &ended.outcome {
                Ok(made) => {
                    let run = made.as_ref().map(|made| made.run);
                    let run_entries = made.as_ref().map(|made| made.entries);
                    let written_bytes = made.as_ref().map(|made| made.bytes);
                    info!(
                        target: TARGET, job, keyspace, bytes, entries, seconds, run, run_entries,
                        written_bytes, "flush_completed"
                    );
                }
                Err(error) => warn!(
                    target: TARGET, job, keyspace, bytes, entries, seconds, %error, "flush_completed"
                ),
            }
        }
        Event::CompactionBegun(begun) => {
            let CompactionBegun { job, keyspace, reason, from, to, runs, tables, bytes, entries } =
                begun;
            debug!(
                target: TARGET, job, keyspace, %reason, from, to, runs, tables, bytes, entries,
                "compaction_begun"
            );
        }
        Event::CompactionCompleted(ended) => {
            let CompactionBegun { job, keyspace, reason, from, to, runs, tables, bytes, entries } =
                &ended.begun;
            let seconds = ended.duration.as_secs_f64();
            match &ended.outcome {
                Ok(made) => info!(
                    target: TARGET, job, keyspace, %reason, from, to, runs, tables, bytes, entries, seconds,
                    written_tables = made.tables, written_bytes = made.bytes, "compaction_completed"
                ),
                Err(error) => warn!(
                    target: TARGET, job, keyspace, %reason, from, to, runs, tables, bytes, entries, seconds,
                    %error, "compaction_completed"
                ),
            }
        }
        Event::StallBegun(begun) => {
            warn!(target: TARGET, reason = %begun.reason, "stall_begun");
        }
        Event::StallEnded(ended) => {
            let seconds = ended.duration.as_secs_f64();
            info!(target: TARGET, reason = %ended.reason, seconds, "stall_ended");
        }
        Event::BackgroundError(failed) => {
            let refuses_writes = failed.refuses_writes;
            error!(target: TARGET, error = %failed.error, refuses_writes, "background_error");
        }
        Event::CorruptionFound(found) => error!(
            target: TARGET, by = %found.by, keyspace = found.keyspace, file = found.file,
            offset = found.offset, what = found.what, "corruption_found"
        ),
        Event::TableCreated(made) => {
            let path = made.path.as_ref().map(|path| path.display().to_string());
            debug!(
                target: TARGET, id = made.id, keyspace = made.keyspace, level = made.level, path,
                bytes = made.bytes, entries = made.entries, "table_created"
            );
        }
        Event::TableDeleted(gone) => debug!(target: TARGET, id = gone.id, "table_deleted"),
        Event::InspectionFailed(failed) => {
            warn!(target: TARGET, why = failed.why, "inspection_failed");
        }
    }
}
