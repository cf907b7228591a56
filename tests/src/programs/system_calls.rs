//! System calls that a program forbids itself.

/// The most calls that can be forbidden at once.
const MAX_CALLS: usize = 8;

/// From now on the calls have this `answer`, a `SECCOMP_RET_…`. The filter is for the calling thread, unless `flags`
/// says otherwise. Returns 0, or -1 and `errno`. Allocates nothing, so a forked child may call it.
///
/// # Panics
///
/// If there are too many calls.
pub fn forbid(calls: &[libc::c_long], answer: u32, flags: libc::c_ulong) -> i64 {
    let step = |code: u32, jf: u8, k: u32| libc::sock_filter {
        code: code as u16,
        jt: 0,
        jf,
        k,
    };
    let answer_with = |answer| step(libc::BPF_RET | libc::BPF_K, 0, answer);
    let load_number = step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0);
    let mut filter = [load_number; 2 * MAX_CALLS + 2];
    let mut length = 1;
    for &call in calls {
        let equal = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
        filter[length] = step(equal, 1, call as u32);
        filter[length + 1] = answer_with(answer);
        length += 2;
    }
    filter[length] = answer_with(libc::SECCOMP_RET_ALLOW);
    let program = libc::sock_fprog {
        len: length as u16 + 1,
        filter: filter.as_mut_ptr(),
    };
    // SAFETY: the program and its filter are valid for reading.
    unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        let mode = libc::SECCOMP_SET_MODE_FILTER;
        libc::syscall(libc::SYS_seccomp, mode, flags, &raw const program)
    }
}
