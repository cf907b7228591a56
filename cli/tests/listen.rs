//! `fdr listen`: the bytes that plain clients send over every kind of address are kept, even if a
//! connection breaks. The exit code says whether they are a whole trace.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, ChildStderr, Stdio};
use std::time::{Duration, Instant};

use crate::common::{
    Folder, assert_contains, assert_refused, command, contents, fdr, golden, stderr,
};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// A whole trace; what it is does not matter to what carries it.
pub(crate) fn trace() -> Vec<u8> {
    fs::read(golden("v3-std.fdr")).unwrap()
}

/// A running `fdr listen`.
pub(crate) struct Listener {
    child: Child,
    lines: BufReader<ChildStderr>,
}

impl Listener {
    pub(crate) fn start(arguments: &[&str], stdin: Stdio) -> Listener {
        let mut child = command()
            .arg("listen")
            .args(arguments)
            .stdin(stdin)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap());
        Listener { child, lines }
    }

    /// At any free port, which is returned.
    pub(crate) fn tcp(output: &str, more: &[&str]) -> (Listener, u16) {
        let arguments = [&["tcp://127.0.0.1:0", "-o", output], more].concat();
        let mut listener = Listener::start(&arguments, Stdio::null());
        let line = listener.line();
        let (_, end) = line.rsplit_once(':').expect("an address");
        let port = end.trim_end_matches([')', '\n']).parse().expect("a port");
        let address = format!("tcp://127.0.0.1:{port}");
        assert_eq!(
            line,
            format!("fdr: listening at {address} (FDR_OUT={address})\n")
        );
        (listener, port)
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        line
    }

    /// Waits for a line that has this in it.
    pub(crate) fn until(&mut self, part: &str) -> String {
        loop {
            let line = self.line();
            assert!(!line.is_empty(), "it ended without saying {part:?}");
            if line.contains(part) {
                return line;
            }
        }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).unwrap();
    }

    /// The exit code, and the rest of stderr.
    pub(crate) fn end(mut self) -> (Option<i32>, String) {
        let mut text = String::new();
        while self.lines.read_line(&mut text).unwrap() > 0 {}
        (self.child.wait().unwrap().code(), text)
    }
}

/// Sends to a listener's port, and goes away.
pub(crate) fn send(port: u16, bytes: &[u8]) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.write_all(bytes).unwrap();
}

/// A port at which nothing listens.
fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

