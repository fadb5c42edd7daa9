//! Names: what each directory holds now and for good, and the changes in between.
//!
//! A change touches one name, or two if it is a rename. It lasts once the directory is synced. A power cut
//! may keep any set of the changes before that, as long as it keeps, of each name, the older ones with the
//! newer. A rename is one change: it is kept or lost as a whole.

use std::collections::BTreeMap;
use std::fmt;

/// What a file or directory is known by, whatever its names.
pub(super) type Id = u32;

/// A name: the directory it is in, and how it is spelt there.
pub(super) type Name = (Id, String);

/// The names in one directory.
#[derive(Clone, Debug, Default)]
pub(super) struct Dir {
    pub(super) now: BTreeMap<String, Id>,
    pub(super) durable: BTreeMap<String, Id>,
}

/// A change of names that is not durable yet.
#[derive(Clone, Debug)]
pub(super) struct Change {
    pub(super) what: What,
    pub(super) tick: u64,
}

#[derive(Clone, Debug)]
pub(super) enum What {
    /// A file or directory got this name, which was free.
    Set(Name, Id),
    /// The name is free again.
    Clear(Name),
    /// What had the first name has the second, whatever that was.
    Move(Name, Name, Id),
}

impl What {
    fn names(&self) -> impl Iterator<Item = &Name> {
        let (first, second) = match self {
            What::Set(name, _) | What::Clear(name) => (name, None),
            What::Move(from, to, _) => (from, Some(to)),
        };
        std::iter::once(first).chain(second)
    }

    fn meets(&self, other: &What) -> bool {
        self.names().any(|name| other.names().any(|n| n == name))
    }

    /// The file or directory that gets a name.
    pub(super) fn named(&self) -> Option<Id> {
        match self {
            What::Set(_, id) | What::Move(_, _, id) => Some(*id),
            What::Clear(_) => None,
        }
    }

    /// The name that this gives to a file or directory.
    pub(super) fn name_of(&self, id: Id) -> Option<&str> {
        match self {
            What::Set((_, name), of) | What::Move(_, (_, name), of) if *of == id => Some(name),
            _ => None,
        }
    }
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            What::Set((_, name), _) => write!(f, "new name {name}"),
            What::Clear((_, name)) => write!(f, "removal of {name}"),
            What::Move((_, from), (_, to), _) => write!(f, "rename of {from} to {to}"),
        }
    }
}

/// Which changes really are kept where `kept` says which may be: of each name the older ones come first.
pub(super) fn closed(changes: &[Change], kept: impl Fn(usize) -> bool) -> Vec<bool> {
    let mut keep: Vec<bool> = Vec::with_capacity(changes.len());
    for (i, change) in changes.iter().enumerate() {
        let older = changes[..i].iter().zip(&keep).all(|(c, k)| *k || !c.what.meets(&change.what));
        keep.push(kept(i) && older);
    }
    keep
}

/// What a sync of `dir` does to the changes: those that it makes durable, in order, and those that stay.
/// `moves_whole` tells of what cannot have two names for a while: directories.
pub(super) fn split(
    changes: Vec<Change>,
    dir: Id,
    moves_whole: impl Fn(Id) -> bool,
) -> (Vec<What>, Vec<Change>) {
    // From the newest on: whatever is made durable takes along what is older of the same names.
    let (mut durable, mut rest) = (Vec::<What>::new(), Vec::new());
    for change in changes.into_iter().rev() {
        let Change { what, tick } = change;
        match what {
            // The name in the synced directory is there for good. The old one may still be, too.
            What::Move(from, to, id)
                if to.0 == dir
                    && from.0 != dir
                    && !moves_whole(id)
                    && !durable.iter().any(|d| d.names().any(|n| *n == from)) =>
            {
                rest.push(Change { what: What::Clear(from), tick });
                durable.push(What::Set(to, id));
            }
            what if what.names().any(|n| n.0 == dir) || durable.iter().any(|d| d.meets(&what)) => {
                durable.push(what);
            }
            what => rest.push(Change { what, tick }),
        }
    }
    durable.reverse();
    rest.reverse();
    (durable, rest)
}
