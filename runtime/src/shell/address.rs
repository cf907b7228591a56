//! Addresses of streams, as `FDR_OUT` gives them; the tool's `fdr listen` takes the same text for the
//! other end. Must never take the name of a file for an address, and never connect to anything.

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The longest path of a socket, bytes: `sun_path` has one more, for a NUL.
const LONGEST_SOCKET: usize = 107;

/// Where a stream goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Address {
    /// We connect to this `host:port`.
    Connect(String),
    /// We listen there, and serve whoever connects.
    Listen(String),
    /// We connect to the socket at this path.
    Unix(PathBuf),
    /// The program's standard output.
    Stdout,
}

impl Address {
    /// The address in a text; `None` where the text is the name of a file. A relative path is within
    /// `start`.
    ///
    /// # Errors
    /// What is wrong with it, in one line.
    pub(crate) fn parse(text: &OsStr, start: &Path) -> Option<Result<Address, String>> {
        let bytes = text.as_bytes();
        if bytes == b"-" {
            return Some(Ok(Address::Stdout));
        }
        if let Some(path) = bytes.strip_prefix(b"unix:") {
            return Some(socket(
                &start.join(OsStr::from_bytes(path)),
                path.is_empty(),
            ));
        }
        let text = String::from_utf8_lossy(bytes);
        let (scheme, end) = text.split_once("://")?;
        match scheme {
            "tcp" => Some(host_and_port(end, 1).map(Address::Connect)),
            "tcp-listen" => Some(host_and_port(end, 0).map(Address::Listen)),
            _ if !is_scheme(scheme) => None,
            _ => Some(Err(
                "no such kind of stream; accepted are tcp://host:port, tcp-listen://host:port, \
                 unix:/path and -"
                    .to_owned(),
            )),
        }
    }
}

fn is_scheme(word: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    !word.is_empty() && word.bytes().all(fits)
}

fn socket(path: &Path, nothing: bool) -> Result<Address, String> {
    if nothing || path.file_name().is_none() {
        return Err("no socket in it, as in unix:/tmp/app.socket".to_owned());
    }
    if path.as_os_str().len() > LONGEST_SOCKET {
        return Err(format!(
            "the socket's path is longer than {LONGEST_SOCKET} bytes"
        ));
    }
    Ok(Address::Unix(path.to_owned()))
}

/// Checks `host:port`, where a host may be `[::1]` and the port is at least `least`.
fn host_and_port(text: &str, least: u16) -> Result<String, String> {
    let (host, port) = text.rsplit_once(':').unwrap_or((text, ""));
    let bare = host.contains(':') && !(host.starts_with('[') && host.ends_with(']'));
    let digits = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    let port = port
        .parse::<u16>()
        .ok()
        .filter(|&port| digits && port >= least);
    match (host, port) {
        ("", _) => Err("no host in it, as in tcp://127.0.0.1:7000".to_owned()),
        _ if bare => Err("an IPv6 address is in brackets, as in tcp://[::1]:7000".to_owned()),
        (_, None) => Err(format!(
            "no port from {least} to 65535 in it, as in tcp://127.0.0.1:7000"
        )),
        _ => Ok(text.to_owned()),
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Connect(end) => write!(f, "tcp://{end}"),
            Address::Listen(end) => write!(f, "tcp-listen://{end}"),
            Address::Unix(path) => write!(f, "unix:{}", path.display()),
            Address::Stdout => f.write_str("the standard output"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Option<Result<Address, String>> {
        Address::parse(OsStr::new(text), Path::new("/start"))
    }

    #[test]
    fn addresses() {
        for text in [
            "tcp://localhost:1",
            "tcp://[::1]:65535",
            "tcp-listen://127.0.0.1:0",
            "unix:/tmp/a b",
        ] {
            let address = parse(text).expect("an address").expect("a valid one");
            assert_eq!(address.to_string(), text);
        }
        assert_eq!(parse("-"), Some(Ok(Address::Stdout)));
        let within = PathBuf::from("/start/app.socket");
        assert_eq!(parse("unix:app.socket"), Some(Ok(Address::Unix(within))));
    }

    #[test]
    fn names_of_files_are_none() {
        for text in [
            "",
            "traces/",
            "%e.%p.fdr",
            "tcp",
            "./-",
            "tcp:/x",
            "a/b://c",
            "://",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        let long = format!("unix:/{}", "x".repeat(LONGEST_SOCKET));
        for (text, what) in [
            ("tcp://", "host"),
            ("tcp://:7", "host"),
            ("tcp://host", "port"),
            ("tcp://host:", "port"),
            ("tcp://host:0", "port"),
            ("tcp://host:65536", "port"),
            ("tcp://host:+7", "port"),
            ("tcp://host:7/", "port"),
            ("tcp-listen://::1:7", "brackets"),
            ("udp://host:7", "tcp-listen://host:port"),
            ("tcp-lisen://host:7", "tcp-listen://host:port"),
            ("unix:", "socket"),
            ("unix:/", "socket"),
            (&long, "longer than 107 bytes"),
        ] {
            let error = parse(text).expect("an address").expect_err("a bad one");
            assert!(
                error.contains(what) && !error.contains('\n'),
                "{text}: {error}"
            );
        }
    }
}
