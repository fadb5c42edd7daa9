//! [`Disk`]: what a file system holds now, and what is left of it if power fails.
//!
//! # The model
//!
//! - A write is visible at once and durable at no particular time. What a cut leaves of an unsynced
//!   **sector** is any of the versions that it had since it was last durable, sector by sector in any
//!   order; where nothing was durable, zeros. A sector is written whole or not at all.
//! - The **length** of a file is decided apart from its bytes: any length that it had since the last sync. So
//!   a file may be longer than the bytes that reached it, or shorter.
//! - **`sync`** of a file makes its bytes and length durable, and no name.
//! - A **name** is durable once its directory is synced; see [`names`]. Neither a sync of the file nor one
//!   of another directory helps. Until then creation, removal and rename may or may not have happened.
//! - A rename is kept or lost whole. If only the directory that it leads to is synced, a file may have both
//!   names; if only the one it comes from, it has the new one.
//! - Nothing is ordered by the journal that some file systems have.
//!
//! A process that dies takes nothing with it: the disk stays as it is, durable or not.

mod file;
mod names;
mod survivors;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path};
use std::sync::Arc;

use rustix::io::Errno;

pub use file::Heed;
pub use survivors::{Doubt, Survivors};

use file::File;
use names::{Change, Dir, Id, Name, What};

const ROOT: Id = 0;
/// Bytes that a device writes whole or not at all.
pub(crate) const SECTOR: usize = 512;

/// A file system at one moment. Clones share what they have in common.
#[derive(Clone, Debug)]
pub struct Disk {
    /// Bytes in a sector.
    unit: usize,
    nodes: BTreeMap<Id, Node>,
    /// Changes of names that are not durable, oldest first.
    changes: Vec<Change>,
    next: Id,
    tick: u64,
}

#[derive(Clone, Debug)]
enum Node {
    Dir(Arc<Dir>),
    File(Arc<File>),
}

impl Default for Disk {
    fn default() -> Self {
        Self::new(SECTOR)
    }
}

type Answer<T = ()> = Result<T, Errno>;

impl Disk {
    /// An empty disk with sectors of `sector` bytes.
    ///
    /// # Panics
    /// If `sector` is zero.
    pub fn new(sector: usize) -> Self {
        assert!(sector > 0, "a sector has bytes");
        let nodes = BTreeMap::from([(ROOT, Node::Dir(Arc::default()))]);
        Self { unit: sector, nodes, changes: Vec::new(), next: ROOT + 1, tick: 0 }
    }

    /// Bytes in a sector.
    pub(crate) fn sector(&self) -> usize {
        self.unit
    }

    /// When the next changes happen, on a scale of the caller's; told by [`Doubt::newest`].
    pub(crate) fn set_tick(&mut self, tick: u64) {
        self.tick = tick;
    }

    /// Shows every file with its path and bytes, and every directory with its path, in the order of names.
    pub fn visit(&self, each: &mut dyn FnMut(&str, Option<&[u8]>)) {
        self.visit_dir(ROOT, "", each);
    }

    fn visit_dir(&self, dir: Id, path: &str, each: &mut dyn FnMut(&str, Option<&[u8]>)) {
        let Node::Dir(names) = &self.nodes[&dir] else { return };
        for (name, id) in &names.now {
            let path = format!("{path}/{name}");
            match &self.nodes[id] {
                Node::File(file) => each(&path, Some(&file.bytes)),
                Node::Dir(_) => {
                    each(&path, None);
                    self.visit_dir(*id, &path, each);
                }
            }
        }
    }

    /// Bytes in all files.
    pub(crate) fn used(&self) -> u64 {
        let len = |node: &Node| match node {
            Node::File(file) => file.bytes.len() as u64,
            Node::Dir(_) => 0,
        };
        self.nodes.values().map(len).sum()
    }

    fn dir(&self, id: Id) -> Answer<&Dir> {
        match &self.nodes[&id] {
            Node::Dir(dir) => Ok(dir),
            Node::File(_) => Err(Errno::NOTDIR),
        }
    }

    fn dir_mut(&mut self, id: Id) -> &mut Dir {
        match self.nodes.get_mut(&id) {
            Some(Node::Dir(dir)) => Arc::make_mut(dir),
            _ => unreachable!("changes name directories only"),
        }
    }

