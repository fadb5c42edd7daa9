//! Dependencies by registers. Commit numbers tell the order of a key's versions. A writer without a number has no place in
//! it: what reads its value depends on it, and no more is known.
//!
//! Before its first version a key is not there. A scan that does not see it saw that, and the first version is a phantom to
//! it.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use super::graph::{Dependency, Edge};
use super::report::Findings;
use super::{Key, Kind, Operation, Outcome, Transaction};

/// A write.
#[derive(Clone, Copy)]
struct Written {
    key: Key,
    value: u64,
    transaction: u32,
    /// Whether it is the transaction's last one to this key.
    is_last: bool,
}

/// What a committed transaction saw of a key that it had not written itself.
#[derive(Clone, Copy)]
struct RegisterRead {
    key: Key,
    transaction: u32,
    value: Option<u64>,
    /// What overwriting it is to the reader.
    anti: Dependency,
}

/// A scan of a committed transaction.
struct ScanRead<'h> {
    transaction: u32,
    range: &'h Range<Key>,
    seen: &'h [(Key, u64)],
}

/// Adds the dependencies that registers show, and what none may show.
pub(super) fn find(history: &[Transaction], edges: &mut Vec<Edge>, findings: &mut Findings<'_>) {
    let mut gathered = Gathered::default();
    for (at, transaction) in history.iter().enumerate() {
        gathered.add(at as u32, transaction, findings);
    }
    let Gathered { mut writes, mut reads, scans } = gathered;
    writes.sort_by_key(|write| write.key);
    let mut keys: Vec<Key> = writes.iter().map(|write| write.key).collect();
    keys.dedup();
    scans.iter().for_each(|scan| add_absent(scan, &keys, &mut reads));
    reads.sort_by_key(|read| read.key);
    let (mut writes, mut reads) = (&writes[..], &reads[..]);
    while let Some(key) = [writes.first().map(|it| it.key), reads.first().map(|it| it.key)]
        .into_iter()
        .flatten()
        .min()
    {
        let (its_writes, its_reads);
        (its_writes, writes) = writes.split_at(writes.partition_point(|it| it.key == key));
        (its_reads, reads) = reads.split_at(reads.partition_point(|it| it.key == key));
        Register { history, key, writes: its_writes, edges }.examine(its_reads, findings);
    }
}

/// Adds a read of nothing for each of `keys` that a scan could have seen and did not.
fn add_absent(scan: &ScanRead<'_>, keys: &[Key], reads: &mut Vec<RegisterRead>) {
    let mut seen = scan.seen.iter().map(|(key, _)| *key).peekable();
    let first = keys.partition_point(|key| *key < scan.range.start);
    for key in keys[first..].iter().take_while(|key| **key < scan.range.end) {
        while seen.next_if(|seen| seen < key).is_some() {}
        if seen.peek() != Some(key) {
            reads.push(RegisterRead {
                key: *key,
                transaction: scan.transaction,
                value: None,
                anti: Dependency::PredicateRw,
            });
        }
    }
}

/// What all transactions wrote, and what committed ones saw of others.
#[derive(Default)]
struct Gathered<'h> {
    writes: Vec<Written>,
    reads: Vec<RegisterRead>,
    scans: Vec<ScanRead<'h>>,
}

impl<'h> Gathered<'h> {
    fn add(&mut self, at: u32, transaction: &'h Transaction, findings: &mut Findings<'_>) {
        // Own values so far, and where in `writes` they are.
        let mut own: BTreeMap<Key, (u64, usize)> = BTreeMap::new();
        let is_committed = transaction.is_committed();
        for operation in &transaction.operations {
            match operation {
                Operation::Write { key, value } => {
                    if let Some((_, before)) = own.insert(*key, (*value, self.writes.len())) {
                        self.writes[before].is_last = false;
                    }
                    let (key, value) = (*key, *value);
                    self.writes.push(Written { key, value, transaction: at, is_last: true });
                }
                Operation::Read { key, value } if is_committed => {
                    self.read(at, *key, *value, &own, findings);
                }
                Operation::Scan { range, seen } if is_committed => {
                    let is_ordered = seen.windows(2).all(|pair| pair[0].0 < pair[1].0);
                    if !is_ordered || !seen.iter().all(|(key, _)| range.contains(key)) {
                        findings.add(Kind::Corrupt, &[at], || {
                            format!(
                                "T{at} scans {}..{} and sees keys beyond or in disorder",
                                range.start, range.end
                            )
                        });
                        continue;
                    }
                    for (key, value) in seen {
                        self.read(at, *key, Some(*value), &own, findings);
                    }
                    let mut own = own.range(range.start..range.end.max(range.start));
                    let is_seen = |key| seen.binary_search_by_key(key, |(key, _)| *key).is_ok();
                    if let Some((key, _)) = own.find(|(key, _)| !is_seen(key)) {
                        findings.add(Kind::Internal, &[at], || {
                            format!("T{at} scans without {key}, which it has written")
                        });
                    }
                    self.scans.push(ScanRead { transaction: at, range, seen });
                }
                _ => {}
            }
        }
    }

