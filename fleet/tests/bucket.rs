//! A bucket behind a network that fails: requests are made again, and what is seen is whole. The server is that of
//! moto, in a process of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::sleep;
use std::time::{Duration, Instant};

use fdr_formats::{Call, FunctionId, Ticks};

use crate::faulty_proxy::{self, Fault};
use crate::kills::STATE;
use crate::support::{FLEET, Folder, Process, Random, rows, skip, texts, trace, write};

/// How long a server may take to begin.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server with the bucket `fdr`. It ends with this value.
struct Server {
    process: Child,
    address: SocketAddr,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Server {
    /// `None`: the program is missing.
    fn start() -> Option<Server> {
        let begun = Instant::now();
        loop {
            let free = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = free.local_addr().unwrap();
            drop(free);
            let mut command = Command::new("moto_server");
            command.args(["-H", "127.0.0.1", "-p", &address.port().to_string()]);
            command.stdout(Stdio::null()).stderr(Stdio::null());
            let process = match command.spawn() {
                Ok(process) => process,
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    skip("moto_server is missing, so no bucket is written");
                    return None;
                }
                Err(error) => panic!("moto_server: {error}"),
            };
            let mut server = Server { process, address };
            // It ends if another program has the port by now. Until it listens, a connection may even be one to itself.
            while server.process.try_wait().unwrap().is_none() {
                assert!(begun.elapsed() < PATIENCE, "moto_server does not answer");
                let answer = server.ask("PUT", "/fdr");
                if answer.is_ok_and(|answer| answer.starts_with("HTTP/1.1 200")) {
                    return Some(server);
                }
                sleep(Duration::from_millis(50));
            }
            assert!(begun.elapsed() < PATIENCE, "moto_server ends at once");
        }
    }

