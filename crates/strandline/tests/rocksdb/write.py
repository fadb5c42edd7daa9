"""Makes a database of RocksDB, and prints what it shows as read.py does.

write.py DIR SEED
"""
import random
import sys

from rocksdict import DBCompressionType, Options, Rdict, SstFileWriter, WriteBatch

path, seed = sys.argv[1], int(sys.argv[2])
rng = random.Random(seed)


def options():
    made = Options(raw_mode=True)
    made.create_if_missing(True)
    made.create_missing_column_families(True)
    made.set_write_buffer_size(64 << 10)
    made.set_target_file_size_base(64 << 10)
    made.set_max_bytes_for_level_base(256 << 10)
    made.set_enable_blob_files(True)
    made.set_min_blob_size(300)
    made.set_enable_blob_gc(True)
    made.set_blob_compression_type(DBCompressionType.lz4())
    return made


def key():
    return b"key%05d" % rng.randrange(4000)


names = ["default", "one", "two words"]
db = Rdict(path, options(), {name: options() for name in names[1:]})
families = {name: db.get_column_family(name) for name in names}
for round in range(20000):
    family = families[rng.choice(names)]
    chance = rng.random()
    if chance < 0.75:
        family[key()] = bytes([rng.randrange(97, 123)]) * rng.randrange(700)
    elif chance < 0.9:
        family.delete(key())
    elif chance < 0.92:
        batch = WriteBatch(raw_mode=True)
        begin = key()
        batch.delete_range(begin, begin[:-1] + b"~", db.get_column_family_handle(rng.choice(names)))
        db.write(batch)
    if round % 4000 == 2000:
        file = path + ".sst"
        writer = SstFileWriter(options())
        writer.open(file)
        first = rng.randrange(4000)
        for number in range(first, first + 50):
            writer[b"key%05d" % number] = b"ingested %d" % round
        writer.finish()
        family.ingest_external_file([file])
    if round % 7000 == 6000:
        family.compact_range(None, None)
    if round == 15000:
        # Everything after lies above the bottom, whose numbers are 0.
        for family in families.values():
            family.compact_range(None, None)
for name, family in sorted(families.items()):
    for found, value in family.items():
        print(name.encode().hex(), found.hex(), value.hex(), sep="\t")
    family.flush()
del families, family
db.close()
