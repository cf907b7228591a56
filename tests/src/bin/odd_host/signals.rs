//! Signals: blocked, ignored, waited for, left by a jump; stacks for them; and states of the processor.

use std::ffi::c_void;
use std::fs;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use fdr_tests::programs::signals::{alarm_every, handle};

use crate::{NamedAction, crowd, print_result, request_dump, say, work};

pub(crate) const WAYS: &[NamedAction] = &[
    ("timer", timer),
    ("handler-that-exits", handler_exits),
    #[cfg(target_env = "gnu")]
    ("handler-that-jumps", jumps::handler_jumps),
    ("all-blocked", all_blocked),
    ("all-default", || all(libc::SIG_DFL)),
    ("all-ignored", || all(libc::SIG_IGN)),
    ("waited-for", waited_for),
    ("signal-to-other-threads", to_others),
    ("interrupted-waits", interrupted),
    ("polled", polled),
    ("stack-for-signals", stacks),
    ("small-stack-for-signals", small_stack),
    #[cfg(target_env = "gnu")]
    ("floating-point-traps", floating_point),
    ("rounding", rounding),
    ("alignment-checked", alignment),
];

static HANDLED: AtomicU64 = AtomicU64::new(0);

extern "C" fn works(_: i32) {
    work(3);
    HANDLED.fetch_add(1, Ordering::Relaxed);
}

extern "C" fn exits(_: i32) {
    // SAFETY: ends the process.
    unsafe { libc::exit(7) }
}

fn timer() {
    handle(libc::SIGALRM, works, libc::SA_RESTART);
    alarm_every(300);
    while HANDLED.load(Ordering::Relaxed) < 100 {
        work(100);
    }
    alarm_every(0);
    say(work(20_000));
}

fn handler_exits() {
    handle(libc::SIGALRM, exits, 0);
    alarm_every(20_000);
    loop {
        work(100);
        request_dump();
    }
}

/// With contexts of the C library, which musl has not.
#[cfg(target_env = "gnu")]
mod jumps {
    use std::mem::MaybeUninit;
    use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};

    use fdr_tests::programs::signals::{alarm_every, handle};

    use crate::{say, work};

    static IS_INSIDE: AtomicBool = AtomicBool::new(false);
    static JUMPS: AtomicU64 = AtomicU64::new(0);
    static HOME: AtomicPtr<libc::ucontext_t> = AtomicPtr::new(std::ptr::null_mut());

    /// Leaves what it interrupted for ever.
    extern "C" fn jumps(_: i32) {
        if IS_INSIDE.swap(false, Ordering::Relaxed) {
            JUMPS.fetch_add(1, Ordering::Relaxed);
            // SAFETY: `home` was made by `swapcontext`, whose frame is still there.
            unsafe { libc::setcontext(HOME.load(Ordering::Relaxed)) };
        }
    }

    extern "C" fn for_ever() {
        IS_INSIDE.store(true, Ordering::Relaxed);
        loop {
            work(3);
        }
    }

    /// Calls on a stack of their own, which a handler leaves again and again.
    pub(super) fn handler_jumps() {
        handle(libc::SIGALRM, jumps, libc::SA_NODEFER);
        let mut stack = vec![0_u8; 1 << 20];
        // SAFETY: zeros are contexts, which are made before they are used; the stack outlives them.
        unsafe {
            let mut home: libc::ucontext_t = MaybeUninit::zeroed().assume_init();
            let mut other: libc::ucontext_t = MaybeUninit::zeroed().assume_init();
            HOME.store(&raw mut home, Ordering::Relaxed);
            alarm_every(300);
            while JUMPS.load(Ordering::Relaxed) < 500 {
                libc::getcontext(&raw mut other);
                other.uc_stack.ss_sp = stack.as_mut_ptr().cast();
                other.uc_stack.ss_size = stack.len();
                libc::makecontext(&raw mut other, for_ever, 0);
                libc::swapcontext(&raw mut home, &raw const other);
            }
        }
        alarm_every(0);
        say(JUMPS.load(Ordering::Relaxed));
        say(work(20_000));
    }
}

