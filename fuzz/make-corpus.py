#!/usr/bin/env python3
"""Cuts first inputs for the fuzz targets out of the golden tables. Run it from the root of the repository.

Blocks are found through the footer and the metaindex, which are simple enough to be read here.
"""

import glob
import os

ROOT = os.path.dirname(os.path.abspath(__file__))
GOLDEN = os.path.join(ROOT, "../crates/sst/tests/golden/*.sst")


def varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        shift += 7
        at += 1
        if data[at - 1] < 0x80:
            return value, at


def handle(data, at):
    offset, at = varint(data, at)
    size, at = varint(data, at)
    return (offset, size), at


def entries(block):
    at, found = 0, []
    end = len(block) - 4 - 4 * int.from_bytes(block[-4:], "little")
    key = b""
    while at < end:
        shared, at = varint(block, at)
        unshared, at = varint(block, at)
        length, at = varint(block, at)
        key = key[:shared] + block[at : at + unshared]
        at += unshared
        found.append((key, block[at : at + length]))
        at += length
    return found


def stored(data, place):
    offset, size = place
    return data[offset : offset + size + 5]


def first_block(index):
    """What the first entry says, whether or not the length of the value stands before the key."""
    unshared = index[1]
    for head in (3, 2):
        place, _ = handle(index, head + unshared)
        if index[0] == 0 and place[0] == 0 and 20 < place[1] < 20000:
            return place
    return 0, 560  # The index is compressed: something like a block.


def put(target, name, data):
    folder = os.path.join(ROOT, "corpus", target)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, name), "wb") as out:
        out.write(data)


for path in sorted(glob.glob(GOLDEN)):
    name = os.path.basename(path)[: -len(".sst")]
    data = open(path, "rb").read()
    footer = data[-53:]
    put("footer", name, footer)
    if int.from_bytes(footer[41:45], "little") >= 6:
        size = int.from_bytes(footer[13:17], "little")
        meta, index = (len(data) - 53 - 5 - size, size), None
    else:
        meta, at = handle(footer, 1)
        index, _ = handle(footer, at)
    names = dict(entries(stored(data, meta)[:-5]))
    places = {key.decode(): handle(value, 0)[0] for key, value in names.items()}
    index = index or places["rocksdb.index"]
    for flags in (0, 2, 10):
        put("index", f"{name}-{flags}", bytes([flags]) + stored(data, index))
    put("properties", name, stored(data, places["rocksdb.properties"]))
    for key, place in places.items():
        if key.startswith("fullfilter"):
            put("filter", name, bytes([8]) + b"key00003" + stored(data, place))
    put("data_block", name, bytes([0]) + stored(data, first_block(stored(data, index))))
