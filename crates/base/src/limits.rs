//! Sizes beyond which input is refused with [`ErrorKind::LimitExceeded`].

use crate::{Error, ErrorKind, Result};

/// Longest key, in bytes.
pub const KEY_BYTES_MAX: usize = 64 << 10;
/// Longest value, in bytes.
pub const VALUE_BYTES_MAX: usize = 64 << 20;
/// Longest name of a keyspace, a change stream or a prepared transaction, in bytes.
pub const NAME_BYTES_MAX: usize = 255;

/// Refuses a name that is empty or too long.
///
/// # Errors
/// `InvalidArgument` and `LimitExceeded`.
pub fn check_name(name: &str, operation: &'static str) -> Result<()> {
    let kind = match name.len() {
        0 => ErrorKind::InvalidArgument,
        len if len > NAME_BYTES_MAX => ErrorKind::LimitExceeded,
        _ => return Ok(()),
    };
    let text = format!("a name of {} bytes; 1 to {NAME_BYTES_MAX}", name.len());
    Err(Error::new(kind, operation, text))
}
