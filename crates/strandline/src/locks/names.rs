//! Prepared transactions, by name.

use base::{Error, ErrorKind, Result};

use crate::locks::table::{LockTable, OwnerId, Standing};

/// A transaction that was given a name.
pub(crate) struct NamedOwner {
    owner: OwnerId,
    /// The keyspaces that it changes, ascending.
    spaces: Vec<u32>,
    /// Bytes that are set aside for its commit.
    set_aside: u64,
    stage: NamedStage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NamedStage {
    /// Its record is being written.
    BeingPrepared,
    Prepared,
    /// It commits, or is rolled back.
    Ending,
}

impl LockTable {
    /// Gives `owner` the name under which it is prepared.
    ///
    /// # Errors
    /// `Exists` if another has it.
    pub(crate) fn name(&mut self, name: &str, owner: OwnerId, spaces: Vec<u32>) -> Result<()> {
        if self.names.contains_key(name) {
            let text = format!(
                "a transaction called {name} is prepared already; end it, or take another name"
            );
            return Err(Error::new(ErrorKind::Exists, "prepare", text));
        }
        let stage = NamedStage::BeingPrepared;
        self.names.insert(name.to_owned(), NamedOwner { owner, spaces, set_aside: 0, stage });
        if let Some(owner) = self.owners.get_mut(&owner) {
            owner.name = Some(name.to_owned());
        }
        Ok(())
    }

    /// The record of `name` is there: its locks do not expire, and so many bytes are set aside for it.
    pub(crate) fn is_prepared(&mut self, name: &str, set_aside: u64) {
        let Some(named) = self.names.get_mut(name) else { return };
        (named.stage, named.set_aside) = (NamedStage::Prepared, set_aside);
        if let Some(owner) = self.owners.get_mut(&named.owner) {
            owner.standing = Standing::Committing;
        }
    }

    /// `name` is about to end. Tells which owner it is.
    ///
    /// # Errors
    /// `NotFound` if no such transaction is prepared; `Busy` if it is being ended.
    pub(crate) fn ends(&mut self, name: &str, operation: &'static str) -> Result<OwnerId> {
        match self.names.get_mut(name) {
            Some(named) if named.stage == NamedStage::Prepared => {
                named.stage = NamedStage::Ending;
                Ok(named.owner)
            }
            Some(named) if named.stage == NamedStage::Ending => {
                let text = format!("prepared transaction {name} is being ended by another thread");
                Err(Error::new(ErrorKind::Busy, operation, text))
            }
            _ => {
                let text = format!(
                    "no prepared transaction {name}; it has ended, or was never prepared: see `strandline prepared`"
                );
                Err(Error::new(ErrorKind::NotFound, operation, text))
            }
        }
    }

    /// It has not ended after all.
    pub(crate) fn has_not_ended(&mut self, name: &str) {
        if let Some(named) = self.names.get_mut(name) {
            named.stage = NamedStage::Prepared;
        }
    }

    /// The name is free again. Tells how many bytes are set aside for it.
    pub(crate) fn forget_name(&mut self, name: &str) -> u64 {
        self.names.remove(name).map_or(0, |named| named.set_aside)
    }

    /// Names of prepared transactions, in their order.
    pub(crate) fn prepared(&self) -> Vec<String> {
        let prepared = self.names.iter().filter(|(_, named)| named.stage == NamedStage::Prepared);
        prepared.map(|(name, _)| name.clone()).collect()
    }

    /// A transaction with a name that changes the keyspace, if there is one.
    pub(crate) fn named_in(&self, keyspace: u32) -> Option<String> {
        let changes = |named: &NamedOwner| named.spaces.binary_search(&keyspace).is_ok();
        let mut all = self.names.iter().filter(|(_, named)| changes(named));
        all.next().map(|(name, _)| name.clone())
    }
}
