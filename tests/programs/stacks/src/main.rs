//! Takes one of the ways into the recorder, on a thread whose stack is filled with a pattern and ends at a guard.
//! Prints how many bytes of the stack were used. With `stacks WAY` the stack is large. With `stacks WAY BYTES` it has
//! BYTES bytes in addition to what an empty thread uses.

use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use fdr::traced;

const LARGE: usize = 1024 * 1024;
const GUARD: usize = 64 * 1024;
const PAINT: u64 = 0x5f5f_5f5f_5f5f_5f5f;

#[traced]
#[inline(never)]
fn work(number: u64) -> u64 {
    std::hint::black_box(number) * 7
}

/// The ways, and whether the recorder is brought up before, on another thread.
const WAYS: [(&str, bool, fn()); 12] = [
    ("enable", false, || drop(fdr::enable())),
    ("first-record", true, || {
        work(1);
    }),
    ("chunk-ends", true, chunk_ends),
    ("fork", true, fork),
    ("fork-and-record", true, fork_and_record),
    ("signal", true, signal),
    ("signal-in-child", true, signal_in_child),
    ("dump", true, dump),
    ("statistics", true, || drop(fdr::statistics())),
    ("set-filter", true, || {
        drop(fdr::set_filter("*,-nothing::*"))
    }),
    ("disable", true, fdr::disable),
    ("exit", true, exit),
];

fn chunk_ends() {
    for number in 0..50_000 {
        work(number);
    }
}

fn dump() {
    work(1);
    fdr::dump().expect("a dump");
}

/// The child has a copy of the stack, so it measures the use itself.
fn in_child(body: fn()) {
    // SAFETY: the child calls nothing that another thread may hold a lock of.
    unsafe {
        match libc::fork() {
            0 => {
                body();
                note_used();
                libc::_exit(0)
            }
            child => libc::waitpid(child, null_mut(), 0),
        };
    }
}

fn fork() {
    in_child(|| {});
}

fn fork_and_record() {
    in_child(chunk_ends);
}

fn raise() {
    // SAFETY: the recorder handles it.
    unsafe { libc::raise(libc::SIGUSR2) };
}

fn signal() {
    work(1);
    raise();
}

fn signal_in_child() {
    in_child(|| {
        work(1);
        raise();
    });
}

fn exit() {
    work(1);
    // SAFETY: the measure is taken last, by what was registered first.
    unsafe { libc::exit(0) };
}

/// Where the stack begins, and the bytes that were taken of it, in memory that children share.
static BASE: AtomicPtr<u64> = AtomicPtr::new(null_mut());
static WORDS: AtomicUsize = AtomicUsize::new(0);
static USED: AtomicPtr<AtomicUsize> = AtomicPtr::new(null_mut());
static EMPTY: AtomicUsize = AtomicUsize::new(0);

/// Takes the measure: the bytes above the lowest one that is not as it was painted.
fn note_used() {
    let (base, words) = (BASE.load(Ordering::SeqCst), WORDS.load(Ordering::SeqCst));
    // SAFETY: the stack of the one thread that is measured. No code writes below the part that is in use.
    let untouched = (0..words).take_while(|&nth| unsafe { base.add(nth).read_volatile() } == PAINT);
    let used = (words - untouched.count()) * 8;
    // SAFETY: set by `main`, mapped for good.
    unsafe { (*USED.load(Ordering::SeqCst)).fetch_max(used, Ordering::SeqCst) };
}

extern "C" fn print() {
    // SAFETY: as above.
    let used = unsafe { (*USED.load(Ordering::SeqCst)).load(Ordering::SeqCst) };
    println!("{}", used.saturating_sub(EMPTY.load(Ordering::SeqCst)));
}

extern "C" fn print_at_exit() {
    note_used();
    print();
}

extern "C" fn run(way: *mut c_void) -> *mut c_void {
    // SAFETY: `on_thread` passes a pointer to its own.
    let way = unsafe { *way.cast::<fn()>() };
    way();
    null_mut()
}

/// Runs `way` on a thread with a stack of this size, and measures how much of it is used.
fn on_thread(way: fn(), size: usize) {
    let size = size.next_multiple_of(64);
    let mapped = size.next_multiple_of(GUARD);
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a new mapping, in which the thread alone lives.
    unsafe {
        let low = libc::mmap(null_mut(), GUARD + mapped, libc::PROT_NONE, flags, -1, 0);
        assert!(low != libc::MAP_FAILED);
        let base = low.byte_add(GUARD);
        let access = libc::PROT_READ | libc::PROT_WRITE;
        assert_eq!(libc::mprotect(base, mapped, access), 0);
        std::slice::from_raw_parts_mut(base.cast::<u64>(), mapped / 8).fill(PAINT);
        BASE.store(base.cast(), Ordering::SeqCst);
        WORDS.store(size / 8, Ordering::SeqCst);
        let mut attributes = std::mem::zeroed();
        libc::pthread_attr_init(&raw mut attributes);
        // The C library wants 16 KiB at least; what is more than `size` lies in the guard.
        let more = libc::PTHREAD_STACK_MIN
            .saturating_sub(size)
            .next_multiple_of(64);
        let set =
            libc::pthread_attr_setstack(&raw mut attributes, base.byte_sub(more), size + more);
        assert_eq!(set, 0, "{size}");
        let (mut thread, mut way) = (std::mem::zeroed(), way);
        let argument = (&raw mut way).cast();
        let made = libc::pthread_create(&raw mut thread, &raw const attributes, run, argument);
        assert_eq!(made, 0);
        libc::pthread_join(thread, null_mut());
    }
    note_used();
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().expect("a way");
    let (_, ready, way) = WAYS
        .into_iter()
        .find(|way| way.0 == name)
        .expect("a known way");
    let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
    // SAFETY: a new mapping, which children share; and a function of the C ABI.
    unsafe {
        let shared = libc::mmap(
            null_mut(),
            8,
            libc::PROT_READ | libc::PROT_WRITE,
            flags,
            -1,
            0,
        );
        assert!(shared != libc::MAP_FAILED);
        USED.store(shared.cast(), Ordering::SeqCst);
        on_thread(|| {}, LARGE);
        let used = &*USED.load(Ordering::SeqCst);
        EMPTY.store(used.swap(0, Ordering::SeqCst), Ordering::SeqCst);
        if name == "exit" {
            libc::atexit(print_at_exit);
        }
    }
    if ready {
        fdr::enable().expect("recording");
    }
    let bytes = arguments
        .next()
        .map(|bytes| bytes.parse::<usize>().expect("bytes"));
    let size = bytes.map_or(LARGE, |bytes| bytes + EMPTY.load(Ordering::SeqCst));
    on_thread(way, size);
    print();
}
