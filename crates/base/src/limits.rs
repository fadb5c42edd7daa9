//! Sizes beyond which input is refused with [`ErrorKind::LimitExceeded`](crate::ErrorKind).

/// Longest key, in bytes.
pub const KEY_BYTES_MAX: usize = 64 << 10;
/// Longest value, in bytes.
pub const VALUE_BYTES_MAX: usize = 64 << 20;
/// Longest keyspace name, in bytes.
pub const NAME_BYTES_MAX: usize = 255;
