//! The tests of the tool, in one program, because each further program is compiled and linked with all formats.
//! A file of this folder that is no module here would never run; `cargo xtask tidy` refuses such a file.

mod common;

mod cargo_fdr;
mod clock;
mod completions;
mod convert;
mod convert_threads;
mod events;
mod exports;
mod files;
mod flame;
mod formats;
mod graph;
mod hist;
mod hostile;
mod inputs;
mod listen;
mod listen_strangers;
mod llvm;
mod messages;
mod overview;
mod pack;
mod record;
mod released;
mod replay;
mod report;
mod rings;
mod scrub;
mod selection;
mod slow;
mod state;
mod states;
mod terminal;
mod verify;
mod view;
mod view_browser;
mod view_file;
mod whole_run;
