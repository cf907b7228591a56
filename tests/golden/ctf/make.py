#!/usr/bin/env python3
"""Makes the folders `compact` and `big`, byte by byte, beside this file.

Shares nothing with the library: metadata as text, numbers by `struct.pack`. babeltrace2 reads both
(tests/tests/babeltrace.rs holds its words against the library's).
"""
import os
import struct
import uuid

HERE = os.path.dirname(os.path.abspath(__file__))


def put(folder, name, data):
    os.makedirs(os.path.join(HERE, folder), exist_ok=True)
    with open(os.path.join(HERE, folder, name), "wb") as file:
        file.write(data)


# ------------------------------------------------------------------------------------------------
# compact: little-endian, one file per CPU, LTTng's compact event header (5 bits of id, 27 of time).

COMPACT = uuid.UUID("2a6422d0-6cee-11e0-8c08-cb07d7b3a564")
COMPACT_TEXT = """/* CTF 1.8 */

typealias integer { size = 8; align = 8; signed = false; } := uint8_t;
typealias integer { size = 16; align = 8; signed = false; } := uint16_t;
typealias integer { size = 32; align = 8; signed = false; } := uint32_t;
typealias integer { size = 64; align = 8; signed = false; } := uint64_t;
typealias integer { size = 64; align = 8; signed = false; } := unsigned long;
typealias integer { size = 5; align = 1; signed = false; } := uint5_t;
typealias integer { size = 27; align = 1; signed = false; } := uint27_t;

trace {
	major = 1;
	minor = 8;
	uuid = "%s";
	byte_order = le;
	packet.header := struct {
		uint32_t magic;
		uint8_t  uuid[16];
		uint32_t stream_id;
		uint64_t stream_instance_id;
	};
};

env {
	hostname = "there";
	domain = "ust";
	tracer_name = "lttng-ust";
	tracer_major = 2;
	tracer_minor = 13;
};

clock {
	name = "monotonic";
	uuid = "c19b5ac9-b8e6-4f78-be95-a605d04e34c6";
	description = "Monotonic Clock";
	freq = 1000000000; /* Frequency, in Hz */
	/* clock value offset from Epoch is: offset * (1/freq) */
	offset = 1700000000123456789;
};

typealias integer {
	size = 27; align = 1; signed = false;
	map = clock.monotonic.value;
} := uint27_clock_monotonic_t;

typealias integer {
	size = 64; align = 8; signed = false;
	map = clock.monotonic.value;
} := uint64_clock_monotonic_t;

struct packet_context {
	uint64_clock_monotonic_t timestamp_begin;
	uint64_clock_monotonic_t timestamp_end;
	uint64_t content_size;
	uint64_t packet_size;
	uint64_t packet_seq_num;
	unsigned long events_discarded;
	uint32_t cpu_id;
};

struct event_header_compact {
	enum : uint5_t { compact = 0 ... 30, extended = 31 } id;
	variant <id> {
		struct {
			uint27_clock_monotonic_t timestamp;
		} compact;
		struct {
			uint32_t id;
			uint64_clock_monotonic_t timestamp;
		} extended;
	} v;
} align(8);

stream {
	id = 0;
	event.header := struct event_header_compact;
	packet.context := struct packet_context;
	event.context := struct {
		integer { size = 32; align = 8; signed = 1; encoding = none; base = 10; } _vpid;
		integer { size = 32; align = 8; signed = 1; encoding = none; base = 10; } _vtid;
		integer { size = 8; align = 8; signed = 0; encoding = UTF8; base = 10; } _procname[17];
	};
};

event {
	name = "lttng_ust_cyg_profile:func_entry";
	id = 0;
	stream_id = 0;
	loglevel = 12;
	fields := struct {
		integer { size = 64; align = 8; signed = 0; encoding = none; base = 16; } _addr;
		integer { size = 64; align = 8; signed = 0; encoding = none; base = 16; } _call_site;
	};
};

event {
	name = "lttng_ust_cyg_profile:func_exit";
	id = 1;
	stream_id = 0;
	loglevel = 12;
	fields := struct {
		integer { size = 64; align = 8; signed = 0; encoding = none; base = 16; } _addr;
		integer { size = 64; align = 8; signed = 0; encoding = none; base = 16; } _call_site;
	};
};

event {
	name = "app:work";
	id = 40;
	stream_id = 0;
	fields := struct {
		enum : integer { size = 16; align = 8; signed = true; } { "idle" = -1, busy = 1 ... 9 } _state;
		floating_point { exp_dig = 8; mant_dig = 24; align = 8; } _load;
		string { encoding = UTF8; } _what;
		uint8_t __parts_length;
		integer { size = 16; align = 8; signed = 1; base = 10; } _parts[ __parts_length ];
		struct { uint8_t x, y[2]; } _at;
	};
};
""" % COMPACT


def compact_header(event, time):
    if event < 31:
        return struct.pack("<I", (time & 0x7FFFFFF) << 5 | event)
    return struct.pack("<BIQ", 31, event, time)


def compact_event(event, time, tid, payload):
    name = b"worker".ljust(17, b"\0")
    return compact_header(event, time) + struct.pack("<ii", 4242, tid) + name + payload


