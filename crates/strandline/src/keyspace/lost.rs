//! What damage took from a keyspace that is open read-only.

use std::collections::BTreeMap;

use base::{Error, Result, Seq};

/// Records that were acknowledged and cannot be read. A version that is older than a lost record of the same key
/// would be stale, so it is not given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LostRecords {
    /// No lost record is newer than this, those in `keys` aside.
    upto: Seq,
    /// The newest lost record of each key that could be told.
    keys: BTreeMap<Vec<u8>, Seq>,
}

impl LostRecords {
    /// Notes that records of any key were lost, the newest at or below `upto`.
    pub(crate) fn add_unknown(&mut self, upto: Seq) {
        self.upto = self.upto.max(upto);
    }

    /// Notes that the record `seq` of `key` was lost.
    pub(crate) fn add_key(&mut self, key: Vec<u8>, seq: Seq) {
        let newest = self.keys.entry(key).or_default();
        *newest = (*newest).max(seq);
    }

    /// Refuses what a reader found for `key`, the version `found` or nothing, if a lost record might be newer.
    #[cold]
    pub(crate) fn check(&self, keyspace: &str, key: &[u8], found: Option<Seq>) -> Result<()> {
        let what = match found {
            None => "is not there",
            Some(seq) if seq < self.upto || self.keys.get(key).is_some_and(|lost| seq < *lost) => {
                "has only an older version left"
            }
            Some(_) => return Ok(()),
        };
        Err(Error::corruption(
            "read",
            format!(
                "the key {what} in keyspace {keyspace}, which lost records to damage: it may have been among \
                 them (`strandline check` lists the ranges)"
            ),
        ))
    }
}
