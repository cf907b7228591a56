//! The work in C, by clang with XRay's sleds, and XRay's runtime, as `clang -fxray-instrument` links it.

use std::process::Command;

const LIBRARIES: [&str; 2] = ["libclang_rt.xray", "libclang_rt.xray-fdr"];

fn main() {
    // The threshold: without it, small functions without a loop have no sleds.
    let flags = ["-fxray-instrument", "-fxray-instruction-threshold=1"];
    peer_native::compile("clang-19", &flags);
    let asked = Command::new("clang-19").arg("-print-resource-dir").output();
    let asked = asked.expect("clang-19 can be run");
    let folder = String::from_utf8_lossy(&asked.stdout).trim_end().to_owned();
    println!("cargo::rustc-link-arg-bins=-Wl,--whole-archive");
    for library in LIBRARIES {
        println!("cargo::rustc-link-arg-bins={folder}/lib/linux/{library}-x86_64.a");
    }
    println!("cargo::rustc-link-arg-bins=-Wl,--no-whole-archive");
    for library in ["stdc++", "m", "dl", "rt", "pthread"] {
        println!("cargo::rustc-link-arg-bins=-l{library}");
    }
}
