//! Every back end does the same.

mod scratch;
mod suite;

use scratch::Scratch;
use ssd::{Disk, Faulty, Memory, Posix};
use suite::conform;

#[test]
fn posix() {
    let scratch = Scratch::new("posix");
    conform(&Posix::new(false), scratch.path());
}

#[test]
fn posix_past_the_page_cache() {
    let scratch = Scratch::new("direct");
    conform(&Posix::new(true), scratch.path());
}

#[test]
fn memory() {
    conform(&Memory::default(), "/m".as_ref());
    conform(&Memory::new(Disk::new(64)), "m".as_ref());
}

#[test]
fn faulty_without_rules() {
    let fs = Faulty::new(Memory::default());
    conform(&fs, "/m".as_ref());
    assert_eq!(fs.struck(), 0);
    assert!(fs.all_calls() > 100);
}
