//! System calls without the C library's wrappers, for a handler that may have interrupted anything. They use no
//! errno and no thread storage, and they are no cancellation points. On x86-64 and aarch64 they are in
//! assembly. Elsewhere they use the C library and restore errno. Everything here is async-signal-safe and must
//! never touch thread storage.

use core::ffi::CStr;

/// The result of a call: a number, or the number of an error.
pub(crate) type Result<T> = core::result::Result<T, i32>;

/// Answers of the kernel from -4095 to -1 are errors.
fn check(answer: isize) -> Result<usize> {
    if (-4095..0).contains(&answer) {
        Err(answer.wrapping_neg() as i32)
    } else {
        Ok(answer as usize)
    }
}

/// # Safety
/// The call may do with the arguments whatever the kernel's documentation says.
#[cfg(all(target_arch = "x86_64", not(miri)))]
unsafe fn call(number: libc::c_long, arguments: [usize; 6]) -> isize {
    let [a, b, c, d, e, f] = arguments;
    let answer: isize;
    // SAFETY: by the kernel's convention it changes rax, rcx, r11, and the memory that the caller promises.
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
    // SAFETY: by the kernel's convention it changes x0, and the memory that the caller promises.
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
    // SAFETY: the caller promises the arguments.
    let answer = unsafe { libc::syscall(number, a, b, c, d, e, f) } as isize;
    let error = super::errno();
    super::set_errno(saved);
    if answer == -1 {
        -(error as isize)
    } else {
        answer
    }
}

/// The kernel's id of the calling thread.
#[inline(never)]
pub(crate) fn thread() -> u32 {
    // SAFETY: no arguments.
    unsafe { call(libc::SYS_gettid, [0; 6]) as u32 }
}

/// The kernel's id of the process. It is right also in a child that was made without the C library.
pub(crate) fn process() -> u32 {
    // SAFETY: no arguments.
    unsafe { call(libc::SYS_getpid, [0; 6]) as u32 }
}

/// Makes a file that must not exist, for its owner alone. It follows no link. Returns its descriptor.
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
    // The umask may have removed rights of the owner. If they can't be set, the file stays as it is.
    // SAFETY: this is a descriptor that was just opened.
    unsafe { call(libc::SYS_fchmod, [fd, 0o600, 0, 0, 0, 0]) };
    Ok(fd as i32)
}

/// Device and inode of an open file.
#[inline(never)]
pub(crate) fn identity(fd: i32) -> Result<(u32, u32, u64)> {
    // SAFETY: all zeros is a valid `statx`.
    let mut found: libc::statx = unsafe { core::mem::zeroed() };
    let [fd, path] = [fd as usize, c"".as_ptr() as usize];
    let how = libc::AT_EMPTY_PATH as usize;
    let [what, place] = [libc::STATX_INO as usize, (&raw mut found) as usize];
    // SAFETY: the path is NUL-terminated, and the place may be written.
    check(unsafe { call(libc::SYS_statx, [fd, path, how, what, place, 0]) })?;
    Ok((found.stx_dev_major, found.stx_dev_minor, found.stx_ino))
}

/// Locks a file for as long as it is open or mapped. It does not wait. `how`: LOCK_EX or LOCK_SH.
pub(crate) fn lock(fd: i32, how: i32) -> Result<()> {
    let how = (how | libc::LOCK_NB) as usize;
    // SAFETY: the arguments are numbers.
    check(unsafe { call(libc::SYS_flock, [fd as usize, how, 0, 0, 0, 0]) }).map(|_| ())
}

/// Writes to a file at an offset. Returns how many bytes were taken.
pub(crate) fn write_at(fd: i32, bytes: &[u8], offset: u64) -> Result<usize> {
    let [fd, start, count] = [fd as usize, bytes.as_ptr() as usize, bytes.len()];
    // SAFETY: the bytes may be read.
    check(unsafe {
        call(
            libc::SYS_pwrite64,
            [fd, start, count, offset as usize, 0, 0],
        )
    })
}

/// Writes to a descriptor. Returns how many bytes were taken.
pub(crate) fn write(fd: i32, bytes: &[u8]) -> Result<usize> {
    let [fd, start, count] = [fd as usize, bytes.as_ptr() as usize, bytes.len()];
    // SAFETY: the bytes may be read.
    check(unsafe { call(libc::SYS_write, [fd, start, count, 0, 0, 0]) })
}

