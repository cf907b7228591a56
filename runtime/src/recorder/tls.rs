//! The calling thread's slot: one pointer of thread storage. Async-signal-safe.
//!
//! On x86-64 it is reached by the initial-exec model, which stable Rust can't ask for: one load (after
//! the linker's relaxation) in an executable, two in a shared library, where `thread_local!` would be
//! a call. Between two clock reads that wait for earlier loads, each load more is seen. The price is
//! 8 bytes of the loader's surplus of static TLS in a library that is loaded by `dlopen`.

pub(super) use model::{get, set};

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
pub(super) use slot;

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
    #[inline(always)]
    pub(crate) fn get() -> &'static Slot {
        let slot: *const Slot;
        // SAFETY: reads the calling thread's copy of the variable above, which holds a valid pointer
        // from the thread's beginning.
        unsafe {
            asm!(
                concat!("mov {slot}, qword ptr [rip + ", slot!(), "@gottpoff]"),
                "mov {slot}, qword ptr fs:[{slot}]",
                slot = out(reg) slot,
                options(readonly, nostack, preserves_flags),
            );
            &*slot
        }
    }

    /// Replaces it.
    pub(crate) fn set(slot: &'static Slot) {
        // SAFETY: writes the calling thread's copy of the variable above.
        unsafe {
            asm!(
                concat!("mov {at}, qword ptr [rip + ", slot!(), "@gottpoff]"),
                "mov qword ptr fs:[{at}], {slot}",
                at = out(reg) _,
                slot = in(reg) core::ptr::from_ref(slot),
                options(nostack, preserves_flags),
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

    /// Replaces it.
    pub(crate) fn set(slot: &'static Slot) {
        SLOT.set(slot);
    }
}
