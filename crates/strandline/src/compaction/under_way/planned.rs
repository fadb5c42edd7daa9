//! Moves to other tiers that are planned. A plan keeps nothing that goes meanwhile, neither files nor keyspaces.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use crate::keyspace::KeyspaceState;
use crate::keyspace::siting::Siting;
use crate::tree::heat::Heat;
use crate::tree::names::FileName;
use crate::tree::table::Table;
use crate::tree::value_file::ValueFile;

/// A file that may move.
pub(crate) enum PlacedFile {
    Table(Arc<Table>),
    Values(Arc<ValueFile>),
}

impl PlacedFile {
    pub(crate) fn heat(&self) -> &Heat {
        match self {
            PlacedFile::Table(table) => &table.heat,
            PlacedFile::Values(file) => &file.heat,
        }
    }

    pub(crate) fn name(&self) -> FileName {
        match self {
            PlacedFile::Table(table) => FileName::Table(table.desc.id),
            PlacedFile::Values(file) => FileName::Values(file.desc.id),
        }
    }

    pub(crate) fn bytes(&self) -> u64 {
        match self {
            PlacedFile::Table(table) => table.desc.len,
            PlacedFile::Values(file) => file.desc.len,
        }
    }

    pub(crate) fn is_busy(&self) -> bool {
        match self {
            PlacedFile::Table(table) => table.busy.is_taken(),
            PlacedFile::Values(file) => file.busy.is_taken(),
        }
    }

    /// The same in a plan.
    pub(crate) fn plan(&self) -> PlannedFile {
        match self {
            PlacedFile::Table(table) => PlannedFile::Table(Arc::downgrade(table)),
            PlacedFile::Values(file) => PlannedFile::Values(Arc::downgrade(file)),
        }
    }
}

/// Moves that are due, in their order.
#[derive(Default)]
pub(crate) struct TierPlan {
    moves: VecDeque<PlannedMove>,
    made: Option<Instant>,
}

/// A move that is to come.
pub(crate) struct PlannedMove {
    pub space: Weak<KeyspaceState>,
    /// What the keyspace said of the places of files: once it says something else, the move is void.
    pub siting: Arc<Siting>,
    pub file: PlannedFile,
    pub level: usize,
    /// Numbers of tiers.
    pub from: u32,
    pub to: u32,
}

/// A file that may be gone.
pub(crate) enum PlannedFile {
    Table(Weak<Table>),
    Values(Weak<ValueFile>),
}

impl PlannedFile {
    /// The file, if it is still there.
    pub(crate) fn get(&self) -> Option<PlacedFile> {
        match self {
            PlannedFile::Table(table) => table.upgrade().map(PlacedFile::Table),
            PlannedFile::Values(file) => file.upgrade().map(PlacedFile::Values),
        }
    }
}

impl TierPlan {
    /// Planned now.
    pub(crate) fn new(moves: VecDeque<PlannedMove>) -> TierPlan {
        TierPlan { moves, made: Some(Instant::now()) }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.moves.is_empty()
    }

    /// Whether nothing is left, or it was made longer ago.
    pub(crate) fn is_over(&self, lasts: Duration) -> bool {
        self.is_empty() || self.made.is_none_or(|made| made.elapsed() > lasts)
    }

    pub(crate) fn next(&mut self) -> Option<PlannedMove> {
        self.moves.pop_front()
    }
}
