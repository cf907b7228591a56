//! Children of the program, of each kind: they close all that they have, open a file of their own at many numbers,
//! record, and check their file. A child that shares the table leaves it to its parent to open the files again.

use std::sync::atomic::{AtomicI32, Ordering};
use std::time::{Duration, Instant};

use fdr_tests::support::truth::descriptors::{GO, OF_CHILDREN, WRONG_FILE, round};

use super::owner::OwnedFile;
use super::table::{self, done, ensure};
use super::{DescriptorTask, MANY, PATIENCE, work};

/// Bytes of the stack of a child that does not use its parent's stack.
const STACK: usize = 1 << 20;

/// How a child is made, and what it does.
struct Life {
    wanted: DescriptorTask,
    number: u64,
    /// Whether it shares the table.
    shares: bool,
    /// Whether it is a process of its own in all.
    forked: bool,
}

/// All that this round has.
pub(crate) fn children(wanted: DescriptorTask, kinds: u64, number: u64) {
    let does = |kind: u64| kinds >> kind & 1 == 1;
    let life = |shares, forked| Life {
        wanted,
        number,
        shares,
        forked,
    };
    if does(round::FORK) {
        // No other thread may be in the midst of a change that the child would find.
        let _table = table::lock();
        fork(&life(false, true));
    }
    if does(round::VFORK) {
        cloned(libc::CLONE_VM | libc::CLONE_VFORK, &life(false, false));
    }
    if does(round::SPAWN) {
        // musl's function has a pipe of its own, which another thread would close.
        let _table = cfg!(target_env = "musl").then(table::lock);
        spawn();
    }
    if does(round::SHARING) {
        // It closes what another thread may have opened just now.
        let _table = table::lock();
        cloned(libc::CLONE_FILES, &life(true, false));
    }
}

/// What a child does.
fn live(life: &Life) {
    if life.shares {
        // Only numbers of the first share.
        for number in (4..1000).step_by(4) {
            table::close(number);
        }
        work(10);
        return;
    }
    table::close_from(life.wanted.first());
    let mut own = OwnedFile::new(life.wanted.page, OF_CHILDREN, false);
    let first = own.open();
    for number in first + 1..MANY {
        table::dup_over(first, number);
    }
    work(if life.number.is_multiple_of(4) {
        5000
    } else {
        20
    });
    if life.forked {
        waits(life);
    }
    own.is_whole(first);
}

/// The recorder gets its thread back in some children. They go on when their parent has seen the end of its pipe.
fn waits(life: &Life) {
    if life.number.is_multiple_of(3) {
        let _ = fdr::enable();
        work(20);
    }
    let begun = Instant::now();
    while life.wanted.page[GO.0].get(GO.1) <= life.number {
        ensure(begun.elapsed() < 2 * PATIENCE, || {
            "a parent that does not go on".to_owned()
        });
        std::thread::sleep(Duration::from_micros(200));
    }
}

fn fork(life: &Life) {
    let [reader, writer] = table::pipe();
    // SAFETY: the child takes no lock of the program's, and ends below.
    let child = done(unsafe { libc::fork() }, "fork") as i32;
    if child == 0 {
        live(life);
        // SAFETY: each ends this process, or gives it another program; the strings end with NUL.
        unsafe {
            match life.number % 5 {
                0 => libc::exit(0),
                1 => {
                    let end = std::ptr::null::<libc::c_char>();
                    libc::execl(c"/bin/true".as_ptr(), c"true".as_ptr(), end);
                }
                2 => std::ptr::without_provenance_mut::<u8>(16).write_volatile(1),
                _ => {}
            }
            libc::_exit(0)
        }
    }
    table::close(writer);
    let has_ended = table::close_at_end(reader);
    life.wanted.page[GO.0].set(GO.1, 1 + life.number);
    wait(child, life.number % 5 == 2);
    ensure(has_ended, || "a child's copy of a pipe is kept".to_owned());
}

extern "C" fn begin(life: *mut libc::c_void) -> i32 {
    // SAFETY: the parent gives its `Life`, which lives until the child has ended.
    let life = unsafe { &*life.cast::<Life>() };
    live(life);
    // SAFETY: ends this process at once.
    unsafe { libc::_exit(0) }
}

/// A child with a stack of its own, until it ends.
fn cloned(flags: i32, life: &Life) {
    let mut stack = vec![0_u8; STACK];
    let top = stack.as_mut_ptr_range().end.cast();
    let life: *const Life = life;
    let flags = flags | libc::SIGCHLD;
    // SAFETY: the stack and the life outlive the child, which is waited for.
    let child = unsafe { libc::clone(begin, top, flags, life.cast_mut().cast()) };
    wait(done(child, "clone") as i32, false);
}

/// Another program, as the C library starts it.
fn spawn() {
    let mut child = 0;
    let words = [c"true".as_ptr().cast_mut(), std::ptr::null_mut()];
    let environment: [*mut libc::c_char; 1] = [std::ptr::null_mut()];
    // SAFETY: the strings end with NUL, the lists with a null pointer.
    let error = unsafe {
        libc::posix_spawn(
            &raw mut child,
            c"/bin/true".as_ptr(),
            std::ptr::null(),
            std::ptr::null(),
            words.as_ptr(),
            environment.as_ptr(),
        )
    };
    ensure(error == 0, || format!("posix_spawn: error {error}"));
    wait(child, false);
}

fn wait(child: i32, crashes: bool) {
    let status = AtomicI32::new(0);
    // SAFETY: a child of this process, and the status is valid for writing.
    while unsafe { libc::waitpid(child, status.as_ptr(), 0) } != child {}
    let status = status.load(Ordering::Relaxed);
    let faulted = libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGSEGV;
    ensure(status == 0 || (crashes && faulted), || {
        // A child says itself what is wrong.
        let why = std::fs::read_to_string(WRONG_FILE).unwrap_or_default();
        format!("a child ended with {status:#x}: {why}")
    });
}
