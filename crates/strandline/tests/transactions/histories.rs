//! Histories of transactions of several threads, held against what was promised: lists and registers, in a store whose data moves from
//! memtables to tables meanwhile.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use base::planted::{self, Bug};
use strandline::{Db, Error, ErrorKind, Isolation, TransactionMode, TransactionOptions};
use testkit::history::{
    Element, Holds, Key, Kind, Level, Operation, Outcome, Plans, Report, Step, Transaction,
    Workload, check,
};

use crate::common::{TempDir, small_levels};

const THREADS: u64 = 4;

fn bytes(key: Key) -> Vec<u8> {
    format!("key/{:08}", key.0).into_bytes()
}

fn number(bytes: &[u8]) -> u64 {
    u64::from_be_bytes(bytes.try_into().expect("eight bytes"))
}

fn list(value: &[u8]) -> Vec<Element> {
    value.chunks(8).map(|element| Element(number(element))).collect()
}

/// Which threads lock.
#[derive(Clone, Copy, Debug)]
enum Modes {
    Optimistic,
    Pessimistic,
    /// Every other.
    Both,
}

impl Modes {
    fn of(self, process: u64) -> TransactionMode {
        match self {
            Modes::Optimistic => TransactionMode::Optimistic,
            Modes::Pessimistic => TransactionMode::Pessimistic,
            Modes::Both if process.is_multiple_of(2) => TransactionMode::Optimistic,
            Modes::Both => TransactionMode::Pessimistic,
        }
    }
}

/// What all threads share.
struct Clients {
    db: Db,
    level: Level,
    modes: Modes,
    plans: Mutex<Plans>,
    clock: AtomicU64,
    history: Mutex<Vec<Transaction>>,
}

impl Clients {
    fn now(&self) -> u64 {
        self.clock.fetch_add(1, SeqCst)
    }

    fn next_plan(&self) -> Vec<Step> {
        let mut plans = self.plans.lock().unwrap_or_else(PoisonError::into_inner);
        plans.next().expect("plans have no end")
    }

    /// Does a step; tells what it saw. It may be the last, if the transaction is lost.
    fn operate(
        &self,
        transaction: &mut strandline::Transaction,
        step: Step,
    ) -> Result<Operation, Error> {
        let space = self.db.default_keyspace();
        let get = |transaction: &strandline::Transaction, key| {
            transaction.get(space, bytes(key)).expect("get")
        };
        Ok(match step {
            Step::Append { key, element } => {
                let mut value = transaction.get_for_update(space, bytes(key))?.unwrap_or_default();
                value.extend_from_slice(&element.0.to_be_bytes());
                transaction.put(space, bytes(key), value)?;
                Operation::Append { key, element }
            }
            Step::ReadList { key } => {
                let value = get(transaction, key).unwrap_or_default();
                Operation::ReadList { key, elements: list(&value) }
            }
            Step::Write { key, value } => {
                transaction.put(space, bytes(key), value.to_be_bytes())?;
                Operation::Write { key, value }
            }
            Step::Read { key } => {
                let value = get(transaction, key).map(|value| number(&value));
                Operation::Read { key, value }
            }
            Step::Scan { range } => {
                let items = transaction.range(space, bytes(range.start)..bytes(range.end));
                let seen = items.map(|item| {
                    let (key, value) = item.expect("an item");
                    let key = std::str::from_utf8(&key[4..]).expect("digits").parse();
                    (Key(key.expect("digits")), number(&value))
                });
                let seen = seen.collect();
                Operation::Scan { range, seen }
            }
        })
    }

    fn transact(&self, process: u64, plan: Vec<Step>) {
        let began = self.now();
        let isolation = match self.level {
            Level::Serializable => Isolation::Serializable,
            Level::Snapshot => Isolation::Snapshot,
            Level::ReadCommitted => Isolation::ReadCommitted,
        };
        let options = TransactionOptions::new()
            .isolation(isolation)
            .mode(self.modes.of(process))
            .lock_timeout(Duration::from_secs(60));
        let mut transaction = self.db.begin(options).expect("begin");
        let mut operations = Vec::new();
        let mut lost = None;
        for step in plan {
            match self.operate(&mut transaction, step) {
                Ok(operation) => operations.push(operation),
                Err(error) => {
                    lost = Some(error);
                    break;
                }
            }
        }
        let wrote = !transaction.changes().is_empty();
        let committed = match lost {
            Some(error) => Err(error),
            None => transaction.commit(),
        };
        let outcome = match committed {
            Ok(seq) => Outcome::Committed { number: wrote.then_some(seq.get()) },
            Err(error) => {
                let is_lost = [ErrorKind::Conflict, ErrorKind::Deadlock].contains(&error.kind());
                assert!(is_lost, "{error}");
                Outcome::Aborted
            }
        };
        let ended = self.now();
        let done = Transaction { process, operations, outcome, began, ended };
        self.history.lock().unwrap_or_else(PoisonError::into_inner).push(done);
    }
}

