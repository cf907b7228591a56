//! What the tests of the recorder share with the programs that they run: folders, processes, traces, the ring file's
//! layout, and calls whose edges are known in advance. Nothing in here may ask the recorder for a fact: all facts are
//! parsed from its files and outputs.

pub mod course;
pub mod crashed;
pub mod endless;
pub mod facts;
pub mod faults;
pub mod folder;
pub mod program;
pub mod random;
pub mod receiver;
pub mod ring_file;
pub mod script;
pub mod tool;
pub mod trace;
pub mod truth;
pub mod wait;
pub mod waiter;
