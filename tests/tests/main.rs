//! The tests of whole programs, in one program, because each further program is compiled and linked with all formats.
//! Each test starts processes and changes its own process in nothing. A file of this folder that is no module here
//! would never run; `cargo xtask tidy` refuses such a file.

mod faults_support;
#[path = "../../formats/tests/common/heph_packets.rs"]
mod heph_packets_by_hand;
#[path = "../programs/package.rs"]
mod package;
mod the_rest;

mod arguments;
mod babeltrace;
mod cli;
mod clock;
mod control;
mod counts;
mod crash;
mod crash_handlers;
mod crash_in_dump;
mod ctf_packets;
mod ctf_states;
mod ctf_tasks;
mod dead_rings;
mod descriptors;
mod dumps;
mod dumps_signal;
mod end_signals;
mod events;
mod faults;
mod filters;
mod flush_formats;
mod heph_packets;
mod hostile;
mod http_service;
mod identity;
mod interrupts;
mod last_thread;
mod lifecycle;
mod lifecycle_faults;
mod lifecycle_fork;
mod lifecycle_fork_hooks;
mod lifecycle_fork_odd;
mod lifecycle_kill;
mod llvm_xray;
mod llvm_xray_formats;
mod locks;
mod lost_ring;
mod mappings;
mod moments;
mod no_alloc;
mod open_calls;
mod outputs;
mod parking_locks;
mod recording;
mod recording_api;
mod recording_plugin;
mod recording_stepped;
mod recover;
mod regions;
mod roomless;
mod short_calls;
mod short_calls_mixed;
mod signals;
mod streams;
mod streams_faults;
mod syscalls;
mod tasks;
mod tasks_looked_at;
mod thread_states;
mod threads;
mod top;
mod tracing_destructors;
mod tracing_spans;
mod triggers;
mod triggers_others;
mod untimed;
mod unwinding;