    fn find(&self, path: &Path) -> Answer<Id> {
        let mut id = ROOT;
        for part in parts(path) {
            id = *self.dir(id)?.now.get(part?).ok_or(Errno::NOENT)?;
        }
        Ok(id)
    }

    /// The directory and the last name of a path.
    fn place(&self, path: &Path) -> Answer<Name> {
        let name = parts(path).last().ok_or(Errno::INVAL)??;
        let dir = self.find(path.parent().unwrap_or(Path::new("")))?;
        self.dir(dir)?;
        Ok((dir, name.to_string()))
    }

    fn lookup(&self, name: &Name) -> Option<Id> {
        self.dir(name.0).ok()?.now.get(&name.1).copied()
    }

    fn change(&mut self, what: What) {
        match &what {
            What::Set((dir, name), id) => drop(self.dir_mut(*dir).now.insert(name.clone(), *id)),
            What::Clear((dir, name)) => drop(self.dir_mut(*dir).now.remove(name)),
            What::Move(from, to, id) => {
                self.dir_mut(from.0).now.remove(&from.1);
                self.dir_mut(to.0).now.insert(to.1.clone(), *id);
            }
        }
        self.changes.push(Change { what, tick: self.tick });
    }

    fn make(&mut self, name: Name, node: Node) -> Id {
        let id = self.next;
        self.next += 1;
        self.nodes.insert(id, node);
        self.change(What::Set(name, id));
        id
    }

    pub(crate) fn exists(&self, path: &Path) -> Answer<bool> {
        match self.find(path) {
            Ok(_) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(errno) => Err(errno),
        }
    }

    pub(crate) fn list(&self, dir: &Path) -> Answer<Vec<String>> {
        Ok(self.dir(self.find(dir)?)?.now.keys().cloned().collect())
    }

    pub(crate) fn create_dir_all(&mut self, path: &Path) -> Answer {
        let mut id = ROOT;
        for part in parts(path) {
            let part = part?;
            id = match self.dir(id)?.now.get(part) {
                Some(id) => *id,
                None => self.make((id, part.to_string()), Node::Dir(Arc::default())),
            };
        }
        self.dir(id).map(drop).map_err(|_| Errno::EXIST)
    }

    pub(crate) fn create(&mut self, path: &Path) -> Answer<Id> {
        let name = self.place(path)?;
        match self.lookup(&name) {
            Some(_) => Err(Errno::EXIST),
            None => Ok(self.make(name, Node::File(Arc::default()))),
        }
    }

    /// The file at `path`; none if that is a directory.
    pub(crate) fn open(&self, path: &Path) -> Answer<Option<Id>> {
        let id = self.find(path)?;
        Ok(matches!(self.nodes[&id], Node::File(_)).then_some(id))
    }

    pub(crate) fn bytes(&self, file: Id) -> &[u8] {
        match &self.nodes[&file] {
            Node::File(file) => &file.bytes,
            Node::Dir(_) => &[],
        }
    }

    fn file_mut(&mut self, id: Id) -> &mut File {
        match self.nodes.get_mut(&id) {
            Some(Node::File(file)) => Arc::make_mut(file),
            _ => unreachable!("an open file stays, and stays a file"),
        }
    }

    pub(crate) fn len(&self, file: Id) -> u64 {
        self.bytes(file).len() as u64
    }

    pub(crate) fn append(&mut self, file: Id, bytes: &[u8]) {
        self.write_at(file, self.len(file), bytes);
    }

    pub(crate) fn write_at(&mut self, file: Id, at: u64, bytes: &[u8]) {
        let (unit, tick) = (self.unit, self.tick);
        self.file_mut(file).write_at(unit, at as usize, bytes, tick);
    }

    pub(crate) fn truncate(&mut self, file: Id, len: u64) {
        let (unit, tick) = (self.unit, self.tick);
        self.file_mut(file).truncate(unit, len as usize, tick);
    }

    pub(crate) fn sync(&mut self, file: Id, heed: Heed) {
        self.file_mut(file).sync(heed);
    }

    pub(crate) fn rename(&mut self, from: &Path, to: &Path) -> Answer {
        let (old, new) = (self.place(from)?, self.place(to)?);
        let id = self.lookup(&old).ok_or(Errno::NOENT)?;
        let moves_dir = self.dir(id).is_ok();
        if moves_dir && self.is_below(new.0, id) {
            return Err(Errno::INVAL);
        }
        if let Some(there) = self.lookup(&new) {
            match self.dir(there) {
                _ if there == id => return Ok(()),
                Ok(_) if !moves_dir => return Err(Errno::ISDIR),
                Err(_) if moves_dir => return Err(Errno::NOTDIR),
                Ok(dir) if !dir.now.is_empty() => return Err(Errno::NOTEMPTY),
                _ => {}
            }
        }
        self.change(What::Move(old, new, id));
        Ok(())
    }

