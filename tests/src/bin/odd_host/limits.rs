//! Limits that the program sets itself, or is started with.

use std::env;
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::process::{self, Command};
use std::thread;
use std::time::Duration;

use crate::{NamedAction, crowd, print_result, request_dump, say, work};

pub(crate) const WAYS: &[NamedAction] = &[
    ("limit-of-addresses", || {
        started_with(libc::RLIMIT_AS, 400 << 20, "allocates")
    }),
    ("limit-of-addresses-later", addresses_later),
    ("limit-of-file-sizes", || {
        limited(libc::RLIMIT_FSIZE, 100_000)
    }),
    ("limit-of-file-sizes-0", || limited(libc::RLIMIT_FSIZE, 0)),
    ("limit-of-descriptors", || limited(libc::RLIMIT_NOFILE, 20)),
    ("limit-of-descriptors-used", descriptors_used),
    ("limit-of-threads", threads),
    ("limit-of-processes", processes),
    ("limit-of-locked-memory", || {
        limited(libc::RLIMIT_MEMLOCK, 0)
    }),
    ("limit-of-signals", || limited(libc::RLIMIT_SIGPENDING, 0)),
    ("memory-locked", locked),
    ("allocates", allocates),
];

/// A limit's number.
#[cfg(target_env = "gnu")]
type Resource = libc::__rlimit_resource_t;
#[cfg(not(target_env = "gnu"))]
type Resource = libc::c_int;

/// Sets both limits.
fn set(resource: Resource, most: u64) -> i32 {
    let limit = libc::rlimit {
        rlim_cur: most,
        rlim_max: most,
    };
    // SAFETY: `limit` is valid for reading.
    unsafe { libc::setrlimit(resource, &raw const limit) }
}

fn limited(resource: Resource, most: u64) {
    say(work(10));
    print_result("setrlimit", set(resource, most));
    request_dump();
    say(crowd(20_000));
    request_dump();
    say(work(1000));
}

/// The program once more, with the limit from the beginning.
fn started_with(resource: Resource, most: u64, way: &str) {
    print_result("setrlimit", set(resource, most));
    let program = env::current_exe().expect("this program");
    say(Command::new(program).arg(way).exec());
    process::exit(1)
}

/// Half of the addresses that the limit leaves to programs are there for this one.
fn allocates() {
    work(10);
    let mut all: Vec<Vec<u8>> = Vec::new();
    let reserve = |_: &i32| {
        let mut bytes = Vec::new();
        let got = bytes.try_reserve_exact(1 << 20).is_ok();
        all.push(bytes);
        work(1);
        got
    };
    say((0..200).take_while(reserve).count());
    say(crowd(1000));
}

/// What is reserved by then counts; what is left is for the program's threads.
fn addresses_later() {
    let size = fs::read_to_string("/proc/self/statm").expect("its size");
    let pages = size
        .split(' ')
        .next()
        .and_then(|word| word.parse::<u64>().ok());
    let used = pages.expect("a number") * 4096;
    work(10);
    print_result("setrlimit", set(libc::RLIMIT_AS, used + (200 << 20)));
    let body = || work(20_000);
    let builder = || thread::Builder::new().stack_size(1 << 20);
    let all: Vec<_> = (0..8)
        .map(|_| builder().spawn(body).expect("a thread"))
        .collect();
    let sums = all.into_iter().map(|thread| thread.join().expect("a sum"));
    say(sums.fold(0, u64::wrapping_add));
}

/// The program needs each descriptor that it may have.
fn descriptors_used() {
    say(crowd(100));
    print_result("setrlimit", set(libc::RLIMIT_NOFILE, 20));
    let mut files = Vec::new();
    while let Ok(file) = File::open("/dev/null") {
        files.push(file);
    }
    say(files.len());
    say(crowd(20_000));
}

/// Changes to a user that has no other processes, and limits this user's threads to `most`.
fn alone(most: u64) {
    let user = 100_000 + process::id();
    // SAFETY: plain system calls on this process.
    unsafe {
        print_result("setgroups", libc::setgroups(0, std::ptr::null()));
        print_result("setresuid", libc::setresuid(user, user, user));
    }
    print_result("setrlimit", set(libc::RLIMIT_NPROC, most));
}

/// One thread, and one child.
fn processes() {
    work(10);
    alone(2);
    // SAFETY: the only thread of the program; the child ends at once.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: ends the process.
        unsafe { libc::_exit(7) }
    }
    let mut status = 0;
    // SAFETY: a place for the status.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    say(format_args!("{status:#x}"));
    say(work(10));
}

/// Makes as many threads as possible, as a user with a limit of four processes.
fn threads() {
    alone(4);
    let sleeps = || {
        work(10);
        thread::sleep(Duration::from_millis(200));
    };
    let all = (0..8).map_while(|_| thread::Builder::new().spawn(sleeps).ok());
    let all: Vec<_> = all.collect();
    say(all.len());
    all.into_iter()
        .for_each(|thread| thread.join().expect("its end"));
}

fn locked() {
    work(10);
    // SAFETY: a plain system call on this process.
    print_result("mlockall", unsafe {
        libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE)
    });
    say(crowd(20_000));
}
