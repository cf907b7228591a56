//! The calling thread's slot: one pointer in thread storage. Beside it are the numbers of its tasks.
//! Async-signal-safe.
//!
//! On x86-64 the code uses a TLS descriptor, which stable Rust does not offer. The descriptor gives the offset
//! of the variable from the thread pointer. If all threads share that offset ([`fixed_offset`]), the stubs load
//! it as a number.
//!
//! In an executable the linker knows the offset. In a library the descriptor remains a call. So `dlopen` can
//! load the library at any time. The initial-exec model would forbid that, because all thread storage of the
//! library would have to fit into a small reserve. The loader puts the storage of most libraries into that
//! reserve, and then the offset is fixed.

#[cfg(all(target_arch = "x86_64", not(miri)))]
pub(crate) use model::fixed_offset;
pub(super) use model::{get, replace, replace_ids, set, set_task, task};

use super::{CLAIMING, FORKING, GONE, NO_ROOM, UNCLAIMED};
use crate::ring::layout::Slot;

/// Bytes from the pointer to the id of the task that the thread polls, and to the next id that it gives.
#[cfg(all(target_arch = "x86_64", not(miri)))]
const TASK_AT: usize = 8;
#[cfg(all(target_arch = "x86_64", not(miri)))]
const IDS_AT: usize = 16;
/// Bytes from the pointer to a CPU that no clock gives and no slot has. No record is like the last one there.
#[cfg(all(target_arch = "x86_64", not(miri)))]
pub(super) const NO_SUCH_CPU_AT: usize = 24;
#[cfg(all(target_arch = "x86_64", not(miri)))]
const NO_SUCH_CPU: u32 = 0x8000_0002;

#[cfg(all(target_arch = "x86_64", not(miri)))]
/// The name of the variable. It has the version in it, because a program may contain two versions of the crate.
macro_rules! slot {
    () => {
        concat!(
            "__fdr_slot_",
            env!("CARGO_PKG_VERSION_MAJOR"),
            "_",
            env!("CARGO_PKG_VERSION_MINOR"),
            "_",
            env!("CARGO_PKG_VERSION_PATCH")
        )
    };
}
#[cfg(all(target_arch = "x86_64", not(miri)))]
/// Puts the variable's offset from the thread pointer into rax. Linkers recognise exactly these instructions.
macro_rules! place {
    () => {
        concat!(
            "lea rax, [rip + ",
            slot!(),
            "@tlsdesc]\n",
            "call [rax + ",
            slot!(),
            "@tlscall]",
        )
    };
}
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod model {
    use core::arch::{asm, global_asm};

    use super::{IDS_AT, NO_SUCH_CPU, TASK_AT};
    use crate::recorder::UNCLAIMED;
    use crate::ring::layout::Slot;

    global_asm!(
        ".pushsection .tdata, \"awT\", %progbits",
        ".balign 8",
        concat!(".globl ", slot!()),
        concat!(".hidden ", slot!()),
        concat!(".type ", slot!(), ", %object"),
        concat!(".size ", slot!(), ", 28"),
        concat!(slot!(), ":"),
        ".quad {unclaimed}",
        ".quad 0",
        ".quad 0",
        ".long {no_such_cpu}",
        ".popsection",
        unclaimed = sym UNCLAIMED,
        no_such_cpu = const NO_SUCH_CPU,
    );

    /// The code of a descriptor's function that only returns the second word of the descriptor: `mov rax, [rax
    /// + 8]; ret`. C libraries use this function if all threads share the offset.
    const RETURNS_WORD: [u8; 5] = [0x48, 0x8B, 0x40, 0x08, 0xC3];
    /// The instruction that may precede it: `endbr64`.
    const LANDING: [u8; 4] = [0xF3, 0x0F, 0x1E, 0xFA];

    /// The variable's offset from the thread pointer, in bytes, if all present and later threads share the
    /// offset. They share it in an executable, and in a library whose storage the loader put beside that of the
    /// executable. `None` if each thread has to ask.
    pub(crate) fn fixed_offset() -> Option<isize> {
        let (offset, descriptor): (isize, *const [*const u8; 2]);
        // SAFETY: as in `get`, without the load.
        unsafe {
            asm!(
                concat!("lea rax, [rip + ", slot!(), "@tlsdesc]"),
                "mov rcx, rax",
                concat!("call [rax + ", slot!(), "@tlscall]"),
                out("rax") offset,
                out("rcx") descriptor,
                clobber_abi("C"),
            );
        }
        // A linker that knows the offset puts it into the first instruction and replaces the call by nothing.
        if descriptor.addr() as isize == offset {
            return Some(offset);
        }
        // SAFETY: otherwise it is the address of the descriptor, which has two words: a function and its
        // argument.
        let [function, _] = unsafe { *descriptor };
        // SAFETY: the function has just run, so its first bytes can be read. Each later byte is read only if
        // the earlier ones match.
        let is = |at: usize, code: &[u8]| unsafe {
            (0..code.len()).all(|byte| *function.add(at + byte) == code[byte])
        };
        let begin = if is(0, &LANDING) { LANDING.len() } else { 0 };
        is(begin, &RETURNS_WORD).then_some(offset)
    }

    /// The calling thread's slot. It is [`UNCLAIMED`] before the thread's first record.
    #[inline]
    pub(crate) fn get() -> &'static Slot {
        let slot: *const Slot;
        // SAFETY: this reads the calling thread's copy of the variable above. The copy holds a valid pointer
        // from the beginning of the thread. A descriptor's function keeps all registers but rax. In older C
        // libraries it may lose vector registers, so they are clobbered.
        unsafe {
            asm!(
                place!(),
                "mov rax, qword ptr fs:[rax]",
                out("rax") slot,
                clobber_abi("C"),
            );
            &*slot
        }
    }

    /// Replaces the slot if it is `from`, and returns whether it was. Otherwise changes nothing. No handler can
    /// interrupt it, because it is one instruction.
    pub(crate) fn replace(from: &'static Slot, to: &'static Slot) -> bool {
        let from = core::ptr::from_ref(from);
        let found: *const Slot;
        // SAFETY: as in `get`, and it writes the variable. No lock prefix is needed, because each thread has
        // its own copy.
        unsafe {
            asm!(
                place!(),
                "mov rcx, rax",
                "mov rax, rsi",
                "cmpxchg qword ptr fs:[rcx], rdx",
                in("rsi") from,
                in("rdx") core::ptr::from_ref(to),
                out("rax") found,
                out("rcx") _,
                clobber_abi("C"),
            );
        }
        core::ptr::eq(found, from)
    }

    /// The id of the task that the thread polls. 0: it polls none.
    pub(crate) fn task() -> u64 {
        let task;
        // SAFETY: as in `get`, with the words behind the pointer.
        unsafe {
            asm!(
                place!(),
                "mov rax, qword ptr fs:[rax + {task_at}]",
                task_at = const TASK_AT,
                out("rax") task,
                clobber_abi("C"),
            );
        }
        task
    }

    /// Replaces the id of the task that the thread polls.
    pub(crate) fn set_task(task: u64) {
        // SAFETY: as in `set`.
        unsafe {
            asm!(
                place!(),
                "mov qword ptr fs:[rax + {task_at}], rsi",
                task_at = const TASK_AT,
                in("rsi") task,
                out("rax") _,
                clobber_abi("C"),
            );
        }
    }

    /// Replaces the next id of the thread's tasks if it is `from`. Returns the one before. No handler can interrupt it,
    /// because it is one instruction.
    pub(crate) fn replace_ids(from: u64, to: u64) -> u64 {
        let found;
        // SAFETY: as in `replace`.
        unsafe {
            asm!(
                place!(),
                "mov rcx, rax",
                "mov rax, rsi",
                "cmpxchg qword ptr fs:[rcx + {ids_at}], rdx",
                ids_at = const IDS_AT,
                in("rsi") from,
                in("rdx") to,
                out("rax") found,
                out("rcx") _,
                clobber_abi("C"),
            );
        }
        found
    }

    /// Replaces the slot.
    pub(crate) fn set(slot: &'static Slot) {
        // SAFETY: this writes the calling thread's copy of the variable above. Otherwise as in `get`.
        unsafe {
            asm!(
                place!(),
                "mov qword ptr fs:[rax], {slot}",
                slot = in(reg) core::ptr::from_ref(slot),
                out("rax") _,
                clobber_abi("C"),
            );
        }
    }
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
mod model {
    // The model checker need not watch this pointer, because no other thread sees it.
    use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

