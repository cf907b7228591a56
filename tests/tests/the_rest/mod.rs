//! Tests that take long, and rarely find what no other test finds. `cargo xtask test --rest` runs them. `cargo xtask
//! test` leaves them out by the name of this module. Some build packages outside of the workspace, or other people's
//! programs. Others cut a run at each of its system calls, or try each command on each hostile shape of a file. Other
//! files have a module of this name, too: it repeats a test of theirs more often, or with larger inputs.

mod hawktracer_support;
mod memory_support;

mod async_programs;
mod builds;
mod clang_xray;
mod compiled_out;
mod entrace;
mod exports;
mod faults_injected;
mod features;
mod hawktracer;
mod hawktracer_live;
mod licences;
mod memory;
mod mini_redis;
mod odd_hosts;
mod off;
mod page;
mod page_traces;
mod pictures;
mod planted;
mod stacks;
mod tokio_spans;
mod traced_counts;
mod traced_frames;
mod ui;
mod ui_diagnostics;
mod whole_crates;
