//! What tests of the engine share: a model store with all its versions, an alphabet of operations with
//! generators for it, values that say whose they are, and a checker of what transactions saw ([`history`]). Nothing here
//! knows the engine; a test that drives one compares it with the [`Model`] step by step.
//!
//! ```
//! use testkit::{Change, Model, Value};
//!
//! let mut model = Model::new();
//! let one = Change { space: 0, key: b"a".to_vec(), value: Some(Value::new(1, 5)) };
//! model.write(&[one]);
//! let before = model.snapshot();
//! model.write(&[Change { space: 0, key: b"a".to_vec(), value: None }]);
//! assert_eq!(model.get(0, b"a", None), None);
//! assert_eq!(model.get(0, b"a", Some(before)), Some(Value::new(1, 5)));
//! ```
#![forbid(unsafe_code)]

pub mod corpus;
pub mod golden;
pub mod history;
mod model;
mod op;
mod transcript;
mod value;

pub use base::random::Rng;
pub use model::{Model, Moment, Walk};
pub use op::{Change, Generator, Keys, Move, Op, Profile};
pub use transcript::Transcript;
pub use value::{Value, stamp, stamped};
