//! Files that are made to be written in place, and read as a whole.

use std::path::Path;

use ssd::{Fs, Overwrite};

/// A new file.
pub fn made(fs: &dyn Fs, path: &Path) -> Box<dyn Overwrite> {
    drop(fs.create(path).unwrap());
    fs.overwrite(path).unwrap()
}

/// All bytes of a file.
pub fn read(fs: &dyn Fs, path: &Path) -> Vec<u8> {
    let file = fs.open(path).unwrap();
    let mut bytes = vec![0; file.len() as usize];
    file.read_at(0, &mut bytes).unwrap();
    bytes
}
