//! The measured functions and the measurement as a shared library with its own copy of the recorder. It shows what a
//! traced call costs outside of the executable. See `loader`.
#![allow(unsafe_code)]

#[cfg(target_arch = "x86_64")]
mod floor;
mod measure;
mod work;

use std::error::Error;
use std::ffi::{CStr, c_char, c_int};

use work::{Body, Variant};

/// `measure` of the program with these words, separated by spaces: prints the line, and returns 0 where it
/// could.
///
/// # Safety
/// `words` is a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdr_bench_measure(words: *const c_char) -> c_int {
    // SAFETY: as the caller vouches.
    let words = unsafe { CStr::from_ptr(words) }.to_string_lossy();
    match measured(&words) {
        Ok(figures) => {
            println!("{figures}");
            0
        }
        Err(error) => {
            eprintln!("{error}");
            1
        }
    }
}

fn measured(words: &str) -> Result<measure::Figures, Box<dyn Error>> {
    let words: Vec<&str> = words.split(' ').collect();
    let [body, variant, threads, steps] = words.as_slice() else {
        return Err("not the words of `measure`".into());
    };
    let (body, variant) = (Body::parse(body, steps.parse()?)?, Variant::parse(variant)?);
    measure::measure(body, variant, threads.parse()?)
}
