//! Has `library` measure: loaded with dlopen, or found where it was there from the start. Must never name
//! the recorder: `bare` is a program without it.

use std::error::Error;
use std::ffi::{CStr, CString, c_char, c_int};

type Measure = unsafe extern "C" fn(*const c_char) -> c_int;

/// `path`: the library's, or `-` where it is loaded already; `words`: those of `measure`.
///
/// # Errors
///
/// Where the library can't be loaded, or can't measure.
pub(crate) fn measure(path: &str, words: &[&str]) -> Result<(), Box<dyn Error>> {
    let words = CString::new(words.join(" "))?;
    let handle = if path == "-" {
        libc::RTLD_DEFAULT
    } else {
        let path = CString::new(path)?;
        // SAFETY: a C string; the library's initialisers are the recorder's.
        unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) }
    };
    // SAFETY: a handle, or null, which finds nothing in a program that exports nothing; a C string.
    let measure = unsafe { libc::dlsym(handle, c"fdr_bench_measure".as_ptr()) };
    if measure.is_null() {
        // SAFETY: the text that dlerror gives after a failure, until the next call of it.
        let why = unsafe { CStr::from_ptr(libc::dlerror()) };
        return Err(why.to_string_lossy().into());
    }
    // SAFETY: that is its signature.
    let measure = unsafe { std::mem::transmute::<*mut libc::c_void, Measure>(measure) };
    // SAFETY: a C string.
    match unsafe { measure(words.as_ptr()) } {
        0 => Ok(()),
        _ => Err("it can't measure".into()),
    }
}
