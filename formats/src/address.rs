//! Addresses of streams. The same text is used at both ends: `FDR_OUT` of a program, and the tool's `fdr listen`.
//!
//! | address | the program | the tool |
//! | --- | --- | --- |
//! | `tcp://host:port` | connects | listens |
//! | `tcp-listen://host:port` | listens | connects |
//! | `unix:/path` | connects | listens |
//! | `-` | writes to its standard output | reads its standard input |

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::text::clean;

/// The longest path of a socket, bytes: `sun_path` has one more, for a NUL.
const MAX_SOCKET: usize = 107;

/// The form of an address.
pub const SHAPES: &str = "tcp://host:port, tcp-listen://host:port, unix:/path or -";

/// Whether a text is an address, be it a right or a wrong one. Otherwise it is the name of a file.
#[must_use]
pub fn is_address(text: &OsStr) -> bool {
    let bytes = text.as_bytes();
    let scheme = bytes.windows(3).position(|bytes| bytes == b"://");
    bytes == b"-"
        || bytes.starts_with(b"unix:")
        || scheme.is_some_and(|end| is_scheme(bytes.get(..end).unwrap_or_default()))
        || lacks_slashes(bytes)
}

/// Whether the text is `tcp:host:port`, without slashes. Such a text must not become a file name, because then
/// the user would not notice that nothing is sent.
fn lacks_slashes(bytes: &[u8]) -> bool {
    let text = std::str::from_utf8(bytes).unwrap_or_default();
    let place = text.strip_prefix("tcp:");
    let place = place.or_else(|| text.strip_prefix("tcp-listen:"));
    let place = place.filter(|place| !place.contains('/'));
    place
        .and_then(|place| place.rsplit_once(':'))
        .is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok())
}

fn is_scheme(word: &[u8]) -> bool {
    let fits = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'-';
    !word.is_empty() && word.iter().all(fits)
}

/// Where a stream goes. The verbs are the program's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// The program connects to this `host:port`.
    Connect(String),
    /// The program listens there, and serves each client.
    Listen(String),
    /// The program connects to the socket at this path.
    Unix(PathBuf),
    /// The program's standard output.
    Stdout,
}

/// The user of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The program that records.
    Program,
    /// The tool that receives.
    Tool,
}

impl Address {
    /// Parses an address. `side`: the side that the address is for. `None`: the text is the name of a file. A
    /// relative path is within `start`. The side that listens may use port 0, which means any free port.
    ///
    /// # Errors
    /// The fault of the address, in one line.
    ///
    /// # Examples
    /// ```
    /// use fdr_formats::address::{Address, Side};
    /// use std::ffi::OsStr;
    /// use std::path::Path;
    ///
    /// let parse = |text| Address::parse(OsStr::new(text), Path::new("/tmp"), Side::Program);
    /// assert_eq!(parse("tcp://host:7"), Some(Ok(Address::Connect("host:7".into()))));
    /// assert!(parse("tcp://host").is_some_and(|address| address.is_err()));
    /// assert_eq!(parse("app.fdr"), None);
    /// ```
    #[must_use]
    pub fn parse(text: &OsStr, start: &Path, side: Side) -> Option<Result<Address, String>> {
        if !is_address(text) {
            return None;
        }
        let bytes = text.as_bytes();
        if bytes == b"-" {
            return Some(Ok(Address::Stdout));
        }
        if let Some(path) = bytes.strip_prefix(b"unix:") {
            let within = start.join(OsStr::from_bytes(path));
            return Some(socket(within, path.is_empty()));
        }
        let text = String::from_utf8_lossy(bytes);
        let least = |listens: Side| u16::from(side != listens);
        let Some((scheme, place)) = text.split_once("://") else {
            let (scheme, place) = text.split_once(':')?;
            return Some(Err(format!("two slashes are missing: {scheme}://{place}")));
        };
        match scheme {
            "tcp" => Some(host_and_port(place, least(Side::Tool)).map(Address::Connect)),
            "tcp-listen" => Some(host_and_port(place, least(Side::Program)).map(Address::Listen)),
            _ => Some(Err(format!(
                "no such kind of stream; accepted are {SHAPES}"
            ))),
        }
    }

    /// Whether the port is 0: the side that listens chooses one.
    #[must_use]
    pub fn is_any_port(&self) -> bool {
        let (Address::Connect(place) | Address::Listen(place)) = self else {
            return false;
        };
        let port = place
            .rsplit_once(':')
            .and_then(|(_, port)| port.parse().ok());
        port == Some(0_u16)
    }
}

