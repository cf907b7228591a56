//! `fdr listen` where others than the program connect: their bytes do not end it, and are not kept.

use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::process::Stdio;

use nix::sys::signal::Signal;

use crate::common::{Folder, assert_contains, contents};
use crate::listen::{Listener, send, trace};

/// What strangers may send: nothing, too few bytes to know the format, or bytes of another protocol.
const OTHERS: [&[u8]; 4] = [
    b"",
    b"eighteen bytes ...",
    b"GET / HTTP/1.1\r\nHost: somebody else\r\n\r\n and a long way to go still",
    &[0; 1000],
];

#[test]
fn bytes_of_a_stranger_do_not_end_it() {
    let folder = Folder::new("listen-strangers");
    let (file, socket) = (folder.file("app.fdr"), folder.file("socket"));
    for more in [&[][..], &["--keep"]] {
        let (mut listener, port) = Listener::tcp(&file, more);
        // These connections send nothing and stay open. They are more than may wait.
        let silent: Vec<_> = (0..100)
            .map(|_| TcpStream::connect(("127.0.0.1", port)).unwrap())
            .collect();
        for bytes in OTHERS {
            send(port, bytes);
        }
        send(port, &trace());
        listener.until("next: fdr report");
        drop(silent);
        listener.signal(Signal::SIGTERM);
        let (code, text) = listener.end();
        assert_eq!(code, Some(0), "{text}");
        assert_eq!(fs::read(&file).unwrap(), trace());
        assert_eq!(contents(folder.path()), ["app.fdr"]);
        fs::remove_file(&file).unwrap();
    }
    let address = format!("unix:{socket}");
    let mut listener = Listener::start(&[&address, "-o", &file], Stdio::null());
    listener.until("listening at");
    for bytes in OTHERS {
        // It may be closed before all is sent.
        let _ = UnixStream::connect(&socket).unwrap().write_all(bytes);
    }
    let whole = UnixStream::connect(&socket).unwrap().write_all(&trace());
    whole.unwrap();
    let (code, text) = listener.end();
    assert_eq!(code, Some(0), "{text}");
    assert_contains(&text, "nothing came\n");
    assert_contains(&text, "what came is no trace, and is not kept\n");
    assert_eq!(fs::read(&file).unwrap(), trace());
}

#[test]
fn no_stranger_can_fill_a_log() {
    let folder = Folder::new("listen-log");
    let (mut listener, port) = Listener::tcp(&folder.file("app.fdr"), &[]);
    for _ in 0..100 {
        send(port, b"");
    }
    let last = listener.until("the last message of this kind");
    assert!(
        last.starts_with("fdr: nothing came from 127.0.0.1:"),
        "{last}"
    );
    send(port, &trace());
    let (code, text) = listener.end();
    assert_eq!(code, Some(0));
    assert_eq!(text.lines().count(), 3, "{text}");
}
