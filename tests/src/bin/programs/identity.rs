//! Calls one function, and then does what its argument says. `exit`: it exits. `crash`: it crashes. `fork`: a child
//! calls the function, too. `fork-kill`: the child also kills itself. `code`: the program sets its identity in its
//! code. `wait`: it waits until it is killed.

use std::hint::black_box;

use fdr_tests::programs::children::{fork, wait_for};
use fdr_tests::programs::threads::wait_for_input;

#[fdr::traced]
fn work(number: u64) -> u64 {
    black_box(number) + 1
}

pub(crate) fn main(words: &[&str]) {
    if words == ["code"] {
        let config = fdr::Config::new().version("7.7").tags("by=code, n = 2");
        config.enable().expect("the recorder");
    }
    work(1);
    match words {
        ["crash"] => std::process::abort(),
        ["fork"] => wait_for(fork(|| {
            work(2);
        })),
        ["fork-kill"] => {
            // SAFETY: the child ends itself, and its parent waits for it.
            unsafe {
                let child = libc::fork();
                if child == 0 {
                    work(2);
                    libc::kill(libc::getpid(), libc::SIGKILL);
                }
                libc::waitpid(child, std::ptr::null_mut(), 0);
            }
        }
        ["wait"] => {
            wait_for_input("ready");
        }
        _ => {}
    }
}
