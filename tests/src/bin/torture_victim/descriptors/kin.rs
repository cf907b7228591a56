//! Children of the program, of each kind: they close all that they have, open a file of their own at many numbers,
//! record, and check their file. A child that shares the table leaves it to its parent to open the files again.

use std::sync::atomic::{AtomicI32, Ordering};

use std::time::{Duration, Instant};

use fdr_tests::support::truth::descriptors::{GO, OF_CHILDREN, round};

use super::owner::OwnedFile;
use super::{DescriptorTask, MANY, PATIENCE, table, work};

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
pub(crate) fn children(wanted: DescriptorTask, kinds: u64, number: u64) -> Result<(), String> {
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
        fork(&life(false, true))?;
    }
    if does(round::VFORK) {
        cloned(libc::CLONE_VM | libc::CLONE_VFORK, &life(false, false))?;
    }
    if does(round::SPAWN) {
        spawn()?;
    }
    if does(round::SHARING) {
        // It closes what another thread may have opened just now.
        let _table = table::lock();
        cloned(libc::CLONE_FILES, &life(true, false))?;
    }
    Ok(())
}

/// What a child does; its exit status.
fn live(life: &Life) -> i32 {
    let done = lived(life);
    match done {
        Ok(()) => 0,
        Err(why) => {
            let _ = std::fs::write("wrong.child", why);
            4
        }
    }
}

fn lived(life: &Life) -> Result<(), String> {
    if life.shares {
        // Only numbers of the first share.
        for number in (4..1000).step_by(4) {
            table::close(number);
        }
        work(10);
        return Ok(());
    }
    table::close_from(life.wanted.first());
    let mut own = OwnedFile::new(life.wanted.page, OF_CHILDREN, false);
    let first = own.open()?;
    for number in first + 1..MANY {
        table::dup_over(first, number)?;
    }
    work(if life.number.is_multiple_of(4) {
        5000
    } else {
        20
    });
    if life.forked {
        waits(life)?;
    }
    own.is_whole(first)
}

/// The recorder gets its thread back in some children. They go on when their parent has seen the end of its pipe.
fn waits(life: &Life) -> Result<(), String> {
    if life.number.is_multiple_of(3) {
        let _ = fdr::enable();
        work(20);
    }
    let begun = Instant::now();
    while life.wanted.page[GO.0].get(GO.1) <= life.number {
        if begun.elapsed() > 2 * PATIENCE {
            return Err("a parent that does not go on".to_owned());
        }
        std::thread::sleep(Duration::from_micros(200));
    }
    Ok(())
}

fn fork(life: &Life) -> Result<(), String> {
    let [reader, writer] = table::pipe()?;
    // SAFETY: the child takes no lock of the program's, and ends below.
    match unsafe { libc::fork() } {
        -1 => Err(format!("fork: {}", std::io::Error::last_os_error())),
        0 => {
            let status = live(life);
            // SAFETY: each ends this process, or gives it another program; the strings end with NUL.
            unsafe {
                match life.number % 5 {
                    _ if status != 0 => {}
                    0 => libc::exit(0),
                    1 => {
                        let end = std::ptr::null::<libc::c_char>();
                        libc::execl(c"/bin/true".as_ptr(), c"true".as_ptr(), end);
                    }
                    2 => std::ptr::without_provenance_mut::<u8>(16).write_volatile(1),
                    _ => {}
                }
                libc::_exit(status)
            }
        }
        child => {
            table::close(writer);
            let has_ended = table::ends(reader, PATIENCE.as_millis() as i32);
            table::close(reader);
            life.wanted.page[GO.0].set(GO.1, 1 + life.number);
            wait(child, life.number % 5 == 2)?;
            match has_ended {
                true => Ok(()),
                false => Err("a child's copy of a pipe is kept".to_owned()),
            }
        }
    }
}

extern "C" fn begin(life: *mut libc::c_void) -> i32 {
    // SAFETY: the parent gives its `Life`, which lives until the child has ended.
    let life = unsafe { &*life.cast::<Life>() };
    let status = live(life);
    // SAFETY: ends this process at once.
    unsafe { libc::_exit(status) }
}

/// A child with a stack of its own, until it ends.
fn cloned(flags: i32, life: &Life) -> Result<(), String> {
    let mut stack = vec![0_u8; STACK];
    let top = stack.as_mut_ptr_range().end.cast();
    let life: *const Life = life;
    let flags = flags | libc::SIGCHLD;
    // SAFETY: the stack and the life outlive the child, which is waited for.
    let child = unsafe { libc::clone(begin, top, flags, life.cast_mut().cast()) };
    match child {
        -1 => Err(format!("clone: {}", std::io::Error::last_os_error())),
        child => wait(child, false),
    }
}

/// Another program, as the C library starts it.
fn spawn() -> Result<(), String> {
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
    match error {
        0 => wait(child, false),
        _ => Err(format!("posix_spawn: error {error}")),
    }
}

fn wait(child: i32, crashes: bool) -> Result<(), String> {
    let status = AtomicI32::new(0);
    // SAFETY: a child of this process, and the status is valid for writing.
    while unsafe { libc::waitpid(child, status.as_ptr(), 0) } != child {}
    let status = status.load(Ordering::Relaxed);
    let faulted = libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGSEGV;
    match status {
        0 => Ok(()),
        _ if crashes && faulted => Ok(()),
        _ => {
            let why = std::fs::read_to_string("wrong.child").unwrap_or_default();
            Err(format!("a child ended with {status:#x}: {why}"))
        }
    }
}
