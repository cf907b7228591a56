//! A program whose ring file is cut short, by itself or by the test: `cut_ring WAY [LENGTH]`. It prints its result,
//! which is the same without the recorder, and ends with status 7.

use std::fs::{self, OpenOptions};
use std::hint::black_box;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use fdr::traced;
use fdr_formats::ring::layout;
use fdr_tests::programs::region::ring_here;

#[traced]
#[inline(never)]
fn step(number: u64) -> u64 {
    leaf(black_box(number).wrapping_mul(3))
}

#[traced(untimed)]
#[inline(never)]
fn leaf(number: u64) -> u64 {
    black_box(number).rotate_left(7)
}

fn steps(count: u64) -> u64 {
    (0..count).fold(1, |sum, number| step(sum ^ number))
}

/// Cuts the ring in the current folder to a length in bytes. A word instead of the length means: behind the first page
/// of the first region, or within the first thread's totals or open calls. Waits until the ring is prepared, because
/// the recorder may undo a cut of a ring that it is making longer.
fn cut(length: &str) {
    let Some(ring) = ring_when_prepared() else {
        return;
    };
    let file = OpenOptions::new().write(true).open(&ring).expect("a ring");
    let length = match length {
        "regions" => head(&ring).regions + 1,
        "rows" => head(&ring).totals + layout::TOTALS_SIZE as u64 + 1,
        "totals" => head(&ring).totals + 1,
        "open-calls" => head(&ring).slots + head(&ring).open_calls + 64,
        number => number.parse().expect("a length"),
    };
    file.set_len(length).expect("a shorter file");
}

/// Overwrites the ring's records with zeros, as in a file that was cut and made longer again. One call does both,
/// because the recorder could touch the file between two calls.
fn put_zeros() {
    let Some(ring) = ring_when_prepared() else {
        return;
    };
    let file = OpenOptions::new().write(true).open(&ring).expect("a ring");
    let length = file.metadata().expect("a ring").len();
    let (first, length) = (head(&ring).regions as i64, length as i64);
    let how = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    // SAFETY: a file of this process; its mappings stay whole.
    let done = unsafe { libc::fallocate(file.as_raw_fd(), how, first, length - first) };
    assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
}

/// The ring in the current folder, once the recorder has made places for threads to come.
fn ring_when_prepared() -> Option<PathBuf> {
    const PAUSE: Duration = Duration::from_millis(50);
    let ring = ring_here()?;
    let mut made = 0;
    while head(&ring).made != made {
        made = head(&ring).made;
        thread::sleep(PAUSE);
    }
    Some(ring)
}

fn head(ring: &Path) -> layout::Header {
    let mut head = [0; layout::HEADER_SIZE];
    let read = fs::File::open(ring).and_then(|ring| ring.read_exact_at(&mut head, 0));
    read.expect("its head");
    layout::Header::decode(&head).expect("a ring")
}

/// How many rounds of steps each thread has made.
static MADE: [AtomicU64; 4] = [const { AtomicU64::new(0) }; 4];
static STOP: AtomicBool = AtomicBool::new(false);

