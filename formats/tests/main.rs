//! The tests of the formats, in one program, because each further program is compiled and linked with all formats.
//! A file of this folder that is no module here would never run; `cargo xtask tidy` refuses such a file.

#[macro_use]
mod common;
mod fuzz;

mod ctf_golden;
mod ctf_limits;
mod ctf_metadata;
mod ctf_notes;
mod ctf_packets;
mod ctf_records;
mod ctf_states;
mod ctf_writer;
mod entrace_damage;
mod entrace_golden;
mod entrace_records;
mod entrace_writer;
mod golden;
mod guide;
mod heph_damage;
mod heph_golden;
mod heph_notes;
mod heph_packets;
mod heph_writer;
mod htdump_damage;
mod htdump_golden;
mod htdump_notes;
mod htdump_records;
mod htdump_stream;
mod htdump_writer;
mod limits;
mod notes;
mod notes_formats;
mod reading;
mod regressions;
mod ring;
mod ring_live;
mod ring_moments;
mod ring_open_calls;
mod ring_space;
mod roundtrip;
mod tcstate_counters;
mod tcstate_damage;
mod tcstate_golden;
mod tcstate_losses;
mod tcstate_states;
mod tcstate_states_damage;
mod tcstate_vectors;
mod tcstate_writer;
mod written;
mod xray_arguments;
mod xray_chunk;
mod xray_clock;
mod xray_crash_dump;
mod xray_damage;
mod xray_dump;
mod xray_dump_end;
mod xray_events;
mod xray_payload;
mod xray_reader;
mod xray_records;
mod xray_writer;

#[global_allocator]
static ALLOCATOR: fuzz::alloc::Counting = fuzz::alloc::Counting;
