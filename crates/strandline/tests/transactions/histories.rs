//! Histories of transactions of several threads, held against what was promised.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use base::planted::{self, Bug};
use strandline::{Db, ErrorKind, Isolation, TransactionOptions};
use testkit::Rng;
use testkit::history::{Anomaly, Finding, Key, Level, Outcome, Step, Transaction, check};

use crate::common::{TempDir, small_levels};

const THREADS: u64 = 4;
/// Keys that are in use at a time, and appends after which others follow.
const KEYS: u64 = 6;
const APPENDS_MAX: u64 = 40;

fn bytes(key: Key) -> Vec<u8> {
    format!("list/{key:08}").into_bytes()
}

fn list(value: Option<&[u8]>) -> Vec<u64> {
    let (elements, rest) = value.unwrap_or_default().as_chunks::<8>();
    assert!(rest.is_empty(), "a torn list");
    elements.iter().map(|element| u64::from_be_bytes(*element)).collect()
}

struct Clients {
    db: Db,
    level: Level,
    elements: AtomicU64,
    history: Mutex<Vec<Transaction>>,
}

impl Clients {
    fn options(&self) -> TransactionOptions {
        TransactionOptions::new().isolation(match self.level {
            Level::Snapshot => Isolation::Snapshot,
            Level::Serializable => Isolation::Serializable,
        })
    }

    /// A key of those in use: they move on as elements are appended.
    fn key(&self, rng: &mut Rng) -> Key {
        let first = self.elements.load(Relaxed) / APPENDS_MAX;
        // The first ones are hot.
        first + rng.below(KEYS).min(rng.below(KEYS))
    }

    fn transact(&self, rng: &mut Rng) {
        let space = self.db.default_keyspace();
        let mut transaction = self.db.begin(self.options()).expect("begin");
        let snapshot = transaction.seq().get();
        let mut steps = Vec::new();
        for _ in 0..1 + rng.below(4) {
            let key = self.key(rng);
            match rng.below(6) {
                0..3 => {
                    let element = self.elements.fetch_add(1, Relaxed);
                    let mut value = transaction.get(space, bytes(key)).expect("get").unwrap_or_default();
                    steps.push(Step::Read(key, list(Some(&value))));
                    value.extend_from_slice(&element.to_be_bytes());
                    transaction.put(space, bytes(key), value).expect("put");
                    steps.push(Step::Append(key, element));
                }
                3 => {
                    let value = transaction.get(space, bytes(key)).expect("get");
                    steps.push(Step::Read(key, list(value.as_deref())));
                }
                _ => {
                    // Keys that are not there are read, too.
                    let until = key + 1 + rng.below(3);
                    let range = transaction.range(space, bytes(key)..bytes(until));
                    let mut found = range.map(|item| item.expect("an item")).peekable();
                    for key in key..until {
                        let here = found.next_if(|(found, _)| *found == bytes(key));
                        steps.push(Step::Read(key, list(here.as_ref().map(|(_, value)| &value[..]))));
                    }
                }
            }
        }
        let outcome = match transaction.commit() {
            Ok(number) => Outcome::Committed { number: number.get() },
            Err(error) if error.kind() == ErrorKind::Conflict => Outcome::Aborted,
            Err(error) => panic!("{error}"),
        };
        self.note(Transaction { snapshot, steps, outcome });
    }

    fn note(&self, transaction: Transaction) {
        self.history.lock().unwrap_or_else(PoisonError::into_inner).push(transaction);
    }

    /// All keys as they are in the end.
    fn read_all(&self) {
        let snapshot = self.db.snapshot();
        let last = self.elements.load(Relaxed) / APPENDS_MAX + KEYS + 3;
        let read = |key| Step::Read(key, list(snapshot.get(bytes(key)).expect("get").as_deref()));
        let number = snapshot.seq().get();
        let steps = (0..last).map(read).collect();
        self.note(Transaction { snapshot: number, steps, outcome: Outcome::Committed { number } });
    }
}

/// What is wrong with a history of `count` transactions of each thread.
fn run(level: Level, seed: u64, count: u64) -> Vec<Finding> {
    let dir = TempDir::new("histories");
    let db = Db::open(dir.join("store"), small_levels().background_threads(1)).expect("open");
    let (elements, history) = (AtomicU64::new(0), Mutex::default());
    let clients = Clients { db, level, elements, history };
    let (heritage, ended) = (planted::heritage(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|no| {
                let clients = &clients;
                scope.spawn(move || {
                    heritage.accept();
                    let mut rng = Rng::new(seed * 100 + no);
                    (0..count).for_each(|_| clients.transact(&mut rng));
                })
            })
            .collect();
        let (clients, ended) = (&clients, &ended);
        scope.spawn(move || {
            // Lists pass from memtables to runs and tables meanwhile, and subranges are cut.
            while !ended.load(Relaxed) {
                clients.db.flush().expect("flush");
                clients.db.put(format!("filler/{}", clients.elements.load(Relaxed)), [0; 500]).expect("put");
                std::thread::sleep(std::time::Duration::from_millis(2));
                clients.db.compact().expect("compact");
            }
        });
        threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
        ended.store(true, Relaxed);
    });
    clients.read_all();
    let history = clients.history.into_inner().unwrap_or_else(PoisonError::into_inner);
    let committed = |each: &&Transaction| matches!(each.outcome, Outcome::Committed { .. });
    assert!(history.iter().filter(committed).count() as u64 > count / 2, "hardly any committed");
    check(&history, level)
}

#[test]
fn transactions_are_serial() {
    for seed in 0..2 {
        let found = run(Level::Serializable, seed, 3000);
        assert!(found.is_empty(), "seed {seed}: {}", found[0]);
    }
}

#[test]
fn transactions_read_one_moment_and_lose_no_update() {
    for seed in 0..2 {
        let found = run(Level::Snapshot, seed, 3000);
        assert!(found.is_empty(), "seed {seed}: {}", found[0]);
    }
}

#[test]
#[ignore = "takes a minute; continuous integration runs it"]
fn a_million_transactions_are_as_promised() {
    for (level, seed) in [Level::Serializable, Level::Snapshot].into_iter().zip(10..) {
        for seed in [seed, seed + 10] {
            let found = run(level, seed, 62_500);
            assert!(found.is_empty(), "{level:?}, seed {seed}: {}", found[0]);
        }
    }
}

/// Histories show it when a rule is broken.
#[test]
fn a_history_shows_what_is_broken() {
    planted::plant(Some(Bug::CertificateSkipped));
    let found = run(Level::Snapshot, 1, 1000);
    planted::plant(None);
    let lost = [Anomaly::Overlap, Anomaly::LostUpdate, Anomaly::Incompatible];
    assert!(found.iter().any(|finding| lost.contains(&finding.anomaly)), "{found:?}");
}
