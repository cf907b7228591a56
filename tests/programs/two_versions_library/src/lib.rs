//! A traced function of a library that is on another version of the recorder than the program.

/// Calls itself `depth` times.
#[fdr::traced]
pub fn theirs(depth: u32) -> u32 {
    match depth {
        0 => 1,
        _ => 1 + theirs(depth - 1),
    }
}