fn socket(path: PathBuf, nothing: bool) -> Result<Address, String> {
    if nothing || path.file_name().is_none() {
        return Err("no socket in it, as in unix:/tmp/app.socket".to_owned());
    }
    if path.as_os_str().len() > MAX_SOCKET {
        return Err(format!(
            "the socket's path is longer than {MAX_SOCKET} bytes"
        ));
    }
    Ok(Address::Unix(path))
}

/// Checks `host:port`, where a host may be `[::1]` and the port is at least `least`.
fn host_and_port(text: &str, least: u16) -> Result<String, String> {
    let (host, port) = text.rsplit_once(':').unwrap_or((text, ""));
    let bare = host.contains(':') && !(host.starts_with('[') && host.ends_with(']'));
    let digits = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    let port = port.parse::<u16>().ok().filter(|_| digits);
    match (host, port) {
        ("", _) => Err("no host in it, as in tcp://127.0.0.1:7000".to_owned()),
        _ if bare => Err("an IPv6 address is in brackets, as in tcp://[::1]:7000".to_owned()),
        (_, Some(0)) if least > 0 => Err("port 0 is for the end that listens".to_owned()),
        (_, None) => Err(format!(
            "no port from {least} to 65535 in it, as in tcp://127.0.0.1:7000"
        )),
        _ => Ok(text.to_owned()),
    }
}

/// The address as it is written in `FDR_OUT`, without characters that a terminal would obey.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Connect(place) => write!(f, "tcp://{}", clean(place)),
            Address::Listen(place) => write!(f, "tcp-listen://{}", clean(place)),
            Address::Unix(path) => write!(f, "unix:{}", clean(&path.to_string_lossy())),
            Address::Stdout => f.write_str("-"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Option<Result<Address, String>> {
        Address::parse(OsStr::new(text), Path::new("/start"), Side::Program)
    }

    #[test]
    fn addresses() {
        for text in [
            "tcp://localhost:1",
            "tcp://[::1]:65535",
            "tcp-listen://127.0.0.1:0",
            "unix:/tmp/a b",
            "-",
        ] {
            let address = parse(text).expect("an address").expect("a valid one");
            assert_eq!(address.to_string(), text);
            assert!(is_address(OsStr::new(text)));
        }
        let within = PathBuf::from("/start/app.socket");
        assert_eq!(parse("unix:app.socket"), Some(Ok(Address::Unix(within))));
        let here = Address::parse(OsStr::new("unix:s"), Path::new(""), Side::Tool);
        assert_eq!(here, Some(Ok(Address::Unix("s".into()))));
    }

    #[test]
    fn only_who_listens_may_take_any_port() {
        for (text, side, fits) in [
            ("tcp://a:0", Side::Program, false),
            ("tcp://a:0", Side::Tool, true),
            ("tcp-listen://a:0", Side::Program, true),
            ("tcp-listen://a:00", Side::Tool, false),
        ] {
            let address = Address::parse(OsStr::new(text), Path::new(""), side).unwrap();
            assert_eq!(address.is_ok(), fits, "{text} {side:?}");
            assert!(address.is_ok_and(|address| address.is_any_port()) == fits);
        }
        assert!(!parse("tcp://a:10").unwrap().unwrap().is_any_port());
    }

    #[test]
    fn control_characters_are_not_shown() {
        let address = parse("unix:/a\x1b[31m").unwrap().unwrap();
        assert!(!address.to_string().contains('\x1b'));
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
            "tcp:x",
            "tcp:a/b:7",
            "a/b://c",
            "://",
        ] {
            assert_eq!(parse(text), None, "{text}");
            assert!(!is_address(OsStr::new(text)), "{text}");
        }
    }

    #[test]
    fn what_is_wrong_is_reported() {
        let long = format!("unix:/{}", "x".repeat(MAX_SOCKET));
        for (text, what) in [
            ("tcp://", "host"),
            ("tcp://:7", "host"),
            ("tcp://host", "port"),
            ("tcp://host:", "port"),
            ("tcp://host:0", "port"),
            ("tcp://host:65536", "port"),
            ("tcp://host:+7", "port"),
            ("tcp://host:7/", "no port from 1 to 65535"),
            ("tcp-listen://::1:7", "brackets"),
            ("udp://host:7", "tcp-listen://host:port"),
            ("tcp:host:7", "missing: tcp://host:7"),
            ("tcp-listen:[::1]:7", "missing: tcp-listen://[::1]:7"),
            ("tcp-lisen://host:7", "tcp-listen://host:port"),
            ("unix:", "socket"),
            ("unix:/", "socket"),
            (&long, "longer than 107 bytes"),
        ] {
            assert!(is_address(OsStr::new(text)), "{text}");
            let error = parse(text).expect("an address").expect_err("a bad one");
            assert!(
                error.contains(what) && !error.contains('\n'),
                "{text}: {error}"
            );
        }
    }
}
