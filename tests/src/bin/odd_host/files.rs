//! Files and descriptors, the standard ones among them.

use std::env;
use std::fs;
use std::io::{self, BufRead};
use std::thread;
use std::time::{Duration, Instant};

use crate::{NamedAction, crowd, print_result, request_dump, say, work};

pub(crate) const WAYS: &[NamedAction] = &[
    ("input", input),
    ("no-standard-descriptors", no_standard),
    ("no-output", || closed(1)),
    ("no-error-output", || closed(2)),
    ("all-closed", all_closed),
    ("all-closed-later", all_closed_later),
    ("all-copied-over", all_copied),
    ("own-descriptors", own_descriptors),
    ("lowest-number", lowest),
    ("umask-0", || umask(0)),
    ("umask-777", || umask(0o777)),
    ("folder-removed", folder_removed),
    ("folder-changed", folder_changed),
    ("rings-forgotten", rings_forgotten),
];

fn input() {
    work(10);
    let lines = io::stdin().lock().lines();
    lines.map_while(Result::ok).for_each(|line| say(line.len()));
    eprintln!("to standard error");
}

fn close(number: i32) {
    // SAFETY: users of this descriptor must bear that it is closed. The test wants exactly this.
    unsafe { libc::close(number) };
}

fn write(number: i32, text: &str) -> isize {
    // SAFETY: `text` is valid for reading.
    unsafe { libc::write(number, text.as_ptr().cast(), text.len()) }
}

/// It prints to descriptors that are closed, while dumps are made.
fn no_standard() {
    say(work(10));
    (0..3).for_each(close);
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_millis(250) {
        work(20);
        request_dump();
        (0..3).for_each(|number| {
            write(number, "nobody reads this\n");
        });
    }
}

fn closed(number: i32) {
    say(work(10));
    close(number);
    request_dump();
    crowd(2000);
    let written = write(number, "nobody reads this\n");
    fs::write("result", format!("{written}\n")).expect("a file");
}

/// A file at many numbers, with what must be in it at the end.
fn database(from: i32) {
    // SAFETY: the path ends with NUL.
    let file = unsafe { libc::open(c"data".as_ptr(), libc::O_RDWR | libc::O_CREAT, 0o644) };
    write(file, "first");
    for number in from..1000 {
        if number != file {
            // SAFETY: as for `close`.
            unsafe { libc::dup2(file, number) };
        }
    }
    request_dump();
    say(crowd(20_000));
    write(file, "last");
    say(fs::read("data").expect("the file").escape_ascii());
}

fn close_all() {
    // SAFETY: as for `close`.
    unsafe { libc::syscall(libc::SYS_close_range, 3, u32::MAX, 0) };
}

fn all_closed() {
    close_all();
    database(3);
}

fn all_closed_later() {
    say(crowd(100));
    thread::sleep(Duration::from_millis(300));
    close_all();
    database(3);
}

fn all_copied() {
    say(crowd(100));
    database(3);
}

/// Counts the descriptors of the process: only those that the program has opened.
fn own_descriptors() {
    say(crowd(100));
    let entries = fs::read_dir("/proc/self/fd").expect("the descriptors");
    say(entries.count());
}

/// The number that a file gets.
fn lowest() {
    say(crowd(100));
    // SAFETY: the path ends with NUL.
    say(unsafe { libc::open(c"/dev/null".as_ptr(), libc::O_RDONLY) });
}

fn umask(mask: libc::mode_t) {
    // SAFETY: a plain system call on this process.
    unsafe { libc::umask(mask) };
    request_dump();
    say(crowd(2000));
    print_result("mkdir", {
        // SAFETY: the path ends with NUL.
        unsafe { libc::mkdir(c"made".as_ptr(), 0o777) }
    });
    fs::remove_dir("made").expect("the folder");
}

fn folder_removed() {
    fs::create_dir("gone").expect("a folder");
    env::set_current_dir("gone").expect("a folder");
    fs::remove_dir("../gone").expect("the folder");
    request_dump();
    say(crowd(20_000));
}

fn folder_changed() {
    work(10);
    env::set_current_dir("/proc").expect("a folder");
    request_dump();
    say(crowd(20_000));
}

/// What is mapped from files and shared is dropped from memory; it is in the files.
fn rings_forgotten() {
    work(1000);
    let maps = fs::read_to_string("/proc/self/maps").expect("the mappings");
    for line in maps.lines().filter(|line| line.contains("-ring")) {
        let (range, _) = line.split_once(' ').expect("a range");
        let (begin, end) = range.split_once('-').expect("two addresses");
        let address = |text| usize::from_str_radix(text, 16).expect("an address");
        let (begin, end) = (address(begin), address(end));
        // SAFETY: a shared mapping of a file: nothing is lost.
        unsafe {
            let begin = std::ptr::without_provenance_mut(begin);
            libc::madvise(begin, end - begin.addr(), libc::MADV_DONTNEED)
        };
    }
    say(crowd(20_000));
}
