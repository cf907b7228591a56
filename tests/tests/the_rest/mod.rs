//! Tests that take long and rarely say anything that no other test says: `cargo xtask test --rest` runs these, and
//! `cargo xtask test` leaves them out by the name of this module. They build packages outside of the workspace, or other
//! people's programs, cut one run at each of its system calls, or hold each command against each hostile shape of a file.

mod hawktracer_support;
mod memory_support;

mod clang_xray;
mod compiled_out;
mod entrace;
mod faults_injected;
mod features;
mod hawktracer;
mod hawktracer_live;
mod memory;
mod off;
mod stacks;
mod traced_counts;
mod traced_frames;
mod ui;
mod ui_diagnostics;
mod ui_editions;
mod whole_crates;
