//! Values that expire: when, and what says what time it is.
//!
//! In a keyspace with a time to live each value is stored behind the time at which it expires. From then on it counts as a
//! deletion, wherever it lies: readers do not see it, it hides what is older, and merges treat it as a tombstone.
//!
//! **I-TTL-1** The clock of a store does not fall, and begins where an edit of the manifest left it: what one merge took for
//! expired, so does all that follows.
//!
//! So one jump forward of the system's clock stops expiry until the real time catches up: the store keeps the time it was
//! told, values put meanwhile expire that much later, and no open undoes it, even once every keyspace with a time to live
//! is dropped.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base::bytes::shown;
use base::{Error, Result, Seq};

use crate::caught::caught;
use crate::hooks::Clock;

/// Bytes before each value: when it expires, in milliseconds since 1970.
pub(crate) const STAMP_LEN: usize = 8;

/// The clock of a store.
pub(crate) struct StoreClock {
    source: Option<Arc<dyn Clock>>,
    /// The highest time seen, in milliseconds since 1970.
    highest: AtomicU64,
    /// Some keyspace has a time to live.
    used: AtomicBool,
}

/// By when numbers were given out. Stored values have a time each, but runs and tables have no bounds of them: this tells when
/// all that a source holds must have expired, from its newest number. It begins anew with each open.
///
/// **I-TTL-2** What has a number up to a sample's was written by the sample's time.
#[derive(Default)]
pub(crate) struct Ages {
    /// Ascending in both.
    samples: Vec<AgeSample>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct AgeSample {
    upto: Seq,
    by: u64,
}

/// Samples at most. Beyond, every second one goes, so that ages of what is old are known less well.
const AGE_SAMPLES_MAX: usize = 64;

impl Ages {
    /// All up to number `upto` has been written by `now`.
    pub(crate) fn note(&mut self, upto: Seq, now: Now) {
        if self.samples.last().is_some_and(|last| last.upto >= upto) {
            return;
        }
        if self.samples.len() == AGE_SAMPLES_MAX {
            let mut place = 0;
            self.samples.retain(|_| {
                place += 1;
                place % 2 == 0
            });
        }
        self.samples.push(AgeSample { upto, by: now.millis() });
    }

    /// Whether all up to number `newest`, in a keyspace with this time to live, has expired by `now`.
    pub(crate) fn have_expired(&self, newest: Seq, ttl: u64, now: Now) -> bool {
        let first = self.samples.partition_point(|sample| sample.upto < newest);
        self.samples.get(first).is_some_and(|sample| sample.by.saturating_add(ttl) <= now.millis())
    }
}

/// What makes the values of a keyspace expire.
pub(crate) struct Expiry {
    ttl: Duration,
    clock: Arc<StoreClock>,
}

/// A moment at which values are judged, in milliseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Now(u64);

/// A stored value at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Timed<'v> {
    Live(&'v [u8]),
    Expired,
}

impl StoreClock {
    pub(crate) fn new(source: Option<Arc<dyn Clock>>) -> StoreClock {
        StoreClock { source, highest: AtomicU64::new(0), used: AtomicBool::new(false) }
    }

    /// The time, never before one that was told.
    pub(crate) fn now(&self) -> Now {
        let since = match &self.source {
            // One that panics stands still.
            Some(source) => caught(|| source.now()).unwrap_or_default(),
            None => SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default(),
        };
        self.raise(millis(since))
    }

    /// The time is not below this any more.
    pub(crate) fn raise(&self, to: u64) -> Now {
        let highest = self.highest.load(Relaxed);
        Now(if to > highest { self.highest.fetch_max(to, Relaxed).max(to) } else { highest })
    }

