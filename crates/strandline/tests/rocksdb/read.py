"""Prints what RocksDB shows of a database: a line for each entry, the column family, key and value in hexadecimal digits.

read.py DIR             as it is
read.py DIR compact     after a full compaction with collection of value files, closed and opened again
"""
import sys

from rocksdict import CompactOptions, BottommostLevelCompaction, Options, Rdict, ReadOptions


def options():
    made = Options(raw_mode=True)
    made.create_if_missing(False)
    made.set_paranoid_checks(True)
    made.set_enable_blob_files(True)
    made.set_min_blob_size(100)
    made.set_enable_blob_gc(True)
    made.set_blob_gc_age_cutoff(1.0)
    made.set_blob_gc_force_threshold(0.0)
    return made


def opened(path):
    names = Rdict.list_cf(path, options())
    db = Rdict(path, options(), {name: options() for name in names})
    return db, {name: db.get_column_family(name) for name in names}


path = sys.argv[1]
if sys.argv[2:] == ["compact"]:
    db, families = opened(path)
    force = CompactOptions()
    force.set_bottommost_level_compaction(BottommostLevelCompaction.force_optimized())
    for family in families.values():
        family.compact_range(None, None, force)
    del families, family
    db.close()
db, families = opened(path)
read = ReadOptions()
read.set_verify_checksums(True)
for name, family in sorted(families.items()):
    for key, value in family.items(read_opt=read):
        assert family[key] == value, (name, key)
        print(name.encode().hex(), key.hex(), value.hex(), sep="\t")
