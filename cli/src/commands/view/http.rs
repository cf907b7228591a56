//! The part of HTTP/1.1 that our page needs: one `GET` request on each connection, and its answer. A head of more than
//! 8 KiB is refused. [`httparse`] reads the head.

use std::collections::HashMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use httparse::Status;
use percent_encoding::percent_decode_str;

const MAX_HEAD: usize = 8 << 10;
/// Browsers send about 20.
const MAX_HEADERS: usize = 64;
/// An answer has to go on within that time.
const WRITING: Duration = Duration::from_secs(30);

/// A request.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) method: String,
    /// Without the query.
    pub(super) path: String,
    pub(super) query: HashMap<String, String>,
    /// By small letters. Headers that come twice are refused.
    pub(super) headers: HashMap<String, String>,
}

/// An answer.
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) kind: &'static str,
    pub(super) body: Vec<u8>,
}

impl Answer {
    pub(super) fn text(status: u16, what: impl Into<String>) -> Answer {
        Answer {
            status,
            kind: "text/plain; charset=utf-8",
            body: what.into().into_bytes(),
        }
    }

    pub(super) fn json(body: Vec<u8>) -> Answer {
        Answer {
            status: 200,
            kind: "application/json",
            body,
        }
    }

    pub(super) fn bytes(body: Vec<u8>) -> Answer {
        Answer {
            status: 200,
            kind: "application/octet-stream",
            body,
        }
    }

    pub(super) fn page(body: Vec<u8>) -> Answer {
        Answer {
            status: 200,
            kind: "text/html; charset=utf-8",
            body,
        }
    }
}

/// The phrase behind a status code.
fn phrase(status: u16) -> &'static str {
    match status {
        200 => "OK",
        400 => "Bad Request",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        409 => "Conflict",
        431 => "Request Header Fields Too Large",
        503 => "Service Unavailable",
        _ => "Internal Server Error",
    }
}

/// The head of every answer; a length that is not known is left out.
pub(super) fn head(status: u16, kind: &str, length: Option<usize>) -> String {
    let length = length.map_or_else(String::new, |length| {
        format!("Content-Length: {length}\r\n")
    });
    let allow = if status == 405 { "Allow: GET\r\n" } else { "" };
    let phrase = phrase(status);
    format!(
        "HTTP/1.1 {status} {phrase}\r\nContent-Type: {kind}\r\n{length}{allow}\
         Cache-Control: no-store\r\nReferrer-Policy: no-referrer\r\nX-Content-Type-Options: nosniff\r\n\
         X-Frame-Options: DENY\r\nCross-Origin-Resource-Policy: same-origin\r\n\
         Cross-Origin-Opener-Policy: same-origin\r\nConnection: close\r\n\r\n"
    )
}

/// Sends an answer. A slow peer gets a time limit.
pub(super) fn send(stream: &mut TcpStream, answer: &Answer) -> io::Result<()> {
    stream.set_write_timeout(Some(WRITING))?;
    put(stream, answer)
}

/// Puts an answer into a connection.
pub(super) fn put(stream: &mut TcpStream, answer: &Answer) -> io::Result<()> {
    let head = head(answer.status, answer.kind, Some(answer.body.len()));
    stream.write_all(head.as_bytes())?;
    stream.write_all(&answer.body)?;
    stream.flush()
}

/// A request that comes in parts.
#[derive(Debug, Default)]
pub(super) struct Incoming(Vec<u8>);

/// How far a request came.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// More has to come.
    Partial,
    /// The peer has closed the connection.
    Gone,
    Whole(Request),
    /// What to answer instead: status and words.
    Bad(u16, &'static str),
}

impl Incoming {
    /// Reads what is there, of a connection that does not wait.
    pub(super) fn read(&mut self, stream: &mut impl Read) -> Progress {
        let mut buffer = [0; 1024];
        loop {
            let count = match stream.read(&mut buffer) {
                Ok(0) => return Progress::Gone,
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Progress::Partial,
                Err(_) => return Progress::Gone,
            };
            self.0.extend_from_slice(buffer.get(..count).unwrap_or(&[]));
            if self.0.len() > MAX_HEAD {
                return Progress::Bad(431, "the request is too long\n");
            }
            match parse(&self.0) {
                Progress::Partial => {}
                done => return done,
            }
        }
    }
}

