//! A look at a store: at one that no process has open by opening it, at one that runs over its socket.

use std::time::Duration;

use strandline::{
    Db, Error, ErrorKind, Explained, Inspector, LockReport, PoolFigures, Properties, StoreFigures,
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

/// How often a look begins anew because the process that had the store open ended meanwhile.
const ATTEMPTS: u32 = 5;
/// Between two of them: others may be looking, too.
const PAUSE: Duration = Duration::from_millis(20);

/// Asks the store for something. A process that has it open and ends before it has answered is as none: the store itself is
/// asked then.
pub fn ask<T>(
    context: &Context,
    question: impl Fn(&Look) -> Result<T, Failure>,
) -> Result<T, Failure> {
    for _ in 1..ATTEMPTS {
        let look = Look::at(context)?;
        match question(&look) {
            Err(Failure::Engine(error)) if look.is_gone(context, &error) => {}
            answered => return answered,
        }
        std::thread::sleep(PAUSE);
    }
    question(&Look::at(context)?)
}

impl Look {
    /// Opens the store for reading, or reaches the process that has it open.
    pub fn at(context: &Context) -> Result<Look, Failure> {
        let mut left = ATTEMPTS;
        loop {
            let busy = match context.read() {
                Ok(db) => return Ok(Look::Opened(db)),
                Err(Failure::Engine(busy)) if busy.kind() == ErrorKind::Busy => busy,
                Err(failure) => return Err(failure),
            };
            left -= 1;
            match Inspector::connect(&context.db) {
                Ok(inspector) => return Ok(Look::Running(inspector)),
                // It may have ended in between, or make its socket any moment.
                Err(error) if error.kind() == ErrorKind::NotFound && left > 0 => {}
                Err(error) => return Err(not_reached(busy, error).into()),
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Whether an answer failed because the process that had the store open has ended, or closed it.
    fn is_gone(&self, context: &Context, error: &Error) -> bool {
        let may_be = matches!(error.kind(), ErrorKind::Closed | ErrorKind::NotFound);
        let asked = matches!(self, Look::Running(_));
        asked && may_be && Inspector::connect(&context.db).is_err()
    }

    pub fn stats(&self) -> Result<StoreFigures, Failure> {
        match self {
            Look::Opened(db) => Ok(StoreFigures {
                properties: db.properties(),
                pages: db.pages(),
                recovery: db.recovery().clone(),
            }),
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

    pub fn locks(&self, max: usize) -> Result<LockReport, Failure> {
        match self {
            Look::Opened(db) => Ok(db.locks(max)),
            Look::Running(inspector) => Ok(inspector.locks(max)?),
        }
    }

    pub fn explain_get(&self, context: &Context, key: &[u8]) -> Result<Explained, Failure> {
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
