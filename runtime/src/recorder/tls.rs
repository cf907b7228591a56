//! The calling thread's slot: one pointer of thread storage. Async-signal-safe.
//!
//! On x86-64 it is reached by a TLS descriptor, which stable Rust can't ask for: it gives the variable's
//! offset from the thread pointer, and where that is the same for all threads ([`fixed_offset`]), the stubs
//! load the number. In an executable the linker knows it. In a library the descriptor remains a call, and
//! the library stays one that `dlopen` can load at any time (the initial-exec model would not: all of the
//! library's thread storage would have to fit into a small reserve). Most libraries' storage does fit, and
//! the loader puts it there.

#[cfg(all(target_arch = "x86_64", not(miri)))]
pub(crate) use model::fixed_offset;
pub(super) use model::{get, replace, set};

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

    /// A descriptor's function that returns the descriptor's second word, and nothing else (C libraries
    /// have it for storage whose offset all threads share): `mov rax, [rax + 8]; ret`.
    const RETURNS_WORD: [u8; 5] = [0x48, 0x8B, 0x40, 0x08, 0xC3];
    /// May stand before it: `endbr64`.
    const LANDING: [u8; 4] = [0xF3, 0x0F, 0x1E, 0xFA];

    /// The variable's offset from the thread pointer in bytes, where it is the same for all threads that
    /// are and will be: in the executable, and in a library whose storage the loader could place beside
    /// the executable's. `None` where each thread's must be asked for.
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
        // A linker that knows the offset puts it into the first instruction, and makes the call none.
        if descriptor.addr() as isize == offset {
            return Some(offset);
        }
        // SAFETY: otherwise that is the descriptor: a function, and a word for it.
        let [function, _] = unsafe { *descriptor };
        // SAFETY: code that was just run, and what follows where it does not end there.
        let is = |at: usize, code: &[u8]| unsafe {
            (0..code.len()).all(|byte| *function.add(at + byte) == code[byte])
        };
        let begin = if is(0, &LANDING) { LANDING.len() } else { 0 };
        is(begin, &RETURNS_WORD).then_some(offset)
    }

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

    /// Replaces it where it is `from`, and changes nothing where it is not: one instruction, which no
    /// handler can come into. Whether it was.
    pub(crate) fn replace(from: &'static Slot, to: &'static Slot) -> bool {
        let from = core::ptr::from_ref(from);
        let found: *const Slot;
        // SAFETY: as in `get`; it writes the variable as well. Other threads have their own: no lock prefix.
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
    // Not the model checker's: no other thread sees it.
    use core::sync::atomic::{AtomicPtr, Ordering};

    use crate::recorder::UNCLAIMED;
    use crate::ring::layout::Slot;

    thread_local! {
        static SLOT: AtomicPtr<Slot> = const { AtomicPtr::new((&raw const UNCLAIMED).cast_mut()) };
    }

    /// The calling thread's slot; [`UNCLAIMED`] before its first record.
    #[inline(always)]
    pub(crate) fn get() -> &'static Slot {
        let slot = SLOT.with(|place| place.load(Ordering::Relaxed));
        // SAFETY: from a `&'static Slot`, always.
        unsafe { &*slot }
    }

    /// Replaces it where it is `from`, and changes nothing where it is not, whichever handler comes in
    /// between. Whether it was.
    pub(crate) fn replace(from: &'static Slot, to: &'static Slot) -> bool {
        let [from, to] = [from, to].map(|slot| core::ptr::from_ref(slot).cast_mut());
        let swap = |place: &AtomicPtr<Slot>| {
            place.compare_exchange(from, to, Ordering::Relaxed, Ordering::Relaxed)
        };
        SLOT.with(swap).is_ok()
    }

    /// Replaces it.
    pub(crate) fn set(slot: &'static Slot) {
        let slot = core::ptr::from_ref(slot).cast_mut();
        SLOT.with(|place| place.store(slot, Ordering::Relaxed));
    }
}
