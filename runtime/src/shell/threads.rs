//! Makes the recorder's own threads. All of them have one type, because std compiles its code for threads once for each
//! type. It must never decide which signals a thread gets: a thread inherits the mask of its maker.

use std::io;
use std::thread::{Builder, JoinHandle};

/// Makes a thread with that name, and with that stack if one is given.
///
/// # Errors
/// The system makes no more threads.
pub(super) fn spawn(
    name: &str,
    stack_bytes: Option<usize>,
    body: Box<dyn FnOnce() + Send>,
) -> io::Result<JoinHandle<()>> {
    let mut builder = Builder::new().name(name.to_owned());
    if let Some(bytes) = stack_bytes {
        builder = builder.stack_size(bytes);
    }
    builder.spawn(body)
}
