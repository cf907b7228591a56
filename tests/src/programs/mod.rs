//! What the programs share that the tests run: children, single steps, and ways to harm themselves, none of
//! which safe code has. No test may use it in its own process.
#![allow(unsafe_code, reason = "what they do to themselves is the test")]

pub mod calls;
pub mod children;
pub mod faults;
pub mod futures;
pub mod page;
pub mod region;
pub mod signals;
pub mod stepping;
pub mod system_calls;
pub mod threads;