/// Runs `count` transactions on each thread and says what is wrong with them.
fn run(level: Level, modes: Modes, holds: Holds, seed: u64, count: u64) -> Report {
    let dir = TempDir::new("histories");
    // A commit of several long lists fits a zone.
    let options = small_levels().zone_size(64 << 10).pm_size(8 << 20).background_threads(1);
    let db = Db::open(dir.join("store"), options).expect("open");
    let clients = Clients {
        db,
        level,
        modes,
        plans: Mutex::new(Plans::new(seed, Workload::new(holds))),
        clock: AtomicU64::new(0),
        history: Mutex::default(),
    };
    let (heritage, ended) = (planted::heritage(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let (clients, ended) = (&clients, &ended);
        let work = move |process| {
            heritage.accept();
            (0..count).for_each(|_| clients.transact(process, clients.next_plan()));
        };
        let threads: Vec<_> =
            (0..THREADS).map(|process| scope.spawn(move || work(process))).collect();
        scope.spawn(move || {
            // Subranges are cut, too, by what is put beside.
            let mut round = 0;
            while !ended.load(SeqCst) {
                clients.db.put(format!("beside/{round:08}"), [0; 500]).expect("put");
                clients.db.flush().expect("flush");
                std::thread::sleep(Duration::from_millis(2));
                clients.db.compact().expect("compact");
                round += 1;
            }
        });
        let threads: Vec<_> = threads.into_iter().map(|thread| thread.join()).collect();
        ended.store(true, SeqCst);
        threads.into_iter().for_each(|joined| joined.expect("no panic"));
    });
    let last: Vec<Vec<Step>> = {
        let plans = clients.plans.lock().unwrap_or_else(PoisonError::into_inner);
        plans.final_reads().collect()
    };
    last.into_iter().for_each(|plan| clients.transact(THREADS, plan));
    let report =
        check(&clients.history.into_inner().unwrap_or_else(PoisonError::into_inner), level);
    assert!(report.committed as u64 > THREADS * count / 4, "hardly any committed: {report}");
    report
}

fn expect_clean(modes: Modes, seed: u64, count: u64) {
    let levels = match modes {
        Modes::Pessimistic => &[Level::Serializable, Level::Snapshot, Level::ReadCommitted][..],
        Modes::Optimistic | Modes::Both => &[Level::Serializable, Level::Snapshot],
    };
    for level in levels.iter().copied() {
        for holds in [Holds::Lists, Holds::Registers] {
            let report = run(level, modes, holds, seed, count);
            assert!(report.is_clean(), "{level:?}, {modes:?}, {holds:?}, seed {seed}: {report}");
        }
    }
}

#[test]
fn transactions_are_as_promised() {
    for modes in [Modes::Optimistic, Modes::Pessimistic, Modes::Both] {
        expect_clean(modes, 1, 700);
    }
}

#[test]
#[ignore = "takes minutes: continuous integration runs it"]
fn a_million_transactions_are_as_promised() {
    for modes in [Modes::Optimistic, Modes::Pessimistic, Modes::Both] {
        expect_clean(modes, 2, 21_000);
    }
}

/// Histories show it when a rule is broken.
#[test]
fn a_history_shows_what_is_broken() {
    planted::plant(Some(Bug::CertificateSkipped));
    let report = run(Level::Snapshot, Modes::Optimistic, Holds::Lists, 1, 1000);
    planted::plant(None);
    let lost = [Kind::LostUpdate, Kind::LostAppend, Kind::IncompatibleOrder];
    assert!(lost.iter().any(|kind| report.count(*kind) > 0), "{report}");
}
