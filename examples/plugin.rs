//! The plug-in of `plugin_host`: a shared library with traced functions of its own. It exports one C
//! function and knows nothing about its host.
#![allow(unsafe_code)]

use fdr::traced;

#[traced]
fn digits(mut number: u64) -> u64 {
    let mut sum = 0;
    while number > 0 {
        sum += number % 10;
        number /= 10;
    }
    sum
}

/// Sum of the decimal digits, repeated until one digit is left.
// SAFETY: no other function of host or plug-in has this name.
#[unsafe(no_mangle)]
#[traced]
pub extern "C" fn plugin_digital_root(number: u64) -> u64 {
    let mut root = number;
    while root > 9 {
        root = digits(root);
    }
    root
}