/// A head that may be incomplete.
fn parse(bytes: &[u8]) -> Progress {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut head = httparse::Request::new(&mut headers);
    match head.parse(bytes) {
        Ok(Status::Partial) => Progress::Partial,
        Ok(Status::Complete(_)) => request(&head).map_or(NO_REQUEST, Progress::Whole),
        Err(httparse::Error::TooManyHeaders) => {
            Progress::Bad(431, "the request has too many headers\n")
        }
        Err(_) => NO_REQUEST,
    }
}

const NO_REQUEST: Progress = Progress::Bad(400, "not a request of HTTP/1.1\n");

fn request(head: &httparse::Request<'_, '_>) -> Option<Request> {
    let target = head.path.filter(|target| target.starts_with('/'))?;
    let mut headers = HashMap::new();
    for header in head.headers.iter() {
        let value = std::str::from_utf8(header.value).ok()?.to_owned();
        let name = header.name.to_ascii_lowercase();
        if headers.insert(name, value).is_some() {
            return None;
        }
    }
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    let query = pairs.map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        Some((unescape(name)?, unescape(value)?))
    });
    Some(Request {
        method: head.method?.to_owned(),
        path: path.to_owned(),
        query: query.collect::<Option<_>>()?,
        headers,
    })
}

/// `%2A` is `*`, `+` a space. `None`: it is no text.
fn unescape(text: &str) -> Option<String> {
    let text = text.replace('+', " ");
    let text = percent_decode_str(&text).decode_utf8().ok()?;
    Some(text.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_has_a_path_and_values() {
        let head =
            b"GET /a/api/lanes?from=1&glob=a%3A%3A*+b&x HTTP/1.1\r\nHost: x:1\r\nA-B:\tc \r\n\r\n";
        let Progress::Whole(request) = parse(head) else {
            panic!("a request");
        };
        assert_eq!(request.path, "/a/api/lanes");
        assert_eq!(request.query["from"], "1");
        assert_eq!(request.query["glob"], "a::* b");
        assert_eq!(request.query["x"], "");
        assert_eq!(request.headers["host"], "x:1");
        assert_eq!(request.headers["a-b"], "c");
    }

    #[test]
    fn a_request_may_come_in_parts() {
        let whole = b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n";
        for cut in 1..whole.len() {
            let mut incoming = Incoming::default();
            let mut parts = Parts(vec![&whole[cut..], &[], &whole[..cut]]);
            assert_eq!(incoming.read(&mut parts), Progress::Partial, "{cut}");
            let Progress::Whole(request) = incoming.read(&mut parts) else {
                panic!("{cut}");
            };
            assert_eq!(request.path, "/a");
        }
        assert_eq!(Incoming::default().read(&mut &b"GET"[..]), Progress::Gone);
    }

    /// Parts of a request, the last one first. An empty one: nothing is there now.
    struct Parts<'a>(Vec<&'a [u8]>);

    impl Read for Parts<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            match self.0.pop() {
                Some([]) => Err(ErrorKind::WouldBlock.into()),
                Some(mut part) => part.read(buffer),
                None => Ok(0),
            }
        }
    }

    #[test]
    fn what_is_no_request_is_refused() {
        for head in [
            "GET\r\n\r\n",
            "GET / HTTP/2\r\n\r\n",
            "GET x HTTP/1.1\r\n\r\n",
            "GET /  HTTP/1.1\r\n\r\n",
            "GET / HTTP/1.1\r\nHost\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\nhost: b\r\n\r\n",
            "GET /?a=%ff HTTP/1.1\r\n\r\n",
        ] {
            assert_eq!(parse(head.as_bytes()), NO_REQUEST, "{head}");
        }
        assert_eq!(parse(b"GET /\xff HTTP/1.1\r\n\r\n"), NO_REQUEST);
        let many = format!(
            "GET / HTTP/1.1\r\n{}\r\n",
            "a: b\r\n".repeat(MAX_HEADERS + 1)
        );
        assert!(matches!(parse(many.as_bytes()), Progress::Bad(431, _)));
        let long = format!("GET /{} HTTP/1.1\r\n", "x".repeat(MAX_HEAD));
        let long = Incoming::default().read(&mut long.as_bytes());
        assert!(matches!(long, Progress::Bad(431, _)));
    }
}
