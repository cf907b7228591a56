//! Contexts that are switched by hand: the C library's `getcontext` and its like.

use std::cell::UnsafeCell;

use fdr::traced;
use fdr_tests::programs::threads;

use super::{leaf, outer};

/// Runs one of the ways that need contexts.
pub(super) fn run(way: &str, times: u64) {
    match way {
        "jumps" => outer(&mut || jump_over(times)),
        "jumps-at-top" => jump_over(times),
        "cut" => {
            leaf(0);
            cut::at_each_step(times);
        }
        "cut-at-first" => cut::in_first_records(times as usize),
        "wanders" => wander(),
        other => panic!("no such way: {other:?}"),
    }
}

/// A context, and the stack that it runs on.
struct ContextCell(UnsafeCell<Box<libc::ucontext_t>>);

// SAFETY: who uses a place is in a strict order: one thread hands it over and waits.
unsafe impl Sync for ContextCell {}
// SAFETY: as above.
unsafe impl Send for ContextCell {}

impl ContextCell {
    fn new() -> ContextCell {
        // SAFETY: zeros are a valid `ucontext_t`.
        ContextCell(UnsafeCell::new(Box::new(unsafe { std::mem::zeroed() })))
    }

    fn at(&self) -> *mut libc::ucontext_t {
        // SAFETY: only the address is taken.
        unsafe { &raw mut **self.0.get() }
    }
}

/// Makes a context that runs `body` on that stack.
///
/// # Safety
/// The stack lives as long as the context runs. `body` never returns.
unsafe fn prepare(context: *mut libc::ucontext_t, stack: &mut [u8], body: extern "C" fn()) {
    // SAFETY: as the caller vouches.
    unsafe {
        assert_eq!(libc::getcontext(context), 0);
        (*context).uc_stack.ss_sp = stack.as_mut_ptr().cast();
        (*context).uc_stack.ss_size = stack.len();
        (*context).uc_link = std::ptr::null_mut();
        libc::makecontext(context, body, 0);
    }
}

/// Enters two traced functions and jumps out of both, `times` times.
fn jump_over(times: u64) {
    let (back, away) = (ContextCell::new(), ContextCell::new());
    let mut stack = vec![0_u8; 256 * 1024];
    for _ in 0..times {
        let jump = Jump {
            back: back.at(),
            from: away.at(),
        };
        JUMP.set(&raw const jump as usize);
        // SAFETY: the stack lives on. The context never returns: it is left, and is started again each time. What
        // it leaves open owns nothing.
        unsafe {
            prepare(away.at(), &mut stack, run_jump);
            assert_eq!(libc::swapcontext(back.at(), away.at()), 0);
        }
    }
}

