"""Lets RocksDB ingest a table and asks it for every key. Prints one line of JSON.

    python ingest.py TABLE COUNT

The keys follow the rule of `million_keys` in tests/oracle.rs.
"""

import json
import re
import sys
import tempfile

from rocksdict import BlockBasedOptions, Options, Rdict


def key(i):
    tail = b"x" * (i * 37 % 300) if i % 50 == 0 else b""
    return b"%09d" % i + tail


def main(table, count):
    blocks = BlockBasedOptions()
    blocks.set_bloom_filter(10, False)
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_block_based_table_factory(blocks)
    options.enable_statistics()
    with tempfile.TemporaryDirectory() as place:
        db = Rdict(place, options=options)
        db.ingest_external_file([table])
        missing = wrong = 0
        for i in range(count):
            found = db.get(key(i))
            missing += found is None
            wrong += found is not None and found != b"v%d" % i
        asked = count // 10
        surplus = sum(db.get(b"%09dno" % i) is not None for i in range(asked))
        scanned = sum(1 for _ in db.keys())
        statistics = options.get_statistics()
        db.close()

    def ticker(name):
        return int(re.search(rf"rocksdb\.{name} COUNT : (\d+)", statistics).group(1))

    result = {
        "missing": missing,
        "wrong": wrong,
        "surplus": surplus,
        "scanned": scanned,
        "asked": asked,
        "useful": ticker(r"bloom\.filter\.useful"),
        "positive": ticker(r"bloom\.filter\.full\.positive"),
        "true_positive": ticker(r"bloom\.filter\.full\.true\.positive"),
    }
    print(json.dumps(result))


main(sys.argv[1], int(sys.argv[2]))
