//! Does one thing of the recorder's, while one thread is watched. The allocator ends the program as soon as that thread
//! allocates or frees memory. It stands for Rust's, and for C's under every name that the C library calls itself.

use std::alloc::{GlobalAlloc, Layout, System};
use std::env;
use std::ffi::{c_char, c_int, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU32, Ordering};

use fdr::traced;

/// The exit status of a program that was caught.
const CAUGHT: c_int = 99;

/// The kernel's id of the watched thread, [`EVERY_CHILD`], or [`NOBODY`].
static WATCHED: AtomicU32 = AtomicU32::new(NOBODY);
const NOBODY: u32 = 0;
/// All threads of other processes than [`PARENT`].
const EVERY_CHILD: u32 = u32::MAX;
static PARENT: AtomicU32 = AtomicU32::new(0);
/// Whether giving memory back counts too: at a thread's end the C library does so itself.
static FREES_TOO: AtomicU32 = AtomicU32::new(1);

fn tid() -> u32 {
    // SAFETY: gettid has no precondition.
    unsafe { libc::syscall(libc::SYS_gettid) as u32 }
}

/// Ends the program if the caller is watched. By system calls alone.
fn check(caught_call: &str) {
    let watched = WATCHED.load(Ordering::Relaxed);
    if watched == NOBODY {
        return;
    }
    let caught = match watched {
        EVERY_CHILD => std::process::id() != PARENT.load(Ordering::Relaxed),
        thread => tid() == thread,
    };
    if caught {
        let line = [b"caught: ", caught_call.as_bytes(), b"\n"];
        for part in line {
            // SAFETY: the bytes are valid; nothing runs after `_exit`, not even destructors.
            unsafe { libc::write(2, part.as_ptr().cast(), part.len()) };
        }
        // SAFETY: ends the process.
        unsafe { libc::_exit(CAUGHT) };
    }
}

fn check_free() {
    if FREES_TOO.load(Ordering::Relaxed) == 1 {
        check("free");
    }
}

struct Watching;

// SAFETY: the system's allocator, with a look at who asks.
unsafe impl GlobalAlloc for Watching {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        check("Rust's alloc");
        // SAFETY: as the caller vouches.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        check_free();
        // SAFETY: as the caller vouches.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Watching = Watching;

/// C's allocator, under the names that glibc calls itself. Another C library's functions have no second names.
#[cfg(target_env = "gnu")]
mod glibc {
    use std::ffi::{c_int, c_void};

    use super::{check, check_free};

    unsafe extern "C" {
        fn __libc_malloc(size: usize) -> *mut c_void;
        fn __libc_calloc(count: usize, size: usize) -> *mut c_void;
        fn __libc_realloc(at: *mut c_void, size: usize) -> *mut c_void;
        fn __libc_memalign(align: usize, size: usize) -> *mut c_void;
        fn __libc_free(at: *mut c_void);
    }

    /// # Safety
    /// As C's. So are the others.
    #[unsafe(no_mangle)]
    unsafe extern "C" fn malloc(size: usize) -> *mut c_void {
        check("malloc");
        // SAFETY: glibc's own, under its other name.
        unsafe { __libc_malloc(size) }
    }

    #[unsafe(no_mangle)]
    unsafe extern "C" fn calloc(count: usize, size: usize) -> *mut c_void {
        check("calloc");
        // SAFETY: as above.
        unsafe { __libc_calloc(count, size) }
    }

    #[unsafe(no_mangle)]
    unsafe extern "C" fn realloc(at: *mut c_void, size: usize) -> *mut c_void {
        check("realloc");
        // SAFETY: as above.
        unsafe { __libc_realloc(at, size) }
    }

    #[unsafe(no_mangle)]
    unsafe extern "C" fn memalign(align: usize, size: usize) -> *mut c_void {
        check("memalign");
        // SAFETY: as above.
        unsafe { __libc_memalign(align, size) }
    }

