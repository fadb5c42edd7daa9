//! Options that change while a store is open.

use std::sync::{Arc, PoisonError};

use arc_swap::Guard;
use base::{Error, ErrorKind, Result};

use crate::engine::Engine;
use crate::options::check::check;
use crate::options::{MemorySource, Options, TABLE};

impl Engine {
    /// The options as they are now.
    #[inline]
    pub(crate) fn options(&self) -> Guard<Arc<Options>> {
        self.options.load()
    }

    /// Changes an option until the store is closed. Flushes, merges and compactions that have begun may go on as they began.
    ///
    /// # Errors
    /// `InvalidArgument` for what is no option, or no value of it, or changes with the next open only.
    pub(crate) fn set_option(&self, name: &str, text: &str) -> Result<()> {
        self.check_open("set option")?;
        let refused =
            |text: String| Err(Error::new(ErrorKind::InvalidArgument, "set option", text));
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut next = (**self.options()).clone();
        next.set(name, text)?;
        if !TABLE.iter().any(|row| row.name == name && row.changes_while_open()) {
            let others = TABLE.iter().filter(|row| row.changes_while_open()).map(|row| row.name);
            let others: Vec<&str> = others.collect();
            return refused(format!(
                "{name} holds from an open to the close: close the store and open it with {name}={text}; these change while it is \
                 open: {}",
                others.join(", ")
            ));
        }
        if name == "block_cache" && self.share.is_some() {
            return refused(format!(
                "block_cache={text}: the cache of this store belongs to its Runtime, which has it for several; make the Runtime \
                 with another block_cache"
            ));
        }
        if name == "block_cache" && next.block_cache_memory != MemorySource::Dram {
            return refused(format!(
                "block_cache={text}: the file in block_cache_memory has the length that it was made with; close the store and open \
                 it with block_cache={text}"
            ));
        }
        if let Some(tables) = self.tables.as_ref().filter(|_| name == "block_cache")
            && next.block_cache_bytes() < tables.cache.cache.budget_min()
        {
            let least = tables.cache.cache.budget_min();
            return refused(format!(
                "block_cache={text}: indexes and filters of open tables, and what leads to pm_cache, take half of {least} bytes, and \
                 stay; give it {least} at least, or open the store again"
            ));
        }
        check(&next)?;
        // New tables and what is picked look at the options; these have it in their own hands.
        if let Some(tables) = &self.tables {
            match name {
                "block_cache" => tables.cache.cache.set_budget(next.block_cache_bytes()),
                "cache_records" => {
                    tables.cache.take_records(next.takes_records());
                    if !next.takes_records() && self.share.is_none() {
                        tables.cache.forget_records();
                    }
                }
                _ => {}
            }
        }
        if let Some(cache) = self.pm_cache().filter(|_| name == "pm_cache_policy") {
            cache.set_policy(next.pm_cache_policy);
        }
        self.background.rate.set(next.compaction_rate);
        self.options.store(Arc::new(next));
        Ok(())
    }
}