    fn read(
        &mut self,
        transaction: u32,
        key: Key,
        value: Option<u64>,
        own: &BTreeMap<Key, (u64, usize)>,
        findings: &mut Findings<'_>,
    ) {
        match own.get(&key) {
            None => self.reads.push(RegisterRead { key, transaction, value, anti: Dependency::Rw }),
            Some((own, _)) if value == Some(*own) => {}
            Some((own, _)) => findings.add(Kind::Internal, &[transaction], || {
                format!("T{transaction} reads {key} and does not see {own}, which it has written")
            }),
        }
    }
}

/// What happened to one register.
struct Register<'h, 'a> {
    history: &'h [Transaction],
    key: Key,
    writes: &'a [Written],
    edges: &'a mut Vec<Edge>,
}

impl Register<'_, '_> {
    fn examine(&mut self, reads: &[RegisterRead], findings: &mut Findings<'_>) {
        let versions = self.versions();
        for pair in versions.windows(2) {
            self.edge(pair[0].transaction, Dependency::Ww, pair[1].transaction);
        }
        let mut of: HashMap<u64, &Written> = HashMap::with_capacity(self.writes.len());
        for write in self.writes {
            if let Some(Written { transaction, .. }) = of.insert(write.value, write) {
                let (key, value, other) = (self.key, write.value, write.transaction);
                panic!("T{transaction} and T{other} write {value} to {key}");
            }
        }
        let places = versions.iter().enumerate().map(|(at, version)| (version.value, at));
        let places: HashMap<u64, usize> = places.collect();
        for read in reads {
            let next = match read.value {
                None => versions.first(),
                Some(value) => {
                    let Some(write) = of.get(&value) else {
                        self.found_unwritten(read.transaction, value, findings);
                        continue;
                    };
                    self.see(write, read.transaction, findings);
                    places.get(&value).and_then(|at| versions.get(at + 1))
                }
            };
            if let Some(next) = next {
                self.edge(read.transaction, read.anti, next.transaction);
            }
        }
    }

    /// What numbered commits left in the register, the oldest first.
    fn versions(&self) -> Vec<Written> {
        let number = |write: &Written| self.history[write.transaction as usize].number();
        let is_version = |write: &&Written| write.is_last && number(write).is_some();
        let mut versions: Vec<Written> = self.writes.iter().filter(is_version).copied().collect();
        versions.sort_by_key(number);
        versions
    }

    fn found_unwritten(&self, reader: u32, value: u64, findings: &mut Findings<'_>) {
        findings.add(Kind::Corrupt, &[reader], || {
            format!("T{reader} reads {}={value}, which was never written", self.key)
        });
    }

    /// Notes that a reader saw a write.
    fn see(&mut self, write: &Written, reader: u32, findings: &mut Findings<'_>) {
        let (key, Written { value, transaction: writer, is_last, .. }) = (self.key, *write);
        if writer == reader {
            findings.add(Kind::Internal, &[reader], || {
                format!("T{reader} reads {key}={value} before it writes that")
            });
        } else if self.history[writer as usize].outcome == Outcome::Aborted {
            findings.add(Kind::G1a, &[reader, writer], || {
                format!("T{reader} reads {key}={value}, by T{writer}, which aborted")
            });
            return;
        } else if !is_last {
            findings.add(Kind::G1b, &[reader, writer], || {
                format!("T{reader} reads {key}={value}, which T{writer} overwrites itself")
            });
        }
        self.edge(writer, Dependency::Wr, reader);
    }

    fn edge(&mut self, from: u32, dependency: Dependency, to: u32) {
        if from != to {
            self.edges.push(Edge { from, to, dependency, key: self.key });
        }
    }
}