/// Whether a descriptor takes bytes within `patience_ns`, or reports at once that it never will.
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
    // SAFETY: both structures are valid and ours alone.
    check(unsafe { call(libc::SYS_ppoll, [wanted, 1, patience, 0, 8, 0]) })
        .is_ok_and(|ready| ready > 0)
}

/// Closes a descriptor.
pub(crate) fn close(fd: i32) {
    // SAFETY: the number is the caller's own, and nothing else uses it.
    unsafe { call(libc::SYS_close, [fd as usize, 0, 0, 0, 0, 0]) };
}

/// Closes every descriptor from `first` on. `apart`: the calling thread first leaves the descriptor table that it
/// shares, and none of these descriptors is copied into its own one. New in Linux 5.9.
pub(crate) fn close_from(first: u32, apart: bool) -> Result<()> {
    /// `CLOSE_RANGE_UNSHARE`.
    const APART: usize = 1 << 1;
    const NUMBER: libc::c_long = 436;
    let flags = if apart { APART } else { 0 };
    let last = u32::MAX as usize;
    // SAFETY: the caller has these descriptors for itself, or leaves the table.
    check(unsafe { call(NUMBER, [first as usize, last, flags, 0, 0, 0]) }).map(|_| ())
}

/// Closes the descriptors from `first` to the limit, where the kernel can't do so in one step. At most
/// [`MAX_CLOSED`] of them: others stay open until the thread ends.
pub(crate) fn close_each_from(first: u32) {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    let place = (&raw mut limit) as usize;
    let [this, none, which] = [0, 0, libc::RLIMIT_NOFILE as usize];
    // SAFETY: the place may be written.
    unsafe { call(libc::SYS_prlimit64, [this, which, none, place, 0, 0]) };
    for fd in first..(limit.rlim_cur as u32).min(MAX_CLOSED) {
        close(fd as i32);
    }
}

/// The most descriptors that are closed one by one.
const MAX_CLOSED: u32 = 1 << 16;

/// Gives the calling thread a copy of the descriptor table that it shares with others.
pub(crate) fn unshare_descriptors() -> Result<()> {
    let flags = libc::CLONE_FILES as usize;
    // SAFETY: the call changes nothing in other threads.
    check(unsafe { call(libc::SYS_unshare, [flags, 0, 0, 0, 0, 0]) }).map(|_| ())
}

/// Opens /dev/null. If that fails, an empty file in memory.
pub(crate) fn open_null() -> Result<i32> {
    let [at, path] = [libc::AT_FDCWD as usize, c"/dev/null".as_ptr() as usize];
    let flags = (libc::O_RDWR | libc::O_CLOEXEC) as usize;
    // SAFETY: the path is NUL-terminated.
    let opened = check(unsafe { call(libc::SYS_openat, [at, path, flags, 0, 0, 0]) });
    let name = c"fdr-null".as_ptr() as usize;
    let memory = libc::MFD_CLOEXEC as usize;
    opened
        // SAFETY: the name is NUL-terminated.
        .or_else(|_| check(unsafe { call(libc::SYS_memfd_create, [name, memory, 0, 0, 0, 0]) }))
        .map(|fd| fd as i32)
}

/// The flags for a thread of this process that shares everything but its registers with its maker. When the thread has
/// ended, the kernel stores 0 and wakes the thread that waits for it.
#[cfg(any(not(miri), tsan))]
const STANDS_IN: i32 = libc::CLONE_VM
    | libc::CLONE_FS
    | libc::CLONE_FILES
    | libc::CLONE_SIGHAND
    | libc::CLONE_THREAD
    | libc::CLONE_SYSVSEM
    | libc::CLONE_CHILD_CLEARTID;

/// Runs `body` in a new thread of this process, and waits for its end. The two share the stack, the thread storage and
/// the descriptor table. The C library does not know the thread. Returns the thread's id.
///
/// # Errors
/// errno: there is no thread. If the kernel ends the thread before its time, this is no error.
///
/// # Safety
/// `body` may be called with `argument`. No handler of the program may run meanwhile.
#[cfg(all(
    any(target_arch = "x86_64", target_arch = "aarch64"),
    any(not(miri), tsan)
))]
pub(crate) unsafe fn call_in_thread(
    body: extern "C" fn(*mut libc::c_void),
    argument: *mut libc::c_void,
) -> Result<u32> {
    let lives = core::sync::atomic::AtomicU32::new(1);
    // SAFETY: the caller's promise is the same.
    let answer = unsafe { clone_and_wait(body, argument, &lives) };
    check(answer).map(|thread| thread as u32)
}

