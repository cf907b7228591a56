//! Children that a program forks, and a page that it shares with them. In the page each child says how many records it
//! has made since the fork. The program prints these numbers at its end. Tests compare them with the recorder's.

use std::process;
use std::sync::atomic::{AtomicU64, Ordering};

/// How a child ends that succeeded.
pub const WELL: i32 = 7;

/// Most children that can report.
const MAX: usize = 1000;

/// A report: the process, and its number of records plus one (0 = no report yet).
#[derive(Debug)]
#[repr(C)]
struct Report {
    pid: AtomicU64,
    records: AtomicU64,
}

/// What children say.
#[derive(Clone, Copy, Debug)]
pub struct Reports(&'static [Report]);

impl Reports {
    /// A page for the children to come.
    ///
    /// # Panics
    ///
    /// If there is no memory.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "memory is not had for nothing")]
    pub fn new() -> Reports {
        let (protection, flags) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED | libc::MAP_ANONYMOUS,
        );
        let length = MAX * size_of::<Report>();
        // SAFETY: a new mapping, never unmapped; zeros are valid reports.
        let page = unsafe {
            let page = libc::mmap(std::ptr::null_mut(), length, protection, flags, -1, 0);
            assert_ne!(page, libc::MAP_FAILED);
            std::slice::from_raw_parts(page.cast(), MAX)
        };
        Reports(page)
    }

    /// Reports how many records the calling process has made since its fork. May be called in a handler.
    pub fn report(self, records: u64) {
        let pid = u64::from(process::id());
        let free = |report: &&Report| {
            let swap = report
                .pid
                .compare_exchange(0, pid, Ordering::AcqRel, Ordering::Relaxed);
            swap.is_ok() || swap == Err(pid)
        };
        if let Some(report) = self.0.iter().find(free) {
            report.records.store(records + 1, Ordering::Release);
        }
    }

    /// Prints the reports of the children: `child PID RECORDS`.
    pub fn print(self) {
        for report in self.0 {
            let records = report.records.load(Ordering::Acquire);
            if records > 0 {
                println!(
                    "child {} {}",
                    report.pid.load(Ordering::Acquire),
                    records - 1
                );
            }
        }
    }
}

/// Ends a child whose code panics. If the panic unwound further, the child would run its parent's code, and would wait
/// for threads that it does not have.
struct Fails;

impl Drop for Fails {
    fn drop(&mut self) {
        // SAFETY: ends the process at once.
        unsafe { libc::_exit(1) }
    }
}

/// Forks; the child runs `child` and ends by `exit`, its handlers included.
///
/// # Panics
///
/// If there can be no child.
pub fn fork(child: impl FnOnce()) -> libc::pid_t {
    // SAFETY: the child's code belongs to this program. Where other threads run in the parent, the child does only
    // what the child of such a process may do.
    match unsafe { libc::fork() } {
        -1 => panic!("fork: {}", std::io::Error::last_os_error()),
        0 => {
            let _fails = Fails;
            child();
            process::exit(WELL)
        }
        pid => pid,
    }
}

/// Ends the process without any handler.
pub fn leave() -> ! {
    // SAFETY: ends the process at once.
    unsafe { libc::_exit(WELL) }
}

/// Waits for a child, which must have ended well.
///
/// # Panics
///
/// If it has not.
pub fn wait_for(pid: libc::pid_t) {
    let mut status = 0;
    // SAFETY: `pid` is a child of this process, and `status` is valid for writing.
    assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
    let code = libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status));
    assert_eq!(code, Some(WELL), "the child's status is {status:#x}");
}

/// Forks by the system call alone: the C library and the recorder learn nothing of it.
#[must_use]
pub fn fork_unnoticed() -> libc::pid_t {
    let signal = libc::SIGCHLD as libc::c_long;
    // SAFETY: a copy of the process on a copy of this stack. The child does only what such a child may do.
    let child =
        unsafe { libc::syscall(libc::SYS_clone, signal, 0_usize, 0_usize, 0_usize, 0_usize) };
    child as libc::pid_t
}
