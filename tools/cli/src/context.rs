//! What a command works with: the store to open, and how to print.

use std::cell::Cell;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bench::events::{EventForm, EventPrinter};
use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use strandline::{
    Basis, ChosenBy, Conversion, Db, Error, ErrorKind, Hooks, Keyspace, Options, PmSource,
    WriteDurability, WriteOptions,
};

use crate::failure::Failure;
use crate::input::Format;
use crate::opening;
use crate::output::Out;
use crate::stderr::Stderr;
use crate::store_args::StoreArgs;
use crate::text::Form;

/// The file that makes a directory a store, as the engine names it.
const STORE: &str = "STORE";

/// What a command works with.
pub struct Context {
    pub db: PathBuf,
    pub options: Options,
    pub json: bool,
    pub form: Form,
    keyspace: Option<String>,
    quiet: bool,
    events: bool,
    /// Whether it was said what a write survives.
    told: Cell<bool>,
}

/// What a command that writes does where there is no store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IfMissing {
    Fail,
    Create,
}

/// The flag of commands that may make the store.
#[derive(Args)]
pub struct CreateArg {
    /// Make the store if there is none
    #[arg(long)]
    create: bool,
}

impl CreateArg {
    pub fn if_missing(&self) -> IfMissing {
        if self.create { IfMissing::Create } else { IfMissing::Fail }
    }
}

/// The flag of commands that write one key.
#[derive(Args)]
pub struct DurabilityArg {
    /// What the write survives when the command returns, in a store with pm=dram: what its option wal_sync says (store), the end
    /// of the process (buffered), or a power failure (synced)
    #[arg(long, value_name = "WHAT", default_value = "store")]
    durability: Asked,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Asked {
    Store,
    Buffered,
    Synced,
}

impl DurabilityArg {
    pub fn options(&self) -> WriteOptions {
        WriteOptions::new().durability(match self.durability {
            Asked::Store => WriteDurability::Store,
            Asked::Buffered => WriteDurability::Buffered,
            Asked::Synced => WriteDurability::Synced,
        })
    }
}

impl Context {
    pub fn new(args: StoreArgs, options: Options) -> Context {
        let form = match (args.hex, args.literal) {
            (true, _) => Form::Hex,
            (_, true) => Form::Literal,
            _ => Form::Escaped,
        };
        let StoreArgs { db, keyspace, json, quiet, events, .. } = args;
        Context { db, options, json, form, keyspace, quiet, events, told: Cell::new(false) }
    }

    /// The keyspace to work in, if the command line names one.
    pub fn named_keyspace(&self) -> Option<&str> {
        self.keyspace.as_deref()
    }

    /// The keyspace to work in.
    pub fn keyspace(&self, db: &Db) -> Result<Keyspace, Failure> {
        match self.named_keyspace() {
            Some(name) => Ok(db.keyspace(name)?),
            None => Ok(db.default_keyspace().clone()),
        }
    }

    /// Opens the store for reading, which leaves it as it is.
    pub fn read(&self) -> Result<Db, Failure> {
        self.no_heap()?;
        let open = |hooks| Db::open_read_only_with(&self.db, self.options.clone(), hooks);
        self.opened(opening::shown(self.stderr(), self.hooks(), open))
    }

    /// Opens the store for reading, and its keyspace.
    pub fn read_keyspace(&self) -> Result<(Db, Keyspace), Failure> {
        let db = self.read()?;
        let keyspace = self.keyspace(&db)?;
        Ok((db, keyspace))
    }

    /// Opens the store for writing.
    pub fn write(&self, if_missing: IfMissing) -> Result<Db, Failure> {
        self.no_heap()?;
        self.write_or_heap(if_missing)
    }

    /// Like [`Context::write`], but the store may be in heap memory, where it is always a new one.
    pub fn write_or_heap(&self, if_missing: IfMissing) -> Result<Db, Failure> {
        let create_if_missing = if_missing == IfMissing::Create;
        let options = self.options.clone().create_if_missing(create_if_missing);
        self.opened(opening::shown(self.stderr(), self.hooks(), |hooks| {
            Db::open_with(&self.db, options, hooks)
        }))
    }

    /// The form of notes on standard error.
    pub fn stderr(&self) -> Stderr {
        if self.json { Stderr::Json } else { Stderr::Text }
    }

    /// The format of records on standard output, unless the command line names one.
    pub fn record_format(&self) -> Format {
        if self.json { Format::Jsonl } else { Format::Tsv }
    }

    /// Moves the store to other memory.
    pub fn convert(&self) -> Result<Conversion, Failure> {
        self.no_heap()?;
        Ok(Db::convert(&self.db, &self.options, self.hooks())?)
    }

    fn hooks(&self) -> Hooks {
        let hooks = Hooks::default();
        if !self.events {
            return hooks;
        }
        let form = if self.json { EventForm::Json } else { EventForm::Text };
        hooks.listener(Arc::new(EventPrinter(form)))
    }

    /// Says what was done: a line, unless none is wanted, or a JSON value.
    pub fn report(&self, line: impl Display, json: &Value) -> Result<(), Failure> {
        let mut out = Out::new();
        if self.json {
            out.json(json)?;
        } else if !self.quiet {
            out.line(line)?;
        }
        out.finish()
    }

    /// An open, with the error that a mistyped path deserves; what a write survives is said first.
    fn opened(&self, opened: strandline::Result<Db>) -> Result<Db, Failure> {
        let db = opened.map_err(|error| {
            let missing = error.kind() == ErrorKind::NotFound && !is_store(&self.db);
            Failure::from(if missing { no_store(&self.db) } else { error })
        })?;
        if !self.quiet && !self.told.replace(true) {
            self.tell_durability(&db);
        }
        Ok(db)
    }

    /// The first line on standard error: what a write to the store survives, why, and what chose that if no option did.
    fn tell_durability(&self, db: &Db) {
        let (durability, because) = (db.durability().to_string(), db.durability_note());
        let choice = db.pm_choice();
        let chosen = match choice.by {
            ChosenBy::Directory | ChosenBy::Remains => format!("; {choice}"),
            ChosenBy::Store if !choice.found.is_empty() => format!("; {choice}"),
            _ => String::new(),
        };
        let json = json!({
            "durability": durability,
            "durability_note": because,
            "figures": db.basis().to_string(),
            "pm_choice": choice.to_string(),
        });
        let basis = match db.basis() {
            Basis::Measured => String::new(),
            basis => format!("; figures are {basis}"),
        };
        self.stderr()
            .note(format_args!("durability: {durability}; {because}{chosen}{basis}"), &json);
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

fn is_store(dir: &Path) -> bool {
    dir.join(STORE).exists()
}

fn no_store(dir: &Path) -> Error {
    let text = format!(
        "no store at {}; check --db, or make one with `strandline create` or --create",
        dir.display()
    );
    Error::new(ErrorKind::NotFound, "open", text)
}
