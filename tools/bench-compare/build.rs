//! Compiles the part of RocksDB's cache that no interface of it makes, and links it to the program.

use std::path::PathBuf;

const SOURCE: &str = "src/engines/second_cache.cc";

fn main() {
    println!("cargo::rerun-if-changed={SOURCE}");
    println!("cargo::rerun-if-changed=build.rs");
    // Its crate says where it is.
    let rocksdb = std::env::var_os("DEP_ROCKSDB_CARGO_MANIFEST_DIR").map(PathBuf::from);
    let rocksdb = rocksdb.expect("librocksdb-sys tells where it is");
    let objects = cc::Build::new()
        .cpp(true)
        // As RocksDB itself is compiled: its headers differ with these.
        .std("c++20")
        .define("NDEBUG", "1")
        .define("HAVE_ALIGNED_NEW", None)
        .define("HAVE_UINT128_EXTENSION", None)
        .include(rocksdb.join("rocksdb/include"))
        .flag("-Wno-unused-parameter")
        .file(SOURCE)
        .compile_intermediates();
    // As objects, not in a library: a linker leaves out what nothing calls.
    for object in objects {
        println!("cargo::rustc-link-arg-bins={}", object.display());
    }
}
