//! The last look at a store: all its records, whole.

use super::client::{RecordStore, RecordTable};
use super::form::{Look, RecordForm};

/// Reads all records: keys in order, each under its own key and in its keyspace, whole, and none that is missing or too much. Records
/// are at least 8 bytes a field, so that they tell their number.
///
/// # Errors
/// What is wrong first.
pub fn check_all(
    store: &impl RecordStore,
    table: &RecordTable,
    form: RecordForm<'_>,
) -> Result<u64, String> {
    let form = form.looked_at(Look::Whole);
    let (records, mut seen) = (table.records.records(), 0);
    for keyspace in 0..table.keyspaces() as usize {
        let mut last: Option<Vec<u8>> = None;
        store.scan(keyspace, &[], u64::MAX, |key, value| {
            let last = last.get_or_insert_default();
            if seen > 0 && !last.is_empty() && key <= &last[..] {
                return Err(format!("whole scan: key {key:?} after {last:?}"));
            }
            last.clear();
            last.extend_from_slice(key);
            seen += 1;
            let record = form.check_whole(key, value)?;
            let record = record.ok_or("whole scan: fields are too short to tell their record")?;
            if record >= records {
                return Err(format!("whole scan: record {record} was never inserted"));
            }
            match table.keyspace(record) {
                own if own == keyspace => Ok(()),
                own => {
                    Err(format!("whole scan: record {record} of keyspace {own} is in {keyspace}"))
                }
            }
        })?;
    }
    match seen == records {
        true => Ok(seen),
        false => Err(format!("whole scan: {seen} records, not {records}")),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Mutex;

    use super::*;
    use crate::data::keys::{Form, Keys};
    use crate::data::rng::Rng;
    use crate::data::values::Source;
    use crate::ycsb::{
        self, RecordClient, RecordRequest, RecordRequests, RecordTimer, Ycsb, YcsbOperation,
    };

    /// Keyspaces that do no more than is asked here.
    struct Maps(Vec<Mutex<BTreeMap<Vec<u8>, Vec<u8>>>>);

    impl RecordStore for Maps {
        fn get(&self, keyspace: usize, key: &[u8], value: &mut Vec<u8>) -> Result<bool, String> {
            let map = self.0[keyspace].lock().unwrap();
            let found = map.get(key);
            found.iter().for_each(|found| value.extend_from_slice(found));
            Ok(found.is_some())
        }

        fn put(&self, keyspace: usize, key: &[u8], value: &[u8]) -> Result<(), String> {
            self.0[keyspace].lock().unwrap().insert(key.into(), value.into());
            Ok(())
        }

        fn scan(
            &self,
            keyspace: usize,
            from: &[u8],
            count: u64,
            mut each: impl FnMut(&[u8], &[u8]) -> Result<(), String>,
        ) -> Result<(), String> {
            let map = self.0[keyspace].lock().unwrap();
            let entries = map.range(from.to_vec()..).take(count as usize);
            entries.into_iter().try_for_each(|(key, value)| each(key, value))
        }
    }

    /// Counts operations and times none.
    #[derive(Default)]
    struct Counts([u64; YcsbOperation::ALL.len()]);

    impl RecordTimer for Counts {
        fn time<R>(&mut self, operation: YcsbOperation, call: impl FnOnce() -> R) -> R {
            self.0[operation as usize] += 1;
            call()
        }
    }

    const RECORDS: u64 = 500;
    const KEYSPACES: u64 = 4;

    #[test]
    fn all_workloads_leave_records_that_are_whole() {
        for write_all_fields in [true, false] {
            let ycsb = Ycsb { write_all_fields, keyspaces: KEYSPACES, ..Ycsb::default() };
            let source = Source::new(200);
            let keys = Keys { form: Form::Number, size: 8 };
            let form = RecordForm::new(&ycsb, keys, 200, &source, Look::Whole);
            let store = Maps((0..KEYSPACES).map(|_| Mutex::default()).collect());
            let table = RecordTable::new(RECORDS, KEYSPACES);
            let mut client = RecordClient::new(&store, &table, form, 0, Rng::new(1));
            let mut counts = Counts::default();
            for record in 0..RECORDS {
                let request = RecordRequest::of_one(YcsbOperation::Insert, record);
                client.run(request, &mut counts).unwrap();
            }
            assert_eq!(check_all(&store, &table, form), Ok(RECORDS));
            for workload in [ycsb::A, ycsb::B, ycsb::C, ycsb::D, ycsb::E, ycsb::F] {
                let (records, rngs) = (table.records.records(), [2, 3, 4].map(Rng::new));
                let mut requests = RecordRequests::new(workload, &ycsb, records, 50, rngs);
                for _ in 0..1000 {
                    let request = requests.next(&table.records);
                    let access = client.run(request, &mut counts).unwrap();
                    assert_ne!(access.found, Some(false), "{request:?}");
                    if request.operation == YcsbOperation::Insert {
                        table.records.acknowledge(request.record);
                    }
                }
            }
            let records = table.records.records();
            assert!(records > RECORDS && counts.0.iter().all(|count| *count > 20));
            assert_eq!(check_all(&store, &table, form), Ok(records));
            // A byte that is another, a record that is gone, one that is elsewhere.
            let full = store.0.iter().position(|map| map.lock().unwrap().len() > 1).unwrap();
            let mut map = store.0[full].lock().unwrap();
            let (key, value) = map.pop_last().unwrap();
            drop(map);
            let check = |value: Option<&Vec<u8>>| {
                match value {
                    Some(value) => store.put(full, &key, value).unwrap(),
                    None => drop(store.0[full].lock().unwrap().remove(&key)),
                }
                check_all(&store, &table, form)
            };
            let gone = check(None).unwrap_err();
            assert!(gone.contains(&format!("{} records, not {records}", records - 1)), "{gone}");
            let mut bent = value.clone();
            *bent.last_mut().unwrap() ^= 1;
            assert!(check(Some(&bent)).unwrap_err().contains("not one of its own"));
            assert_eq!(check(Some(&value)), Ok(records));
        }
    }
}
