//! What reads of a damaged store may say: the right thing, or that it is damaged.

use std::collections::BTreeMap;

use strandline::{Db, ErrorKind, ReadOptions};

use crate::sample::Content;

/// What went wrong, how often, and where first.
#[derive(Default)]
pub struct Tally {
    wrong: BTreeMap<String, (u32, String)>,
    /// Places tried, opens refused, reads that said `Corruption`.
    pub tried: u32,
    pub refused: u32,
    pub reported: u32,
}

impl Tally {
    pub fn note(&mut self, what: &str, at: &str) {
        let entry = self.wrong.entry(what.to_owned()).or_insert_with(|| (0, at.to_owned()));
        entry.0 += 1;
    }

    /// An open was refused with `error`.
    pub fn refuse(&mut self, error: &strandline::Error, at: &str) {
        self.refused += 1;
        if !matches!(error.kind(), ErrorKind::Corruption | ErrorKind::NotSupported) {
            self.note(&format!("open says {:?}", error.kind()), at);
        }
    }

    #[track_caller]
    pub fn assert_nothing_wrong(&self) {
        assert!(self.wrong.is_empty(), "before any damage: {:#?}", self.wrong);
    }

    #[track_caller]
    pub fn assert_clean(&self, least_tried: u32) {
        assert!(self.tried >= least_tried, "only {} places were tried", self.tried);
        assert!(self.reported + self.refused > 0, "no damage was ever noticed");
        assert!(
            self.wrong.is_empty(),
            "{} places tried, {} opens refused, {} reads reported damage; what, how often, first: {:#?}",
            self.tried,
            self.refused,
            self.reported,
            self.wrong
        );
    }
}

/// Holds every read against `content`; whether any said `Corruption`.
pub fn verify(db: &Db, content: &Content, at: &str, tally: &mut Tally) -> bool {
    let mut damaged = false;
    let mut report = |result: &strandline::Error, tally: &mut Tally| {
        damaged = true;
        tally.reported += 1;
        if result.kind() != ErrorKind::Corruption {
            tally.note(&format!("{:?} instead of Corruption", result.kind()), at);
        }
    };
    for (key, value) in &content.live {
        let where_ = || format!("{at}, key {}", String::from_utf8_lossy(key));
        match db.get(key) {
            Ok(Some(found)) if found == *value => {}
            Ok(Some(_)) => tally.note("get gives a wrong or stale value", &where_()),
            Ok(None) if content.doubtful.as_ref() == Some(key) => {}
            Ok(None) => tally.note("get says that a key is not there", &where_()),
            Err(error) => report(&error, tally),
        }
    }
    for key in &content.absent {
        match db.get(key) {
            Ok(None) => {}
            Ok(Some(_)) => tally.note("get gives what is not there", at),
            Err(error) => report(&error, tally),
        }
    }
    let mut expected: Vec<(&Vec<u8>, &Vec<u8>)> = content.live.iter().collect();
    let doubtful = content.doubtful.as_ref().filter(|key| {
        // Lost like a torn write, in which case scans agree with get.
        matches!(db.get(key), Ok(None))
    });
    expected.retain(|(key, _)| doubtful != Some(key));
    for forward in [true, false] {
        let Ok(mut iter) = db.default_keyspace().cursor(&ReadOptions::default()) else {
            tally.note("no iterator", at);
            continue;
        };
        let mut step = if forward { iter.seek_to_first() } else { iter.seek_to_last() };
        let mut left = expected.iter();
        // Keys that were passed over, for which the scan owes an error at its end.
        let mut skipped = 0;
        loop {
            if let Err(error) = &step {
                report(error, tally);
                break;
            }
            let mut next = || if forward { left.next() } else { left.next_back() };
            let Some(key) = iter.key() else {
                if skipped > 0 || next().is_some() {
                    tally.note("a scan skips keys without a word", at);
                }
                break;
            };
            if !content.live.contains_key(key) {
                tally.note("a scan gives what is not there", at);
                break;
            }
            let value = loop {
                match next() {
                    Some((expected, value)) if &expected[..] == key => break Some(value),
                    Some(_) => skipped += 1,
                    None => break None,
                }
            };
            let Some(value) = value else {
                tally.note("a scan gives keys out of order", at);
                break;
            };
            match iter.value() {
                Ok(Some(found)) if found == &value[..] => {}
                Ok(_) => tally.note("a scan gives a wrong or stale value", at),
                Err(error) => report(&error, tally),
            }
            step = if forward { iter.next() } else { iter.prev() };
        }
    }
    damaged
}
