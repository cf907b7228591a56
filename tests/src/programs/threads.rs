//! Threads of a program, and what it does to all of them.

use std::thread::{self, JoinHandle};

/// A new thread with that name.
///
/// # Panics
///
/// If the system has none.
pub fn spawn<T: Send + 'static>(
    name: &str,
    body: impl FnOnce() -> T + Send + 'static,
) -> JoinHandle<T> {
    let spawned = thread::Builder::new().name(name.to_owned()).spawn(body);
    spawned.expect("a thread")
}

/// Runs a thread with that name to its end.
///
/// # Panics
///
/// If it panics.
pub fn run<T: Send + 'static>(name: &str, body: impl FnOnce() -> T + Send + 'static) -> T {
    spawn(name, body).join().expect("its end")
}

/// Uses up the thread keys, so that the recorder gets none for its destructor at a thread's end. Returns how many there
/// were.
///
/// # Panics
///
/// If one can't be given back.
pub fn use_up_keys() -> u64 {
    let (mut key, mut made) = (0, 0);
    // SAFETY: `key` is valid for writing; the keys have no destructor.
    while unsafe { libc::pthread_key_create(&raw mut key, None) } == 0 {
        made += 1;
    }
    // The standard library needs some; the recorder can't use ones with such high numbers.
    for key in key - 16..key {
        // SAFETY: made above; no thread has a value of it.
        assert_eq!(unsafe { libc::pthread_key_delete(key) }, 0);
    }
    made
}

/// Kills the process.
pub fn kill_process() -> ! {
    // SAFETY: a plain system call on this process.
    unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
    unreachable!("the process is gone")
}

/// Says where the program is, and waits for a line of its input, or the end of it.
pub fn wait_for_input(place: &str) {
    println!("{place}");
    let _ = std::io::stdin().read_line(&mut String::new());
}