/// Waits until the one file of a folder whose name contains `part` has `bytes` bytes.
fn wait_for(folder: &Path, part: &str, bytes: usize) {
    let end = Instant::now() + Duration::from_secs(30);
    let size = || {
        let names = contents(folder).into_iter();
        let size = |name: String| fs::metadata(folder.join(name)).map_or(0, |file| file.len());
        names
            .filter(|name| name.contains(part))
            .map(size)
            .sum::<u64>()
    };
    while size() < bytes as u64 {
        assert!(Instant::now() < end, "{:?}", contents(folder));
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn a_whole_trace_over_tcp() {
    let folder = Folder::new("listen-tcp");
    let file = folder.file("app.fdr");
    let (listener, port) = Listener::tcp(&file, &[]);
    send(port, &trace());
    let (code, text) = listener.end();
    assert_eq!(code, Some(0), "{text}");
    let lines: Vec<&str> = text.lines().collect();
    let [received, contents_line, next] = lines[..] else {
        panic!("{text}")
    };
    let head = format!("fdr: {file}: 293 B from 127.0.0.1:");
    assert!(
        received.starts_with(&head) && received.contains(" in "),
        "{text}"
    );
    let contents_of = "XRay FDR, version 3, little-endian, 1 thread, 12 records, 0 lost";
    assert_eq!(contents_line, format!("fdr: {file}: {contents_of}"));
    assert_eq!(next, format!("fdr: next: fdr report {file}"));
    assert_eq!(fs::read(&file).unwrap(), trace());
    assert_eq!(contents(folder.path()), ["app.fdr"]);
    let mode = fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn cut_off_clients_leave_what_they_sent() {
    let folder = Folder::new("listen-cut");
    for (name, bytes) in [("half", 150), ("header", 40)] {
        let file = folder.file(name);
        let (listener, port) = Listener::tcp(&file, &[]);
        send(port, &trace()[..bytes]);
        let (code, text) = listener.end();
        assert_eq!(code, Some(1), "{text}");
        assert_eq!(fs::read(&file).unwrap(), trace()[..bytes]);
        assert_contains(&text, "the trace is damaged in");
    }
    assert_eq!(contents(folder.path()), ["half", "header"]);
}

const OTHER: &[u8] = b"GET / HTTP/1.1\r\nHost: somebody else\r\n\r\n and a long way to go still";

#[test]
fn piped_input_that_is_no_trace_stays() {
    let folder = Folder::new("listen-other");
    let file = folder.file("x");
    let mut listener = Listener::start(&["-", "-o", &file, "--quiet"], Stdio::piped());
    let mut stdin = listener.child.stdin.take().unwrap();
    stdin.write_all(OTHER).unwrap();
    drop(stdin);
    let (code, text) = listener.end();
    assert_eq!(code, Some(1));
    assert_contains(&text, "not a trace file that fdr knows");
    assert_eq!(fs::read(&file).unwrap(), OTHER);
}

#[test]
fn a_program_that_listens_is_waited_for() {
    let folder = Folder::new("listen-connect");
    let file = folder.file("app.fdr");
    // The port is free at this moment: no program listens there yet.
    let port = free_port();
    let address = format!("tcp-listen://127.0.0.1:{port}");
    let mut listener = Listener::start(&[&address, "-o", &file], Stdio::null());
    assert_contains(
        listener.line(),
        "waiting for a program with FDR_OUT=tcp-listen://",
    );
    let program = TcpListener::bind(("127.0.0.1", port)).unwrap();
    let (mut stream, _) = program.accept().unwrap();
    stream.write_all(&trace()).unwrap();
    drop(stream);
    let (code, text) = listener.end();
    assert_eq!(code, Some(0), "{text}");
    assert_eq!(fs::read(&file).unwrap(), trace());
}

#[test]
fn a_program_that_never_comes_is_given_up() {
    let folder = Folder::new("listen-never");
    let port = free_port();
    let socket = folder.file("socket");
    for address in [
        format!("tcp-listen://127.0.0.1:{port}"),
        "tcp://127.0.0.1:0".to_owned(),
        format!("unix:{socket}"),
    ] {
        let output = fdr(&["listen", &address, "-o", &folder.file("x"), "--wait", "0.2"]);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert!(
            stderr(&output).ends_with("fdr: no trace: nothing came\n"),
            "{output:?}"
        );
        assert_eq!(contents(folder.path()), [""; 0]);
    }
}

#[test]
fn a_program_that_listens_again_is_connected_again() {
    let folder = Folder::new("listen-again");
    let program = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("tcp-listen://{}", program.local_addr().unwrap());
    let file = folder.file("app.fdr");
    let arguments = [&address, "-o", &file, "--keep", "--wait", "0.5"];
    let listener = Listener::start(&arguments, Stdio::null());
    for bytes in [&trace()[..], &trace()[..150]] {
        let (mut stream, _) = program.accept().unwrap();
        stream.write_all(bytes).unwrap();
    }
    drop(program);
    let (code, text) = listener.end();
    assert_eq!(code, Some(1), "the second one is cut: {text}");
    assert_eq!(fs::read(&file).unwrap(), trace());
    assert_eq!(fs::read(folder.file("app.2.fdr")).unwrap(), trace()[..150]);
}

#[test]
fn a_socket_is_made_and_removed() {
    let folder = Folder::new("listen-unix");
    let (socket, file) = (folder.file("a.socket"), folder.file("app.fdr"));
    // One that a command left behind which is gone.
    drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
    let address = format!("unix:{socket}");
    for bytes in [&trace()[..], &trace()[..100]] {
        let arguments = [&address, "-o", &file, "--force"];
        let mut listener = Listener::start(&arguments, Stdio::null());
        assert_eq!(
            listener.line(),
            format!("fdr: listening at {address} (FDR_OUT={address})\n")
        );
        let mode = fs::metadata(&socket).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_refused(
            &["listen", &address, "-o", &folder.file("y")],
            "another program listens there",
        );
        let mut stream = UnixStream::connect(&socket).unwrap();
        stream.write_all(bytes).unwrap();
        drop(stream);
        let (code, text) = listener.end();
        assert_eq!(code, Some(i32::from(bytes.len() < trace().len())), "{text}");
        assert_eq!(fs::read(&file).unwrap(), bytes);
        assert_eq!(contents(folder.path()), ["app.fdr"]);
    }
}

#[test]
fn standard_input_is_an_address() {
    let folder = Folder::new("listen-stdin");
    for (bytes, wanted) in [(293, 0), (150, 1), (0, 1)] {
        let file = folder.file("app.fdr");
        let mut listener = Listener::start(&["-", "-o", &file, "--force"], Stdio::piped());
        let mut stdin = listener.child.stdin.take().unwrap();
        stdin.write_all(&trace()[..bytes]).unwrap();
        drop(stdin);
        let (code, text) = listener.end();
        assert_eq!(code, Some(wanted), "{text}");
        if bytes > 0 {
            assert_eq!(fs::read(&file).unwrap(), trace()[..bytes]);
        }
    }
}

#[test]
fn several_programs_at_once_have_a_file_each() {
    let folder = Folder::new("listen-keep");
    let file = folder.file("app.fdr");
    // In the way: it is left as it is.
    fs::write(folder.file("app.2.fdr"), "mine").unwrap();
    let (mut listener, port) = Listener::tcp(&file, &["--keep"]);
    let mut slow = TcpStream::connect(("127.0.0.1", port)).unwrap();
    slow.write_all(&trace()[..100]).unwrap();
    wait_for(folder.path(), ".app.fdr.", 100);
    send(port, &trace());
    listener.until("next: fdr report");
    assert_eq!(fs::read(folder.file("app.3.fdr")).unwrap(), trace());
    slow.write_all(&trace()[100..]).unwrap();
    drop(slow);
    listener.until("next: fdr report");
    assert_eq!(fs::read(&file).unwrap(), trace());
    listener.signal(Signal::SIGTERM);
    let (code, text) = listener.end();
    assert_eq!((code, text.as_str()), (Some(0), ""));
    assert_eq!(
        contents(folder.path()),
        ["app.2.fdr", "app.3.fdr", "app.fdr"]
    );
    assert_eq!(fs::read(folder.file("app.2.fdr")).unwrap(), b"mine");
}

/// Whether this process, and so its children, were started with the signal ignored.
fn is_ignored(signal: Signal) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = u64::from_str_radix(mask.unwrap().trim(), 16).unwrap();
    mask & 1 << (signal as u32 - 1) != 0
}

#[test]
fn signals_end_listen_and_keep_the_trace() {
    let folder = Folder::new("listen-signal");
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        // Under nohup it is to be ignored, and is.
        if is_ignored(signal) {
            continue;
        }
        let file = folder.file("app.fdr");
        let (listener, port) = Listener::tcp(&file, &["--force"]);
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.write_all(&trace()[..200]).unwrap();
        wait_for(folder.path(), ".app.fdr.", 200);
        listener.signal(signal);
        let (code, text) = listener.end();
        assert_eq!(code, Some(1), "{text}");
        assert_contains(&text, "ended by a signal; what came is kept");
        assert_eq!(fs::read(&file).unwrap(), trace()[..200]);
        assert_eq!(contents(folder.path()), ["app.fdr"]);
    }
}

#[test]
fn signals_end_listen_beside_a_live_program() {
    let folder = Folder::new("listen-still");
    let file = folder.file("app.fdr");
    let program = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("tcp-listen://{}", program.local_addr().unwrap());
    let listener = Listener::start(&[&address, "-o", &file, "--keep"], Stdio::null());
    let (mut stream, _) = program.accept().unwrap();
    stream.write_all(&trace()[..200]).unwrap();
    wait_for(folder.path(), ".app.fdr.", 200);
    listener.signal(Signal::SIGTERM);
    let (code, text) = listener.end();
    assert_eq!(code, Some(1), "{text}");
    assert!(!text.contains("nothing came"), "it connected again: {text}");
    assert_eq!(fs::read(&file).unwrap(), trace()[..200]);
}

#[test]
fn a_name_that_is_taken_meanwhile_loses_nothing() {
    let folder = Folder::new("listen-taken");
    let file = folder.file("app.fdr");
    let (listener, port) = Listener::tcp(&file, &[]);
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.write_all(&trace()).unwrap();
    wait_for(folder.path(), ".app.fdr.", trace().len());
    fs::write(&file, "mine").unwrap();
    drop(stream);
    let (code, text) = listener.end();
    assert_eq!(code, Some(2), "{text}");
    let path = text.trim_end().rsplit_once("what came is in ");
    let (_, path) = path.unwrap_or_else(|| panic!("{text}"));
    assert_eq!(fs::read(path).unwrap(), trace());
    assert_eq!(fs::read(&file).unwrap(), b"mine");
}

#[test]
fn a_limit_is_kept_to_the_byte() {
    let folder = Folder::new("listen-limit");
    let file = folder.file("app.fdr");
    let (listener, port) = Listener::tcp(&file, &["--max-size", "100"]);
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.write_all(&trace()).unwrap();
    let (code, text) = listener.end();
    assert_eq!(code, Some(1));
    assert_contains(&text, "the most that is taken is reached (--max-size)");
    assert_eq!(fs::read(&file).unwrap(), trace()[..100]);
}

#[test]
fn a_full_disk_keeps_what_came() {
    let folder = Folder::new("listen-full");
    let file = folder.file("app.fdr");
    let script = "ulimit -f 1; exec \"$0\" listen - -o \"$1\"";
    let mut child = std::process::Command::new("sh")
        .args(["-c", script, env!("CARGO_BIN_EXE_fdr"), &file])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Larger than one buffer of a pipe; the command may go away before all is sent.
    let _ = child.stdin.take().unwrap().write_all(&vec![7; 300_000]);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert_contains(stderr(&output), "no more can be written: File too large");
    let bytes = fs::read(&file).unwrap();
    assert!(!bytes.is_empty() && bytes.len() <= 1024 && bytes.iter().all(|&byte| byte == 7));
}

#[test]
fn what_cannot_be_is_refused_before_anybody_comes() {
    let folder = Folder::new("listen-refused");
    let file = folder.file("app.fdr");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = format!("tcp://{}", taken.local_addr().unwrap());
    fs::write(folder.file("there"), "mine").unwrap();
    let no_socket = format!("unix:{}", folder.file("there"));
    for (address, output, message) in [
        ("udp://a:1", file.as_str(), "no such kind of stream"),
        ("app.fdr", &file, "no address; an address is tcp://"),
        ("tcp://127.0.0.1", &file, "no port"),
        ("tcp-listen://127.0.0.1:0", &file, "port 0"),
        (
            "tcp://no.such.host.invalid:7000",
            &file,
            "no.such.host.invalid",
        ),
        (&taken, &file, "in use"),
        (&no_socket, &file, "is no socket"),
        ("unix:/no/such/folder/socket", &file, "No such file"),
        ("tcp://127.0.0.1:0", "-", "must go to a file"),
        (
            "tcp://127.0.0.1:0",
            &folder.file("there"),
            "exists; --force",
        ),
        ("tcp://127.0.0.1:0", "/no/such/folder/x", "No such file"),
    ] {
        assert_refused(&["listen", address, "-o", output], message);
    }
    assert_eq!(contents(folder.path()), ["there"]);
    assert_eq!(fs::read(folder.file("there")).unwrap(), b"mine");
}
