//! What a power cut leaves: each doubt decided, in every way or in a sample of them.

use base::random::Rng;
use std::sync::Arc;

use super::names::{Dir, Id, closed};
use super::{Disk, Node, ROOT};

/// Something that a power cut now would decide: the content of a sector, the length of a file, or whether a
/// change of names happened.
///
/// Outcome 0 is what is durable already, the last one is what is there now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Doubt {
    /// Outcomes, at least two.
    pub count: usize,
    /// When this was last changed, on the scale of [`Watch::now`](crate::Watch::now).
    pub newest: u64,
}

impl Disk {
    /// Everything that a power cut now would decide, in an order that stays the same until the disk is
    /// changed.
    pub fn doubts(&self) -> Vec<Doubt> {
        let mut doubts = Vec::new();
        let named = self.named();
        for (id, node) in &self.nodes {
            if let (Node::File(file), true) = (node, named.contains(id)) {
                file.doubts(&mut |doubt| doubts.push(doubt));
            }
        }
        doubts.extend(self.changes.iter().map(|c| Doubt { count: 2, newest: c.tick }));
        doubts
    }

    /// What is left if power fails now and decides as `choice` says: an outcome for each of
    /// [`doubts`](Self::doubts). All of it is durable.
    ///
    /// A change of names that is kept without an older one of the same name, which cannot be, counts as
    /// lost.
    pub fn survivor(&self, choice: &[u16]) -> Disk {
        let mut rest = choice.iter().copied();
        let mut disk = Disk::new(self.unit);
        disk.next = self.next;
        let named = self.named();
        for (id, node) in &self.nodes {
            let survivor = match node {
                Node::Dir(dir) => {
                    let names = dir.durable.clone();
                    Node::Dir(Arc::new(Dir { now: names.clone(), durable: names }))
                }
                Node::File(file) if named.contains(id) => {
                    let mut doubtful = false;
                    file.doubts(&mut |_| doubtful = true);
                    match doubtful {
                        true => Node::File(Arc::new(file.survivor(self.unit, &mut rest))),
                        false => Node::File(Arc::clone(file)),
                    }
                }
                Node::File(_) => continue,
            };
            disk.nodes.insert(*id, survivor);
        }
        let kept: Vec<bool> = rest.map(|c| c > 0).collect();
        let kept = closed(&self.changes, |i| kept.get(i).copied().unwrap_or(false));
        for (change, _) in self.changes.iter().zip(kept).filter(|(_, kept)| *kept) {
            disk.change(change.what.clone());
            disk.settle(&change.what);
        }
        disk.changes.clear();
        disk.drop_unreachable();
        disk
    }

    /// What `choice` decides, in words, one for each of [`doubts`](Self::doubts).
    pub fn tell(&self, choice: &[u16]) -> Vec<String> {
        let mut words = Vec::new();
        let mut rest = choice.iter().copied();
        let named = self.named();
        for (id, node) in &self.nodes {
            if let (Node::File(file), true) = (node, named.contains(id)) {
                let name = self.name_of(*id);
                file.tell(&mut rest, &mut |what| words.push(format!("{name}: {what}")));
            }
        }
        let fates = rest.map(|c| if c > 0 { "kept" } else { "lost" });
        let changes = self.changes.iter().zip(fates);
        words.extend(changes.map(|(change, fate)| format!("{} {fate}", change.what)));
        words
    }

    /// A name that a file has, or else had or may get.
    fn name_of(&self, id: Id) -> &str {
        let dirs = self.nodes.values().filter_map(|node| match node {
            Node::Dir(dir) => Some(dir),
            Node::File(_) => None,
        });
        let names = dirs.flat_map(|dir| dir.now.iter().chain(&dir.durable));
        let named = names.into_iter().find(|(_, of)| **of == id).map(|(name, _)| name.as_str());
        let changed = || self.changes.iter().find_map(|c| c.what.name_of(id));
        named.or_else(changed).unwrap_or("a file without a name")
    }

    fn drop_unreachable(&mut self) {
        let (mut reached, mut todo) = (std::collections::BTreeSet::new(), vec![ROOT]);
        while let Some(id) = todo.pop() {
            if let (true, Node::Dir(dir)) = (reached.insert(id), &self.nodes[&id]) {
                todo.extend(dir.now.values());
            }
        }
        self.nodes.retain(|id, _| reached.contains(id));
    }

    /// What power cuts may leave: everything that is possible if that is no more than `most`; else nothing
    /// kept, everything kept, each doubt alone kept and lost, and random ones by `seed`, `most` in all.
    pub fn survivors(&self, most: usize, seed: u64) -> Survivors<'_> {
        let doubts = self.doubts();
        let states = doubts.iter().try_fold(1usize, |n, d| n.checked_mul(d.count));
        let all = states.filter(|n| *n <= most);
        Survivors {
            disk: self,
            left: all.unwrap_or(most),
            all: all.is_some(),
            turn: 0,
            doubts,
            rng: Rng::new(seed),
        }
    }
}

/// Survivors of a power cut, one after the other; see [`Disk::survivors`].
#[derive(Debug)]
pub struct Survivors<'d> {
    disk: &'d Disk,
    doubts: Vec<Doubt>,
    left: usize,
    all: bool,
    turn: usize,
    rng: Rng,
}

impl Survivors<'_> {
    /// Whether these are all that are possible.
    pub fn are_all(&self) -> bool {
        self.all
    }

    fn choice(&mut self) -> Vec<u16> {
        let turn = self.turn;
        let n = self.doubts.len();
        if self.all {
            let mut rest = turn;
            let digit = |d: &Doubt| {
                let digit = rest % d.count;
                rest /= d.count;
                digit as u16
            };
            return self.doubts.iter().map(digit).collect();
        }
        let kept = |d: &Doubt| (d.count - 1) as u16;
        let mut choice: Vec<u16> = match turn {
            0 => vec![0; n],
            1 => self.doubts.iter().map(kept).collect(),
            _ if turn < 2 + n => vec![0; n],
            _ if turn < 2 + 2 * n => self.doubts.iter().map(kept).collect(),
            _ => {
                return (0..n).map(|i| self.rng.index(self.doubts[i].count) as u16).collect();
            }
        };
        if turn >= 2 {
            let i = (turn - 2) % n;
            choice[i] = if choice[i] == 0 { kept(&self.doubts[i]) } else { 0 };
        }
        choice
    }
}

impl Iterator for Survivors<'_> {
    type Item = Disk;

    fn next(&mut self) -> Option<Disk> {
        self.left = self.left.checked_sub(1)?;
        let choice = self.choice();
        self.turn += 1;
        Some(self.disk.survivor(&choice))
    }
}
