"""Makes the tables of this folder with RocksDB 9.8.4 (rocksdict 0.3.29).

    scripts/install-oracles
    target/oracles/bin/python crates/sst/tests/golden/make.py

All but one hold the same entries, which tests/golden.rs makes again by the same rule:
150 keys, an overwrite of every seventh while a snapshot sees the first, a deletion of every eleventh.
The bytes differ from run to run in identities and times only.
"""

import glob
import os
import shutil
import sys
import tempfile

from rocksdict import (
    BlockBasedIndexType as Index,
    BlockBasedOptions,
    ChecksumType as Checksum,
    DataBlockIndexType as DataIndex,
    DBCompressionType as Pack,
    Options,
    Rdict,
    SliceTransform,
    SstFileWriter,
)

HERE = os.path.dirname(os.path.abspath(__file__))
COUNT = 150


def key(i):
    return b"key%05d" % (i * 3)


def value(i, life):
    return b"value %d of life %d " % (i, life) + b"x" * (i % 50)


def options(
    version=5,
    checksum=None,
    pack=None,
    index=None,
    filters=True,
    parted=False,
    data_hash=False,
    dictionary=0,
    index_restarts=1,
    prefix=0,
    blobs=False,
    block=512,
):
    table = BlockBasedOptions()
    table.set_format_version(version)
    table.set_checksum_type(checksum or Checksum.xxh3())
    table.set_index_type(index or Index.binary_search())
    table.set_block_size(block)
    table.set_metadata_block_size(128)
    table.set_index_block_restart_interval(index_restarts)
    if filters:
        table.set_bloom_filter(10, False)
    if parted:
        table.set_partition_filters(True)
    if data_hash:
        table.set_data_block_index_type(DataIndex.binary_and_hash())
    all = Options(raw_mode=True)
    all.create_if_missing(True)
    all.set_block_based_table_factory(table)
    all.set_compression_type(pack or Pack.none())
    all.set_disable_auto_compactions(True)
    if dictionary:
        all.set_compression_options(-14, 3, 0, dictionary)
        # Dictionaries are for the last level; this makes level 0 count as one.
        all.set_bottommost_compression_type(pack)
    if prefix:
        all.set_prefix_extractor(SliceTransform.create_fixed_prefix(prefix))
    if blobs:
        all.set_enable_blob_files(True)
        all.set_min_blob_size(30)
    return all


def fill(db):
    for i in range(COUNT):
        db.put(key(i), value(i, 1))
    seen = db.snapshot()
    for i in range(0, COUNT, 7):
        db.put(key(i), value(i, 2))
    for i in range(0, COUNT, 11):
        db.delete(key(i))
    return seen


def make(name, range_deletes=False, compact=False, **how):
    place = tempfile.mkdtemp()
    try:
        db = Rdict(os.path.join(place, "db"), options=options(**how))
        seen = fill(db)
        if range_deletes:
            db.delete_range(key(10), key(20))
            db.delete_range(key(15), key(30))
        db.flush()
        if compact:
            from rocksdict import BottommostLevelCompaction, CompactOptions

            force = CompactOptions()
            force.set_bottommost_level_compaction(BottommostLevelCompaction.force())
            db.compact_range(None, None, force)
        found = glob.glob(os.path.join(place, "db", "*.sst"))
        assert len(found) == 1, found
        shutil.copy(found[0], os.path.join(HERE, name + ".sst"))
        del seen
        db.close()
    finally:
        shutil.rmtree(place)


def external(name, **how):
    path = os.path.join(HERE, name + ".sst")
    writer = SstFileWriter(options=options(**how))
    writer.open(path)
    for i in range(COUNT):
        writer[key(i)] = value(i, 1)
    writer.finish()


def lengths(name, **how):
    """Keys of all lengths that the filter's hash treats differently."""
    writer = SstFileWriter(options=options(**how))
    writer.open(os.path.join(HERE, name + ".sst"))
    long = [319, 320, 321, 1023, 1024, 1025, 1087, 1088, 1089, 2047, 2048, 2049, 3000]
    keys = [bytes([(n * 7 + j * 31) % 251 for j in range(n)]) for n in [*range(260), *long]]
    for key in sorted(keys):
        writer[key] = b""
    writer.finish()


make("v2-crc32c-snappy", version=2, checksum=Checksum.crc32c(), pack=Pack.snappy())
make("v3-xxhash-none", version=3, checksum=Checksum.xxhash())
make("v4-xxhash64-lz4", version=4, checksum=Checksum.xxhash64(), pack=Pack.lz4(), index_restarts=4)
make("v4-xxh3-parts", version=4, index=Index.two_level_index_search(), parted=True, index_restarts=3)
make("v5-xxh3-zstd", pack=Pack.zstd())
make("v5-none-lz4hc", checksum=Checksum.no_checksum(), pack=Pack.lz4hc())
make("v5-crc32c-parts", checksum=Checksum.crc32c(), index=Index.two_level_index_search(), parted=True)
make("v5-hash-index", data_hash=True)
make("v5-hash-search", index=Index.hash_search(), prefix=4)
make("v5-zstd-dictionary", pack=Pack.zstd(), dictionary=4096, compact=True)
make("v5-lz4-dictionary", pack=Pack.lz4(), dictionary=4096, compact=True)
make("v5-range-deletes", range_deletes=True)
make("v5-bzip2", pack=Pack.bz2())
make("v5-blobs", blobs=True)
make("v6-xxh3-lz4", version=6, pack=Pack.lz4())
make("v6-crc32c-parts", version=6, checksum=Checksum.crc32c(), index=Index.two_level_index_search(), parted=True)
lengths("v5-lengths", pack=Pack.zstd(), block=16384)
external("v5-external")
external("v6-external", version=6)