/// Makes the thread, and sleeps until `lives` is 0. Returns the thread's id, or an error's negative number.
///
/// # Safety
/// As for [`call_in_thread`].
#[cfg(all(target_arch = "x86_64", any(not(miri), tsan)))]
unsafe fn clone_and_wait(
    body: extern "C" fn(*mut libc::c_void),
    argument: *mut libc::c_void,
    lives: &core::sync::atomic::AtomicU32,
) -> isize {
    let flags = STANDS_IN as usize;
    let answer: isize;
    // SAFETY: the new thread begins behind the system call, with copies of all registers. It uses the stack below the
    // frame of this function (there is no red zone without `nostack`), and ends without a return. Until then the calling
    // thread waits in here and touches no stack: it asks the kernel to sleep while the word is 1.
    unsafe {
        core::arch::asm!(
            "syscall",
            "test rax, rax",
            "jz 3f",
            "js 4f",
            "mov r12, rax",
            "2:",
            "cmp dword ptr [r14], 0",
            "je 5f",
            "mov eax, {futex}",
            "mov rdi, r14",
            "xor esi, esi",
            "mov edx, 1",
            "xor r10d, r10d",
            "syscall",
            "jmp 2b",
            "3:",
            "and rsp, -16",
            "mov rdi, r13",
            "call r12",
            "mov eax, {exit}",
            "xor edi, edi",
            "syscall",
            "ud2",
            "5:",
            "mov rax, r12",
            "4:",
            exit = const libc::SYS_exit as i32,
            futex = const libc::SYS_futex as i32,
            inlateout("rax") libc::SYS_clone as isize => answer,
            inlateout("rdi") flags => _, inlateout("rsi") 0_usize => _, inlateout("rdx") 0_usize => _,
            inlateout("r10") lives.as_ptr() => _, in("r8") 0_usize,
            inlateout("r12") body => _, in("r13") argument, in("r14") lives.as_ptr(),
            lateout("rcx") _, lateout("r11") _,
        );
    }
    answer
}

#[cfg(all(target_arch = "aarch64", any(not(miri), tsan)))]
unsafe fn clone_and_wait(
    body: extern "C" fn(*mut libc::c_void),
    argument: *mut libc::c_void,
    lives: &core::sync::atomic::AtomicU32,
) -> isize {
    let flags = STANDS_IN as usize;
    let answer: isize;
    // SAFETY: as on x86-64.
    unsafe {
        core::arch::asm!(
            "svc 0",
            "cbz x0, 3f",
            "tbnz x0, 63, 4f",
            "mov x20, x0",
            "2:",
            "ldar w9, [x22]",
            "cbz w9, 5f",
            "mov x8, {futex}",
            "mov x0, x22",
            "mov x1, 0",
            "mov x2, 1",
            "mov x3, 0",
            "svc 0",
            "b 2b",
            "3:",
            "mov x0, x21",
            "blr x20",
            "mov x8, {exit}",
            "mov x0, 0",
            "svc 0",
            "brk 1",
            "5:",
            "mov x0, x20",
            "4:",
            exit = const libc::SYS_exit as i32,
            futex = const libc::SYS_futex as i32,
            inlateout("x8") libc::SYS_clone as usize => _,
            inlateout("x0") flags as isize => answer,
            inlateout("x1") 0_usize => _, inlateout("x2") 0_usize => _, inlateout("x3") 0_usize => _,
            in("x4") lives.as_ptr(), out("x9") _,
            inlateout("x20") body => _, in("x21") argument, in("x22") lives.as_ptr(),
        );
    }
    answer
}

/// The same by the C library, with a stack of its own. musl makes no such thread.
///
/// # Safety
/// As above.
#[cfg(all(
    not(any(target_arch = "x86_64", target_arch = "aarch64")),
    any(not(miri), tsan)
))]
pub(crate) unsafe fn call_in_thread(
    body: extern "C" fn(*mut libc::c_void),
    argument: *mut libc::c_void,
) -> Result<u32> {
    type Call = (extern "C" fn(*mut libc::c_void), *mut libc::c_void);
    extern "C" fn begin(call: *mut libc::c_void) -> i32 {
        // SAFETY: the maker passes its own variable, and waits for this thread.
        let (body, argument) = unsafe { *call.cast::<Call>() };
        body(argument);
        0
    }
    const STACK: usize = 256 * 1024;
    let lives = core::sync::atomic::AtomicU32::new(1);
    let (word, none) = (lives.as_ptr(), core::ptr::null_mut::<u32>());
    let mut call: Call = (body, argument);
    let stack = super::memory::reserve(STACK, 64 * 1024).ok_or(libc::ENOMEM)?;
    // SAFETY: the stack is memory of this call, which its thread has left when the word is 0.
    unsafe {
        super::memory::allow(stack, STACK)?;
        let (top, call) = (stack.add(STACK).cast(), (&raw mut call).cast());
        let thread = libc::clone(begin, top, STANDS_IN, call, none, none, word);
        let error = super::errno();
        while thread > 0 && lives.load(core::sync::atomic::Ordering::Acquire) != 0 {
            libc::syscall(libc::SYS_futex, word, libc::FUTEX_WAIT, 1, 0);
        }
        super::memory::unmap(stack, STACK);
        u32::try_from(thread).map_err(|_| error)
    }
}