    #[unsafe(no_mangle)]
    unsafe extern "C" fn posix_memalign(at: *mut *mut c_void, align: usize, size: usize) -> c_int {
        check("posix_memalign");
        // SAFETY: as above; `at` is the caller's to be written.
        unsafe {
            let memory = __libc_memalign(align, size);
            if memory.is_null() {
                return libc::ENOMEM;
            }
            *at = memory;
        }
        0
    }

    #[unsafe(no_mangle)]
    unsafe extern "C" fn aligned_alloc(align: usize, size: usize) -> *mut c_void {
        check("aligned_alloc");
        // SAFETY: as above.
        unsafe { __libc_memalign(align, size) }
    }

    #[unsafe(no_mangle)]
    unsafe extern "C" fn free(at: *mut c_void) {
        check_free();
        // SAFETY: as above.
        unsafe { __libc_free(at) }
    }
}

unsafe extern "C" {
    fn strdup(text: *const c_char) -> *mut c_char;
}

fn watch_me() {
    WATCHED.store(tid(), Ordering::Relaxed);
}

fn watch_nobody() {
    WATCHED.store(NOBODY, Ordering::Relaxed);
}

#[traced]
fn work(depth: u64) {
    std::hint::black_box(depth);
}

/// More records than the thread's whole region holds: chunks end, and are used again.
fn work_long() {
    (0..100_000).for_each(work);
}

/// A thread's first record, many chunks, and its end.
extern "C" fn thread(_: *mut c_void) -> *mut c_void {
    FREES_TOO.store(0, Ordering::Relaxed);
    watch_me();
    work_long();
    null_mut()
}

fn run_thread() {
    // SAFETY: the thread's function is valid for ever and takes no argument; it is joined.
    unsafe {
        let mut id: libc::pthread_t = std::mem::zeroed();
        assert_eq!(
            libc::pthread_create(&raw mut id, std::ptr::null(), thread, null_mut()),
            0
        );
        assert_eq!(libc::pthread_join(id, null_mut()), 0);
    }
    watch_nobody();
}

/// The child's first records, the recorder's work at the fork included.
fn run_fork() {
    work(1);
    PARENT.store(std::process::id(), Ordering::Relaxed);
    WATCHED.store(EVERY_CHILD, Ordering::Relaxed);
    // SAFETY: the child makes records and ends, without anything of std's.
    let child = unsafe { libc::fork() };
    if child == 0 {
        work_long();
        watch_nobody();
        let recorded: u64 = fdr::statistics()
            .threads
            .iter()
            .map(|thread| thread.recorded)
            .sum();
        // SAFETY: ends the child.
        unsafe { libc::_exit(i32::from(recorded == 0)) };
    }
    let mut status = 0;
    // SAFETY: the status is valid for writing.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    watch_nobody();
    assert_eq!(status, 0, "the child");
}

fn main() {
    let way = env::args().nth(1).unwrap_or_default();
    match way.as_str() {
        "first-record" => {
            watch_me();
            work_long();
            watch_nobody();
        }
        "thread" => run_thread(),
        "fork" => run_fork(),
        "dump-signal" => {
            work(1);
            watch_me();
            // SAFETY: raises a signal in this thread, before it returns.
            unsafe { libc::raise(libc::SIGUSR2) };
            watch_nobody();
        }
        "crash" => {
            work(1);
            watch_me();
            // SAFETY: none: this is the crash.
            unsafe { std::ptr::without_provenance_mut::<u32>(8).write_volatile(1) };
        }
        "abort" => {
            work(1);
            watch_me();
            // SAFETY: ends the process by a signal.
            unsafe { libc::abort() };
        }
        // What must be caught, or the rest shows nothing.
        "rust" => {
            watch_me();
            std::hint::black_box(Box::new(1_u64));
        }
        "c" => {
            watch_me();
            // SAFETY: a valid string; what is returned is leaked.
            std::hint::black_box(unsafe { strdup(c"text".as_ptr()) });
        }
        other => panic!("no such way: {other:?}"),
    }
    watch_nobody();
    println!("done");
}
