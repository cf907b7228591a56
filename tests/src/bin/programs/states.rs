//! Threads that spin, sleep, and wait for each other, and what the system says of each: its CPU time and its switches.
//!
//! ```text
//! states [kill|abort|fork|wait]
//! states endless                 (one thread spins and one sleeps, until the input ends)
//! states swap                    (one thread spins for 0.5 s, then two wake each other in turn, until the input ends)
//! states churn                   (threads, children and other programs begin and end for 300 ms: how many of each)
//! states refused ARGUMENT…       (runs itself with the arguments, where the system refuses to tell of switches)
//! states forbidden ARGUMENT…     (the same where the system ends a process that asks for them)
//! ```
//! Each thread prints a line: name, id, ns of CPU time, ns in all, voluntary and involuntary switches.

use std::io::stdin;
use std::os::unix::process::CommandExt;
use std::process::{Command, abort};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self};
use std::time::{Duration, Instant};

use fdr::traced;
use fdr_tests::programs::system_calls::forbid;
use fdr_tests::programs::threads::{self, kill_process, wait_for_input};

const PAIRS: usize = 4;
const ROUNDS: u64 = 15;
const SPIN: Duration = Duration::from_millis(4);
const SLEEP: Duration = Duration::from_millis(6);

#[traced]
fn spin() {
    let begin = Instant::now();
    while begin.elapsed() < SPIN {
        std::hint::spin_loop();
    }
}

#[traced]
fn sleep() {
    thread::sleep(SLEEP);
}

#[traced]
fn wait(from: &Receiver<u64>) {
    let _ = from.recv();
}

/// A thread spins, and then two threads wake each other in turn, until a line or the end of the input.
fn swap() {
    let input = thread::spawn(|| stdin().read_line(&mut String::new()));
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_millis(500) {
        spin();
    }
    let (to, from) = channel();
    let (back, answers) = channel();
    let other = thread::spawn(move || {
        while let Ok(round) = from.recv() {
            let _ = back.send(round);
        }
    });
    for round in 0.. {
        let _ = to.send(round);
        wait(&answers);
        if input.is_finished() {
            break;
        }
    }
    drop(to);
    other.join().expect("the other thread");
}

/// Three threads begin and end threads, children and other programs.
fn churn() {
    let begin = Instant::now();
    let go_on = || begin.elapsed() < Duration::from_millis(300);
    let count = |body: &(dyn Fn() + Sync)| {
        let mut times = 0;
        while go_on() {
            body();
            times += 1;
        }
        times
    };
    let thread = || thread::spawn(spin).join().expect("a thread");
    // SAFETY: the child calls what is safe there: its end, and the parent waits for its own child.
    let child = || unsafe {
        match libc::fork() {
            0 => libc::_exit(0),
            child => assert_eq!(libc::waitpid(child, std::ptr::null_mut(), 0), child),
        }
    };
    let program = || assert!(Command::new("true").status().expect("a program").success());
    let counts = thread::scope(|scope| {
        let bodies: [&(dyn Fn() + Sync); 3] = [&thread, &child, &program];
        let workers = bodies.map(|body| scope.spawn(move || count(body)));
        workers.map(|worker| worker.join().expect("a thread"))
    });
    let [threads, children, programs]: [u64; 3] = counts;
    println!("{threads} {children} {programs}");
}

/// Spins and sleeps, and tells the other thread.
#[traced]
fn lead(to: &Sender<u64>) {
    for round in 0..ROUNDS {
        spin();
        sleep();
        let _ = to.send(round);
    }
}

/// Waits for the other thread, and spins.
#[traced]
fn follow(from: &Receiver<u64>) {
    for _ in 0..ROUNDS {
        wait(from);
        spin();
    }
}

fn cpu_ns() -> u128 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the place is valid for writing.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32).as_nanos()
}

/// Runs `body` as a thread that prints its times and switches.
fn spawn_reporting(name: String, body: impl FnOnce() + Send + 'static) -> thread::JoinHandle<()> {
    let inner = name.clone();
    let run = move || {
        let (begin, before) = (Instant::now(), cpu_ns());
        body();
        let (cpu, all) = (cpu_ns() - before, begin.elapsed().as_nanos());
        // SAFETY: zeros are a valid value, and the place is valid for writing.
        let usage = unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage);
            usage
        };
        // SAFETY: the call has no precondition.
        let id = unsafe { libc::gettid() };
        let (voluntary, involuntary) = (usage.ru_nvcsw, usage.ru_nivcsw);
        println!("{inner} {id} {cpu} {all} {voluntary} {involuntary}");
    };
    threads::spawn(&name, run)
}

pub(crate) fn main(words: &[&str]) {
    let action = match words.first() {
        Some(&"refused") => Some(libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
        Some(&"forbidden") => Some(libc::SECCOMP_RET_KILL_PROCESS),
        _ => None,
    };
    if let Some((action, [_, rest @ ..])) = action.zip(Some(words)) {
        let refused = forbid(&[libc::SYS_perf_event_open], action, 0);
        assert_eq!(refused, 0, "no filter");
        let own = std::env::current_exe().expect("a path");
        let error = Command::new(own)
            .arg("states")
            .args(rest)
            .env("FDR", "1")
            .exec();
        panic!("{error}");
    }
    match words {
        ["swap"] => return swap(),
        ["churn"] => return churn(),
        _ => {}
    }
    if words == ["endless"] {
        for (name, body) in [("spinner", spin as fn()), ("sleeper", sleep)] {
            let body = move || loop {
                body();
            };
            threads::spawn(name, body);
        }
        wait_for_input("ready");
        return;
    }
    let threads: Vec<_> = (0..PAIRS)
        .flat_map(|pair| {
            let (to, from) = channel();
            let leads = spawn_reporting(format!("lead-{pair}"), move || lead(&to));
            let follows = spawn_reporting(format!("follow-{pair}"), move || follow(&from));
            [leads, follows]
        })
        .collect();
    let half = || thread::sleep(Duration::from_millis(80));
    match words {
        ["kill"] => {
            // Long enough for the dumper to bring states into the ring, also on a busy machine.
            thread::sleep(Duration::from_secs(3));
            kill_process();
        }
        ["abort"] => {
            half();
            abort();
        }
        ["wait"] => {
            half();
            wait_for_input("half");
        }
        // SAFETY: the child calls what is safe there: traced functions, and its end.
        ["fork"] => unsafe {
            half();
            if libc::fork() == 0 {
                spin();
                std::process::exit(0);
            }
        },
        _ => {}
    }
    for thread in threads {
        thread.join().expect("no panic");
    }
}
