//! Serves the page on this machine alone. A request needs the token of the address, which only the user who started the
//! command has. A browser has to send our own name as the host, so that no other page can make requests.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context;

use super::connections::{self, Decision};
use super::http::{self, Answer, Request};

/// Connections with the token that are served at the same time.
const MAX_CONNECTIONS: usize = 64;
/// The server ends if this time has passed since the last page was closed.
const LINGER: Duration = Duration::from_secs(60);
/// The file that leads the browser to the page is removed after this time, even if no page came.
const LEADING: Duration = Duration::from_secs(120);
/// The time between two signs of life that an open page gets.
const BEAT: Duration = Duration::from_secs(2);

/// Answers the requests of the page: the path behind the token, and the values.
pub(super) trait Pages: Send + Sync + 'static {
    fn answer(&self, path: &str, request: &Request, asker: WaitingPeer<'_>) -> Answer;

    /// The sign of life that an open page gets: what it has to know without asking.
    fn beat(&self) -> &'static [u8] {
        b"."
    }
}

/// The peer that waits for an answer.
#[derive(Clone, Copy)]
pub(super) struct WaitingPeer<'a>(Option<&'a TcpStream>);

impl WaitingPeer<'_> {
    /// Ourselves, who do not go away.
    pub(super) const OURSELVES: WaitingPeer<'static> = WaitingPeer(None);

    /// Whether the page has given the request up.
    pub(super) fn is_gone(self) -> bool {
        self.0.is_some_and(is_closed)
    }
}

/// The server, which listens.
pub(super) struct Server {
    listener: TcpListener,
    shared: Arc<Shared>,
}

struct Shared {
    port: u16,
    token: String,
    connections: AtomicUsize,
    presence: Mutex<Presence>,
}

/// The open pages.
#[derive(Debug, Default)]
struct Presence {
    pages: usize,
    /// When the last page was closed.
    left: Option<Instant>,
}

impl Shared {
    fn presence(&self) -> std::sync::MutexGuard<'_, Presence> {
        self.presence.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Server {
    /// Listens on that port, or on a free one.
    ///
    /// # Errors
    /// If it can't.
    pub(super) fn new(port: u16) -> anyhow::Result<Server> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))
            .with_context(|| format!("can't listen on port {port} of 127.0.0.1"))?;
        let port = listener.local_addr().context("the own address")?.port();
        let shared = Shared {
            port,
            token: token()?,
            connections: AtomicUsize::new(0),
            presence: Mutex::default(),
        };
        Ok(Server {
            listener,
            shared: Arc::new(shared),
        })
    }

    /// What a browser has to open.
    pub(super) fn address(&self) -> String {
        let Shared { port, token, .. } = &*self.shared;
        format!("http://127.0.0.1:{port}/{token}/")
    }

    /// Serves until the page was closed for a minute. `lead`: what led the browser here. It is dropped when it is of no
    /// more use.
    ///
    /// # Errors
    /// If connections can't be accepted.
    pub(super) fn run<L>(self, pages: Arc<dyn Pages>, mut lead: Option<L>) -> anyhow::Result<()> {
        let shared = self.shared.clone();
        let listener = self.listener.try_clone().context("the listening socket")?;
        listener
            .set_nonblocking(true)
            .context("the listening socket")?;
        std::thread::spawn(move || {
            connections::take_all(&listener, &|request| decide(request, &shared, &pages));
        });
        let begun = Instant::now();
        loop {
            std::thread::sleep(Duration::from_millis(500));
            let presence = self.shared.presence();
            let is_there = presence.pages > 0 || presence.left.is_some();
            if is_there || begun.elapsed() > LEADING {
                drop(lead.take());
            }
            let is_left = presence.left.is_some_and(|left| left.elapsed() > LINGER);
            if presence.pages == 0 && is_left {
                return Ok(());
            }
        }
    }
}

