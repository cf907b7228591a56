//! A program that says how much of its memory is accessible while it records: `mapped THREADS [crowded]`. Each of
//! its threads makes some calls; `crowded`: when the kernel gives no more mappings.

use std::fs;
use std::hint::black_box;
use std::sync::Barrier;
use std::thread;

use fdr::traced;

#[traced]
#[inline(never)]
fn step(number: u64) -> u64 {
    black_box(number).rotate_left(7)
}

/// The calls of a thread. The first thread makes `MORE` times as many, which fill some chunks.
const CALLS: u64 = 100;
const MORE: u64 = 200;

fn number(text: &str) -> u64 {
    u64::from_str_radix(text, 16).expect("an address")
}

/// What the system says of the mappings that are shared with a ring file, and of all.
fn tell() {
    let smaps = fs::read_to_string("/proc/self/smaps").expect("its mappings");
    let (mut ring, mut accessible, mut mappings, mut in_cores) = (0, 0, 0, 0);
    let (mut all_accessible, mut inside) = (0, false);
    for line in smaps.lines() {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        if let Some((from, to)) = word.split_once('-').filter(|_| !word.ends_with(':')) {
            inside = line.ends_with(".fdr-ring");
            let bytes = number(to) - number(from);
            let allowed = if rest.starts_with("rw") { bytes } else { 0 };
            all_accessible += allowed;
            if inside {
                ring += bytes;
                accessible += allowed;
                mappings += 1;
            }
        } else if inside && word == "VmFlags:" {
            in_cores += u64::from(!rest.split_whitespace().any(|flag| flag == "dd"));
        }
    }
    println!("ring {ring}");
    println!("accessible {accessible}");
    println!("mappings {mappings}");
    println!("in_cores {in_cores}");
    println!("all_accessible {all_accessible}");
}

/// Takes every mapping that the kernel gives; how many.
fn take_all_mappings() -> u64 {
    let mut taken = 0_u64;
    loop {
        // Two neighbours of one kind would be one mapping.
        let rights = [libc::PROT_NONE, libc::PROT_READ][(taken % 2) as usize];
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new mapping that no code uses.
        let page = unsafe { libc::mmap(std::ptr::null_mut(), 4096, rights, flags, -1, 0) };
        if page == libc::MAP_FAILED {
            return taken;
        }
        taken += 1;
    }
}

pub(crate) fn main(words: &[&str]) {
    let threads: usize = words[0].parse().expect("a number of threads");
    let is_crowded = words.get(1) == Some(&"crowded");
    let (ready, done, resume) = (
        Barrier::new(threads + 1),
        Barrier::new(threads + 1),
        Barrier::new(threads + 1),
    );
    thread::scope(|scope| {
        for nth in 0..threads {
            let (ready, done, resume) = (&ready, &done, &resume);
            let body = move || {
                ready.wait();
                let calls = if nth == 0 { CALLS * MORE } else { CALLS };
                black_box((0..calls).fold(1, |sum, _| step(sum)));
                done.wait();
                resume.wait();
            };
            let thread = thread::Builder::new().stack_size(64 * 1024);
            thread.spawn_scoped(scope, body).expect("a thread");
        }
        let taken = if is_crowded { take_all_mappings() } else { 0 };
        ready.wait();
        done.wait();
        if is_crowded {
            println!("taken {taken}");
            resume.wait();
            // What ends a program needs some.
            std::process::exit(0);
        }
        tell();
        resume.wait();
    });
    println!("calls {}", (threads as u64 - 1) * CALLS + CALLS * MORE);
}
