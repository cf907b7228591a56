//! Children of each kind, and other programs.

use std::env;
use std::fs;
use std::io::{self, Write};
use std::process::{self, Command};
use std::thread;

use crate::{NamedAction, crowd, print_result, say, work};

pub(crate) const WAYS: &[NamedAction] = &[
    ("children", children),
    ("children-at-once", children_at_once),
    ("child-of-many-threads", child_of_many),
    ("vfork-and-exec", vfork_and_exec),
    ("vfork-and-leave", || {
        cloned(libc::CLONE_VM | libc::CLONE_VFORK)
    }),
    ("clone", || cloned(0)),
    ("clone-with-descriptors", || {
        cloned(libc::CLONE_FILES | libc::CLONE_FS)
    }),
    ("clone-with-memory", || cloned(libc::CLONE_VM)),
    ("spawned", spawned),
    ("spawned-descriptors", spawned_descriptors),
    ("spawned-environment", spawned_environment),
    ("shell", shell),
    ("exec", exec),
    ("exec-in-a-thread", exec_in_thread),
    ("daemon", daemon),
    ("orphan", orphan),
    ("wait-for-any", wait_for_any),
    ("group-and-session", group),
];

/// Forks; `child` gives the exit status.
fn fork(child: impl FnOnce() -> i32) -> i32 {
    let _ = io::stdout().flush();
    // SAFETY: the child does nothing that needs the other threads, and ends below.
    match unsafe { libc::fork() } {
        0 => {
            let status = child();
            // SAFETY: ends the process.
            unsafe { libc::_exit(status) }
        }
        pid => pid,
    }
}

/// How a child ended.
fn wait(pid: i32) -> i32 {
    let mut status = 0;
    // SAFETY: a place for the status.
    let ended = unsafe { libc::waitpid(pid, &raw mut status, 0) };
    if ended == pid { status } else { -1 }
}

fn children() {
    say(work(1));
    for number in 0..5 {
        let pid = fork(|| {
            say(work(100 + number));
            process::exit(7)
        });
        say(format_args!("{:#x}", wait(pid)));
    }
}

fn children_at_once() {
    say(work(1));
    let well = |_: &i32| wait(fork(|| i32::from(work(10) == 0))) == 0;
    say((0..50).filter(well).count());
}

fn child_of_many() {
    let busy = thread::spawn(|| crowd(2000));
    let well = |_: &i32| wait(fork(|| i32::from(work(1000) == 0))) == 0;
    say((0..20).filter(well).count());
    say(busy.join().expect("a sum"));
}

extern "C" fn works(_: *mut libc::c_void) -> i32 {
    std::hint::black_box(work(50));
    // SAFETY: ends the process.
    unsafe { libc::_exit(7) }
}

extern "C" fn executes(_: *mut libc::c_void) -> i32 {
    std::hint::black_box(work(50));
    // SAFETY: the strings end with NUL; ends the process, where it does not become the program.
    unsafe {
        let end = std::ptr::null::<libc::c_char>();
        libc::execl(c"/bin/true".as_ptr(), c"true".as_ptr(), end);
        libc::_exit(9)
    }
}

/// A child with a stack of its own, made by `clone`.
fn clone(flags: i32, body: extern "C" fn(*mut libc::c_void) -> i32) -> i32 {
    let mut stack = vec![0_u8; 1 << 20];
    let top = stack.as_mut_ptr_range().end.cast();
    let flags = flags | libc::SIGCHLD;
    // SAFETY: the stack outlives the child.
    wait(unsafe { libc::clone(body, top, flags, std::ptr::null_mut()) })
}

fn vfork_and_exec() {
    let flags = libc::CLONE_VM | libc::CLONE_VFORK;
    say((0..20).filter(|_| clone(flags, executes) == 0).count());
    say(work(1000));
}

fn cloned(flags: i32) {
    say((0..5).filter(|_| clone(flags, works) == 0x700).count());
    say(work(1000));
}

fn spawned() {
    let each = |_: &i32| {
        work(10);
        Command::new("true")
            .status()
            .is_ok_and(|status| status.success())
    };
    say((0..10).filter(each).count());
}

/// Descriptors that another program gets.
fn spawned_descriptors() {
    say(crowd(100));
    let output = Command::new("ls").arg("/proc/self/fd").output();
    say(String::from_utf8_lossy(&output.expect("ls").stdout));
}

/// Its environment.
fn spawned_environment() {
    work(10);
    let output = Command::new("env").output().expect("env").stdout;
    let text = String::from_utf8_lossy(&output).into_owned();
    let mut lines: Vec<&str> = text
        .lines()
        .filter(|line| !line.starts_with("FDR"))
        .collect();
    lines.sort_unstable();
    say(lines.join("\n"));
}

fn shell() {
    work(10);
    let words = ["-c", "cat; echo to stdout; echo to stderr >&2; exit 5"];
    say(Command::new("sh").args(words).status().expect("sh"));
}

fn becomes() {
    let end = std::ptr::null::<libc::c_char>();
    // SAFETY: the strings end with NUL.
    unsafe {
        libc::execl(
            c"/bin/echo".as_ptr(),
            c"echo".as_ptr(),
            c"executed".as_ptr(),
            end,
        )
    };
    say("it does not come here");
}

fn exec() {
    say(work(1000));
    becomes();
}

fn exec_in_thread() {
    say(crowd(100));
    let thread = thread::spawn(|| {
        work(1000);
        becomes();
    });
    let _ = thread.join();
}

/// Behaves like a daemon. It writes its results into a file, because its output is closed.
fn daemon() {
    work(10);
    let pid = fork(|| {
        // SAFETY: plain system calls on this process.
        unsafe { libc::setsid() };
        let inner = fork(|| {
            // SAFETY: users of these descriptors must bear that they are closed. The test wants exactly
            // this.
            unsafe { libc::syscall(libc::SYS_close_range, 0, u32::MAX, 0) };
            let sum = crowd(20_000);
            fs::write("daemon", format!("{sum}\n")).map_or(1, |()| 0)
        });
        wait(inner)
    });
    say(wait(pid));
    say(fs::read_to_string("daemon").unwrap_or_default());
}

/// A child that goes on when its parent was killed.
fn orphan() {
    say(work(1000));
    let mut ends = [0; 2];
    // SAFETY: `ends` is valid for writing.
    unsafe { libc::pipe(ends.as_mut_ptr()) };
    let pid = fork(|| {
        let inner = fork(|| {
            let mut byte = 0_u8;
            // SAFETY: the pipe's reader, and a place for a byte. It ends when its parent is gone.
            unsafe {
                libc::close(ends[1]);
                libc::read(ends[0], (&raw mut byte).cast(), 1);
            }
            say(work(1000));
            0
        });
        // SAFETY: a plain system call on this process.
        unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
        inner
    });
    say(format_args!("{:#x}", wait(pid)));
}

/// Any child: are there others than those of the program?
fn wait_for_any() {
    crowd(10);
    let pid = fork(|| 3);
    let mut status = 0;
    // SAFETY: a place for the status.
    let first = unsafe { libc::wait(&raw mut status) };
    say(format_args!("{} {status:#x}", first == pid));
    // SAFETY: as above.
    print_result("wait", unsafe { libc::wait(&raw mut status) });
}

fn group() {
    work(10);
    // SAFETY: plain system calls on this process.
    unsafe {
        print_result("setpgid", libc::setpgid(0, 0));
        print_result("nice", libc::nice(1));
        print_result("chdir", libc::chdir(c"/".as_ptr()));
    }
    say(env::current_dir().expect("a folder").display());
    say(crowd(2000));
}
