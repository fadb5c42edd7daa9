//! Histories of transactions of several threads, held against what was promised: lists and registers, in a store whose data moves from
//! memtables to tables meanwhile.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use base::planted::{self, Bug};
use strandline::{Db, ErrorKind, Isolation, TransactionOptions};
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

/// What all threads share.
struct Clients {
    db: Db,
    level: Level,
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

    /// Does a step; tells what it saw.
    fn operate(&self, transaction: &mut strandline::Transaction, step: Step) -> Operation {
        let space = self.db.default_keyspace();
        let get = |transaction: &strandline::Transaction, key| {
            transaction.get(space, bytes(key)).expect("get")
        };
        match step {
            Step::Append { key, element } => {
                let mut value = get(transaction, key).unwrap_or_default();
                value.extend_from_slice(&element.0.to_be_bytes());
                transaction.put(space, bytes(key), value).expect("put");
                Operation::Append { key, element }
            }
            Step::ReadList { key } => {
                let value = get(transaction, key).unwrap_or_default();
                Operation::ReadList { key, elements: list(&value) }
            }
            Step::Write { key, value } => {
                transaction.put(space, bytes(key), value.to_be_bytes()).expect("put");
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
        }
    }

    fn transact(&self, process: u64, plan: Vec<Step>) {
        let began = self.now();
        let isolation = match self.level {
            Level::Serializable => Isolation::Serializable,
            _ => Isolation::Snapshot,
        };
        let options = TransactionOptions::new().isolation(isolation);
        let mut transaction = self.db.begin(options).expect("begin");
        let steps = plan.into_iter();
        let operations = steps.map(|step| self.operate(&mut transaction, step)).collect();
        let wrote = !transaction.changes().is_empty();
        let outcome = match transaction.commit() {
            Ok(seq) => Outcome::Committed { number: wrote.then_some(seq.get()) },
            Err(error) if error.kind() == ErrorKind::Conflict => Outcome::Aborted,
            Err(error) => panic!("{error}"),
        };
        let ended = self.now();
        let done = Transaction { process, operations, outcome, began, ended };
        self.history.lock().unwrap_or_else(PoisonError::into_inner).push(done);
    }
}

/// Runs `count` transactions on each thread and says what is wrong with them.
fn run(level: Level, holds: Holds, seed: u64, count: u64) -> Report {
    let dir = TempDir::new("histories");
    // A commit of several long lists fits a zone.
    let options = small_levels().zone_size(64 << 10).pm_size(8 << 20).background_threads(1);
    let db = Db::open(dir.join("store"), options).expect("open");
    let clients = Clients {
        db,
        level,
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

fn expect_clean(seed: u64, count: u64) {
    for level in [Level::Serializable, Level::Snapshot] {
        for holds in [Holds::Lists, Holds::Registers] {
            let report = run(level, holds, seed, count);
            assert!(report.is_clean(), "{level:?}, {holds:?}, seed {seed}: {report}");
        }
    }
}

#[test]
fn transactions_are_as_promised() {
    expect_clean(1, 2000);
}

#[test]
#[ignore = "takes minutes: continuous integration runs it"]
fn a_million_transactions_are_as_promised() {
    expect_clean(2, 62_500);
}

/// Histories show it when a rule is broken.
#[test]
fn a_history_shows_what_is_broken() {
    planted::plant(Some(Bug::CertificateSkipped));
    let report = run(Level::Snapshot, Holds::Lists, 1, 1000);
    planted::plant(None);
    let lost = [Kind::LostUpdate, Kind::LostAppend, Kind::IncompatibleOrder];
    assert!(lost.iter().any(|kind| report.count(*kind) > 0), "{report}");
}
