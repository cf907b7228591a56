//! System calls without the C library's wrappers, for a handler that may have interrupted anything: no
//! errno, no thread storage, no cancellation point. x86-64 and aarch64 in assembly; elsewhere by way of
//! the C library, with errno put back. All of it is async-signal-safe.

use core::ffi::CStr;

/// What a call gives: a number, or an error's.
pub(crate) type Result<T> = core::result::Result<T, i32>;

/// The kernel's answers from -4095 to -1 are errors.
fn check(answer: isize) -> Result<usize> {
    if (-4095..0).contains(&answer) {
        Err(answer.wrapping_neg() as i32)
    } else {
        Ok(answer as usize)
    }
}

/// # Safety
/// The call may do with the arguments what the kernel's documentation says.
#[cfg(all(target_arch = "x86_64", not(miri)))]
unsafe fn call(number: libc::c_long, arguments: [usize; 6]) -> isize {
    let [a, b, c, d, e, f] = arguments;
    let answer: isize;
    // SAFETY: the kernel's convention: it changes rax, rcx and r11, and the memory that the caller
    // vouches for.
    unsafe {
        core::arch::asm!(
            "syscall",
            inlateout("rax") number as isize => answer,
            in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d, in("r8") e, in("r9") f,
            lateout("rcx") _, lateout("r11") _,
            options(nostack),
        );
    }
    answer
}

/// # Safety
/// As above.
#[cfg(all(target_arch = "aarch64", not(miri)))]
unsafe fn call(number: libc::c_long, arguments: [usize; 6]) -> isize {
    let [a, b, c, d, e, f] = arguments;
    let answer: isize;
    // SAFETY: the kernel's convention: it changes x0, and the memory that the caller vouches for.
    unsafe {
        core::arch::asm!(
            "svc 0",
            in("x8") number as isize,
            inlateout("x0") a as isize => answer,
            in("x1") b, in("x2") c, in("x3") d, in("x4") e, in("x5") f,
            options(nostack),
        );
    }
    answer
}

/// # Safety
/// As above.
#[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
unsafe fn call(number: libc::c_long, arguments: [usize; 6]) -> isize {
    let [a, b, c, d, e, f] = arguments;
    let saved = super::errno();
    // SAFETY: as the caller vouches.
    let answer = unsafe { libc::syscall(number, a, b, c, d, e, f) } as isize;
    let error = super::errno();
    super::set_errno(saved);
    if answer == -1 {
        -(error as isize)
    } else {
        answer
    }
}

/// The calling thread, as the kernel counts.
pub(crate) fn thread() -> u32 {
    // SAFETY: no arguments.
    unsafe { call(libc::SYS_gettid, [0; 6]) as u32 }
}

/// The process, as the kernel counts: of a child too that was made behind the C library's back.
pub(crate) fn process() -> u32 {
    // SAFETY: no arguments.
    unsafe { call(libc::SYS_getpid, [0; 6]) as u32 }
}

/// Creates a file that must not exist, for its owner alone, following no link; its descriptor.
pub(crate) fn create(path: &CStr) -> Result<i32> {
    let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW | libc::O_CLOEXEC;
    let [at, path, flags] = [
        libc::AT_FDCWD as usize,
        path.as_ptr() as usize,
        flags as usize,
    ];
    let fd = loop {
        // SAFETY: the path is NUL-terminated.
        match check(unsafe { call(libc::SYS_openat, [at, path, flags, 0o600, 0, 0]) }) {
            Err(libc::EINTR) => {}
            other => break other?,
        }
    };
    // A umask may have taken the owner's own rights. Where that can't be, it stays as it is.
    // SAFETY: a descriptor that was just opened.
    unsafe { call(libc::SYS_fchmod, [fd, 0o600, 0, 0, 0, 0]) };
    Ok(fd as i32)
}

/// Writes to a descriptor; how many bytes were taken.
pub(crate) fn write(fd: i32, bytes: &[u8]) -> Result<usize> {
    let [fd, start, count] = [fd as usize, bytes.as_ptr() as usize, bytes.len()];
    // SAFETY: the bytes may be read.
    check(unsafe { call(libc::SYS_write, [fd, start, count, 0, 0, 0]) })
}

/// Whether a descriptor takes something within so many ns, or says at once that it never will.
pub(crate) fn has_room(fd: i32, patience_ns: i64) -> bool {
    let mut wanted = libc::pollfd {
        fd,
        events: libc::POLLOUT,
        revents: 0,
    };
    let patience = libc::timespec {
        tv_sec: 0,
        tv_nsec: patience_ns,
    };
    let [wanted, patience] = [(&raw mut wanted) as usize, (&raw const patience) as usize];
    // SAFETY: both structures are valid, and nobody's but ours.
    check(unsafe { call(libc::SYS_ppoll, [wanted, 1, patience, 0, 8, 0]) })
        .is_ok_and(|ready| ready > 0)
}

