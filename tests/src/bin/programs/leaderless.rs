//! A program whose main thread ends while another thread records until the input ends. Then `/proc/PID` shows no memory
//! of the process, although it lives. If an argument names a file, the program maps the file, as if another copy of the
//! recorder were making a ring. Only one thread may record.

use std::fs::File;
use std::hint::black_box;
use std::io::{Read, stdin};
use std::os::fd::AsRawFd;
use std::ptr::null_mut;
use std::thread;

use fdr::traced;

#[traced]
fn step(state: u64) -> u64 {
    (state ^ (state >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9)
}

fn map(path: &str) {
    let file = File::options().read(true).write(true).open(path);
    let file = file.expect("the file");
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let (flags, descriptor) = (libc::MAP_SHARED, file.as_raw_fd());
    // SAFETY: the kernel chooses the place, and nothing touches it.
    let at = unsafe { libc::mmap(null_mut(), 4096, protection, flags, descriptor, 0) };
    assert!(at != libc::MAP_FAILED);
}

pub(crate) fn main(words: &[&str]) {
    if let [path] = words {
        map(path);
    }
    thread::spawn(|| {
        let mut state = step(1);
        println!("ready");
        loop {
            state = black_box(step(state));
        }
    });
    thread::spawn(|| {
        let mut rest = Vec::new();
        let _ = stdin().read_to_end(&mut rest);
        std::process::exit(0);
    });
    // SAFETY: the thread ends here, as by `pthread_exit`, and nothing refers to its stack.
    unsafe { libc::syscall(libc::SYS_exit, 0) };
}
