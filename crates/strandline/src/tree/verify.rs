//! Tables are read back before anything relies on them.

use base::checksum::Sum;
use base::{Error, ErrorKind, Result};
use ssd::Read;

/// Bytes compared at a time when a table is read back.
const READ_BACK: usize = 1 << 20;

/// Reads a table or value file back and compares it with what was written: `len` bytes with checksum `sum`.
pub(crate) fn verify(file: &dyn Read, len: u64, sum: u64) -> Result<()> {
    // Not damage: the inputs of the merge are whole, and it is done again.
    let differs = || {
        Error::new(
            ErrorKind::Io,
            "verify",
            format!(
                "{} does not read back as it was written; see to the device, it is written anew",
                file.path().display()
            ),
        )
    };
    if file.len() != len {
        return Err(differs());
    }
    let mut read = Sum::default();
    let mut buffer = vec![0; READ_BACK.min(len as usize)];
    let mut at = 0;
    while at < len {
        let piece = (len - at).min(buffer.len() as u64) as usize;
        file.read_at(at, &mut buffer[..piece])?;
        read.update(&buffer[..piece]);
        at += piece as u64;
    }
    if read.value() == sum { Ok(()) } else { Err(differs()) }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use ssd::{Fs, Memory};

    use super::*;
    use crate::cache::StoreCache;
    use crate::tree::names::FilePlace;
    use crate::tree::room::FileRoom;
    use crate::tree::tables::{TableDir, Tables};

    /// It was taken for damage of what is merged, after which the keyspace was never compacted again.
    #[test]
    fn a_table_that_reads_back_otherwise_is_no_damage() {
        let fs: Arc<dyn Fs> = Arc::new(Memory::default());
        fs.create_dir_all(Path::new("/sst")).expect("directory");
        let tables = Tables::new(
            TableDir { fs, dir: "/sst".into() },
            FileRoom::unlimited(),
            StoreCache::own(0),
        );
        let id = tables.take_id();
        let mut file = tables.create(FilePlace::own_table(id)).expect("create");
        file.append(b"a table").expect("append");
        let mut sum = Sum::default();
        sum.update(b"a table");
        let file = tables.table_dir.fs.open(&tables.path(FilePlace::own_table(id))).expect("open");
        verify(&*file, 7, sum.value()).expect("as it was written");
        for (len, sum) in [(7, !sum.value()), (8, sum.value())] {
            let error = verify(&*file, len, sum).expect_err("not as it was written");
            assert_eq!(error.kind(), ErrorKind::Io, "{error}");
        }
    }
}