/// Closes a descriptor.
pub(crate) fn close(fd: i32) {
    // SAFETY: the caller's own number; nothing points into it.
    unsafe { call(libc::SYS_close, [fd as usize, 0, 0, 0, 0, 0]) };
}

/// Makes a folder, into which nobody but its owner may put anything.
pub(crate) fn make_folder(path: &CStr) -> Result<usize> {
    let [at, path] = [libc::AT_FDCWD as usize, path.as_ptr() as usize];
    // SAFETY: the path is NUL-terminated.
    check(unsafe { call(libc::SYS_mkdirat, [at, path, 0o755, 0, 0, 0]) })
}

/// Whether there is something of that name.
pub(crate) fn exists(path: &CStr) -> bool {
    let [at, path] = [libc::AT_FDCWD as usize, path.as_ptr() as usize];
    // SAFETY: the path is NUL-terminated.
    let answer = unsafe { call(libc::SYS_faccessat, [at, path, 0, 0, 0, 0]) };
    check(answer) != Err(libc::ENOENT)
}

/// Gives a file another name; `replace`: also where something has it.
pub(crate) fn rename(from: &CStr, to: &CStr, replace: bool) -> Result<usize> {
    /// `RENAME_NOREPLACE`; not every C library that we are built against has it.
    const NOT_REPLACE: usize = 1;
    let at = libc::AT_FDCWD as usize;
    let [from, to] = [from.as_ptr() as usize, to.as_ptr() as usize];
    let flags = if replace { 0 } else { NOT_REPLACE };
    // SAFETY: the paths are NUL-terminated.
    let answer = check(unsafe { call(libc::SYS_renameat2, [at, from, at, to, flags, 0]) });
    if answer != Err(libc::EINVAL) || replace {
        return answer;
    }
    // A file system that knows no flags: a link refuses to replace as well.
    // SAFETY: as above.
    let linked = check(unsafe { call(libc::SYS_linkat, [at, from, at, to, 0, 0]) });
    if linked.is_ok() {
        // SAFETY: as above.
        unsafe { call(libc::SYS_unlinkat, [at, from, 0, 0, 0, 0]) };
    }
    linked
}

/// Removes a file.
pub(crate) fn unlink(path: &CStr) {
    let [at, path] = [libc::AT_FDCWD as usize, path.as_ptr() as usize];
    // SAFETY: the path is NUL-terminated.
    unsafe { call(libc::SYS_unlinkat, [at, path, 0, 0, 0, 0]) };
}

/// Nanoseconds of a clock that never goes back.
pub(crate) fn monotonic_ns() -> u64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let [clock, place] = [libc::CLOCK_MONOTONIC as usize, (&raw mut now) as usize];
    // SAFETY: the place may be written.
    unsafe { call(libc::SYS_clock_gettime, [clock, place, 0, 0, 0, 0]) };
    (now.tv_sec as u64)
        .wrapping_mul(1_000_000_000)
        .wrapping_add(now.tv_nsec as u64)
}

/// Sleeps, less where a signal comes.
pub(crate) fn sleep_ns(ns: u32) {
    let time = libc::timespec {
        tv_sec: 0,
        tv_nsec: ns as libc::c_long,
    };
    // SAFETY: the time may be read, and no rest is asked for.
    unsafe {
        call(
            libc::SYS_nanosleep,
            [(&raw const time) as usize, 0, 0, 0, 0, 0],
        )
    };
}

/// A set of signals, as the kernel has it.
pub(crate) type Signals = u64;

/// The bit of a signal in a set.
pub(crate) const fn bit(signal: i32) -> Signals {
    1 << (signal - 1)
}

/// Signals that wait for the calling thread.
pub(crate) fn pending() -> Signals {
    let mut set: Signals = 0;
    let place = (&raw mut set) as usize;
    // SAFETY: eight bytes may be written.
    unsafe { call(libc::SYS_rt_sigpending, [place, 8, 0, 0, 0, 0]) };
    set
}

/// Blocks signals on the calling thread, or lets them through; the set before.
pub(crate) fn mask(how: i32, set: Signals) -> Signals {
    let mut old: Signals = 0;
    let [new, old_place] = [(&raw const set) as usize, (&raw mut old) as usize];
    // SAFETY: eight bytes may be read, and eight written.
    unsafe {
        call(
            libc::SYS_rt_sigprocmask,
            [how as usize, new, old_place, 8, 0, 0],
        )
    };
    old
}

