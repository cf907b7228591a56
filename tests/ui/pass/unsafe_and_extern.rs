//! `unsafe` functions and functions with another ABI.
#![deny(warnings)]

use fdr::traced;

/// # Safety
/// `x` must point to a `u32`.
#[traced]
unsafe fn read(x: *const u32) -> u32 {
    // SAFETY: the caller promises it.
    unsafe { *x }
}

#[traced]
extern "C" fn twice(x: i32) -> i32 {
    x * 2
}

#[traced]
#[unsafe(no_mangle)]
pub extern "C" fn fdr_ui_exported(x: i32) -> i32 {
    x + 1
}

#[traced]
extern "C-unwind" fn may_unwind(x: i32) -> i32 {
    assert!(x >= 0);
    x
}

#[traced]
pub(crate) unsafe extern "C" fn all_of_it(x: *const u32) -> u32 {
    // SAFETY: the caller promises it.
    unsafe { read(x) }
}

#[traced]
async unsafe fn read_later(x: &u32) -> u32 {
    std::future::ready(()).await;
    // SAFETY: a reference points to its target.
    unsafe { read(x) }
}

struct Wrapper(u32);

// SAFETY: plain data.
unsafe impl Send for Wrapper {}

impl Wrapper {
    #[traced]
    unsafe fn get(&self) -> u32 {
        self.0
    }
}

fn main() {
    let x = 7;
    // SAFETY: all of them get a valid reference.
    let sum = unsafe { read(&x) + all_of_it(&x) + Wrapper(x).get() };
    assert_eq!(sum, 21);
    let calls: [extern "C" fn(i32) -> i32; 2] = [twice, fdr_ui_exported];
    assert_eq!(calls.map(|call| call(2)), [4, 3]);
    assert_eq!(may_unwind(1), 1);
    // SAFETY: a reference points to its target.
    drop(unsafe { read_later(&x) });
}
