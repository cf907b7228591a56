#!/usr/bin/env python3
"""Makes the ring files of this folder. `make.py` writes by_hand.fdr-ring, byte by byte from the layout
that formats/src/ring/layout.rs documents; `make.py shrink IN OUT` makes a small file of one that a
recorder left: it moves the parts together and cuts off what nothing was written to. What was recorded
stays as it is."""
import os
import struct
import sys

CHUNK = 65536
HERE = os.path.dirname(os.path.abspath(__file__))


def header(**numbers):
    """The head. What is not given is 0."""
    get = lambda name: numbers.get(name, 0)
    bytes = b"FDRRING\x01" + struct.pack("<II", get("process"), get("clock"))
    for name in ["base", "slots", "stride", "functions", "functions_length", "regions", "region_size"]:
        bytes += struct.pack("<Q", get(name))
    bytes += struct.pack("<II", get("capacity"), get("made"))
    for name in ["ticks", "monotonic", "realtime", "frequency", "retired_records", "retired_threads", "homeless"]:
        bytes += struct.pack("<Q", get(name))
    bytes += struct.pack("<IIiI", get("flags"), get("signal"), get("code"), get("thread"))
    bytes += struct.pack("<QQ", get("address"), get("crash_ticks"))
    return bytes + numbers.get("program", b"").ljust(64, b"\0")


def slot(cursor, base, chunks, chunk, metadata, dropped, state, thread, name):
    """A slot, without its marks."""
    bytes = struct.pack("<QIIIIQQQ", cursor, 0, 0, 0, 0, base, chunks, chunk)
    bytes += struct.pack("<QQQIIQQ", metadata, dropped, 0, state, thread, 1, 0)
    return (bytes + name.ljust(16, b"\0")).ljust(128, b"\0")


def function(id, name, file, line):
    size = -(-(16 + len(name) + len(file)) // 8) * 8
    head = struct.pack("<IIIHH", size, id, line, len(name), len(file))
    return (head + name + file).ljust(size, b"\0")


def metadata(kind, *fields):
    """A record of 16 bytes: kind, then (size, value) pairs."""
    body = b"".join(value.to_bytes(size, "little") for size, value in fields)
    return (bytes([kind]) + body).ljust(16, b"\0")


def record(id, action, delta):
    return struct.pack("<II", id << 4 | action << 1, delta)


def by_hand():
    """Thread 101 was at its third chunk, which lies over the first: 10 records are gone; the mark of
    the second one is 0, for the thread was about to open a fourth. Its newest chunk begins in the midst
    of a call of f1, and ends within one of f3, in which it crashed."""
    base, slots, stride, functions, size = 0x7F0000000000, 256, 256, 768, 2 * CHUNK
    table = function(1, b"golden::f1", b"src/main.rs", 7) + function(2, b"golden::f2", b"src/main.rs", 12)
    table += function(3, b"<golden::T as golden::U>::f3", b"", 0)
    regions = 1024
    assert functions + len(table) <= regions
    chunk = metadata(0x01, (4, 101)) + metadata(0x09, (8, 1_700_000_000), (4, 250))
    chunk += metadata(0x05, (2, 3), (8, 5_000_000))
    chunk += record(2, 0, 0) + record(2, 1, 40) + record(1, 1, 10)
    chunk += metadata(0x05, (2, 4), (8, 5_001_000)) + record(1, 0, 0)
    chunk += metadata(0x07, (8, 9_000_000_000)) + record(3, 0, 0)
    chunk += record(2, 0, 5) + record(2, 1, 6)
    bytes = header(
        process=4_200_000, clock=0, base=base, slots=slots, stride=stride, functions=functions,
        functions_length=len(table), regions=regions, region_size=size, capacity=2, made=2,
        ticks=4_000_000, monotonic=77, realtime=1_700_000_000_000_000_000, frequency=1_000_000_000,
        retired_records=6, retired_threads=1, homeless=2, flags=3,
        signal=11, code=1, thread=101, address=0x10, crash_ticks=9_000_000_020, program=b"golden",
    )
    marks = struct.pack("<QQQ", 3, 10, 0) + struct.pack("<QQQ", 0, 8, 64)
    first = slot(base + regions + len(chunk), base + regions, 2, 3, 80, 4, 3, 101, b"main") + marks
    spare = slot(0, base + regions + size, 2, 0, 0, 0, 1, 0, b"")
    bytes = bytes.ljust(slots, b"\0") + first.ljust(stride, b"\0") + spare.ljust(stride, b"\0")
    return bytes.ljust(functions, b"\0") + table.ljust(regions - functions, b"\0") + chunk


def shrink(bytes):
    """For a ring in which one thread has recorded, less than a chunk."""
    u32 = lambda at: struct.unpack_from("<I", bytes, at)[0]
    u64 = lambda at: struct.unpack_from("<Q", bytes, at)[0]
    base, slots, stride, functions, length = (u64(at) for at in [16, 24, 32, 40, 48])
    regions, size, made = u64(56), u64(64), u32(76)
    owned = [index for index in range(made) if u32(slots + index * stride + 72) in (3, 4)]
    assert owned == [0] and u64(slots + 40) == 1, "one thread, in its first chunk"
    new_functions = slots + made * stride
    new_regions = -(-(new_functions + length) // 64) * 64
    used = u64(slots) - u64(slots + 24)
    out = bytearray(bytes[: slots + made * stride])
    struct.pack_into("<Q", out, 40, new_functions)
    struct.pack_into("<Q", out, 56, new_regions)
    for index in range(made):
        at = slots + index * stride
        old = u64(at + 24)
        new = base + new_regions + index * size
        struct.pack_into("<Q", out, at + 24, new)
        if u64(at):
            struct.pack_into("<Q", out, at, new + u64(at) - old)
    out += bytes[functions : functions + length]
    return out.ljust(new_regions, b"\0") + bytes[regions : regions + used]


if __name__ == "__main__":
    if sys.argv[1:2] == ["shrink"]:
        with open(sys.argv[2], "rb") as ring, open(sys.argv[3], "wb") as out:
            out.write(shrink(ring.read()))
    else:
        with open(os.path.join(HERE, "by_hand.fdr-ring"), "wb") as out:
            out.write(by_hand())