/// A random token that no other user can guess.
fn token() -> anyhow::Result<String> {
    let mut bytes = [0_u8; 16];
    let mut random = std::fs::File::open("/dev/urandom").context("/dev/urandom")?;
    random.read_exact(&mut bytes).context("/dev/urandom")?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Decides about a request. A request with the token gets a thread that serves it.
fn decide(request: Request, shared: &Arc<Shared>, pages: &Arc<dyn Pages>) -> Decision {
    let path = match admit(&request, shared) {
        Ok(path) => path.to_owned(),
        Err(answer) => return Decision::Refuse(answer),
    };
    let served = Served::begin(shared);
    if served.0.connections.load(Ordering::Relaxed) > MAX_CONNECTIONS {
        let why = "too many connections of this page\n";
        return Decision::Refuse(Answer::text(503, why));
    }
    let pages = pages.clone();
    Decision::Serve(Box::new(move |stream| {
        let serve = move || serve(stream, &path, &request, &served.0, &*pages);
        // Where no thread can be made, the connection is closed.
        let _ = std::thread::Builder::new().spawn(serve);
    }))
}

/// A connection that is served, counted.
struct Served(Arc<Shared>);

impl Served {
    fn begin(shared: &Arc<Shared>) -> Served {
        // Relaxed: the counter bounds, and publishes nothing.
        shared.connections.fetch_add(1, Ordering::Relaxed);
        Served(shared.clone())
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

fn serve(mut stream: TcpStream, path: &str, request: &Request, shared: &Shared, pages: &dyn Pages) {
    if path == "api/alive" {
        return stay(stream, shared, pages);
    }
    let answer = pages.answer(path, request, WaitingPeer(Some(&stream)));
    // A peer that does not listen is no trouble of ours.
    let _ = http::send(&mut stream, &answer);
    // What is left unread would reset the connection before the peer has the answer.
    let _ = stream.shutdown(std::net::Shutdown::Write);
    let _ = stream.set_read_timeout(Some(Duration::from_millis(200)));
    let _ = stream.read(&mut [0; 256]);
}

/// The path behind the token of a request that may be answered.
fn admit<'a>(request: &'a Request, shared: &Shared) -> Result<&'a str, Answer> {
    let port = shared.port;
    let header = |name: &str| request.headers.get(name).map(String::as_str);
    let hosts = [format!("127.0.0.1:{port}"), format!("localhost:{port}")];
    let Some(host) = header("host").filter(|host| hosts.iter().any(|own| own == host)) else {
        return Err(Answer::text(
            403,
            "this server answers under its own name only\n",
        ));
    };
    let is_own = header("origin").is_none_or(|origin| origin == format!("http://{host}"));
    let rest = request
        .path
        .strip_prefix('/')
        .and_then(|path| path.split_once('/'));
    // The file that the browser is opened with leads to the page, and nothing else may lead anywhere.
    let is_led_to = matches!(rest, Some((_, "")))
        && header("sec-fetch-mode") == Some("navigate")
        && header("sec-fetch-dest") == Some("document");
    let is_near =
        header("sec-fetch-site").is_none_or(|site| matches!(site, "same-origin" | "none"));
    if !is_own || !(is_near || is_led_to) {
        return Err(Answer::text(403, "another page asked\n"));
    }
    if request.method != "GET" {
        return Err(Answer::text(405, "GET only\n"));
    }
    match rest {
        Some((token, rest)) if is_same(token, &shared.token) => Ok(rest),
        _ => Err(Answer::text(404, "not here\n")),
    }
}

/// Compares in a time that says nothing of the place of a difference.
fn is_same(one: &str, other: &str) -> bool {
    let pairs = one.bytes().zip(other.bytes());
    one.len() == other.len() && pairs.fold(0, |sum, (one, other)| sum | (one ^ other)) == 0
}

/// A page is open for as long as it reads this answer, which has no end.
fn stay(mut stream: TcpStream, shared: &Shared, pages: &dyn Pages) {
    let head = http::head(200, "text/plain", None);
    let mut write = |bytes: &[u8]| {
        let done = stream.write_all(bytes).and_then(|()| stream.flush());
        done.is_ok() && !is_closed(&stream)
    };
    shared.presence().pages += 1;
    let mut is_there = write(head.as_bytes());
    while is_there {
        std::thread::sleep(BEAT);
        is_there = write(pages.beat());
    }
    let mut presence = shared.presence();
    presence.pages -= 1;
    presence.left = Some(Instant::now());
}

/// Whether the peer has closed its side.
fn is_closed(stream: &TcpStream) -> bool {
    let _ = stream.set_nonblocking(true);
    let closed = matches!(stream.peek(&mut [0]), Ok(0));
    let _ = stream.set_nonblocking(false);
    closed
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;
    use std::sync::atomic::AtomicBool;

    struct Echo;

    impl Pages for Echo {
        fn answer(&self, path: &str, _: &Request, _: WaitingPeer<'_>) -> Answer {
            Answer::text(200, path)
        }
    }

    fn begin() -> Arc<Shared> {
        serve_with(Arc::new(Echo))
    }

    fn serve_with(pages: Arc<dyn Pages>) -> Arc<Shared> {
        let server = Server::new(0).expect("a port");
        let shared = server.shared.clone();
        std::thread::spawn(move || server.run(pages, None::<()>));
        shared
    }

    /// Works until the peer no longer waits for the answer.
    struct Endless(Mutex<std::sync::mpsc::Sender<&'static str>>);

    impl Pages for Endless {
        fn answer(&self, path: &str, _: &Request, asker: WaitingPeer<'_>) -> Answer {
            let tell = |what| self.0.lock().expect("a sender").send(what);
            tell("begun").expect("a test that listens");
            while !asker.is_gone() {
                std::thread::sleep(Duration::from_millis(5));
            }
            tell("given up").expect("a test that listens");
            Answer::text(200, path)
        }
    }

    #[test]
    fn unawaited_answers_are_given_up() {
        let (sender, told) = std::sync::mpsc::channel();
        let shared = serve_with(Arc::new(Endless(Mutex::new(sender))));
        let mut stream = TcpStream::connect(("127.0.0.1", shared.port)).expect("a server");
        let request = format!(
            "GET /{}/x HTTP/1.1\r\nHost: localhost:{}\r\n\r\n",
            shared.token, shared.port
        );
        stream.write_all(request.as_bytes()).expect("it reads");
        let next = || told.recv_timeout(Duration::from_secs(60));
        assert_eq!(next(), Ok("begun"));
        assert!(told.try_recv().is_err(), "who asked is still there");
        drop(stream);
        assert_eq!(next(), Ok("given up"));
    }

    fn ask(shared: &Shared, request: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", shared.port)).expect("a server");
        stream.write_all(request.as_bytes()).expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        answer
    }

    #[test]
    fn requests_need_token_and_host_name() {
        let shared = begin();
        let Shared { port, token, .. } = &*shared;
        let get = |path: &str, more: &str| {
            let host = format!("Host: 127.0.0.1:{port}\r\n");
            ask(&shared, &format!("GET {path} HTTP/1.1\r\n{host}{more}\r\n"))
        };
        let own = get(
            &format!("/{token}/x"),
            &format!("Origin: http://127.0.0.1:{port}\r\n"),
        );
        assert!(
            own.starts_with("HTTP/1.1 200 ") && own.ends_with("\r\n\r\nx"),
            "{own}"
        );
        let path = format!("/{token}/api/info");
        let page = format!("/{token}/");
        let led_to = "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: document\r\n";
        let framed =
            "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: iframe\r\n";
        for (path, more, status) in [
            ("/", "", 404),
            ("/x", "", 404),
            ("//api/info", "", 404),
            ("/0123456789abcdef0123456789abcdef/", "", 404),
            ("/../../etc/passwd", "", 404),
            (&path, "Origin: http://example.org\r\n", 403),
            (&path, "Origin: null\r\n", 403),
            (&path, "Sec-Fetch-Site: cross-site\r\n", 403),
            (&path, "Host: again\r\n", 400),
            (&path, led_to, 403),
            (&page, led_to, 200),
            (&page, "Sec-Fetch-Site: cross-site\r\n", 403),
            (&page, framed, 403),
            ("/x/", led_to, 404),
        ] {
            let answer = get(path, more);
            assert!(
                answer.starts_with(&format!("HTTP/1.1 {status} ")),
                "{path}: {answer}"
            );
        }
        for (request, status) in [
            (
                format!("GET {path} HTTP/1.1\r\nHost: example.org:{port}\r\n\r\n"),
                403,
            ),
            (format!("GET {path} HTTP/1.1\r\n\r\n"), 403),
            (
                format!("POST {path} HTTP/1.1\r\nHost: localhost:{port}\r\n\r\n"),
                405,
            ),
            (
                format!("GET {path} HTTP/1.1\r\nA: {}\r\n\r\n", "a".repeat(9000)),
                431,
            ),
            ("nothing\r\n\r\n".to_owned(), 400),
        ] {
            let answer = ask(&shared, &request);
            assert!(
                answer.starts_with(&format!("HTTP/1.1 {status} ")),
                "{answer}"
            );
        }
    }

    /// Keeps `count` connections open, each of which has sent half a request. If one is closed, opens it again.
    fn keep_half_open(port: u16, count: usize, end: &AtomicBool) {
        let connect = || {
            let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
            stream.write_all(b"GET / HT").ok()?;
            Some(stream)
        };
        let mut open: Vec<Option<TcpStream>> = (0..count).map(|_| connect()).collect();
        while !end.load(Ordering::Relaxed) {
            for stream in &mut open {
                if stream.as_ref().is_none_or(is_closed) {
                    *stream = connect();
                }
            }
        }
    }

    #[test]
    fn half_open_connections_lock_nobody_out() {
        let shared = begin();
        let Shared { port, token, .. } = &*shared;
        let request = format!("GET /{token}/x HTTP/1.1\r\nHost: localhost:{port}\r\n\r\n");
        for count in [64, 400] {
            let end = AtomicBool::new(false);
            std::thread::scope(|scope| {
                scope.spawn(|| keep_half_open(*port, count, &end));
                std::thread::sleep(Duration::from_millis(300));
                let answered = (0..50).filter(|_| {
                    let stream = TcpStream::connect(("127.0.0.1", *port));
                    let mut stream = stream.expect("a server");
                    let _ = stream.write_all(request.as_bytes());
                    let mut answer = Vec::new();
                    let _ = stream.read_to_end(&mut answer);
                    answer.starts_with(b"HTTP/1.1 200 ")
                });
                let answered = answered.count();
                end.store(true, Ordering::Relaxed);
                assert_eq!(answered, 50, "{count} half-open ones");
            });
        }
    }

    #[test]
    fn connections_with_the_token_are_bounded() {
        let shared = begin();
        let Shared { port, token, .. } = &*shared;
        let request = format!("GET /{token}/api/alive HTTP/1.1\r\nHost: localhost:{port}\r\n\r\n");
        let open = |_| {
            let mut stream = TcpStream::connect(("127.0.0.1", *port)).expect("a server");
            stream.write_all(request.as_bytes()).expect("it reads");
            let mut head = [0; 12];
            stream.read_exact(&mut head).expect("an answer");
            (stream, head)
        };
        let pages: Vec<_> = (0..MAX_CONNECTIONS).map(open).collect();
        assert!(pages.iter().all(|(_, head)| head == b"HTTP/1.1 200"));
        assert_eq!(&open(0).1, b"HTTP/1.1 503");
    }

    #[test]
    fn a_page_that_is_closed_is_noticed() {
        let shared = begin();
        let mut stream = TcpStream::connect(("127.0.0.1", shared.port)).expect("a server");
        let request = format!(
            "GET /{}/api/alive HTTP/1.1\r\nHost: localhost:{}\r\n\r\n",
            shared.token, shared.port
        );
        stream.write_all(request.as_bytes()).expect("it reads");
        stream.read_exact(&mut [0; 12]).expect("an answer");
        assert_eq!(shared.presence().pages, 1);
        drop(stream);
        let until = Instant::now() + Duration::from_secs(30);
        while shared.presence().pages > 0 && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(20));
        }
        let presence = shared.presence();
        assert!(presence.pages == 0 && presence.left.is_some());
    }

    #[test]
    fn tokens_are_compared_as_wholes() {
        assert!(is_same("abc", "abc"));
        assert!(!is_same("abc", "abd") && !is_same("abc", "ab") && !is_same("", "a"));
        let (one, other) = (token().expect("random"), token().expect("random"));
        assert!(one != other && one.len() == 32);
        let none = Request {
            method: "GET".into(),
            path: "/".into(),
            query: HashMap::new(),
            headers: HashMap::new(),
        };
        let shared = Shared {
            port: 1,
            token: one,
            connections: AtomicUsize::new(0),
            presence: Mutex::default(),
        };
        assert_eq!(
            admit(&none, &shared).err().map(|answer| answer.status),
            Some(403)
        );
    }
}