/// Whether memory may be read: asked of the kernel page by page, without a fault.
pub(crate) fn is_readable(address: usize, length: usize) -> bool {
    /// No signal mask is changed in such a way: the kernel reads the new one, and refuses.
    const NOTHING: usize = usize::MAX;
    let end = address.saturating_add(length);
    (address..end).step_by(4096).all(|page| {
        // SAFETY: nothing is changed, and no other memory is touched.
        let answer = unsafe { call(libc::SYS_rt_sigprocmask, [NOTHING, page, 0, 8, 0, 0]) };
        check(answer) != Err(libc::EFAULT)
    })
}

/// Takes one waiting signal of a set away.
pub(crate) fn discard(set: Signals) {
    let now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let [place, time] = [(&raw const set) as usize, (&raw const now) as usize];
    // SAFETY: both may be read; nothing is asked about the signal.
    unsafe { call(libc::SYS_rt_sigtimedwait, [place, 0, time, 8, 0, 0]) };
}

/// Sends a signal to the calling thread, with what is known of it.
///
/// # Safety
/// `info` is valid.
pub(crate) unsafe fn resend(signal: i32, info: *const libc::siginfo_t) -> Result<usize> {
    let [process, thread] = [process() as usize, thread() as usize];
    // SAFETY: as the caller vouches.
    check(unsafe {
        call(
            libc::SYS_rt_tgsigqueueinfo,
            [process, thread, signal as usize, info as usize, 0, 0],
        )
    })
}

/// Sends a signal to the calling thread.
pub(crate) fn raise(signal: i32) {
    let [process, thread] = [process() as usize, thread() as usize];
    // SAFETY: numbers alone.
    unsafe {
        call(
            libc::SYS_tgkill,
            [process, thread, signal as usize, 0, 0, 0],
        )
    };
}

/// Ends the process at once.
pub(crate) fn exit(status: i32) -> ! {
    loop {
        // SAFETY: does not return.
        unsafe { call(libc::SYS_exit_group, [status as usize, 0, 0, 0, 0, 0]) };
    }
}

/// Sets the calling thread's alternate stack; the one before it.
pub(crate) fn alternate_stack(new: Option<&libc::stack_t>) -> libc::stack_t {
    let mut old = libc::stack_t {
        ss_sp: core::ptr::null_mut(),
        ss_flags: libc::SS_DISABLE,
        ss_size: 0,
    };
    let new = new.map_or(0, |new| core::ptr::from_ref(new) as usize);
    // SAFETY: the structures are valid; that the new stack is memory of ours is the caller's matter, who
    // is told so by where it comes from (`sys::stack`).
    unsafe {
        call(
            libc::SYS_sigaltstack,
            [new, (&raw mut old) as usize, 0, 0, 0, 0],
        )
    };
    old
}

/// Whether something that is no plain file has that name.
pub(crate) fn is_no_file(path: &CStr) -> bool {
    // SAFETY: all zeros is a valid `statx`.
    let mut found: libc::statx = unsafe { core::mem::zeroed() };
    let [at, path] = [libc::AT_FDCWD as usize, path.as_ptr() as usize];
    let [what, place] = [libc::STATX_TYPE as usize, (&raw mut found) as usize];
    // SAFETY: the path is NUL-terminated, the place may be written.
    let answer = check(unsafe { call(libc::SYS_statx, [at, path, 0, what, place, 0]) });
    answer.is_ok() && u32::from(found.stx_mode) & libc::S_IFMT != libc::S_IFREG
}

/// Moves a descriptor that was just opened away from the first three numbers: where those are closed, the
/// program's output would go into what is ours.
pub(crate) fn out_of_the_way(fd: i32) -> i32 {
    if fd > libc::STDERR_FILENO {
        return fd;
    }
    let [low, duplicate] = [fd as usize, libc::F_DUPFD_CLOEXEC as usize];
    // SAFETY: numbers alone.
    match check(unsafe { call(libc::SYS_fcntl, [low, duplicate, 3, 0, 0, 0]) }) {
        Ok(high) => {
            close(fd);
            high as i32
        }
        Err(_) => fd,
    }
}

/// Runs `body` with what writing can raise held back, and takes it away where `body` raised it: an error
/// is enough to know.
pub(crate) fn undisturbed<T>(body: impl FnOnce() -> T) -> T {
    const RAISED: [i32; 2] = [libc::SIGPIPE, libc::SIGXFSZ];
    let before = pending();
    let blocked = RAISED.iter().fold(0, |set, &signal| set | bit(signal));
    let old = mask(libc::SIG_BLOCK, blocked);
    let result = body();
    for signal in RAISED {
        let new = pending() & !before & bit(signal);
        if new != 0 {
            discard(new);
        }
    }
    mask(libc::SIG_SETMASK, old);
    result
}
