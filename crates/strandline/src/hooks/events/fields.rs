//! Events as names and values: what logs and JSON are made of.

use std::fmt;

use base::Result;

use super::{CompactionBegun, Event, FlushBegun, FoundBy, StallReason};
use crate::hooks::events::CompactionReason;

/// The value of a field of an [`Event`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum FieldValue {
    /// A number, with the unit that the field's name says.
    Number(u64),
    /// Seconds.
    Seconds(f64),
    /// Whether something is so.
    Flag(bool),
    /// Text.
    Text(String),
}

impl fmt::Display for FieldValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FieldValue::Number(number) => write!(f, "{number}"),
            FieldValue::Seconds(seconds) => write!(f, "{seconds:.6}"),
            FieldValue::Flag(flag) => write!(f, "{flag}"),
            FieldValue::Text(text)
                if text.contains(|c: char| matches!(c, ' ' | '"' | '=') || c.is_control()) =>
            {
                write!(f, "{text:?}")
            }
            FieldValue::Text(text) => f.write_str(text),
        }
    }
}

type Fields = Vec<(&'static str, FieldValue)>;

fn number(number: impl TryInto<u64>) -> FieldValue {
    FieldValue::Number(number.try_into().unwrap_or(u64::MAX))
}

fn text(text: impl fmt::Display) -> FieldValue {
    FieldValue::Text(text.to_string())
}

impl Event {
    /// The name of its kind, such as `flush_completed`.
    pub fn name(&self) -> &'static str {
        match self {
            Event::FlushBegun(_) => "flush_begun",
            Event::FlushCompleted(_) => "flush_completed",
            Event::CompactionBegun(_) => "compaction_begun",
            Event::CompactionCompleted(_) => "compaction_completed",
            Event::StallBegun(_) => "stall_begun",
            Event::StallEnded(_) => "stall_ended",
            Event::BackgroundError(_) => "background_error",
            Event::CorruptionFound(_) => "corruption_found",
            Event::TableCreated(_) => "table_created",
            Event::TableDeleted(_) => "table_deleted",
            Event::InspectionFailed(_) => "inspection_failed",
        }
    }

    /// What it tells, by name: for logs.
    pub fn fields(&self) -> Vec<(&'static str, FieldValue)> {
        match self {
            Event::FlushBegun(begun) => of_flush(begun),
            Event::FlushCompleted(ended) => {
                let mut fields = of_flush(&ended.begun);
                fields.push(("seconds", FieldValue::Seconds(ended.duration.as_secs_f64())));
                if let Ok(Some(made)) = &ended.outcome {
                    let made = [
                        ("run", made.run),
                        ("run_entries", made.entries),
                        ("written_bytes", made.bytes),
                    ];
                    fields.extend(made.map(|(name, value)| (name, number(value))));
                }
                with_error(fields, &ended.outcome)
            }
            Event::CompactionBegun(begun) => of_compaction(begun),
            Event::CompactionCompleted(ended) => {
                let mut fields = of_compaction(&ended.begun);
                fields.push(("seconds", FieldValue::Seconds(ended.duration.as_secs_f64())));
                if let Ok(made) = &ended.outcome {
                    fields.push(("written_tables", number(made.tables)));
                    fields.push(("written_bytes", number(made.bytes)));
                }
                with_error(fields, &ended.outcome)
            }
            Event::StallBegun(begun) => vec![("reason", text(begun.reason))],
            Event::StallEnded(ended) => vec![
                ("reason", text(ended.reason)),
                ("seconds", FieldValue::Seconds(ended.duration.as_secs_f64())),
            ],
            Event::BackgroundError(failed) => vec![
                ("error", text(&failed.error)),
                ("refuses_writes", FieldValue::Flag(failed.refuses_writes)),
            ],
            Event::CorruptionFound(found) => {
                let mut fields = vec![("by", text(found.by))];
                fields.extend(found.keyspace.iter().map(|name| ("keyspace", text(name))));
                fields.extend(found.file.iter().map(|file| ("file", text(file))));
                fields.extend(found.offset.map(|offset| ("offset", number(offset))));
                fields.push(("what", text(&found.what)));
                fields
            }
            Event::TableCreated(made) => {
                let mut fields = vec![
                    ("id", number(made.id)),
                    ("keyspace", text(&made.keyspace)),
                    ("level", number(made.level)),
                ];
                fields.extend(made.path.iter().map(|path| ("path", text(path.display()))));
                fields.push(("bytes", number(made.bytes)));
                fields.push(("entries", number(made.entries)));
                fields
            }
            Event::TableDeleted(gone) => vec![("id", number(gone.id))],
            Event::InspectionFailed(failed) => vec![("why", text(&failed.why))],
        }
    }
}

fn of_flush(begun: &FlushBegun) -> Fields {
    vec![
        ("job", number(begun.job)),
        ("keyspace", text(&begun.keyspace)),
        ("bytes", number(begun.bytes)),
        ("entries", number(begun.entries)),
    ]
}

fn of_compaction(begun: &CompactionBegun) -> Fields {
    vec![
        ("job", number(begun.job)),
        ("keyspace", text(&begun.keyspace)),
        ("reason", text(begun.reason)),
        ("from", number(begun.from)),
        ("to", number(begun.to)),
        ("runs", number(begun.runs)),
        ("tables", number(begun.tables)),
        ("bytes", number(begun.bytes)),
        ("entries", number(begun.entries)),
    ]
}

fn with_error<T>(mut fields: Fields, outcome: &Result<T>) -> Fields {
    fields.extend(outcome.as_ref().err().map(|error| ("error", text(error))));
    fields
}

/// The name, then each field as `name=value`.
impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        self.fields().iter().try_for_each(|(name, value)| write!(f, " {name}={value}"))
    }
}

impl fmt::Display for CompactionReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CompactionReason::MergeRuns => "merge_runs",
            CompactionReason::Level0 => "level0",
            CompactionReason::Levels => "levels",
            CompactionReason::Garbage => "garbage",
            CompactionReason::Tier => "tier",
            CompactionReason::Expired => "expired",
            CompactionReason::Manual => "manual",
        })
    }
}

impl fmt::Display for StallReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            StallReason::Memory => "memory",
            StallReason::Level0 => "level0",
            StallReason::Debt => "debt",
            StallReason::Space => "space",
        })
    }
}

impl fmt::Display for FoundBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FoundBy::Read => "read",
            FoundBy::Compaction => "compaction",
            FoundBy::Check => "check",
            FoundBy::Open => "open",
        })
    }
}
