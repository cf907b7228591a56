//! The traced functions for a program in C. It must hold no traced function itself: the recorder's entrance then comes
//! with those of another crate alone.

#[unsafe(no_mangle)]
extern "C" fn builds_work(rounds: u32) -> u64 {
    builds::work(rounds)
}

#[unsafe(no_mangle)]
extern "C" fn builds_print_counts() {
    builds::print_counts();
}
