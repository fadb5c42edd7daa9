//! What a command works with: the store to open, and how to print.

use std::path::PathBuf;

use strandline::{Db, Keyspace, Options, PmSource};

use crate::failure::Failure;
use crate::opening;
use crate::store_args::StoreArgs;
use crate::text::Form;

/// What a command works with.
pub struct Context {
    pub db: PathBuf,
    pub options: Options,
    pub keyspace: String,
    pub json: bool,
    pub form: Form,
}

impl Context {
    pub fn new(args: StoreArgs, options: Options) -> Context {
        let form = match (args.hex, args.literal) {
            (true, _) => Form::Hex,
            (_, true) => Form::Literal,
            _ => Form::Escaped,
        };
        Context { db: args.db, options, keyspace: args.keyspace, json: args.json, form }
    }

    /// Opens the store for reading, which leaves it as it is.
    pub fn read(&self) -> Result<Db, Failure> {
        self.no_heap()?;
        let open = |hooks| Db::open_read_only_with(&self.db, self.options.clone(), hooks);
        Ok(opening::shown(open)?)
    }

    /// Opens the store for reading, and its keyspace.
    pub fn read_keyspace(&self) -> Result<(Db, Keyspace), Failure> {
        let db = self.read()?;
        let keyspace = db.keyspace(&self.keyspace)?;
        Ok((db, keyspace))
    }

    /// Opens the store for writing, making it if there is none.
    pub fn write(&self) -> Result<Db, Failure> {
        self.no_heap()?;
        self.write_or_heap()
    }

    /// Opens a store that must be there for writing: deleting from nothing should not make a store.
    pub fn write_existing(&self) -> Result<Db, Failure> {
        self.no_heap()?;
        let options = Options { create_if_missing: false, ..self.options.clone() };
        Ok(opening::shown(|hooks| Db::open_with(&self.db, options, hooks))?)
    }

    /// Like [`Context::write`], but the store may be in heap memory.
    pub fn write_or_heap(&self) -> Result<Db, Failure> {
        Ok(opening::shown(|hooks| Db::open_with(&self.db, self.options.clone(), hooks))?)
    }

    fn no_heap(&self) -> Result<(), Failure> {
        if self.options.pm == PmSource::Heap {
            return Err(Failure::Usage(
                "--pm heap: a store in heap memory ends with the command that made it; only load and \
                 bench can use one"
                    .into(),
            ));
        }
        Ok(())
    }
}
