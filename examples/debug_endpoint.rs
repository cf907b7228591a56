//! A trace over HTTP: a server that records itself, and answers a request with a trace of the last calls of its
//! threads.
//!
//! ```text
//! target/release/examples/debug_endpoint 127.0.0.1:8080     # serves until it is ended
//! curl -o now.fdr http://127.0.0.1:8080/debug/trace         # from another terminal, as often as you like
//! fdr report now.fdr
//! ```
//!
//! The code turns recording on, so no variable is needed. The user of the server can still set variables, and `FDR=off`
//! turns recording off. Without an address it serves one request of each kind to itself and ends.

use std::env;
use std::error::Error;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use fdr::{Config, Log, traced};

#[traced]
fn greeting(name: &str) -> String {
    format!("Hello, {}!\n", name.trim_matches('/'))
}

/// Answers one request.
#[traced]
fn answer(path: &str, client: &mut impl Write) -> io::Result<()> {
    match path {
        "/debug/trace" => trace(client),
        name => plain(client, "200 OK", &greeting(name)),
    }
}

/// The whole trace of now as the body, by way of memory: an error can still become a status.
fn trace(client: &mut impl Write) -> io::Result<()> {
    let mut body = Vec::new();
    match fdr::dump_to(&mut body) {
        Ok(_) => {
            let head = "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\n";
            write!(client, "{head}Content-Length: {}\r\n\r\n", body.len())?;
            client.write_all(&body)
        }
        Err(error) => plain(client, "503 Service Unavailable", &format!("{error}\n")),
    }
}

fn plain(client: &mut impl Write, status: &str, body: &str) -> io::Result<()> {
    let length = body.len();
    write!(
        client,
        "HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\n\r\n{body}"
    )
}

/// Reads a request and answers it; the connection is for one.
fn serve(client: TcpStream) -> io::Result<()> {
    client.set_read_timeout(Some(Duration::from_secs(5)))?;
    let mut reader = BufReader::new(client);
    let mut request = String::new();
    reader.read_line(&mut request)?;
    let mut line = String::new();
    while reader.read_line(&mut line)? > 2 {
        line.clear();
    }
    let path = request.split(' ').nth(1).unwrap_or("/");
    answer(path, reader.get_mut())
}

/// Asks this very server.
fn ask(address: &str, path: &str) -> io::Result<Vec<u8>> {
    let mut server = TcpStream::connect(address)?;
    write!(server, "GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n")?;
    let mut answer = Vec::new();
    io::copy(&mut server, &mut answer)?;
    Ok(answer)
}

fn main() -> Result<(), Box<dyn Error>> {
    // No file at the end: who wants a trace asks for it.
    let on = Config::new()
        .output("/dev/null")
        .buffer(1 << 20)
        .log(Log::Quiet)
        .enable()?;
    let address = env::args().nth(1);
    let listener = TcpListener::bind(address.as_deref().unwrap_or("127.0.0.1:0"))?;
    let own = listener.local_addr()?.to_string();
    println!("{on} functions are recorded; http://{own}/debug/trace");
    let serving = thread::spawn(move || {
        for client in listener.incoming() {
            if let Err(error) = client.and_then(serve) {
                eprintln!("a request failed: {error}");
            }
        }
    });
    if address.is_some() {
        return serving.join().map_err(|_| "the server panicked".into());
    }
    print!("{}", String::from_utf8_lossy(&ask(&own, "/reader")?));
    let trace = ask(&own, "/debug/trace")?;
    let head = trace.split(|&byte| byte == b'\r').next().unwrap_or(&[]);
    println!("{}, {} bytes", String::from_utf8_lossy(head), trace.len());
    Ok(())
}
