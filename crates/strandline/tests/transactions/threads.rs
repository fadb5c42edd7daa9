//! Many threads at once: no update is lost, no sum changes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use strandline::{Db, Isolation, Options, Transaction, TransactionOptions};
use testkit::Rng;

use crate::common::{TempDir, small_levels};

const THREADS: u64 = 4;

fn open(name: &str) -> (TempDir, Arc<Db>) {
    let dir = TempDir::new(name);
    let options: Options = small_levels().background_threads(1);
    let db = Db::open(dir.join("store"), options).expect("open");
    (dir, Arc::new(db))
}

fn together(work: impl Fn(u64) + Send + Sync) {
    std::thread::scope(|scope| {
        for no in 0..THREADS {
            let work = &work;
            scope.spawn(move || work(no));
        }
    });
}

fn number(value: Option<&[u8]>) -> u64 {
    value.map_or(0, |value| value.try_into().map(u64::from_be_bytes).expect("eight bytes"))
}

#[test]
fn no_update_is_lost() {
    const EACH: u64 = 2000;
    let (_dir, db) = open("updates");
    together(|no| {
        let space = db.default_keyspace();
        for round in 0..EACH {
            let key = format!("counter{}", (round + no) % 3);
            let more = |old: Option<&[u8]>| Some((number(old) + 1).to_be_bytes().to_vec());
            space.update(&key, more).expect("update");
            if round % 500 == no * 100 {
                db.flush().expect("flush");
            }
        }
    });
    let sum: u64 = db.iter().map(|item| number(Some(&item.expect("an item").1))).sum();
    assert_eq!(sum, THREADS * EACH);
    let transactions = db.properties().transactions;
    assert_eq!((transactions.open, transactions.committed), (0, THREADS * EACH));
}

#[test]
fn one_of_many_wins_a_swap() {
    let (_dir, db) = open("swaps");
    let wins = std::sync::atomic::AtomicU64::new(0);
    together(|no| {
        let space = db.default_keyspace();
        for round in 0..500_u64 {
            let key = round.to_be_bytes();
            if space.compare_and_swap(key, None, Some(&no.to_be_bytes())).expect("swap") {
                wins.fetch_add(1, Relaxed);
                assert_eq!(number(space.get(key).expect("get").as_deref()), no);
            }
        }
    });
    assert_eq!(wins.load(Relaxed), 500);
}

/// Moves some of what an account has to another.
fn transfer(db: &Db, rng: &mut Rng, transaction: &mut Transaction) -> strandline::Result<()> {
    let space = db.default_keyspace();
    let (from, to) = (rng.below(20), rng.below(20));
    let account = |no: u64| format!("account{no:02}");
    let has = number(transaction.get(space, account(from))?.as_deref());
    let moved = rng.below(10).min(has);
    transaction.put(space, account(from), (has - moved).to_be_bytes())?;
    let has = number(transaction.get(space, account(to))?.as_deref());
    transaction.put(space, account(to), (has + moved).to_be_bytes())
}

#[test]
fn what_all_accounts_have_together_stays() {
    let (_dir, db) = open("accounts");
    for no in 0..20 {
        db.put(format!("account{no:02}"), 100_u64.to_be_bytes()).expect("put");
    }
    let ended = AtomicBool::new(false);
    let sum =
        |db: &Db| -> u64 { db.iter().map(|item| number(Some(&item.expect("an item").1))).sum() };
    std::thread::scope(|scope| {
        let auditor = scope.spawn(|| {
            let mut audits = 0;
            while !ended.load(Relaxed) {
                assert_eq!(sum(&db), 2000);
                audits += 1;
            }
            audits
        });
        together(|no| {
            let mut rng = Rng::new(no);
            for round in 0..1500 {
                let level =
                    if round % 2 == 0 { Isolation::Snapshot } else { Isolation::Serializable };
                let options = TransactionOptions::new().isolation(level);
                db.transact(options, |transaction| transfer(&db, &mut rng, transaction))
                    .expect("transfer");
                if round % 400 == no * 90 {
                    db.flush().expect("flush");
                }
            }
        });
        ended.store(true, Relaxed);
        assert!(auditor.join().expect("no panic") > 0);
    });
    assert_eq!(sum(&db), 2000);
}

/// Two doctors on call; each may go if the other stays. By serial order one of them always stays.
#[test]
fn one_of_two_always_stays() {
    let (_dir, db) = open("doctors");
    for no in 0..2 {
        db.put(format!("on call {no}"), "").expect("put");
    }
    let serial = TransactionOptions::new().isolation(Isolation::Serializable);
    together(|no| {
        let (space, me) = (db.default_keyspace(), no % 2);
        for _ in 0..1000 {
            let here = db
                .transact(serial.clone(), |transaction| {
                    let on_call = transaction.prefix(space, "on call").count();
                    let mine = format!("on call {me}");
                    if transaction.contains_key(space, &mine)? && on_call == 2 {
                        transaction.delete(space, &mine)?;
                    } else {
                        transaction.put(space, &mine, "")?;
                    }
                    Ok(on_call)
                })
                .expect("transact");
            assert!(here >= 1, "both have gone");
        }
    });
}