/// Miri knows no such threads. ThreadSanitizer does.
///
/// # Safety
/// None is needed.
#[cfg(all(miri, not(tsan)))]
pub(crate) unsafe fn call_in_thread(
    _: extern "C" fn(*mut libc::c_void),
    _: *mut libc::c_void,
) -> Result<u32> {
    Err(libc::ENOSYS)
}

/// Makes a folder into which only its owner may put anything, and its owner may whatever the umask is.
pub(crate) fn make_folder(path: &CStr) -> Result<usize> {
    const OWNER: usize = 0o700;
    let [at, name] = [libc::AT_FDCWD as usize, path.as_ptr() as usize];
    // SAFETY: the path is NUL-terminated.
    let made = check(unsafe { call(libc::SYS_mkdirat, [at, name, 0o755, 0, 0, 0]) })?;
    let mode = mode(path).unwrap_or(OWNER as u32) as usize & 0o777;
    if mode & OWNER != OWNER {
        // SAFETY: as above. If the rights can't be set, the folder stays as it is.
        unsafe { call(libc::SYS_fchmodat, [at, name, mode | OWNER, 0, 0, 0]) };
    }
    Ok(made)
}

/// Kind and rights of a file.
fn mode(path: &CStr) -> Option<u32> {
    // SAFETY: all zeros is a valid `statx`.
    let mut found: libc::statx = unsafe { core::mem::zeroed() };
    let [at, path] = [libc::AT_FDCWD as usize, path.as_ptr() as usize];
    let what = (libc::STATX_TYPE | libc::STATX_MODE) as usize;
    let place = (&raw mut found) as usize;
    // SAFETY: the path is NUL-terminated, and the place may be written.
    let answer = check(unsafe { call(libc::SYS_statx, [at, path, 0, what, place, 0]) });
    answer.is_ok().then(|| u32::from(found.stx_mode))
}

/// Whether something has that name.
pub(crate) fn exists(path: &CStr) -> bool {
    let [at, path] = [libc::AT_FDCWD as usize, path.as_ptr() as usize];
    // SAFETY: the path is NUL-terminated.
    let answer = unsafe { call(libc::SYS_faccessat, [at, path, 0, 0, 0, 0]) };
    check(answer) != Err(libc::ENOENT)
}

