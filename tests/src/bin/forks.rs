//! Children: by `fork`, with and without traced calls, and by starting programs. The parent makes ten
//! calls of `work` before and ten after; children say what they see in the file `child` and end with
//! exit code 7, so that nothing of theirs mixes with the parent's output.

use std::env;
use std::fs;
use std::process::{self, Command};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use fdr::traced;
use fdr_tests::support::facts;

#[traced]
fn work(number: u64) -> u64 {
    std::hint::black_box(number) * 7
}

#[traced]
fn childs_work(number: u64) -> u64 {
    work(number) + 1
}

fn ten() -> u64 {
    (0..10).map(work).sum()
}

/// Forks; the child runs `child` and exits with code 7, its exit handlers included.
fn fork(child: impl FnOnce()) -> libc::pid_t {
    // SAFETY: the child's code is of this program; where other threads run beside, it restricts
    // itself to what a child of theirs may do.
    match unsafe { libc::fork() } {
        -1 => panic!("fork: {}", std::io::Error::last_os_error()),
        0 => {
            child();
            process::exit(7)
        }
        pid => pid,
    }
}

fn wait_for(pid: libc::pid_t) {
    let mut status = 0;
    // SAFETY: `pid` is a child of this process, and `status` is valid for writing.
    assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
    let code = libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status));
    assert_eq!(code, Some(7), "the child's status is {status:#x}");
}

fn tell(text: &str) {
    fs::write("child", text).expect("the file for children");
}

/// A child that goes on as if nothing had happened.
fn child_calls() {
    for number in 0..100 {
        childs_work(number);
    }
    let statistics = facts::of_statistics(&fdr::statistics());
    tell(&format!("enabled {}\n{statistics}", fdr::is_enabled()));
}

/// A child that wants a recording of its own, and dumps by signal and at its end.
fn child_enables() {
    let on = fdr::enable().expect("a ring of its own");
    (0..5).for_each(|number| {
        childs_work(number);
    });
    // SAFETY: a plain system call on this process.
    unsafe { libc::kill(libc::getpid(), libc::SIGUSR2) };
    let dump = fdr::dump().expect("a dump of its own");
    // The ring as a reader would find it if this process died now.
    let mine = format!("forks.{}.", process::id());
    for entry in fs::read_dir(".").expect("this folder") {
        let name = entry.expect("an entry").file_name();
        let name = name.to_string_lossy();
        if name.starts_with(&mine) && name.ends_with(".fdr-ring") {
            fs::copy(&*name, "child-ring").expect("a copy of the ring");
        }
    }
    let statistics = facts::of_statistics(&fdr::statistics());
    tell(&format!(
        "pid {}\non {on}\nrecords {}\n{statistics}",
        process::id(),
        dump.records
    ));
}

/// Two hundred children, while another thread records and dumps all the time.
fn many() {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                ten();
                let _ = fdr::dump();
            }
        });
        for _ in 0..200 {
            let child = fork(|| {
                (0..10).for_each(|number| {
                    childs_work(number);
                });
                // No exit handlers: those of the standard library may want locks that some other
                // thread of the parent held.
                // SAFETY: ends the process at once.
                unsafe { libc::_exit(7) }
            });
            wait_for(child);
        }
        stop.store(true, Ordering::Relaxed);
    });
}

/// Starts this program again, in another way, and one that knows nothing of the recorder.
fn spawn() {
    let this = env::current_exe().expect("this program");
    let again = Command::new(this).arg("nothing").status();
    println!("again {}", again.expect("it starts").success());
    let list = Command::new("ls").args(["-l", "/proc/self/fd"]).output();
    let list = list.expect("ls starts");
    let list = String::from_utf8_lossy(&list.stdout).into_owned();
    println!("inherited {}", list.contains("fdr-ring"));
}

fn main() {
    println!("{}", ten());
    match env::args().nth(1).unwrap_or_default().as_str() {
        "nothing" => {}
        "calls" => wait_for(fork(child_calls)),
        "enables" => wait_for(fork(child_enables)),
        "many" => many(),
        "spawn" => spawn(),
        other => panic!("no such way: {other:?}"),
    }
    println!("{}", ten());
    println!("enabled {}", fdr::is_enabled());
}
