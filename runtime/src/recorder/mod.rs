//! THE HOT PATH.

/// Action bits of an exit record.
pub(crate) const EXIT: u32 = 1 << 1;

/// Records one word.
#[inline(never)]
pub(crate) extern "C" fn record(word: u32) {
    core::hint::black_box(word);
}