/// Renames a file. `replace`: even if something has the new name.
pub(crate) fn rename(from: &CStr, to: &CStr, replace: bool) -> Result<usize> {
    /// `RENAME_NOREPLACE`, which some C libraries lack.
    const NOT_REPLACE: usize = 1;
    let at = libc::AT_FDCWD as usize;
    let [from, to] = [from.as_ptr() as usize, to.as_ptr() as usize];
    let flags = if replace { 0 } else { NOT_REPLACE };
    // SAFETY: the paths are NUL-terminated.
    let answer = check(unsafe { call(libc::SYS_renameat2, [at, from, at, to, flags, 0]) });
    if answer != Err(libc::EINVAL) || replace {
        return answer;
    }
    // This file system knows no flags. A link also refuses to replace.
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
#[inline(never)]
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

/// Sleeps. A signal ends the sleep.
pub(crate) fn sleep_ns(ns: u32) {
    let time = libc::timespec {
        tv_sec: 0,
        tv_nsec: ns as libc::c_long,
    };
    // SAFETY: the time may be read. No remaining time is asked for.
    unsafe {
        call(
            libc::SYS_nanosleep,
            [(&raw const time) as usize, 0, 0, 0, 0, 0],
        )
    };
}

/// A set of signals in the kernel's form.
pub(crate) type Signals = u64;

/// The bit of a signal in a set.
pub(crate) const fn bit(signal: i32) -> Signals {
    1 << (signal - 1)
}

/// All signals except those that a thread causes or sends itself.
pub(crate) const ALL_BUT_FAULTS: Signals = !(bit(libc::SIGSEGV)
    | bit(libc::SIGBUS)
    | bit(libc::SIGILL)
    | bit(libc::SIGFPE)
    | bit(libc::SIGABRT)
    | bit(libc::SIGTRAP)
    | bit(libc::SIGSYS));

/// The signals that are pending for the calling thread.
pub(crate) fn pending() -> Signals {
    let mut set: Signals = 0;
    let place = (&raw mut set) as usize;
    // SAFETY: eight bytes may be written.
    unsafe { call(libc::SYS_rt_sigpending, [place, 8, 0, 0, 0, 0]) };
    set
}

/// Blocks or unblocks signals on the calling thread. Returns the former set.
pub(crate) fn mask(how: i32, set: Signals) -> Signals {
    let mut old: Signals = 0;
    let [new, old_place] = [(&raw const set) as usize, (&raw mut old) as usize];
    // SAFETY: eight bytes may be read, and eight may be written.
    unsafe {
        call(
            libc::SYS_rt_sigprocmask,
            [how as usize, new, old_place, 8, 0, 0],
        )
    };
    old
}

/// Whether memory can be read. The kernel tests it page by page, without a fault.
pub(crate) fn is_readable(address: usize, length: usize) -> bool {
    /// This is no valid way to change a mask. The kernel reads the new mask first, and then refuses.
    const NOTHING: usize = usize::MAX;
    let end = address.saturating_add(length);
    (address..end).step_by(4096).all(|page| {
        // SAFETY: the call changes nothing and touches no other memory.
        let answer = unsafe { call(libc::SYS_rt_sigprocmask, [NOTHING, page, 0, 8, 0, 0]) };
        check(answer) != Err(libc::EFAULT)
    })
}

/// Takes one pending signal of a set away.
pub(crate) fn discard(set: Signals) {
    let now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let [place, time] = [(&raw const set) as usize, (&raw const now) as usize];
    // SAFETY: both may be read. No information on the signal is asked for.
    unsafe { call(libc::SYS_rt_sigtimedwait, [place, 0, time, 8, 0, 0]) };
}

/// Sends a signal to the calling thread, with the kernel's information on it.
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
    // SAFETY: the arguments are numbers.
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
        // SAFETY: the call does not return.
        unsafe { call(libc::SYS_exit_group, [status as usize, 0, 0, 0, 0, 0]) };
    }
}

/// Whether the word at that address can be read. The kernel reads the set of signals there, and refuses what to do with it.
pub(crate) fn can_read(address: usize) -> bool {
    const NO_WAY: usize = 0xFFFF;
    // SAFETY: the kernel reads one word, or says that it can't. It changes nothing.
    let answer = unsafe { call(libc::SYS_rt_sigprocmask, [NO_WAY, address, 0, 8, 0, 0]) };
    answer == -(libc::EINVAL as isize)
}

/// Sets the calling thread's alternate stack. Returns the former one.
pub(crate) fn alternate_stack(new: Option<&libc::stack_t>) -> libc::stack_t {
    let mut old = libc::stack_t {
        ss_sp: core::ptr::null_mut(),
        ss_flags: libc::SS_DISABLE,
        ss_size: 0,
    };
    let new = new.map_or(0, |new| core::ptr::from_ref(new) as usize);
    // SAFETY: the structures are valid. The caller takes the new stack from `sys::stack`, so its memory is
    // ours.
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
    mode(path).is_some_and(|mode| mode & libc::S_IFMT != libc::S_IFREG)
}

/// Runs `body` while the signals are held back that a write can raise. If `body` raised such a signal, it is removed,
/// because the error of the write says enough.
pub(crate) fn undisturbed<T>(body: impl FnOnce() -> T) -> T {
    let before = pending();
    let blocked = RAISED.iter().fold(0, |set, &signal| set | bit(signal));
    let old = mask(libc::SIG_BLOCK, blocked);
    let result = body();
    take_away_raised(before);
    mask(libc::SIG_SETMASK, old);
    result
}

/// The signals that writing can raise.
const RAISED: [i32; 2] = [libc::SIGPIPE, libc::SIGXFSZ];

/// Takes those away that were not pending `before`.
#[inline(never)]
fn take_away_raised(before: u64) {
    for signal in RAISED {
        let new = pending() & !before & bit(signal);
        if new != 0 {
            discard(new);
        }
    }
}
