//! What the commands of `cargo xtask` share with the benches: where things are, how other programs are started, which
//! foreign readers are installed, and other people's programs.
#![forbid(unsafe_code)]

pub mod process;
pub mod programs;
pub mod readers;

/// What a command hands back: an error message for people, without the program's name.
pub type Result<T> = std::result::Result<T, String>;

/// Exit code of a guard that could not count, or whose counts another compiler's baseline can't judge.
pub const NOT_JUDGED: u8 = 3;
