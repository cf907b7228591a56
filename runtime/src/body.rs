//! The body of a traced function in an expansion, on each system: its type, and a frame of its own.

use core::marker::PhantomData;

/// Calls the body of a function whose frame has a guard. A guard's destructor would cost much stack in the
/// body's own frame, because the results of the body's calls would need stack slots. This function is always
/// inlined.
#[inline(always)]
pub fn own_frame<T>(_output: Output<T>, body: impl FnOnce() -> T) -> T {
    body()
}

/// The result type of a traced function's body, without a value. It ties the return type of the function to
/// that of the future or closure inside it.
pub struct Output<T>(PhantomData<fn() -> T>);

impl<T> Output<T> {
    /// The only value.
    pub const NEW: Output<T> = Output(PhantomData);
}

impl<T> Clone for Output<T> {
    fn clone(&self) -> Output<T> {
        *self
    }
}

impl<T> Copy for Output<T> {}

/// An expression of a given type in code that never runs.
#[cold]
pub fn never<T>(_: Output<T>) -> T {
    unreachable!("stands behind `if false`")
}
