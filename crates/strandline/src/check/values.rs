//! Value files, and what tables refer to in them: all of it is read, and counted again (I-VALUE-2).

use base::Result;
use sst::{EntryKind, ValueRef, walk_values};

use crate::check::CheckReport;
use crate::keyspace::KeyspaceState;
use crate::recovery::recover::Damage;
use crate::tree::ahead::Probing;
use crate::tree::desc::ValueShares;
use crate::tree::table::Table;
use crate::tree::value_file::{ValueFile, ValueFiles};
use crate::tree::value_reader::{ValueReader, ValueUse};
use crate::tree::verify;

/// Compares each value file with its checksum, and its records with theirs.
pub(super) fn check_files(values: &ValueFiles, report: &mut CheckReport) {
    for live in values.iter() {
        report.value_files += 1;
        let file = &*live.file;
        let error = match check_file(file) {
            Ok(values) if values == file.desc.values => continue,
            Ok(values) => {
                format!("it has {values} values, and the manifest knows {}", file.desc.values)
            }
            Err(error) => error.context().to_owned(),
        };
        report.damage.push(damage(file, 0, file.desc.len, error));
    }
}

fn check_file(file: &ValueFile) -> Result<u64> {
    let bytes = file.file()?;
    verify::verify(&*bytes.0, file.desc.len, file.desc.sum)?;
    walk_values(&bytes.file, |_| ())
}

/// Reads all values that a table refers to, and counts them.
pub(super) fn check_references(
    space: &KeyspaceState,
    values: &ValueFiles,
    table: &Table,
    report: &mut CheckReport,
) {
    let stamp = space.stamp_len();
    let mut reader = ValueReader::new(ValueUse::Merge);
    let mut shares = ValueShares::default();
    let walked = table.uncached(Probing::Nothing).and_then(|open| {
        let mut cursor = open.cursor();
        cursor.first()?;
        while cursor.valid() {
            if cursor.kind() == EntryKind::ValueRef {
                let stored = cursor.value();
                let reference = &stored[stamp.min(stored.len())..];
                report.values += 1;
                let of = ValueRef::decode(reference);
                if let Some(of) = &of {
                    shares.add(of, cursor.key().len());
                }
                if let Err(error) = reader.read(values, cursor.key(), reference) {
                    let what = error.context().to_owned();
                    let placed = of.and_then(|of| Some((values.get(of.file)?, of)));
                    report.damage.push(match placed {
                        Some((file, of)) => damage(file, of.at, of.len, what),
                        None => Damage { file: table.path(), zone: None, at: 0, len: 0, what },
                    });
                }
            }
            cursor.next()?;
        }
        Ok(())
    });
    // What of the table cannot be read is told with the table.
    if walked.is_ok() && shares.into_vec() != table.desc.values {
        let what = "the manifest knows other references to value files than the table has; report this, and save the \
                    store with `strandline repair`";
        let file = table.path();
        report.damage.push(Damage { file, zone: None, at: 0, len: 0, what: what.into() });
    }
}

fn damage(file: &ValueFile, at: u64, len: u64, what: String) -> Damage {
    Damage { file: file.path(), zone: None, at: file.start() + at, len, what }
}