fn block(how: i32) {
    // SAFETY: zeros are a set of signals.
    unsafe {
        let mut all: libc::sigset_t = MaybeUninit::zeroed().assume_init();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(how, &raw const all, std::ptr::null_mut());
    }
}

fn all_blocked() {
    block(libc::SIG_BLOCK);
    request_dump();
    say(crowd(20_000));
}

fn all(action: libc::sighandler_t) {
    work(10);
    // SAFETY: plain system calls; numbers that are no signals are refused.
    (1..65).for_each(|signal| unsafe {
        libc::signal(signal, action);
    });
    request_dump();
    say(crowd(20_000));
}

/// A thread takes the signals that the others block, as services do.
fn waited_for() {
    block(libc::SIG_BLOCK);
    let taker = thread::spawn(|| {
        // SAFETY: zeros are a set of signals; a place for the signal.
        unsafe {
            let mut set: libc::sigset_t = MaybeUninit::zeroed().assume_init();
            libc::sigaddset(&raw mut set, libc::SIGTERM);
            let mut signal = 0;
            libc::sigwait(&raw const set, &raw mut signal);
            signal
        }
    });
    work(1000);
    // SAFETY: a plain system call on this process.
    unsafe { libc::kill(libc::getpid(), libc::SIGTERM) };
    say(taker.join().expect("a signal"));
}

/// A signal that is ignored, for each thread of the process but this one.
fn to_others() {
    // SAFETY: plain system calls on this process.
    let own = unsafe {
        libc::signal(libc::SIGPROF, libc::SIG_IGN);
        libc::gettid()
    };
    say(crowd(1000));
    for entry in fs::read_dir("/proc/self/task").expect("the threads") {
        let name = entry.expect("a thread").file_name();
        let thread: i32 = name.to_string_lossy().parse().expect("a number");
        if thread != own {
            // SAFETY: as above.
            unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, libc::SIGPROF) };
        }
    }
    request_dump();
    say(crowd(1000));
}

/// Waits that nothing of the program's interrupts.
fn interrupted() {
    let mut bad = 0;
    let time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 10_000_000,
    };
    for _ in 0..20 {
        work(100);
        // SAFETY: `time` is valid for reading; no descriptors.
        unsafe {
            bad += libc::nanosleep(&raw const time, std::ptr::null_mut());
            bad += libc::poll(std::ptr::null_mut(), 0, 10).min(0);
        }
    }
    say(bad);
}

/// A pipe that is waited for by epoll.
fn polled() {
    let (mut ends, mut bad) = ([0; 2], 0);
    // SAFETY: valid places for descriptors, an event and a byte.
    unsafe {
        let poll = libc::epoll_create1(0);
        libc::pipe(ends.as_mut_ptr());
        let mut event = libc::epoll_event {
            events: libc::EPOLLIN as u32,
            u64: 7,
        };
        libc::epoll_ctl(poll, libc::EPOLL_CTL_ADD, ends[0], &raw mut event);
        for _ in 0..2000 {
            work(5);
            let mut byte = 7_u8;
            libc::write(ends[1], (&raw const byte).cast(), 1);
            bad += i32::from(libc::epoll_wait(poll, &raw mut event, 1, 1000) != 1);
            libc::read(ends[0], (&raw mut byte).cast(), 1);
        }
    }
    say(bad);
}

/// Memory for a stack.
fn memory(length: usize) -> *mut u8 {
    let (protection, flags) = (
        libc::PROT_READ | libc::PROT_WRITE,
        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
    );
    // SAFETY: a new mapping.
    let memory = unsafe { libc::mmap(std::ptr::null_mut(), length, protection, flags, -1, 0) };
    assert_ne!(memory, libc::MAP_FAILED);
    memory.cast()
}