    /// Whether `dir` is `above` or somewhere below it.
    fn is_below(&self, dir: Id, above: Id) -> bool {
        let Ok(names) = self.dir(above) else { return false };
        dir == above || names.now.values().any(|child| self.is_below(dir, *child))
    }

    pub(crate) fn link(&mut self, from: &Path, to: &Path) -> Answer {
        let id = self.find(from)?;
        let name = self.place(to)?;
        match self.lookup(&name) {
            Some(_) => Err(Errno::EXIST),
            None if self.dir(id).is_ok() => Err(Errno::PERM),
            None => {
                self.change(What::Set(name, id));
                Ok(())
            }
        }
    }

    pub(crate) fn remove(&mut self, path: &Path) -> Answer {
        let name = self.place(path)?;
        let id = self.lookup(&name).ok_or(Errno::NOENT)?;
        if self.dir(id).is_ok() {
            return Err(Errno::ISDIR);
        }
        self.change(What::Clear(name));
        Ok(())
    }

    pub(crate) fn remove_dir(&mut self, path: &Path) -> Answer {
        let name = self.place(path)?;
        let id = self.lookup(&name).ok_or(Errno::NOENT)?;
        if !self.dir(id)?.now.is_empty() {
            return Err(Errno::NOTEMPTY);
        }
        self.change(What::Clear(name));
        Ok(())
    }

    pub(crate) fn sync_dir(&mut self, path: &Path, heed: Heed) -> Answer {
        let id = self.find(path)?;
        self.dir(id)?;
        if heed != Heed::Whole {
            return Ok(());
        }
        let changes = std::mem::take(&mut self.changes);
        let is_dir = |id| matches!(self.nodes[&id], Node::Dir(_));
        let (durable, rest) = names::split(changes, id, is_dir);
        self.changes = rest;
        durable.iter().for_each(|what| self.settle(what));
        Ok(())
    }

    /// Makes a change of names durable.
    fn settle(&mut self, what: &What) {
        match what {
            What::Set((dir, name), id) => {
                self.dir_mut(*dir).durable.insert(name.clone(), *id);
            }
            What::Clear((dir, name)) => {
                self.dir_mut(*dir).durable.remove(name);
            }
            What::Move(from, to, id) => {
                self.dir_mut(from.0).durable.remove(&from.1);
                self.dir_mut(to.0).durable.insert(to.1.clone(), *id);
            }
        }
    }

    /// Forgets what has no name, could get none by a power cut, and is not among those `open`. Tells whether it would
    /// forget more were they closed.
    pub(crate) fn forget(&mut self, open: impl Fn(Id) -> bool) -> bool {
        let named = self.named();
        let mut lingers = false;
        self.nodes.retain(|id, _| {
            let held = !named.contains(id) && open(*id);
            lingers |= held;
            held || named.contains(id)
        });
        lingers
    }

    /// Everything that has a name, or could get one by a power cut.
    fn named(&self) -> BTreeSet<Id> {
        let mut named = BTreeSet::from([ROOT]);
        named.extend(self.changes.iter().filter_map(|change| change.what.named()));
        for change in &self.changes {
            // Changes of a directory that is gone still say where they belong.
            let (What::Set(name, _) | What::Clear(name)) = &change.what else {
                let What::Move(from, to, _) = &change.what else { continue };
                named.extend([from.0, to.0]);
                continue;
            };
            named.insert(name.0);
        }
        for node in self.nodes.values() {
            if let Node::Dir(dir) = node {
                named.extend(dir.now.values().chain(dir.durable.values()));
            }
        }
        named
    }
}

/// The names that a path is made of.
fn parts(path: &Path) -> impl Iterator<Item = Answer<&str>> {
    path.components().filter_map(|part| match part {
        Component::RootDir | Component::CurDir => None,
        Component::Normal(name) => Some(name.to_str().ok_or(Errno::INVAL)),
        Component::ParentDir | Component::Prefix(_) => Some(Err(Errno::INVAL)),
    })
}