    use crate::recorder::UNCLAIMED;
    use crate::ring::layout::Slot;

    thread_local! {
        static SLOT: AtomicPtr<Slot> = const { AtomicPtr::new((&raw const UNCLAIMED).cast_mut()) };
        static TASK: AtomicU64 = const { AtomicU64::new(0) };
        static IDS: AtomicU64 = const { AtomicU64::new(0) };
    }

    /// The id of the task that the thread polls. 0: it polls none.
    pub(crate) fn task() -> u64 {
        TASK.with(|place| place.load(Ordering::Relaxed))
    }

    /// Replaces the id of the task that the thread polls.
    pub(crate) fn set_task(task: u64) {
        TASK.with(|place| place.store(task, Ordering::Relaxed));
    }

    /// Replaces the next id of the thread's tasks if it is `from`. Returns the one before.
    pub(crate) fn replace_ids(from: u64, to: u64) -> u64 {
        let swap = |place: &AtomicU64| {
            place.compare_exchange(from, to, Ordering::Relaxed, Ordering::Relaxed)
        };
        let (Ok(found) | Err(found)) = IDS.with(swap);
        found
    }

    /// The calling thread's slot. It is [`UNCLAIMED`] before the thread's first record.
    #[inline(always)]
    pub(crate) fn get() -> &'static Slot {
        let slot = SLOT.with(|place| place.load(Ordering::Relaxed));
        // SAFETY: the pointer always comes from a `&'static Slot`.
        unsafe { &*slot }
    }

    /// Replaces the slot if it is `from`, and returns whether it was. Otherwise changes nothing, also if a
    /// handler interrupts it.
    pub(crate) fn replace(from: &'static Slot, to: &'static Slot) -> bool {
        let [from, to] = [from, to].map(|slot| core::ptr::from_ref(slot).cast_mut());
        let swap = |place: &AtomicPtr<Slot>| {
            place.compare_exchange(from, to, Ordering::Relaxed, Ordering::Relaxed)
        };
        SLOT.with(swap).is_ok()
    }

    /// Replaces the slot.
    pub(crate) fn set(slot: &'static Slot) {
        let slot = core::ptr::from_ref(slot).cast_mut();
        SLOT.with(|place| place.store(slot, Ordering::Relaxed));
    }
}

/// Whether the slot belongs to a ring.
pub(super) fn is_real(slot: &'static Slot) -> bool {
    let others = [
        &raw const UNCLAIMED,
        &raw const CLAIMING,
        &raw const NO_ROOM,
        &raw const FORKING,
        &raw const GONE,
    ];
    !others.contains(&core::ptr::from_ref(slot))
}
