//! Tables are read back before anything relies on them.

use base::checksum::Sum;
use base::{Error, ErrorKind, Result};
use ssd::Read;

use crate::tree::desc::TableDesc;

/// Bytes compared at a time when a table is read back.
const READ_BACK: usize = 1 << 20;

/// Reads a table back and compares it with what was written.
pub(crate) fn verify(file: &dyn Read, desc: &TableDesc) -> Result<()> {
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
    if file.len() != desc.len {
        return Err(differs());
    }
    let mut sum = Sum::default();
    let mut buffer = vec![0; READ_BACK.min(desc.len as usize)];
    let mut at = 0;
    while at < desc.len {
        let len = (desc.len - at).min(buffer.len() as u64) as usize;
        file.read_at(at, &mut buffer[..len])?;
        sum.update(&buffer[..len]);
        at += len as u64;
    }
    if sum.value() == desc.sum { Ok(()) } else { Err(differs()) }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use base::Seq;
    use ssd::{Fs, Memory};

    use super::*;
    use crate::cache::StoreCache;
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
        let mut file = tables.create(id).expect("create");
        file.append(b"a table").expect("append");
        let mut sum = Sum::default();
        sum.update(b"a table");
        let desc = TableDesc {
            id,
            extent: None,
            keyspace: 0,
            level: 1,
            len: 7,
            sum: sum.value(),
            range_deletes: 0,
            ends_before: false,
            global_seq: Seq::ZERO,
            entries: 1,
            deletions: 0,
            min_seq: Seq::new(1),
            max_seq: Seq::new(1),
            smallest: Vec::new(),
            largest: Vec::new(),
        };
        let file = tables.open(&desc, None).expect("open");
        verify(&*file, &desc).expect("as it was written");
        let wrong = [TableDesc { sum: !desc.sum, ..desc.clone() }, TableDesc { len: 8, ..desc }];
        for desc in wrong {
            let error = verify(&*file, &desc).expect_err("not as it was written");
            assert_eq!(error.kind(), ErrorKind::Io, "{error}");
        }
    }
}