thread_local! {
    static JUMP: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

extern "C" fn run_jump() {
    // SAFETY: set just before, by the one who waits for this context to jump back.
    let jump = unsafe { &*(JUMP.get() as *const Jump) };
    inner(jump);
}

static HOME: std::sync::OnceLock<ContextCell> = std::sync::OnceLock::new();
static COROUTINE: std::sync::OnceLock<ContextCell> = std::sync::OnceLock::new();

/// The coroutine: its traced call begins on one thread and ends on another.
#[fdr::traced]
#[inline(never)]
fn wanders() {
    leaf(1);
    switch(&COROUTINE, &HOME);
    leaf(2);
}

extern "C" fn run_coroutine() {
    wanders();
    switch(&COROUTINE, &HOME);
}

fn switch(from: &std::sync::OnceLock<ContextCell>, to: &std::sync::OnceLock<ContextCell>) {
    let at = |place: &std::sync::OnceLock<ContextCell>| place.get_or_init(ContextCell::new).at();
    // SAFETY: `to` was saved by the code that waits in it, or made by `makecontext`.
    assert_eq!(unsafe { libc::swapcontext(at(from), at(to)) }, 0);
}

/// Begins it on this thread, and goes on with it on another.
fn wander() {
    let mut stack = vec![0_u8; 256 * 1024];
    let coroutine = COROUTINE.get_or_init(ContextCell::new).at();
    // SAFETY: the stack lives until the coroutine has run to its end; nothing in it is of a thread.
    unsafe { prepare(coroutine, &mut stack, run_coroutine) };
    switch(&HOME, &COROUTINE);
    threads::run("other", || {
        leaf(3);
        switch(&HOME, &COROUTINE);
        leaf(4);
    });
    leaf(5);
}

/// A handler jumps out of a traced call, at each of its instructions.
mod cut {
    use std::cell::Cell;
    use std::sync::OnceLock;

    use super::{ContextCell, leaf, prepare};
    use fdr_tests::programs::stepping::{on_each_step, stepping};

    thread_local! {
        /// How many steps are left before the jump.
        static LEFT: Cell<u64> = const { Cell::new(0) };
        static ENDED: Cell<bool> = const { Cell::new(false) };
        static PLACES: OnceLock<[ContextCell; 2]> = const { OnceLock::new() };
    }

    fn place(nth: usize) -> *mut libc::ucontext_t {
        PLACES.with(|places| {
            places.get_or_init(|| [ContextCell::new(), ContextCell::new()])[nth].at()
        })
    }

    extern "C" fn on_step(_: i32) {
        let left = LEFT.get().wrapping_sub(1);
        LEFT.set(left);
        if left == 0 {
            // SAFETY: `call` waits there. What the jump leaves owns nothing.
            unsafe { libc::setcontext(place(0)) };
        }
    }

    extern "C" fn run() {
        stepping(|| {
            leaf(0);
        });
        ENDED.set(true);
        // SAFETY: as above.
        unsafe { libc::setcontext(place(0)) };
    }

    /// Calls the function, and leaves it by a jump after `steps` instructions, unless it has ended. Returns whether it
    /// ended.
    fn call(steps: u64, stack: &mut [u8]) -> bool {
        let (back, away) = (place(0), place(1));
        LEFT.set(steps);
        // SAFETY: the context runs on a stack of its own, and is left.
        unsafe {
            prepare(away, stack, run);
            assert_eq!(libc::swapcontext(back, away), 0);
        }
        ENDED.get()
    }

    /// Jumps out of a call after `steps` steps, and makes `calls` calls. Returns whether the first call ended.
    fn behind(steps: u64, calls: u64, stack: &mut [u8]) -> bool {
        let ended = call(steps, stack);
        for number in 0..calls {
            leaf(number);
        }
        ended
    }

    /// Jumps out behind each number of steps. Prints how many calls were made behind jumps.
    pub(super) fn at_each_step(calls: u64) {
        on_each_step(on_step);
        let mut stack = vec![0; 256 * 1024];
        let ended = (1..).find(|&steps| behind(steps, calls, &mut stack));
        println!("{}", calls * ended.unwrap_or(0));
    }

    /// The same with the first record of a thread, at every `every`th instruction.
    pub(super) fn in_first_records(every: usize) {
        on_each_step(on_step);
        let mut threads = 0;
        for steps in (1..).step_by(every) {
            threads += 1;
            let thread = std::thread::spawn(move || behind(steps, 100, &mut vec![0; 256 * 1024]));
            if thread.join().expect("it ends") {
                break;
            }
        }
        println!("{}", threads * 100);
    }
}

struct Jump {
    back: *mut libc::ucontext_t,
    from: *mut libc::ucontext_t,
}

#[traced]
#[inline(never)]
fn inner(jump: &Jump) {
    innermost(jump);
    leaf(0);
}

#[traced]
#[inline(never)]
fn innermost(jump: &Jump) {
    leaf(7);
    // SAFETY: the code that waits in `back` saved it, and never comes back here.
    assert_eq!(unsafe { libc::swapcontext(jump.from, jump.back) }, 0);
    unreachable!("nobody comes back here");
}
