//! Transactions: what a commit checks that is to be valid at its own number.
//!
//! Transactions read at the number that was visible when they began, and keep their writes to themselves. Whether others
//! wrote meanwhile is asked when they commit ([`certificate`]): in the step that gives numbers, of the write heads of all keys
//! that count. Writers outside transactions take no part in that, and pay nothing.
//!
//! Those that are pessimistic lock what they change and read for update first ([`crate::locks`]).

pub(crate) mod certificate;
pub(crate) mod key_ranges;
pub(crate) mod prepared_record;
mod written_since;
