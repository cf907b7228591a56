//! Calls functions, on threads, with names as bad as can be (a function's can't have control characters:
//! the compiler says so). Ends as its argument says.

use std::thread;

use fdr::traced;
use fdr_tests::programs::threads::wait_for_input;

#[traced(name = "</script><img src=x onerror=alert(1)>\u{200b}")]
fn markup() {
    formula();
}

#[traced(name = "=cmd|' /C calc'!A0\u{202e}")]
fn formula() {
    path();
}

#[traced(name = "../../../etc/passwd;x 1")]
fn path() {}

fn rename(name: &[u8]) {
    let mut bytes = name.to_vec();
    bytes.push(0);
    // SAFETY: the name ends with a NUL.
    unsafe { libc::prctl(libc::PR_SET_NAME, bytes.as_ptr()) };
}

fn main() {
    let names: [&[u8]; 5] = [
        b"\x1b[2J\x07",
        b"two\nlines",
        b"\xff\xfe\x9b31m",
        b"=1+1,\"x\"",
        b"../../etc",
    ];
    for name in names {
        let named = thread::spawn(move || {
            rename(name);
            markup();
        });
        named.join().expect("a thread");
    }
    rename(b"\x1b]0;owned\x07");
    markup();
    match std::env::args().nth(1).as_deref() {
        Some("abort") => std::process::abort(),
        Some("wait") => {
            wait_for_input("ready");
        }
        _ => {}
    }
}
