//! Crashes as its argument says, inside `crash`. `work` calls `crash` on the thread that the argument names. So the
//! crashing function is the innermost call, and its entry is its thread's last record. Before that, ten calls of
//! `step`. Prints nothing but what a test reads.

use std::alloc::{GlobalAlloc, Layout, System};
use std::env;
use std::fs::File;
use std::hint::black_box;
use std::io::{self};
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Barrier, Mutex};
use std::thread;
use std::time::Duration;

use fdr::traced;
use fdr_tests::programs::faults::{illegal, overflow, read_from, write_to};
use fdr_tests::programs::region;
use fdr_tests::programs::signals::{HandlerWithState, handle_with_state, pass_on};
use fdr_tests::programs::system_calls::forbid;
use fdr_tests::programs::threads::{spawn, wait_for_input};
use fdr_tests::support::crashed;

/// An allocator with a lock, as the C library's has; on command it crashes while it holds the lock. A
/// handler that allocates then hangs.
struct Locked(Mutex<()>);

/// The kernel's id of the thread that is to crash in the allocator. Other threads, such as the recorder's, allocate
/// as well.
static CRASH_IN_MALLOC: AtomicI64 = AtomicI64::new(0);

/// The kernel's id of the thread that may not allocate any more. If it allocates, the process ends with a status of
/// its own. 0: no thread.
static NO_MORE: AtomicI64 = AtomicI64::new(0);

fn thread_id() -> i64 {
    // SAFETY: no arguments.
    unsafe { libc::syscall(libc::SYS_gettid) }
}

// SAFETY: all of it is done by the system's allocator.
unsafe impl GlobalAlloc for Locked {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let no_more = NO_MORE.load(Ordering::Relaxed);
        if no_more != 0 && no_more == thread_id() {
            // SAFETY: ends the process.
            unsafe { libc::_exit(99) };
        }
        let _guard = self.0.lock();
        let victim = CRASH_IN_MALLOC.load(Ordering::Relaxed);
        if victim != 0 && victim == thread_id() {
            NO_MORE.store(thread_id(), Ordering::Relaxed);
            write_to(0x10);
        }
        // SAFETY: as the caller vouches.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        let _guard = self.0.lock();
        // SAFETY: as the caller vouches.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Locked = Locked(Mutex::new(()));

/// Ways to crash that end the process, and after which the standard library prints nothing.
const FAULTS: [&str; 9] = [
    "null", "read", "wild", "bus", "illegal", "divide", "trap", "abort", "sys",
];

#[traced]
fn step(number: u64) -> u64 {
    black_box(number) * 7
}

#[traced]
fn crash(way: &str) {
    if FAULTS.contains(&way) {
        // From here on nothing may be allocated: the handler is all that is left to run.
        NO_MORE.store(thread_id(), Ordering::Relaxed);
    }
    match way {
        "null" => write_to(0x10),
        "read" => read_from(0x123_000),
        "wild" => read_from(0x8000_0000_0000_0000),
        "bus" => past_the_end_of_a_file(),
        "illegal" => illegal(),
        "divide" => divide(),
        "trap" => trap(),
        "abort" => std::process::abort(),
        "sys" => forbidden_call(),
        "overflow" => {
            overflow(1);
        }
        "broken" => {
            // The crash handler makes a file, so this makes the handler itself fault.
            forbid(&[libc::SYS_openat], libc::SECCOMP_RET_TRAP, 0);
            trap();
        }
        "unreadable" => {
            if let Some(ring) = region::ring_here() {
                region::protect(&ring, libc::PROT_NONE);
            }
            write_to(0x10);
        }
        "malloc" => {
            CRASH_IN_MALLOC.store(thread_id(), Ordering::Relaxed);
            drop(black_box(Box::new(1)));
        }
        "wait" => loop {
            thread::park();
        },
        "emulated" => forbidden_call(),
        signal => raise(signal.parse().expect("a way or a signal's number")),
    }
}

#[traced]
fn work(way: &str) {
    for number in 0..10 {
        step(number);
    }
    crashed::note();
    crash(way);
}

fn past_the_end_of_a_file() {
    // SAFETY: a file of the test's own, mapped and never unmapped; the read is the crash.
    unsafe {
        let file = libc::open(c"short".as_ptr(), libc::O_RDWR | libc::O_CREAT, 0o600);
        let flags = libc::MAP_SHARED;
        let page = libc::mmap(std::ptr::null_mut(), 4096, libc::PROT_READ, flags, file, 0);
        libc::unlink(c"short".as_ptr());
        black_box(page.cast::<u8>().read_volatile());
    }
}

fn divide() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: none: this is the crash.
    unsafe {
        std::arch::asm!("xor ecx, ecx", "mov eax, 1", "cdq", "idiv ecx",
            out("eax") _, out("ecx") _, out("edx") _);
    }
    #[cfg(not(target_arch = "x86_64"))]
    raise(libc::SIGFPE);
}

