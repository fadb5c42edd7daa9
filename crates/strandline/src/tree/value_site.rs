//! Where a value file lies: what of it changes when it moves to another tier. A reader has the place that it began with, which stays
//! until the last such reader left.

use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use base::{Error, ErrorKind, Result};

use super::blocks::File;
use super::desc::ValueFileDesc;
use super::names::FilePlace;
use super::space::TableSpace;

/// The file or extent of a value file, opened when first read. Its drop frees it, once no edit names it there.
pub(crate) struct ValueSite {
    pub space: Arc<TableSpace>,
    open: OnceLock<File>,
}

/// The bytes of a value file, which stay where they are as long as this is held.
pub(crate) struct ValueBytes {
    pub file: File,
    _site: Arc<ValueSite>,
}

impl Deref for ValueBytes {
    type Target = File;

    fn deref(&self) -> &File {
        &self.file
    }
}

impl ValueSite {
    pub(crate) fn new(space: TableSpace) -> ValueSite {
        ValueSite { space: Arc::new(space), open: OnceLock::new() }
    }

    pub(crate) fn place(&self) -> FilePlace {
        self.space.place()
    }

    /// The bytes of `desc`, which lies here.
    ///
    /// # Errors
    /// `Corruption` if the file is missing, or has another length.
    pub(crate) fn bytes(self: &Arc<ValueSite>, desc: &ValueFileDesc) -> Result<ValueBytes> {
        let file = match self.open.get() {
            Some(file) => file,
            None => self.open_now(desc)?,
        };
        Ok(ValueBytes { file: File(Arc::clone(&file.0)), _site: Arc::clone(self) })
    }

    #[cold]
    fn open_now(&self, desc: &ValueFileDesc) -> Result<&File> {
        let tables = self.space.tables();
        if let (Some(extent), Some(memory)) = (desc.extent, &tables.memory) {
            let hold = Some(Arc::clone(&self.space));
            let placed = memory.values.open(desc.id, extent, desc.len, hold)?;
            return Ok(self.open.get_or_init(|| File(placed)));
        }
        let lost = |what: &str| {
            let text = format!(
                "{} {what}; restore it, or save the rest with `strandline repair`",
                tables.path(self.place()).display()
            );
            Error::corruption("open", text)
        };
        let file = tables.open_file(self.place());
        let file = file.map_err(|error| match error.kind() {
            ErrorKind::NotFound => lost("is missing"),
            _ => error,
        })?;
        if file.len() != desc.len {
            return Err(lost(&format!("has {} bytes instead of {}", file.len(), desc.len)));
        }
        Ok(self.open.get_or_init(|| File(file)))
    }
}
