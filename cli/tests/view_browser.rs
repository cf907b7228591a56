//! `fdr view` opens the browser without a secret in any command line, and leaves no file.

use std::fs::{self, DirEntry};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::common::{self, Folder, assert_contains, assert_lacks, command};

/// The command, which ends with this.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts the command with a browser that notes its command line and the file that it is given. Returns the address that
/// the command prints.
fn start(folder: &Folder, trace: &str) -> (Running, String) {
    let browser = Path::new(&folder.file("xdg-open")).to_owned();
    let script = "#!/bin/sh\ncp \"$1\" \"$NOTED.html\"\ntr '\\0' '\\n' < /proc/$$/cmdline > \"$NOTED.part\"\n\
                  mv \"$NOTED.part\" \"$NOTED.words\"\n";
    fs::write(&browser, script).expect("a script");
    fs::set_permissions(&browser, fs::Permissions::from_mode(0o700)).expect("a program");
    let path = format!("{}:/usr/bin:/bin", folder.path().display());
    let _ = fs::create_dir(folder.file("temporary"));
    let mut child = command()
        .args(["view", trace])
        .env("PATH", path)
        .env("TMPDIR", folder.file("temporary"))
        .env("NOTED", folder.file("noted"))
        .stdout(Stdio::piped())
        .spawn()
        .expect("fdr runs");
    let mut line = String::new();
    let output = child.stdout.take().expect("a pipe");
    BufReader::new(output).read_line(&mut line).expect("a line");
    let (_, address) = line.trim().split_once(": ").expect("an address");
    (Running(child), address.to_owned())
}

/// Waits until something is so.
fn until<T>(what: &str, look: impl Fn() -> Option<T>) -> T {
    let end = Instant::now() + Duration::from_secs(30);
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn temporary(folder: &Folder) -> Vec<DirEntry> {
    let entries = fs::read_dir(folder.file("temporary")).expect("a folder");
    entries.map(|entry| entry.expect("readable")).collect()
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path)
        .expect("it is there")
        .permissions()
        .mode()
        & 0o777
}

#[test]
fn no_command_line_has_the_address() {
    let folder = Folder::new("view-browser");
    let trace = folder.file("a.fdr");
    common::small_named(&trace, &["run", "step"]);
    let (_child, address) = start(&folder, &trace);
    let words = until("a browser", || {
        fs::read_to_string(folder.file("noted.words")).ok()
    });
    let (_, rest) = address.split_once("http://").expect("an address");
    let (host, token) = rest.trim_end_matches('/').split_once('/').expect("a token");
    assert_lacks(&words, token);
    assert_lacks(&words, host);
    // The file leads there, and no other user can read it.
    let html = fs::read_to_string(folder.file("noted.html")).expect("the file");
    assert_contains(&html, &format!("url={address}\""));
    let path = words.lines().last().expect("a path");
    let path = Path::new(path);
    assert_eq!(mode(path), 0o600);
    assert_eq!(mode(path.parent().expect("a folder")), 0o700);
    assert_eq!(temporary(&folder).len(), 1);
    // When the page is open, the file is gone.
    let mut page = TcpStream::connect(host).expect("a server");
    let request = format!("GET /{token}/api/alive HTTP/1.1\r\nHost: {host}\r\n\r\n");
    page.write_all(request.as_bytes()).expect("it reads");
    page.read_exact(&mut [0; 12]).expect("an answer");
    until("no file", || temporary(&folder).is_empty().then_some(()));
}

#[test]
fn a_signal_leaves_no_file() {
    let folder = Folder::new("view-browser-signal");
    let trace = folder.file("a.fdr");
    common::small_named(&trace, &["run", "step"]);
    let (mut child, _) = start(&folder, &trace);
    until("a browser", || {
        fs::metadata(folder.file("noted.words")).ok()
    });
    kill(Pid::from_raw(child.0.id() as i32), Signal::SIGTERM).expect("it runs");
    child.0.wait().expect("it ends");
    assert_eq!(temporary(&folder).len(), 0);
}
