//! Names of the files in a directory of tables, as RocksDB names its own.

/// A file in the directory of tables. Numbers are used once, whatever they name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum FileName {
    Table(u64),
    /// A value file.
    Values(u64),
}

impl FileName {
    pub(crate) fn id(self) -> u64 {
        match self {
            FileName::Table(id) | FileName::Values(id) => id,
        }
    }

    /// The name in the directory.
    pub(crate) fn text(self) -> String {
        match self {
            FileName::Table(id) => format!("{id:06}.sst"),
            FileName::Values(id) => format!("{id:06}.blob"),
        }
    }

    /// The file of that name, if it is one.
    pub(crate) fn parse(name: &str) -> Option<FileName> {
        let (id, kind) = name.rsplit_once('.')?;
        let id = id.parse().ok()?;
        match kind {
            "sst" => Some(FileName::Table(id)),
            "blob" => Some(FileName::Values(id)),
            _ => None,
        }
    }
}

/// A file, by the tier that it lies in: a file that moves keeps its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FilePlace {
    pub tier: u32,
    pub name: FileName,
}

#[cfg(test)]
impl FilePlace {
    /// A table in the own directory.
    pub(crate) fn own_table(id: u64) -> FilePlace {
        FilePlace { tier: super::tiers::OWN, name: FileName::Table(id) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back_and_others_are_none() {
        for (file, name) in
            [(FileName::Table(7), "000007.sst"), (FileName::Values(12_345_678), "12345678.blob")]
        {
            assert_eq!((file.text(), FileName::parse(name)), (name.to_owned(), Some(file)));
        }
        for other in ["MANIFEST", "7.log", "x.sst", ".blob", "000007", "7.sst.new"] {
            assert_eq!(FileName::parse(other), None, "{other}");
        }
    }
}
