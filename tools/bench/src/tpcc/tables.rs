//! The tables of one store, and what is done to them.

use super::consistency;
use super::load::{self, LoadedRows};
use super::scale::Scale;
use super::schema::Schema;
use super::store::{Failure, TableStore, TableTransaction};
use super::terminal::{AskedTransaction, Completion, Terminal};
use super::transactions::Verdict;
use crate::data::order::Share;
use crate::data::rng::Rng;

/// The tables of a store, at hand. Threads share them.
pub struct TpccTables<'s, S: TableStore> {
    store: &'s S,
    pub(super) schema: Schema<S::Table<'s>>,
    scale: Scale,
}

impl<'s, S: TableStore> TpccTables<'s, S> {
    /// The tables in `store`, of that scale; empty ones are made where they are not there.
    ///
    /// # Errors
    /// What the store says.
    pub fn open(store: &'s S, scale: Scale) -> Result<TpccTables<'s, S>, String> {
        let schema = Schema::open(store).map_err(|failure| failure.to_string())?;
        Ok(TpccTables { store, schema, scale })
    }

    /// Fills a share of empty tables. What is in them follows from the seed, however many shares there are. Tells the rows of each
    /// commit.
    ///
    /// # Errors
    /// What the store says.
    pub fn load(&self, seed: u64, share: Share, tell: &dyn Fn(u64)) -> Result<LoadedRows, String> {
        load::load(self.store, &self.schema, self.scale, seed, share, tell)
            .map_err(|failure| failure.to_string())
    }

    /// Terminal `no`, whose transactions follow from `rng`.
    pub fn terminal(&self, no: u32, rng: Rng) -> Terminal {
        Terminal::new(self.scale, no, rng)
    }

    /// Does a transaction, again until no other is in the way.
    ///
    /// # Errors
    /// What the store says, or a row that is not there.
    pub fn complete(&self, asked: &AskedTransaction) -> Result<Completion, String> {
        let mut conflicts = 0;
        loop {
            match self.attempt(asked, conflicts) {
                Ok((verdict, bytes)) => return Ok(Completion { verdict, conflicts, bytes }),
                Err(Failure::Conflict) => conflicts += 1,
                Err(failure) => return Err(format!("{}: {failure}", asked.kind().name())),
            }
        }
    }

    /// How it ended, and the bytes that were written.
    fn attempt(&self, asked: &AskedTransaction, losses: u64) -> Result<(Verdict, usize), Failure> {
        let mut transaction = self.store.begin(losses)?;
        let verdict = asked.input.run(&self.schema, &mut transaction)?;
        if verdict == Verdict::RollBack {
            transaction.rollback();
            return Ok((verdict, 0));
        }
        let bytes = transaction.written();
        transaction.commit()?;
        Ok((verdict, bytes))
    }

    /// Checks what must hold between rows, as of one moment, while others may write. The number of rows that were read.
    ///
    /// # Errors
    /// Each condition that is violated, with the first row.
    pub fn check(&self) -> Result<u64, String> {
        let moment = self.store.begin(0).map_err(|failure| failure.to_string())?;
        consistency::check(&moment, &self.schema, self.scale)
    }
}
