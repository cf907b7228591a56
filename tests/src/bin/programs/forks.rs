//! Children by `fork`, in every ordinary way. The parent calls `work` ten times before the fork and ten times after it.
//! Each child writes into a shared page how many records it made, because a child's output would mix with its parent's
//! output.

use std::env;
use std::fs;
use std::process::{self, Command};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use fdr::traced;
use fdr_tests::programs::calls::Calls;
use fdr_tests::programs::children::{Reports, fork, leave, wait_for};
use fdr_tests::support::facts;

static CALLS: Calls = Calls::new();

#[traced]
fn work(number: u64) -> u64 {
    CALLS.count();
    std::hint::black_box(number) * 7
}

#[traced]
fn childs_work(number: u64) -> u64 {
    CALLS.count();
    work(number) + 1
}

fn ten() -> u64 {
    (0..10).map(work).sum()
}

/// Makes calls in a child, and reports their number.
fn calls(reports: Reports, count: u64) {
    for number in 0..count {
        childs_work(number);
    }
    reports.report(CALLS.records());
}

fn tell(text: &str) {
    fs::write("child", text).expect("the file for children");
}

/// A child that goes on as if nothing had happened.
fn child_calls(reports: Reports) {
    CALLS.anew();
    calls(reports, 100);
    let statistics = facts::of_statistics(&fdr::statistics());
    tell(&format!("enabled {}\n{statistics}", fdr::is_enabled()));
}

/// A child that wants a dumper of its own, and dumps by signal, by a call and at its end.
fn child_enables(reports: Reports) {
    CALLS.anew();
    calls(reports, 5);
    let on = fdr::enable().expect("a dumper of its own");
    calls(reports, 5);
    // SAFETY: a plain system call on this process.
    unsafe { libc::kill(libc::getpid(), libc::SIGUSR2) };
    let dump = fdr::dump().expect("a dump of its own");
    // The ring as a reader would find it if this process died now.
    let mine = format!("programs.{}.", process::id());
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

/// A child that makes no record, and checks which mappings and descriptors of its parent's recorder it has. Another
/// child executes a program.
fn silent() {
    wait_for(fork(|| {
        let maps = fs::read_to_string("/proc/self/maps").expect("its mappings");
        let files = fs::read_dir("/proc/self/fd").expect("its descriptors");
        let targets = files.filter_map(|file| fs::read_link(file.ok()?.path()).ok());
        let open = targets.filter(|target| target.to_string_lossy().contains("fdr-ring"));
        let threads = fs::read_dir("/proc/self/task")
            .expect("its threads")
            .count();
        tell(&format!(
            "mapped {}\nopen {}\nthreads {threads}\n",
            maps.contains("fdr-ring"),
            open.count(),
        ));
    }));
    wait_for(fork(|| {
        let list = [
            c"sh".as_ptr(),
            c"-c".as_ptr(),
            c"exit 7".as_ptr(),
            std::ptr::null(),
        ];
        // SAFETY: a list of C strings that ends with null.
        unsafe { libc::execvp(list[0], list.as_ptr()) };
    }));
}

/// Has a scope's threads stop at its end, also where that is a panic: a child that failed must show at once.
struct Stops<'a>(&'a AtomicBool);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Hundreds of children, while another thread records and dumps all the time.
fn many(reports: Reports) {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let _stops = Stops(&stop);
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                ten();
                let _ = fdr::dump();
            }
        });
        for nth in 0..450 {
            let child = fork(|| {
                CALLS.anew();
                calls(reports, nth % 3 * 5);
                // No exit handlers: those of the standard library may want locks that some other
                // thread of the parent held.
                leave()
            });
            wait_for(child);
        }
    });
}

/// Children of a parent that records more than its budget allows.
fn over_budget(reports: Reports) {
    for _ in 0..20 {
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_millis(40) {
            (0..1000).for_each(|number| {
                work(number);
            });
        }
        wait_for(fork(|| {
            CALLS.anew();
            calls(reports, 50);
            leave()
        }));
    }
}

/// A child's child's child …; every other one makes no record before it forks.
fn generations(reports: Reports, left: u64) {
    if left == 0 {
        return;
    }
    let child = fork(|| {
        CALLS.anew();
        if left.is_multiple_of(2) {
            calls(reports, left);
        }
        generations(reports, left - 1);
        calls(reports, 1);
    });
    wait_for(child);
}

/// Forks in a thread that is not the first one, while others record; the children have threads too.
fn threads(reports: Reports) {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let _stops = Stops(&stop);
        for _ in 0..3 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    ten();
                }
            });
        }
        let forker = scope.spawn(|| {
            for _ in 0..20 {
                ten();
                wait_for(fork(|| {
                    CALLS.anew();
                    ten();
                    thread::spawn(ten).join().expect("it ends");
                    calls(reports, 3);
                }));
            }
        });
        forker.join().expect("it ends");
    });
}

/// Makes children again and again, while other threads of the program hold each of the locks.
fn locks(reports: Reports) {
    let stop = AtomicBool::new(false);
    let repeat = |body: &dyn Fn()| {
        while !stop.load(Ordering::Relaxed) {
            body();
        }
    };
    thread::scope(|scope| {
        let _stops = Stops(&stop);
        scope.spawn(|| repeat(&|| drop(fdr::statistics())));
        scope.spawn(|| repeat(&|| drop(fdr::dump())));
        scope.spawn(|| repeat(&|| drop(fdr::set_filter("*"))));
        scope.spawn(|| repeat(&|| drop(fdr::enable())));
        for nth in 0..60 {
            let child = fork(|| {
                CALLS.anew();
                if nth % 2 == 0 {
                    calls(reports, 2);
                }
                let _ = (fdr::statistics(), fdr::is_enabled());
                fdr::set_filter("*").expect("a filter");
                fdr::enable().expect("it can be recorded");
                calls(reports, 2);
                fdr::dump().expect("a dump");
                leave()
            });
            wait_for(child);
        }
    });
}

/// Starts this program again, in another way, and one that knows nothing of the recorder.
fn spawn() {
    let this = env::current_exe().expect("this program");
    let again = Command::new(this).args(["forks", "nothing"]).status();
    println!("again {}", again.expect("it starts").success());
    let list = Command::new("ls").args(["-l", "/proc/self/fd"]).output();
    let list = list.expect("ls starts");
    let list = String::from_utf8_lossy(&list.stdout).into_owned();
    println!("inherited {}", list.contains("fdr-ring"));
}

pub(crate) fn main(words: &[&str]) {
    let reports = Reports::new();
    println!("{}", ten());
    match words {
        ["nothing"] => {}
        ["calls"] => wait_for(fork(|| child_calls(reports))),
        ["enables"] => wait_for(fork(|| child_enables(reports))),
        ["silent"] => silent(),
        ["many"] => many(reports),
        ["over-budget"] => over_budget(reports),
        ["generations"] => generations(reports, 6),
        ["threads"] => threads(reports),
        ["locks"] => locks(reports),
        ["spawn"] => spawn(),
        other => panic!("no such way: {other:?}"),
    }
    println!("{}", ten());
    println!("enabled {}", fdr::is_enabled());
    println!("records {}", CALLS.records());
    reports.print();
}
