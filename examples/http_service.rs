//! A service over HTTP, whose requests are tasks: each has an id, a route and a status. One layer of `fdr_tower` is all
//! that a service of axum needs for that. The program serves on the loopback, and makes its own load: four clients with
//! connections that stay open, and one that goes away. The clients measure their requests, and the program prints that.
//!
//! ```text
//! FDR=1 cargo run --release -p fdr-examples --example http_service     # leaves http_service.PID.1.fdr
//! fdr report --tasks --by route http_service.*.fdr                     # or --by status
//! ```
//!
//! With an address it serves until standard input ends, and the load is yours:
//!
//! ```text
//! FDR=1 cargo run --release -p fdr-examples --example http_service -- 127.0.0.1:8080
//! curl -s http://127.0.0.1:8080/item/7
//! ```

use std::future::pending;
use std::hint::black_box;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::Path;
use axum::http::StatusCode;
use axum::routing::get;

fn service() -> Router {
    Router::new()
        .route("/item/{number}", get(item))
        .route("/search/{word}", get(search))
        .route("/digest", get(digest))
        .route("/news", get(news))
        .layer(fdr_tower::layer())
}

/// Asks the database once. Odd items are not there.
#[fdr::traced]
async fn item(Path(number): Path<u64>) -> Result<String, StatusCode> {
    let row = query(number).await;
    match number % 2 {
        0 => Ok(format!("item {row}\n")),
        _ => Err(StatusCode::NOT_FOUND),
    }
}

/// Asks three times, one after the other: the client waits.
#[fdr::traced]
async fn search(Path(word): Path<String>) -> String {
    let mut found = 0;
    for number in 0..3 {
        found += query(number + word.len() as u64).await;
    }
    format!("found {found}\n")
}

/// Waits for nothing: the thread is busy, so all requests of the thread wait.
#[fdr::traced]
async fn digest() -> String {
    let sum = spin();
    tokio::task::yield_now().await;
    format!("{:x}\n", sum ^ spin())
}

/// The database answers after two milliseconds.
#[fdr::traced]
async fn query(number: u64) -> u64 {
    tokio::time::sleep(Duration::from_millis(2)).await;
    number * 10
}

#[fdr::traced]
fn spin() -> u64 {
    (0..200_000_u64).fold(7, |sum, step| black_box(sum.rotate_left(5) ^ step))
}

/// There is no news, so the request ends when its client goes away.
#[fdr::traced]
async fn news() {
    IS_WAITED_FOR.store(true, Ordering::Relaxed);
    pending::<()>().await;
}

static IS_WAITED_FOR: AtomicBool = AtomicBool::new(false);

/// What each client asks for: the route, how its paths begin, and how many of twenty requests.
const ASKED: [(&str, &str, usize); 3] = [
    ("/item/{number}", "/item/", 16),
    ("/search/{word}", "/search/word", 3),
    ("/digest", "/digest?", 1),
];
const CLIENTS: usize = 4;

fn main() -> io::Result<()> {
    let word = std::env::args().nth(1);
    let requests = word.as_ref().map_or(Ok(500), |word| word.parse());
    let address = match (&word, &requests) {
        (Some(address), Err(_)) => address,
        _ => "127.0.0.1:0",
    };
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    runtime.spawn(async {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        axum::serve(listener, service()).await
    });
    match requests {
        Ok(requests) => make_load(address, requests)?,
        Err(_) => {
            println!("http://{address}/item/7 until standard input ends");
            io::copy(&mut io::stdin(), &mut io::sink())?;
        }
    }
    // What still runs is dropped here.
    drop(runtime);
    Ok(())
}

/// What a client measured of its requests: the place of the route in [`ASKED`], the status, and how long it took.
type Measured = Vec<(usize, u16, Duration)>;

/// Runs all clients, and prints what they measured.
fn make_load(address: SocketAddr, requests: usize) -> io::Result<()> {
    let clients = (0..CLIENTS).map(|_| thread::spawn(move || client(address, requests)));
    let clients: Vec<_> = clients.collect();
    go_away(address)?;
    let mut measured = Measured::new();
    for client in clients {
        measured.extend(client.join().expect("a client ends")?);
    }
    println!("requests  not found    p50 µs    p99 µs   mean µs  route");
    for (place, (route, ..)) in ASKED.iter().enumerate() {
        let of_route = measured.iter().filter(|(other, ..)| *other == place);
        let not_found = of_route.clone().filter(|(_, status, _)| *status == 404);
        let mut times: Vec<u128> = of_route
            .clone()
            .map(|(.., time)| time.as_micros())
            .collect();
        times.sort_unstable();
        let count: usize = times.len();
        let quantile =
            |percent: usize| times.get((count * percent).div_ceil(100).saturating_sub(1));
        let [p50, p99] = [50, 99].map(|percent| quantile(percent).copied().unwrap_or_default());
        let mean = times.iter().sum::<u128>() / count.max(1) as u128;
        let not_found = not_found.count();
        println!("{count:>8}  {not_found:>9}  {p50:>8}  {p99:>8}  {mean:>8}  {route}");
    }
    Ok(())
}

/// Sends requests over one connection, one after the other.
fn client(address: SocketAddr, requests: usize) -> io::Result<Measured> {
    let turns = (0..ASKED.len()).flat_map(|place| [place].repeat(ASKED[place].2));
    let turns: Vec<usize> = turns.collect();
    let mut connection = BufReader::new(TcpStream::connect(address)?);
    let mut measured = Measured::new();
    for number in 0..requests {
        let place = turns[number % turns.len()];
        let (_, path, _) = ASKED[place];
        let start = Instant::now();
        let status = ask(&mut connection, &format!("{path}{number}"))?;
        measured.push((place, status, start.elapsed()));
    }
    Ok(measured)
}

/// Sends a request, reads the whole response, and returns the status.
fn ask(connection: &mut BufReader<TcpStream>, path: &str) -> io::Result<u16> {
    send(connection.get_mut(), path)?;
    let (mut status, mut length) = (0, 0);
    loop {
        let mut line = String::new();
        connection.read_line(&mut line)?;
        match line.trim_end().split_once([' ', ':']) {
            Some(("HTTP/1.1", rest)) => status = number(rest),
            Some(("content-length", rest)) => length = number(rest),
            Some(_) => {}
            None => break,
        }
    }
    io::copy(&mut connection.take(length), &mut io::sink())?;
    u16::try_from(status).map_err(io::Error::other)
}

fn send(connection: &mut TcpStream, path: &str) -> io::Result<()> {
    connection.write_all(format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n").as_bytes())
}

/// The number with which the text begins. 0: none.
fn number(text: &str) -> u64 {
    let word = text.split_whitespace().next();
    word.and_then(|word| word.parse().ok()).unwrap_or_default()
}

/// A client that waits for news, and goes away.
fn go_away(address: SocketAddr) -> io::Result<()> {
    let mut connection = TcpStream::connect(address)?;
    send(&mut connection, "/news")?;
    while !IS_WAITED_FOR.load(Ordering::Relaxed) {
        thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}