fn trap() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: none: this is the crash.
    unsafe {
        std::arch::asm!("int3");
    }
    #[cfg(not(target_arch = "x86_64"))]
    raise(libc::SIGTRAP);
}

fn forbidden_call() {
    forbid(&[libc::SYS_getppid], libc::SECCOMP_RET_TRAP, 0);
    // SAFETY: no arguments; the call is the crash.
    unsafe { libc::syscall(libc::SYS_getppid) };
}

fn raise(signal: i32) {
    // SAFETY: a plain system call on this thread.
    unsafe { libc::raise(signal) };
}

struct Trap;

impl Drop for Trap {
    fn drop(&mut self) {
        panic!("the second one");
    }
}

/// A panic while another one unwinds.
#[traced]
fn twice() {
    let _trap = Trap;
    panic!("the first one");
}

extern "C" fn in_pthread(way: *mut libc::c_void) -> *mut libc::c_void {
    // SAFETY: `raw_thread` passes a leaked string.
    let way = unsafe { &*way.cast::<String>() };
    work(way);
    std::ptr::null_mut()
}

/// A thread that the standard library knows nothing of, without an alternate stack.
fn raw_thread(way: &str) {
    let way = Box::into_raw(Box::new(way.to_owned()));
    // SAFETY: the function has the right type; no attributes are given.
    unsafe {
        let mut id = std::mem::zeroed();
        libc::pthread_create(&raw mut id, std::ptr::null(), in_pthread, way.cast());
        libc::pthread_join(id, std::ptr::null_mut());
    }
}

fn std_thread(way: &str) {
    let way = way.to_owned();
    let _ = spawn("worker", move || work(&way)).join();
}

/// Both at the same moment, as far as that can be.
fn two_at_once(way: &str) {
    static BARRIER: AtomicU32 = AtomicU32::new(0);
    let both = Barrier::new(2);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                both.wait();
                step(1);
                BARRIER.fetch_add(1, Ordering::SeqCst);
                while BARRIER.load(Ordering::SeqCst) < 2 {
                    std::hint::spin_loop();
                }
                work(way);
            });
        }
    });
}

static HANDLED: AtomicU64 = AtomicU64::new(0);

/// The program's own handler: says that it came, and where the program crashed, and ends it.
extern "C" fn own_handler(_: i32, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    HANDLED.fetch_add(1, Ordering::Relaxed);
    // SAFETY: the kernel's structure; nothing but a write and an exit.
    unsafe {
        let known = (*info).si_addr() as usize == 0x10;
        let text: &[u8] = if known { b"own 0x10\n" } else { b"own ?\n" };
        libc::write(1, text.as_ptr().cast(), text.len());
        libc::_exit(77);
    }
}

/// The handlers that [`chaining_handler`] found, of SIGSEGV and of SIGABRT.
static BEFORE: [AtomicUsize; 2] = [const { AtomicUsize::new(libc::SIG_DFL) }; 2];
const CHAINED: [i32; 2] = [libc::SIGSEGV, libc::SIGABRT];

/// Calls the handler that it found, as many programs do, and goes on.
extern "C" fn chaining_handler(
    signal: i32,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    let nth = usize::from(signal == libc::SIGABRT);
    let before = BEFORE[nth].load(Ordering::Relaxed);
    // SAFETY: what was installed takes these arguments: the standard library's does, and the recorder's.
    unsafe {
        if !pass_on(before, signal, info, context) {
            libc::signal(signal, libc::SIG_DFL);
            libc::raise(signal);
        }
    }
}

fn handle_signal(signal: i32, handler: HandlerWithState) {
    handle_with_state(signal, handler, libc::SA_ONSTACK);
}

fn chain() {
    for (signal, before) in CHAINED.into_iter().zip(&BEFORE) {
        let found = handle_with_state(signal, chaining_handler, libc::SA_ONSTACK);
        before.store(found, Ordering::Relaxed);
    }
}