    /// The answer to a request without a body.
    fn ask(&self, method: &str, path: &str) -> std::io::Result<String> {
        let mut stream = TcpStream::connect(self.address)?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        let host = self.address;
        let head = format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 0\r\n");
        stream.write_all(head.as_bytes())?;
        stream.write_all(b"Connection: close\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    }
}

/// The program under test, with a bucket at that address.
fn fleet_at(address: SocketAddr, words: &[&str]) -> Command {
    let mut command = Command::new(FLEET);
    command.args(words);
    command.env("AWS_ENDPOINT_URL", format!("http://{address}"));
    command
        .env("AWS_ALLOW_HTTP", "true")
        .env("AWS_REGION", "us-east-1");
    command
        .env("AWS_ACCESS_KEY_ID", "test")
        .env("AWS_SECRET_ACCESS_KEY", "test");
    command.env("NO_PROXY", "127.0.0.1");
    command
}

/// Runs it; it must end well and say nothing on stderr.
fn fleet_ok_at(address: SocketAddr, words: &[&str]) -> String {
    let done = fleet_at(address, words).output().unwrap();
    let (out, error) = texts(&done);
    assert!(done.status.success(), "{words:?}: {out}{error}");
    assert_eq!(error, "", "{words:?}");
    out
}

/// Edges of calls that are so far apart that a row takes many bytes.
fn far_edges(calls: u32) -> Vec<Call> {
    let (mut random, mut now, mut edges) = (Random(5), 2_000_000, Vec::new());
    for nth in 0..calls {
        let function = FunctionId(1 + nth % 7);
        now += 1 + random.below(1 << 31);
        edges.push(Call::entry(Ticks(now), function));
        now += 1 + random.below(1 << 31);
        edges.push(Call::exit(Ticks(now), function));
    }
    edges
}

/// What a request does. Files of most tables are left alone, because each fault costs time.
fn what(first: &str) -> &'static str {
    let is = |text: &str| first.contains(text);
    match first.split(' ').next() {
        Some("PUT") if is("/_commits/") => "commit",
        _ if is("/v1/") && !is("/v1/spans/") && !is("/v1/traces/") => "other",
        Some("PUT") if is("partNumber=") => "part",
        Some("POST") if is("uploadId=") => "end of a file",
        Some("POST") => "begin of a file",
        Some("GET") if is(".parquet") => "data",
        Some("GET") => "list",
        _ => "other",
    }
}

/// Faults that happened, by what the request does.
type FaultCounts = Arc<Mutex<BTreeMap<(&'static str, Fault), u32>>>;

#[test]
fn faults_on_the_way_lose_nothing() {
    let Some(server) = Server::start() else {
        return;
    };
    let folder = Folder::new();
    let large = folder.path("large.fdr");
    let calls = 800_000;
    write(
        &large,
        &Process::new("api", "alpha", 100),
        1,
        &[(101, 0, &far_edges(calls))],
    );
    let small = trace(
        &folder,
        "small.fdr",
        &Process::new("db", "beta", 200),
        2,
        2,
        300,
    );
    let happened = FaultCounts::default();
    let counts = happened.clone();
    let mut known = BTreeMap::new();
    let proxy = faulty_proxy::start(server.address, move |first| {
        let what = what(first);
        // A file that is sent again has another number.
        let key = first.split("uploadId=").next().unwrap_or_default();
        let tries: &mut u32 = known.entry(key.to_owned()).or_default();
        *tries += 1;
        let fault = match (what, *tries) {
            ("part" | "commit", 1) => Fault::CutRequest,
            ("part", 2) => Fault::Busy,
            ("begin of a file", 1) => Fault::Busy,
            ("commit", 2) | ("end of a file", 1) => Fault::LostAnswer,
            ("data" | "list", 1) => Fault::CutAnswer,
            ("data", 2) => Fault::Busy,
            _ => Fault::None,
        };
        *counts.lock().unwrap().entry((what, fault)).or_default() += 1;
        fault
    });
    let place = "s3://fdr/some/traces";
    let (one, two) = (large.to_str().unwrap(), small.to_str().unwrap());
    let words = ["export", one, two, "--jobs", "1", "--to", place];
    assert_eq!(
        fleet_ok_at(proxy, &words),
        "2 exported, 0 were there already, 0 failed\n"
    );
    let sql = "SELECT host, COUNT(*), COUNT(DISTINCT tid) FROM spans GROUP BY host ORDER BY 1";
    let query = ["query", place, sql, "--format", "csv"];
    let wanted = format!("alpha,{calls},1\nbeta,600,2\n");
    for address in [server.address, proxy] {
        let text = fleet_ok_at(address, &query);
        let (_, rows) = text.split_once('\n').unwrap();
        assert_eq!(rows, wanted);
    }
    assert_eq!(
        fleet_ok_at(proxy, &words),
        "0 exported, 2 were there already, 0 failed\n"
    );
    let happened = happened.lock().unwrap();
    println!("{happened:?}");
    let count = |what, fault| happened.get(&(what, fault)).copied().unwrap_or(0);
    // The large file has two parts, and there are three other files.
    assert_eq!(count("begin of a file", Fault::Busy), 4, "{happened:?}");
    assert!(count("part", Fault::CutRequest) > 4, "{happened:?}");
    for what in ["end of a file", "commit"] {
        assert!(count(what, Fault::LostAnswer) > 0, "{what}: {happened:?}");
    }
    for what in ["data", "list"] {
        assert!(count(what, Fault::CutAnswer) > 0, "{what}: {happened:?}");
    }
    // Parts that are of no file would cost money for ever.
    let uploads = server.ask("GET", "/fdr?uploads").unwrap();
    assert!(!uploads.contains("<Upload>"), "{uploads}");
}

#[test]
fn nothing_half_written_is_seen() {
    let Some(server) = Server::start() else {
        return;
    };
    let folder = Folder::new();
    let traces = [
        trace(
            &folder,
            "1.fdr",
            &Process::new("api", "alpha", 100),
            1,
            2,
            200,
        ),
        trace(
            &folder,
            "2.fdr",
            &Process::new("db", "beta", 200),
            2,
            2,
            300,
        ),
    ];
    crate::support::export(&folder, &traces);
    let wanted: BTreeSet<String> = rows(&folder, STATE).into_iter().collect();
    let place = "s3://fdr/traces";
    let [one, two] = traces.each_ref().map(|path| path.to_str().unwrap());
    let words = ["export", one, two, "--to", place];
    let mut whole = 0;
    // An export of both makes about eighty requests.
    for last in [5, 30, 36, 9, 50] {
        let (sender, receiver) = mpsc::channel();
        let mut requests = 0;
        let proxy = faulty_proxy::start(server.address, move |_| {
            requests += 1;
            if requests < last {
                return Fault::None;
            }
            let _ = sender.send(());
            Fault::Silence
        });
        let mut child = fleet_at(proxy, &words)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        // It may end before.
        let tick = Duration::from_millis(10);
        while receiver.recv_timeout(tick).is_err() && child.try_wait().unwrap().is_none() {}
        let _ = child.kill();
        child.wait().unwrap();
        let query = ["query", place, STATE, "--format", "csv"];
        let done = fleet_at(server.address, &query).output().unwrap();
        let (out, error) = texts(&done);
        let found: BTreeSet<String> = out.lines().skip(1).map(str::to_owned).collect();
        assert!(
            done.status.success() || error.contains("there are no traces"),
            "{last}: {error}"
        );
        assert!(found.is_subset(&wanted), "{last}: {found:?}");
        assert!(found.len() >= whole, "{last}: {found:?}");
        whole = found.len();
    }
    fleet_ok_at(server.address, &words);
    let state = |what: &str| {
        let text = fleet_ok_at(server.address, &["query", place, STATE, "--format", "csv"]);
        let found: BTreeSet<String> = text.lines().skip(1).map(str::to_owned).collect();
        assert_eq!(found, wanted, "{what}");
    };
    state("exported");
    fleet_ok_at(server.address, &["compact", place, "--grace", "0s"]);
    state("compacted");
}
