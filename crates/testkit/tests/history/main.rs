//! The checker of histories finds each anomaly from the level on that forbids it, and nothing in what correct stores do.

mod lists;
mod made;
mod order;
mod random;
mod registers;
mod small;
mod store;
