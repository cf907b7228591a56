//! What the tests share with the fuzzing program: its rules, and the allocator that counts. It must hold no test.

#[path = "../../fuzz/src/alloc.rs"]
pub(crate) mod alloc;
#[path = "../../fuzz/src/check.rs"]
pub(crate) mod check;
#[path = "../../fuzz/src/folder.rs"]
pub(crate) mod folder;
#[path = "../../fuzz/src/pack.rs"]
pub(crate) mod pack;
#[path = "../../fuzz/src/test_output.rs"]
pub(crate) mod test_output;
