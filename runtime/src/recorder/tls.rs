//! The calling thread's slot: one pointer of thread storage. Async-signal-safe.
//!
//! On x86-64 it is reached by a TLS descriptor, which stable Rust can't ask for: in an executable the
//! linker makes two instructions of it, where `thread_local!` would take two loads that depend on each
//! other. Between two clock reads that wait for earlier loads, each one more is seen. In a library it
//! remains a call, and the library stays one that `dlopen` can load at any time (the initial-exec
//! model would not: all of the library's thread storage would have to fit into a small reserve).

pub(super) use model::{get, set, swap};

#[cfg(all(target_arch = "x86_64", not(miri)))]
/// The variable's name: of this very version, should a program have two.
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
/// Instructions that put the variable's offset from the thread pointer into rax. In this very form:
/// linkers know it.
macro_rules! place {
    () => {
        concat!(
            "lea rax, [rip + ",
            crate::recorder::tls::slot!(),
            "@tlsdesc]\n",
            "call [rax + ",
            crate::recorder::tls::slot!(),
            "@tlscall]",
        )
    };
}
#[cfg(all(target_arch = "x86_64", not(miri)))]
pub(super) use {place, slot};

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod model {
    use core::arch::{asm, global_asm};

    use crate::recorder::UNCLAIMED;
    use crate::ring::layout::Slot;

    global_asm!(
        ".pushsection .tdata, \"awT\", %progbits",
        ".balign 8",
        concat!(".globl ", slot!()),
        concat!(".hidden ", slot!()),
        concat!(".type ", slot!(), ", %object"),
        concat!(".size ", slot!(), ", 8"),
        concat!(slot!(), ":"),
        ".quad {unclaimed}",
        ".popsection",
        unclaimed = sym UNCLAIMED,
    );

    /// The calling thread's slot; [`UNCLAIMED`] before its first record.
    #[inline]
    pub(crate) fn get() -> &'static Slot {
        let slot: *const Slot;
        // SAFETY: reads the calling thread's copy of the variable above, which holds a valid pointer
        // from the thread's beginning. A descriptor's function keeps all registers but rax; that of
        // older C libraries may lose vector registers, hence the clobbers.
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

    /// Replaces it and gives what was there: one instruction, which no handler can come into.
    pub(crate) fn swap(slot: &'static Slot) -> &'static Slot {
        let mut slot: *const Slot = slot;
        // SAFETY: as in `get`; it writes the variable as well.
        unsafe {
            asm!(
                place!(),
                "xchg qword ptr fs:[rax], rdx",
                inout("rdx") slot,
                out("rax") _,
                clobber_abi("C"),
            );
            &*slot
        }
    }

    /// Replaces it.
    pub(crate) fn set(slot: &'static Slot) {
        // SAFETY: writes the calling thread's copy of the variable above; otherwise as in `get`.
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
    use core::cell::Cell;

    use crate::recorder::UNCLAIMED;
    use crate::ring::layout::Slot;

    thread_local! {
        static SLOT: Cell<&'static Slot> = const { Cell::new(&UNCLAIMED) };
    }

    /// The calling thread's slot; [`UNCLAIMED`] before its first record.
    #[inline(always)]
    pub(crate) fn get() -> &'static Slot {
        SLOT.get()
    }

    /// Replaces it and gives what was there. Not one instruction: a handler that comes into it and makes
    /// the thread's first record costs the thread a second slot.
    pub(crate) fn swap(slot: &'static Slot) -> &'static Slot {
        SLOT.replace(slot)
    }

    /// Replaces it.
    pub(crate) fn set(slot: &'static Slot) {
        SLOT.set(slot);
    }
}