def compact_packet(cpu, sequence, discarded, begin, end, events, padding=0):
    head = struct.pack("<I", 0xC1FC1FC1) + COMPACT.bytes + struct.pack("<IQ", 0, cpu)
    events = b"".join(events)
    content = (len(head) + 52 + len(events)) * 8
    context = struct.pack("<6QI", begin, end, content, content + padding * 8, sequence, discarded, cpu)
    return head + context + events + bytes(padding)


def call(event, time, tid, address):
    return compact_event(event, time, tid, struct.pack("<QQ", address, 0x400000))


MAIN, LEAF = 0x55D0C0FFEE00, 0x55D0C0FFEE40
BASE = 0x7_FFFF_FF00  # the 27 bits of time wrap 256 ns later
work = struct.pack("<hf", 5, 0.5) + "grün".encode() + b"\0" + struct.pack("<B3h", 3, -1, 0, 300) + bytes([1, 2, 3])
put("compact", "metadata", COMPACT_TEXT.encode())
put(
    "compact",
    "channel0_0",
    compact_packet(0, 0, 0, BASE, BASE + 300, [
        call(0, BASE, 7, MAIN),
        call(0, BASE + 10, 8, MAIN),
        call(0, BASE + 100, 7, LEAF),
        call(1, BASE + 300, 7, LEAF),
    ], padding=24)
    + compact_packet(0, 1, 3, BASE + 1000, BASE + 1200, [
        call(1, BASE + 1000, 8, MAIN),
        compact_event(40, BASE + 1200, 8, work),
    ]),
)
# Thread 7 goes on another CPU: its last calls are in this file, between those of the other one.
put(
    "compact",
    "channel0_1",
    compact_packet(1, 0, 0, BASE + 400, BASE + 2000, [
        call(0, BASE + 400, 7, LEAF),
        call(1, BASE + 500, 7, LEAF),
        call(1, BASE + 2000, 7, MAIN),
    ]),
)

# ------------------------------------------------------------------------------------------------
# big: big-endian, metadata in packets, calls without arguments of the exits, no thread numbers.

BIG = uuid.UUID("8b3c0a10-1111-4222-8333-444455556666")
BIG_TEXT = """/* CTF 1.8 */
typealias integer { size = 32; align = 32; signed = false; } := uint32_t;
typealias integer { size = 64; align = 64; signed = false; } := uint64_t;
typealias integer { size = 3; align = 1; signed = true; } := int3_t;
typealias integer { size = 13; align = 1; signed = false; } := uint13_t;
trace {
	major = 1; minor = 8;
	uuid = "%s";
	byte_order = be;
	packet.header := struct { uint32_t magic; integer { size = 8; } uuid[16]; uint32_t stream_id; };
};
clock { name = tsc; freq = 2000000000; offset_s = 1600000000; offset = 1000000000; };
typealias integer { size = 64; align = 64; map = clock.tsc.value; } := stamp_t;
stream {
	id = 5;
	packet.context := struct {
		stamp_t timestamp_begin;
		stamp_t timestamp_end;
		uint64_t content_size;
		uint64_t packet_size;
	};
	event.header := struct { uint32_t id; stamp_t timestamp; };
};
event {
	name = "lttng_ust_cyg_profile_fast:func_entry"; id = 0; stream_id = 5;
	fields := struct { integer { size = 64; align = 64; base = hex; } addr; };
};
event { name = "lttng_ust_cyg_profile_fast:func_exit"; id = 1; stream_id = 5; };
event {
	name = "bits"; id = 2; stream_id = 5;
	fields := struct { int3_t low; uint13_t high; integer { size = 16; align = 8; byte_order = le; } swapped; };
};
""" % BIG


def metadata_packet(text):
    size = 37 + len(text)
    padded = (size + 63) // 64 * 64
    head = struct.pack(">I", 0x75D11D57) + BIG.bytes + struct.pack(">IIIBBBBB", 0, size * 8, padded * 8, 0, 0, 0, 1, 8)
    return head + text + bytes(padded - size)


def big_event(event, time, payload=b""):
    return struct.pack(">IIQ", event, 0, time) + payload


def padded(events):
    """Events begin where 64 bits do: each is filled up."""
    return b"".join(event + bytes(-len(event) % 8) for event in events)


def big_packet(begin, end, events):
    head = struct.pack(">I", 0xC1FC1FC1) + BIG.bytes + struct.pack(">I", 5)
    last = padded(events[:-1]) + events[-1]
    content = (len(head) + 32 + len(last)) * 8
    total = (content // 8 + 15) // 16 * 16
    return (head + struct.pack(">4Q", begin, end, content, total * 8) + last).ljust(total, b"\0")


text = BIG_TEXT.encode()
half = text.index(b"clock {") + 3
put("big", "metadata", metadata_packet(text[:half]) + metadata_packet(text[half:]))
# -2 in 3 bits, 0x1234 in 13 bits; 0x0102 in the other order.
bits = struct.pack(">H", 0b110 << 13 | 0x1234) + struct.pack("<H", 0x0102)
put(
    "big",
    "stream",
    big_packet(1000, 3000, [
        big_event(0, 1000, struct.pack(">Q", MAIN)),
        big_event(0, 1500, struct.pack(">Q", LEAF)),
        big_event(2, 1600, bits),
        big_event(1, 2000),
        big_event(1, 3000),
    ])
    + big_packet(4000, 4000, [big_event(1, 4000)]),
)