/// Threads that record while the ring is cut under them, and somewhat longer; `meanwhile` is called before and after.
fn threads(length: &str, meanwhile: fn()) {
    thread::scope(|scope| {
        for made in &MADE {
            scope.spawn(move || {
                while !STOP.load(Ordering::Relaxed) {
                    black_box(steps(100));
                    made.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        all_come(500);
        meanwhile();
        cut(length);
        meanwhile();
        all_come(500);
        STOP.store(true, Ordering::Relaxed);
    });
}

/// Waits until each thread has made `further` more rounds.
fn all_come(further: u64) {
    for made in &MADE {
        let goal = made.load(Ordering::Relaxed) + further;
        while made.load(Ordering::Relaxed) < goal {
            thread::yield_now();
        }
    }
}

/// Dumps one after the other, in a thread of their own, until the threads are done.
fn dump_for_ever() {
    static BEGUN: AtomicBool = AtomicBool::new(false);
    if BEGUN.swap(true, Ordering::Relaxed) {
        return;
    }
    thread::spawn(|| {
        loop {
            let _ = fdr::dump();
        }
    });
    // Some dump is under way.
    thread::sleep(Duration::from_millis(20));
}

/// What the API says of a ring that is lost.
fn api() {
    steps(10);
    assert!(fdr::is_enabled());
    cut("0");
    steps(10);
    let statistics = fdr::statistics();
    println!("enabled {}", fdr::is_enabled());
    println!("threads {}", statistics.threads.len());
    println!("dump {}", fdr::dump().expect_err("nothing is left"));
    println!("enable {}", fdr::enable().expect_err("nothing is left"));
    fdr::disable();
    println!("enabled {}", fdr::is_enabled());
}

/// The ring is cut beside its child, which has a ring of its own; then that one.
fn fork() {
    steps(10);
    let _ = ring_when_prepared();
    // SAFETY: the child does what a program with one thread may do.
    let child = unsafe { libc::fork() };
    if child == 0 {
        black_box(steps(10));
        for ring in fs::read_dir(".").expect("here") {
            let ring = ring.expect("an entry").path();
            if ring.extension().is_some_and(|end| end == "fdr-ring") {
                let file = OpenOptions::new().write(true).open(&ring);
                file.and_then(|file| file.set_len(0)).expect("a ring");
            }
        }
        black_box(steps(10));
        std::process::exit(5);
    }
    let mut status = 0;
    // SAFETY: a place for the status.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    println!("child {}", libc::WEXITSTATUS(status));
    steps(10);
}

/// A fork after the cut, by a thread that records. The child finds its parent's ring cut.
fn fork_after() {
    steps(10);
    cut("0");
    // SAFETY: as above.
    let child = unsafe { libc::fork() };
    if child == 0 {
        black_box(steps(10));
        println!("child enabled {}", fdr::is_enabled());
        std::process::exit(5);
    }
    let mut status = 0;
    // SAFETY: a place for the status.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    println!("child {}", libc::WEXITSTATUS(status));
}

/// A page of a file of the program's own, which is cut: a touch is SIGBUS.
fn own_page() -> *mut u8 {
    let name = c"own";
    // SAFETY: a file and a mapping of the program's own.
    unsafe {
        let file = libc::open(name.as_ptr(), libc::O_RDWR | libc::O_CREAT, 0o600);
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        let page = libc::mmap(
            std::ptr::null_mut(),
            4096,
            rights,
            libc::MAP_SHARED,
            file,
            0,
        );
        assert_ne!(page, libc::MAP_FAILED);
        libc::unlink(name.as_ptr());
        page.cast()
    }
}

static OWN: AtomicUsize = AtomicUsize::new(0);
static HANDLED: AtomicU64 = AtomicU64::new(0);
static ON_OWN_STACK: AtomicBool = AtomicBool::new(false);

type Handler = extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void);

/// Puts memory where the program's own page was.
extern "C" fn mend(_: i32, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    let mark = 0_u8;
    HANDLED.fetch_add(1, Ordering::Relaxed);
    // SAFETY: the kernel's structure, and a page of the program's own.
    unsafe {
        let page = OWN.load(Ordering::Relaxed) as *mut libc::c_void;
        assert_eq!((*info).si_addr(), page);
        let mut stack: libc::stack_t = std::mem::zeroed();
        libc::sigaltstack(std::ptr::null(), &raw mut stack);
        let within = (&raw const mark).addr().wrapping_sub(stack.ss_sp.addr()) < stack.ss_size;
        ON_OWN_STACK.store(!within, Ordering::Relaxed);
        let mut held: libc::sigset_t = std::mem::zeroed();
        libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), &raw mut held);
        // The handler's own mask holds, and no other signal is blocked.
        assert_eq!(libc::sigismember(&raw const held, libc::SIGUSR1), 1);
        assert_eq!(libc::sigismember(&raw const held, libc::SIGBUS), 1);
        assert_eq!(libc::sigismember(&raw const held, libc::SIGUSR2), 0);
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        libc::mmap(page, 4096, rights, flags, -1, 0);
    }
}

fn install(handler: Handler) {
    // SAFETY: zeros are a valid `sigaction`.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO;
        libc::sigaddset(&raw mut action.sa_mask, libc::SIGUSR1);
        libc::sigaction(libc::SIGBUS, &raw const action, std::ptr::null_mut());
    }
}

fn touch_own() {
    let page = own_page();
    OWN.store(page.addr(), Ordering::Relaxed);
    // SAFETY: a page of the program's own; where it has no handler this is its end.
    unsafe { page.write_volatile(1) };
}

/// The program's own handler was there before the recorder's. It repairs faults in the program's own page, before and
/// after the ring is cut.
fn own_handler() {
    install(mend);
    steps(10);
    touch_own();
    cut("0");
    steps(10);
    touch_own();
    touch_own();
    println!("handled {}", HANDLED.load(Ordering::Relaxed));
    println!("own stack {}", ON_OWN_STACK.load(Ordering::Relaxed));
}

/// A program that is executed anew has the default again.
fn execute() {
    steps(10);
    let _ = std::process::Command::new("true").exec();
}

pub(crate) fn main(words: &[&str]) {
    let length = words.get(1).unwrap_or(&"0");
    match words[0] {
        "once" => {
            black_box(steps(1000));
            cut(length);
            black_box(steps(1000));
        }
        "zeros" => {
            black_box(steps(1000));
            put_zeros();
            black_box(steps(1000));
        }
        // Nothing of the program's touches the ring any more.
        "idle" => {
            black_box(steps(1000));
            cut(length);
        }
        "threads" => threads(length, || ()),
        "dumps" => threads(length, dump_for_ever),
        "signals" => threads(length, || {
            // SAFETY: the recorder handles it.
            unsafe { libc::raise(libc::SIGUSR2) };
        }),
        // New threads come when the ring is gone.
        "begin" => {
            black_box(steps(10));
            cut(length);
            let begin = |_| thread::spawn(|| black_box(steps(10)));
            let threads: Vec<_> = (0..100).map(begin).collect();
            threads.into_iter().for_each(|thread| drop(thread.join()));
        }
        "api" => api(),
        "fork" => fork(),
        "fork_after" => fork_after(),
        "own" => own_handler(),
        "bus" => {
            steps(10);
            touch_own();
        }
        "bus_after" => {
            steps(10);
            cut("0");
            steps(10);
            touch_own();
        }
        "sent" => {
            steps(10);
            // SAFETY: a plain system call.
            unsafe { libc::raise(libc::SIGBUS) };
        }
        "execute" => execute(),
        other => panic!("no such way: {other:?}"),
    }
    println!("sum {}", steps(1000));
    std::process::exit(7);
}