fn stack_at(memory: *mut u8, size: usize, flags: i32) -> i32 {
    let stack = libc::stack_t {
        ss_sp: memory.cast::<c_void>(),
        ss_flags: flags,
        ss_size: size,
    };
    // SAFETY: the memory is that large, and stays.
    unsafe { libc::sigaltstack(&raw const stack, std::ptr::null_mut()) }
}

/// Threads that change their stacks for signals, one of which goes away.
fn stacks() {
    for number in 0..3 {
        let body = move || {
            work(100);
            let own = memory(64 << 10);
            stack_at(std::ptr::null_mut(), 0, libc::SS_DISABLE);
            say(stack_at(own, 64 << 10, 0));
            work(100 + number);
            if number == 2 {
                // SAFETY: no handler runs on this stack any more, because no signal is sent any more.
                unsafe { libc::munmap(own.cast(), 64 << 10) };
                stack_at(std::ptr::null_mut(), 0, libc::SS_DISABLE);
            }
            work(100)
        };
        say(thread::spawn(body).join().expect("a sum"));
    }
}

/// The least stack that the system takes, in the midst of memory that must not change.
fn small_stack() {
    const AROUND: usize = 1 << 20;
    let memory = memory(AROUND);
    // SAFETY: the mapping is that long.
    unsafe { memory.write_bytes(0xAA, AROUND) };
    let size = libc::MINSIGSTKSZ.max(4096);
    // SAFETY: it is in the mapping.
    let stack = unsafe { memory.add(AROUND / 2) };
    print_result("sigaltstack", stack_at(stack, size, 0));
    for _ in 0..5 {
        request_dump();
        work(100);
        thread::sleep(Duration::from_millis(20));
    }
    // SAFETY: the half below the stack.
    let below = unsafe { std::slice::from_raw_parts(memory, AROUND / 2) };
    say(below.iter().filter(|&&byte| byte != 0xAA).count());
}

/// From now on a result that is not exact is a fault, in this thread and those that it makes. musl has no function for it.
#[cfg(target_env = "gnu")]
fn floating_point() {
    unsafe extern "C" {
        fn feenableexcept(exceptions: i32) -> i32;
    }
    const INEXACT: i32 = if cfg!(target_arch = "x86_64") {
        0x20
    } else {
        0x10
    };
    say(work(10));
    // SAFETY: sets a state of this thread.
    unsafe { feenableexcept(INEXACT) };
    let begun = std::time::Instant::now();
    // Time for whatever is done each so often.
    while begun.elapsed().as_millis() < 300 {
        work(100);
        request_dump();
        thread::sleep(Duration::from_millis(10));
    }
    let _ = thread::spawn(|| work(10)).join();
    let text = b"no fault\n";
    // SAFETY: `text` is valid for reading.
    unsafe { libc::write(1, text.as_ptr().cast(), text.len()) };
}

/// The program's own way to round stays, and its results.
fn rounding() {
    unsafe extern "C" {
        fn fesetround(way: i32) -> i32;
        fn fegetround() -> i32;
    }
    const UP: i32 = if cfg!(target_arch = "x86_64") {
        0x800
    } else {
        0x40_0000
    };
    // SAFETY: sets a state of this thread.
    unsafe { fesetround(UP) };
    let mut sum = 0.0_f64;
    for number in 0..20_000_u32 {
        sum += f64::from(number).sqrt() / 3.0;
        work(1);
        if number % 1000 == 0 {
            request_dump();
        }
    }
    // SAFETY: only looks.
    say(format_args!("{sum:?} {}", unsafe { fegetround() } == UP));
}

/// The processor checks that words are where they should be.
fn alignment() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: sets a flag of this thread, and takes it back; nothing between is misaligned in this program.
    let sum = unsafe {
        std::arch::asm!("pushfq", "or qword ptr [rsp], 0x40000", "popfq");
        let sum = work(2000);
        std::arch::asm!("pushfq", "and qword ptr [rsp], ~0x40000", "popfq");
        sum
    };
    #[cfg(not(target_arch = "x86_64"))]
    let sum = work(2000);
    say(sum);
}
