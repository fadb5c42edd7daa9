//! Kinds of records.

use sst::EntryKind;

/// What a record says about its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// The value follows the key.
    Put = 1,
    /// The key is deleted.
    Delete = 2,
    /// An [`ExtentRef`] follows the key and tells where the value is.
    PutExtent = 3,
    /// A reservation that was given up before it was filled; the body is not checked.
    Blank = 4,
    /// All keys from the key up to before the value are deleted.
    RangeDelete = 5,
    /// The value is an operand, which the application's merge operator combines with what was there before.
    Merge = 6,
    /// The body lists the staged zones whose records count from its commit's number on ([`crate::record::adopt`]).
    Adopt = 7,
}

impl Kind {
    /// As tables say it.
    pub(crate) fn of_entry(self) -> EntryKind {
        match self {
            Kind::Put | Kind::PutExtent => EntryKind::Value,
            Kind::Merge => EntryKind::Merge,
            // The last three are never among the entries that readers see.
            Kind::Delete | Kind::RangeDelete | Kind::Blank | Kind::Adopt => EntryKind::Delete,
        }
    }

    pub(crate) fn from_bits(bits: u8) -> Option<Kind> {
        match bits {
            1 => Some(Kind::Put),
            2 => Some(Kind::Delete),
            3 => Some(Kind::PutExtent),
            4 => Some(Kind::Blank),
            5 => Some(Kind::RangeDelete),
            6 => Some(Kind::Merge),
            7 => Some(Kind::Adopt),
            _ => None,
        }
    }
}