/// A page that is read-only until [`mending_handler`] makes it writable.
static PAGE: AtomicUsize = AtomicUsize::new(0);

/// Lets the write go on that came to it.
extern "C" fn mending_handler(_: i32, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
    let page = PAGE.load(Ordering::Relaxed) as *mut libc::c_void;
    // SAFETY: the page is this program's own.
    unsafe { libc::mprotect(page, 4096, libc::PROT_READ | libc::PROT_WRITE) };
}

/// Installs [`mending_handler`] before the recorder is there, if a word of the command line asks for it. A handler that comes
/// after the recorder's replaces that, and a busy machine decides when the recorder's comes.
extern "C" fn mends() {
    let words = std::fs::read("/proc/self/cmdline").expect("its words");
    if words.split(|&byte| byte == 0).any(|word| word == b"mend") {
        handle_signal(libc::SIGSEGV, mending_handler);
    }
}

#[used]
#[unsafe(link_section = ".init_array.00001")]
static MENDS: extern "C" fn() = mends;

/// Writes where that is forbidden, once.
fn mended() {
    step(0);
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: new memory, never unmapped.
    let page = unsafe { libc::mmap(std::ptr::null_mut(), 4096, libc::PROT_NONE, flags, -1, 0) };
    PAGE.store(page as usize, Ordering::Relaxed);
    write_to(page as usize);
}

extern "C" fn returning_handler(_: i32, _: *mut libc::siginfo_t, _: *mut libc::c_void) {}

/// A thread crashes, and another one calls `exit` when the trace is there. The handler is still running then, because
/// stderr is full and the handler waits for room.
fn exit_meanwhile() {
    let filler = [b'.'; 4096];
    // SAFETY: descriptors of this program's own.
    unsafe {
        let mut ends = [0; 2];
        libc::pipe2(ends.as_mut_ptr(), libc::O_NONBLOCK);
        while libc::write(ends[1], filler.as_ptr().cast(), filler.len()) > 0 {}
        libc::dup2(ends[1], libc::STDERR_FILENO);
    }
    thread::spawn(|| work("null"));
    let is_trace = |file: io::Result<std::fs::DirEntry>| {
        let name = file.expect("a file").file_name();
        name.to_str().is_some_and(|name| name.ends_with(".fdr"))
    };
    while !std::fs::read_dir(".").expect("here").any(is_trace) {
        thread::yield_now();
    }
    std::process::exit(0);
}

/// A second thread sends SIGABRT to the one that records, wherever that is.
fn anywhere(after_us: u64) {
    // SAFETY: plain system calls.
    let (process, thread) = unsafe { (libc::getpid(), libc::syscall(libc::SYS_gettid)) };
    // The first record installs the handlers.
    step(0);
    thread::spawn(move || {
        thread::sleep(Duration::from_micros(after_us));
        // SAFETY: as above.
        unsafe { libc::syscall(libc::SYS_tgkill, process, thread, libc::SIGABRT) };
    });
    loop {
        step(1);
    }
}

fn main() {
    let arguments: Vec<String> = env::args().collect();
    let [_, place, way, rest @ ..] = &arguments[..] else {
        panic!("crasher PLACE WAY");
    };
    for option in rest {
        match option.as_str() {
            "own" => handle_signal(libc::SIGSEGV, own_handler),
            "chain" => chain(),
            // It is done before `main`.
            "mend" => {}
            "mended" => mended(),
            "emulate" => handle_signal(libc::SIGSYS, returning_handler),
            "wait" => wait_for_input("ready"),
            // SAFETY: the program says nothing any more.
            "closed" => (0..1024).for_each(|fd| unsafe {
                libc::close(fd);
            }),
            "full" => while File::open("/dev/null").map(std::mem::forget).is_ok() {},
            "recorded" => {
                step(0);
            }
            other => panic!("no such option: {other:?}"),
        }
    }
    match place.as_str() {
        "main" => work(way),
        "std" => std_thread(way),
        "raw" => raw_thread(way),
        "two" => two_at_once(way),
        "twice" => twice(),
        "anywhere" => anywhere(way.parse().expect("microseconds")),
        "unrecorded" => write_to(0x10),
        "exit" => exit_meanwhile(),
        other => panic!("no such place: {other:?}"),
    }
}
