//! A look at a store: at one that no process has open by opening it, at one that runs over its socket.

use strandline::{
    Db, Error, ErrorKind, Inspector, PoolFigures, Properties, StoreFigures, TimedProbe,
};

use crate::context::Context;
use crate::failure::Failure;

/// What can be looked at.
pub enum Look {
    /// The store is open here, for reading.
    Opened(Db),
    /// Another process has it open.
    Running(Inspector),
}

impl Look {
    /// Opens the store for reading, or reaches the process that has it open.
    pub fn at(context: &Context) -> Result<Look, Failure> {
        match context.read() {
            Ok(db) => Ok(Look::Opened(db)),
            Err(Failure::Engine(busy)) if busy.kind() == ErrorKind::Busy => {
                let reached = Inspector::connect(&context.db);
                reached.map(Look::Running).map_err(|error| not_reached(busy, error).into())
            }
            Err(failure) => Err(failure),
        }
    }

    pub fn stats(&self) -> Result<StoreFigures, Failure> {
        match self {
            Look::Opened(db) => {
                Ok(StoreFigures { properties: db.properties(), recovery: db.recovery().clone() })
            }
            Look::Running(inspector) => Ok(inspector.stats()?),
        }
    }

    pub fn properties(&self) -> Result<Properties, Failure> {
        match self {
            Look::Opened(db) => Ok(db.properties()),
            Look::Running(inspector) => Ok(inspector.properties()?),
        }
    }

    pub fn pool(&self) -> Result<PoolFigures, Failure> {
        match self {
            Look::Opened(db) => Ok(PoolFigures {
                properties: db.properties(),
                wear: db.wear(),
                view: db.pool_view(),
            }),
            Look::Running(inspector) => Ok(inspector.pool()?),
        }
    }

    pub fn explain_get(
        &self,
        context: &Context,
        key: &[u8],
    ) -> Result<(Option<u64>, Vec<TimedProbe>), Failure> {
        match self {
            Look::Opened(db) => Ok(context.keyspace(db)?.explain_get(key)?),
            Look::Running(inspector) => {
                let keyspace = context.named_keyspace().unwrap_or("default");
                Ok(inspector.explain_get(keyspace, key)?)
            }
        }
    }
}

/// The store is held, and does not let itself be looked at: the first says by which process and what to do.
fn not_reached(busy: Error, reaching: Error) -> Error {
    if reaching.kind() == ErrorKind::NotFound { busy } else { reaching }
}
