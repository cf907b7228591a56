//! What the programs share that the tests run: ways to harm themselves that safe code does not have. No
//! test may use it in its own process.
#![allow(unsafe_code, reason = "what they do to themselves is the test")]

pub mod region;
