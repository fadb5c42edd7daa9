//! [`Call`]: the kinds of calls that can be counted, failed or watched.

use std::fmt;

macro_rules! calls {
    ($($(#[doc = $doc:literal])+ $name:ident = $text:literal,)+) => {
        /// A kind of call on an [`Fs`](crate::Fs) or on a file of it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum Call { $($(#[doc = $doc])+ $name,)+ }

        impl Call {
            /// Every kind, in declaration order.
            pub const ALL: &[Call] = &[$(Call::$name,)+];

            /// What errors call it.
            pub fn name(self) -> &'static str {
                match self { $(Call::$name => $text,)+ }
            }
        }

    };
}

calls! {
    /// [`Fs::create_dir_all`](crate::Fs::create_dir_all)
    CreateDir = "create directory",
    /// [`Fs::list`](crate::Fs::list)
    List = "list",
    /// [`Fs::exists`](crate::Fs::exists)
    Exists = "look up",
    /// [`Fs::create`](crate::Fs::create)
    Create = "create",
    /// [`Append::append`](crate::Append::append)
    Append = "append",
    /// [`Append::sync`](crate::Append::sync) and [`Overwrite::sync`](crate::Overwrite::sync)
    Sync = "sync",
    /// [`Fs::overwrite`](crate::Fs::overwrite)
    Overwrite = "open to overwrite",
    /// [`Overwrite::write_at`](crate::Overwrite::write_at)
    Write = "write",
    /// [`Overwrite::map`](crate::Overwrite::map)
    Map = "map",
    /// [`Overwrite::bypass`](crate::Overwrite::bypass)
    Bypass = "open past the page cache",
    /// [`Overwrite::truncate`](crate::Overwrite::truncate)
    Truncate = "cut short",
    /// [`Fs::open`](crate::Fs::open)
    Open = "open",
    /// [`Read::read_at`](crate::Read::read_at), and each [`Read::read_many`](crate::Read::read_many)
    Read = "read",
    /// [`Fs::rename`](crate::Fs::rename)
    Rename = "rename",
    /// [`Fs::link`](crate::Fs::link)
    Link = "link",
    /// [`Fs::remove`](crate::Fs::remove)
    Remove = "remove",
    /// [`Fs::remove_dir`](crate::Fs::remove_dir)
    RemoveDir = "remove directory",
    /// [`Fs::sync_dir`](crate::Fs::sync_dir)
    SyncDir = "sync directory",
    /// [`Fs::free_bytes`](crate::Fs::free_bytes)
    FreeBytes = "ask free space",
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Call {
    /// Whether the call changes what a power cut may leave.
    pub fn changes(self) -> bool {
        use Call::*;
        !matches!(self, List | Exists | Open | Overwrite | Read | FreeBytes)
    }
}