    /// The highest time seen, if a keyspace depends on it.
    pub(crate) fn highest(&self) -> Option<u64> {
        self.used.load(Relaxed).then(|| self.highest.load(Relaxed))
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

impl Expiry {
    pub(crate) fn new(ttl: Duration, clock: &Arc<StoreClock>) -> Expiry {
        clock.used.store(true, Relaxed);
        Expiry { ttl, clock: Arc::clone(clock) }
    }

    pub(crate) fn now(&self) -> Now {
        self.clock.now()
    }

    /// How long values live, in milliseconds.
    pub(crate) fn ttl_millis(&self) -> u64 {
        millis(self.ttl)
    }

    /// `value` as it is stored when it is written now.
    pub(crate) fn stamp(&self, value: &[u8]) -> Vec<u8> {
        stamped(self.now().0.saturating_add(millis(self.ttl)), value)
    }

    /// `value` as one that has expired already.
    #[cfg(any(test, feature = "steps"))]
    pub(crate) fn stamp_expired(&self, value: &[u8]) -> Vec<u8> {
        stamped(self.now().0, value)
    }
}

fn stamped(expires: u64, value: &[u8]) -> Vec<u8> {
    [&expires.to_le_bytes()[..], value].concat()
}

impl Now {
    pub(crate) fn millis(self) -> u64 {
        self.0
    }

    /// What a stored value is at this moment; `None` if it is no value with a time.
    pub(crate) fn judge(self, stored: &[u8]) -> Option<Timed<'_>> {
        let (stamp, value) = stored.split_first_chunk::<STAMP_LEN>()?;
        let expired = self.0 >= u64::from_le_bytes(*stamp);
        Some(if expired { Timed::Expired } else { Timed::Live(value) })
    }

    /// Whether a stored value counts as a deletion.
    pub(crate) fn has_passed(self, stored: &[u8]) -> bool {
        self.judge(stored) == Some(Timed::Expired)
    }
}

/// The value of what is stored behind its time.
pub(crate) fn value_of(stored: &[u8]) -> &[u8] {
    stored.get(STAMP_LEN..).unwrap_or_default()
}

/// A key and the name of its keyspace.
#[derive(Clone, Copy)]
pub(crate) struct NamedKey<'k> {
    pub keyspace: &'k str,
    pub key: &'k [u8],
}

/// A stored value has no time although its keyspace says so.
#[cold]
fn no_time(whose: NamedKey<'_>) -> Error {
    let NamedKey { keyspace, key } = whose;
    let text = format!(
        "the value of key {} in keyspace {keyspace} lacks the time at which it expires; put the key anew, or delete it",
        shown(key)
    );
    Error::corruption("read", text)
}

/// As [`Now::judge`], of the value of a key.
///
/// # Errors
/// `Corruption` if the value has no time.
pub(crate) fn judge<'v>(now: Now, whose: NamedKey<'_>, stored: &'v [u8]) -> Result<Timed<'v>> {
    now.judge(stored).ok_or_else(|| no_time(whose))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Falling(AtomicU64);

    impl Clock for Falling {
        fn now(&self) -> Duration {
            Duration::from_millis(self.0.fetch_sub(1, Relaxed))
        }
    }

    #[test]
    fn the_clock_does_not_fall() {
        let clock = Arc::new(StoreClock::new(Some(Arc::new(Falling(AtomicU64::new(100))))));
        assert_eq!(clock.now(), Now(100));
        assert_eq!(clock.now(), Now(100));
        assert_eq!(clock.highest(), None, "no keyspace depends on it");
        clock.raise(500);
        let expiry = Expiry::new(Duration::from_millis(10), &clock);
        assert_eq!((expiry.now(), clock.highest()), (Now(500), Some(500)));
        let stored = expiry.stamp(b"value");
        assert_eq!(Now(509).judge(&stored), Some(Timed::Live(b"value")));
        assert_eq!(Now(510).judge(&stored), Some(Timed::Expired), "from then on");
        assert!(Now(500).has_passed(&expiry.stamp_expired(b"")));
        assert_eq!((Now(0).judge(b"1234567"), value_of(&stored)), (None, &b"value"[..]));
    }

    #[test]
    fn a_source_has_expired_a_time_to_live_after_its_newest_number_was_seen() {
        let mut ages = Ages::default();
        assert!(!ages.have_expired(Seq::new(1), 10, Now(1 << 40)), "nothing is known yet");
        ages.note(Seq::new(5), Now(100));
        ages.note(Seq::new(5), Now(500));
        ages.note(Seq::new(8), Now(600));
        for (newest, ttl, now, expired) in [
            (5, 10, 109, false),
            (5, 10, 110, true),
            (1, 10, 110, true),
            (6, 10, 609, false),
            (6, 10, 610, true),
            (9, 10, 1 << 40, false),
            (8, u64::MAX, u64::MAX - 1, false),
        ] {
            let found = ages.have_expired(Seq::new(newest), ttl, Now(now));
            assert_eq!(found, expired, "{newest}, {ttl}, {now}");
        }
        // However many there are, none says that something was written before it was.
        for n in 0..10_000 {
            ages.note(Seq::new(10 + n), Now(1000 + n));
            assert!(ages.samples.len() <= AGE_SAMPLES_MAX);
            let then = n / 2;
            assert!(!ages.have_expired(Seq::new(10 + then), 10, Now(1009 + then)), "{n}");
        }
        assert!(ages.have_expired(Seq::new(10), 10, Now(1 << 40)));
    }
}
