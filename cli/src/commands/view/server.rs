//! Serves the page on this machine alone. Whoever asks needs the token of the address, which only the person who began
//! the command has; and a browser has to ask under our own name, so that no other page can. Must never write a file,
//! nor answer with a file's content by its path.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context;

use super::http::{self, Answer, Request};

/// Connections at the same time. More are closed at once.
const MOST_CONNECTIONS: usize = 64;
/// So long after the last page was closed, the server ends.
const LINGER: Duration = Duration::from_secs(60);
/// How often a page that is open is told that we are there.
const BEAT: Duration = Duration::from_secs(2);

/// Answers the requests of the page: the path behind the token, and the values.
pub(super) trait Pages: Send + Sync + 'static {
    fn answer(&self, path: &str, request: &Request, asker: Asker<'_>) -> Answer;
}

/// Who waits for an answer.
#[derive(Clone, Copy)]
pub(super) struct Asker<'a>(Option<&'a TcpStream>);

impl Asker<'_> {
    /// Ourselves, who do not go away.
    pub(super) const OURSELVES: Asker<'static> = Asker(None);

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

/// Who looks at the page.
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

    /// Serves until the page was closed for a minute.
    ///
    /// # Errors
    /// If connections can't be accepted.
    pub(super) fn run(self, pages: Arc<dyn Pages>) -> anyhow::Result<()> {
        let shared = self.shared.clone();
        let listener = self.listener.try_clone().context("the listening socket")?;
        std::thread::spawn(move || accept(&listener, &shared, &pages));
        loop {
            std::thread::sleep(Duration::from_millis(500));
            let presence = self.shared.presence();
            let is_left = presence.left.is_some_and(|left| left.elapsed() > LINGER);
            if presence.pages == 0 && is_left {
                return Ok(());
            }
        }
    }
}

/// A name that nobody can guess.
fn token() -> anyhow::Result<String> {
    let mut bytes = [0_u8; 16];
    let mut random = std::fs::File::open("/dev/urandom").context("/dev/urandom")?;
    random.read_exact(&mut bytes).context("/dev/urandom")?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>, pages: &Arc<dyn Pages>) {
    loop {
        let Ok((stream, _)) = listener.accept() else {
            // No descriptor is left, for instance.
            std::thread::sleep(Duration::from_millis(50));
            continue;
        };
        // Relaxed: the counter bounds, and publishes nothing.
        if shared.connections.fetch_add(1, Ordering::Relaxed) >= MOST_CONNECTIONS {
            shared.connections.fetch_sub(1, Ordering::Relaxed);
            continue;
        }
        let (of_thread, pages) = (shared.clone(), pages.clone());
        let connection = Connection(of_thread);
        // Where no thread can be made, the connection is closed.
        let _ = std::thread::Builder::new().spawn(move || serve(stream, &connection.0, &*pages));
    }
}

/// One that counts.
struct Connection(Arc<Shared>);

impl Drop for Connection {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

fn serve(mut stream: TcpStream, shared: &Shared, pages: &dyn Pages) {
    let request = match http::read(&mut stream) {
        Ok(request) => request,
        Err(answer) => {
            // A peer that does not listen is no trouble of ours.
            let _ = answer.map(|answer| http::send(&mut stream, &answer));
            return;
        }
    };
    let answer = match admit(&request, shared) {
        Ok("api/alive") => return stay(stream, shared),
        Ok(path) => pages.answer(path, &request, Asker(Some(&stream))),
        Err(answer) => answer,
    };
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
    let is_near =
        header("sec-fetch-site").is_none_or(|site| matches!(site, "same-origin" | "none"));
    if !is_own || !is_near {
        return Err(Answer::text(403, "another page asked\n"));
    }
    if request.method != "GET" {
        return Err(Answer::text(405, "GET only\n"));
    }
    let rest = request
        .path
        .strip_prefix('/')
        .and_then(|path| path.split_once('/'));
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
fn stay(mut stream: TcpStream, shared: &Shared) {
    let head = http::head(200, "text/plain", None);
    let mut write = |bytes: &[u8]| {
        let done = stream.write_all(bytes).and_then(|()| stream.flush());
        done.is_ok() && !is_closed(&stream)
    };
    shared.presence().pages += 1;
    let mut is_there = write(head.as_bytes());
    while is_there {
        std::thread::sleep(BEAT);
        is_there = write(b".");
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
    use std::collections::{HashMap, VecDeque};

    struct Echo;

    impl Pages for Echo {
        fn answer(&self, path: &str, _: &Request, _: Asker<'_>) -> Answer {
            Answer::text(200, path)
        }
    }

    fn begin() -> Arc<Shared> {
        serve_with(Arc::new(Echo))
    }

    fn serve_with(pages: Arc<dyn Pages>) -> Arc<Shared> {
        let server = Server::new(0).expect("a port");
        let shared = server.shared.clone();
        std::thread::spawn(move || server.run(pages));
        shared
    }

    /// Works until nobody waits for the answer.
    struct Endless(Mutex<std::sync::mpsc::Sender<&'static str>>);

    impl Pages for Endless {
        fn answer(&self, path: &str, _: &Request, asker: Asker<'_>) -> Answer {
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
    fn an_answer_for_which_nobody_waits_is_given_up() {
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
    fn only_who_has_the_token_and_asks_by_our_name_is_answered() {
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

    #[test]
    fn many_connections_that_say_nothing_keep_nobody_out_for_long() {
        let shared = begin();
        let connect = || TcpStream::connect(("127.0.0.1", shared.port)).ok();
        let mut idle = VecDeque::new();
        for mut stream in (0..10_000).filter_map(|_| connect()) {
            // Half a request; the server closes most of them at once.
            let _ = stream.write_all(b"GET / HT");
            idle.push_back(stream);
            // This process may have too few descriptors for all.
            if idle.len() > 1500 {
                idle.pop_front();
            }
        }
        let request = format!(
            "GET /{}/x HTTP/1.1\r\nHost: localhost:{}\r\n\r\n",
            shared.token, shared.port
        );
        let until = Instant::now() + Duration::from_secs(60);
        let mut answer = Vec::new();
        while !answer.starts_with(b"HTTP/1.1 200 ") && Instant::now() < until {
            answer.clear();
            if let Some(mut stream) = connect()
                && stream.write_all(request.as_bytes()).is_ok()
            {
                let _ = stream.read_to_end(&mut answer);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        assert!(answer.starts_with(b"HTTP/1.1 200 "));
        assert!(shared.connections.load(Ordering::Relaxed) <= MOST_CONNECTIONS + 1);
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
