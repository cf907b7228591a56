//! Addresses of streams, the same text on both ends: `FDR_OUT` of a program, and `fdr listen`.
//! Who changes what is taken here changes the recorder's own rules with it. Must never take the name
//! of a file for an address.
//!
//! | address | the program | `fdr listen` |
//! | --- | --- | --- |
//! | `tcp://host:port` | connects | listens |
//! | `tcp-listen://host:port` | listens | connects |
//! | `unix:/path` | connects | listens |
//! | `-` | writes to its standard output | reads its standard input |

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use crate::ui;

/// The two ends of a stream, as the program sees them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Address {
    /// The program connects to this host and port.
    Tcp(String),
    /// The program listens there.
    TcpListen(String),
    /// The program connects to this socket.
    Unix(PathBuf),
    /// The program's standard output.
    Standard,
}

/// What an address looks like.
pub(crate) const SHAPES: &str = "tcp://host:port, tcp-listen://host:port, unix:/path or -";

impl Address {
    /// The address in a text; `None` where the text is the name of a file.
    ///
    /// # Errors
    /// What is wrong with the address.
    pub(crate) fn parse(text: &OsStr) -> Option<Result<Address, String>> {
        let bytes = text.as_bytes();
        if bytes == b"-" {
            return Some(Ok(Address::Standard));
        }
        if let Some(path) = bytes.strip_prefix(b"unix:") {
            let path = PathBuf::from(OsStr::from_bytes(path));
            return Some(match path.file_name() {
                Some(_) => Ok(Address::Unix(path)),
                None => Err("no socket in it, as in unix:/tmp/app.socket".to_owned()),
            });
        }
        let text = text.to_string_lossy();
        let (scheme, end) = text.split_once("://")?;
        match scheme {
            "tcp" => Some(host_and_port(end).map(Address::Tcp)),
            "tcp-listen" => Some(host_and_port(end).map(Address::TcpListen)),
            _ if !is_scheme(scheme) => None,
            _ => Some(Err(format!(
                "no such kind of stream; an address is {SHAPES}"
            ))),
        }
    }

    /// Refuses port 0 on the end that connects.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn check_port(&self, program: bool) -> Result<(), String> {
        match (self, program) {
            (Address::Tcp(end), true) | (Address::TcpListen(end), false) if is_any(end) => {
                Err("port 0 is for the end that listens".to_owned())
            }
            _ => Ok(()),
        }
    }

    /// Whether `fdr listen` chooses the port.
    pub(crate) fn is_any_port(&self) -> bool {
        matches!(self, Address::Tcp(end) if is_any(end))
    }
}

fn is_any(end: &str) -> bool {
    let (_, port) = end.rsplit_once(':').unwrap_or_default();
    port.parse() == Ok(0_u16)
}

fn is_scheme(word: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    !word.is_empty() && word.bytes().all(fits)
}

/// Checks `host:port`, where a host may be `[::1]`.
fn host_and_port(text: &str) -> Result<String, String> {
    let (host, port) = text.rsplit_once(':').unwrap_or((text, ""));
    let bare = host.contains(':') && !(host.starts_with('[') && host.ends_with(']'));
    let digits = port.bytes().all(|byte| byte.is_ascii_digit());
    match (host, port.parse::<u16>()) {
        ("", _) => Err("no host in it, as in tcp://127.0.0.1:7000".to_owned()),
        _ if bare => Err("an IPv6 address is in brackets, as in tcp://[::1]:7000".to_owned()),
        (_, Ok(_)) if digits => Ok(text.to_owned()),
        _ => Err("no port from 0 to 65535 in it, as in tcp://127.0.0.1:7000".to_owned()),
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp(end) => write!(f, "tcp://{end}"),
            Address::TcpListen(end) => write!(f, "tcp-listen://{end}"),
            Address::Unix(path) => write!(f, "unix:{}", ui::path(path)),
            Address::Standard => f.write_str("-"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Option<Result<Address, String>> {
        Address::parse(OsStr::new(text))
    }

    #[test]
    fn addresses() {
        for text in [
            "-",
            "tcp://localhost:0",
            "tcp://[::1]:65535",
            "tcp-listen://127.0.0.1:8765",
            "unix:/tmp/a b",
            "unix:socket",
        ] {
            let address = parse(text).unwrap().unwrap();
            assert_eq!(address.to_string(), text);
        }
        let path = PathBuf::from("/tmp/x");
        assert_eq!(parse("unix:/tmp/x"), Some(Ok(Address::Unix(path))));
    }

    #[test]
    fn only_who_listens_may_take_any_port() {
        for (text, program, fits) in [
            ("tcp://a:0", true, false),
            ("tcp://a:0", false, true),
            ("tcp-listen://a:0", true, true),
            ("tcp-listen://a:00", false, false),
            ("tcp://a:10", true, true),
        ] {
            let address = parse(text).unwrap().unwrap();
            assert_eq!(
                address.check_port(program).is_ok(),
                fits,
                "{text} {program}"
            );
        }
    }

    #[test]
    fn files_are_none() {
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
        for (text, what) in [
            ("tcp://", "host"),
            ("tcp://:7", "host"),
            ("tcp://host", "port"),
            ("tcp://host:", "port"),
            ("tcp://host:65536", "port"),
            ("tcp://host:+7", "port"),
            ("tcp-listen://::1:7", "brackets"),
            ("tcp://host:7/", "port"),
            ("udp://host:7", "tcp-listen://host:port"),
            ("unix:", "socket"),
            ("unix:/", "socket"),
        ] {
            let error = parse(text).unwrap().unwrap_err();
            assert!(error.contains(what), "{text}: {error}");
        }
    }
}
