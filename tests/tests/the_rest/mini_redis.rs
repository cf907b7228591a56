//! The server mini-redis under load, marked by `cargo fdr`. Its sources come from the package registry and are never
//! committed. Clients send 10,000 commands and measure each of them. The figures of the server's tasks must agree. One
//! command is slow, because the copy has a sleep for its key. It must make one dump, which holds the call and its key.
//! `cargo test -p fdr-tests --test main the_rest::mini_redis -- --nocapture` shows the figures.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use fdr_tests::support::folder::Folder;
use fdr_tests::support::program::Program;
use fdr_tests::support::wait::until;
use serde_json::Value;
use xtask::programs::{PROGRAMS, prepare};

use crate::http_service::number;
use crate::package::text_of;
use fdr_tests::support::tool::{self, json, name, verify};

const CLIENTS: usize = 4;
const COMMANDS: usize = 2_500;
/// The client and the command whose key is the slow one.
const SLOW_AT: (usize, usize) = (2, 1_501);
const SLOW: Duration = Duration::from_secs(1);
const TRIGGER: &str = "mini_redis::cmd::get::Get::apply>400ms, exit";

/// The marks of `Get::apply` in the copy, and what takes their place: the key is an argument, and one key is slow.
const PLANTED: [(&str, &str); 2] = [
    (
        "#[fdr::traced(auto)] pub(crate) async fn apply(self, db: &Db, dst: &mut Connection)",
        "#[fdr::traced(args(key = self.key.as_str()))] pub(crate) async fn apply(self, db: &Db, dst: &mut Connection)",
    ),
    (
        "let response = if let Some(value) = db.get(&self.key)",
        "if self.key == \"slow\" { std::thread::sleep(std::time::Duration::from_secs(1)); }\n\
         let response = if let Some(value) = db.get(&self.key)",
    ),
];

/// The server, marked and built. `None`: its sources cannot be had.
fn server() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("tasks");
    let program = PROGRAMS.iter().find(|program| program.name == "mini-redis");
    let program = program.expect("it is one of the programs");
    let tool = fdr_tests::tool().with_file_name("cargo-fdr");
    if let Err(error) = prepare(&folder, program, &tool) {
        fdr_tests::skip(&format!("tasks of mini-redis: {error}"));
        return None;
    }
    let marked = folder.join("mini-redis/marked");
    let path = marked.join("mini-redis/src/cmd/get.rs");
    let mut source = fs::read_to_string(&path).expect("a source");
    for (before, after) in PLANTED {
        assert_eq!(source.matches(before).count(), 1, "{before}\n{source}");
        source = source.replace(before, after);
    }
    fs::write(&path, source).expect("a source of the copy");
    let target = folder.join("build");
    let output = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--bin", "mini-redis-server"])
        .env("CARGO_TARGET_DIR", &target)
        .env("CARGO_PROFILE_DEV_DEBUG", "0")
        .current_dir(&marked)
        .env_remove("FDR")
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", text_of(&output));
    Some(target.join("debug/mini-redis-server"))
}

/// How long each command of a kind took.
#[derive(Default)]
struct Measured {
    get: Vec<Duration>,
    set: Vec<Duration>,
}

/// Sends the commands of one client: every fourth one sets a key, the others get one.
fn client(mut connection: BufReader<TcpStream>, client: usize) -> io::Result<Measured> {
    let mut measured = Measured::default();
    for number in 0..COMMANDS {
        let key = format!("key {client} {}", number % 100);
        let value = "value ".repeat(1 + number % 20);
        let start = Instant::now();
        match number % 4 {
            0 => {
                ask(&mut connection, &["set", &key, &value])?;
                measured.set.push(start.elapsed());
            }
            _ => {
                let is_slow = (client, number) == SLOW_AT;
                ask(
                    &mut connection,
                    &["get", if is_slow { "slow" } else { &key }],
                )?;
                measured.get.push(start.elapsed());
            }
        }
    }
    Ok(measured)
}

/// Sends one command, and reads the answer.
fn ask(connection: &mut BufReader<TcpStream>, words: &[&str]) -> io::Result<()> {
    let mut text = format!("*{}\r\n", words.len());
    for word in words {
        text += &format!("${}\r\n{word}\r\n", word.len());
    }
    connection.get_mut().write_all(text.as_bytes())?;
    let mut line = String::new();
    connection.read_line(&mut line)?;
    let length = line
        .strip_prefix('$')
        .and_then(|length| length.trim_end().parse::<u64>().ok());
    if let Some(length) = length {
        io::copy(&mut connection.take(length + 2), &mut io::sink())?;
    }
    assert!(line.starts_with(['+', '$']), "{line}");
    Ok(())
}

/// The port of a listener that is gone is free.
fn free_address() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address")
}

/// The rows of the tasks of a trace: name, value of the field, row.
fn rows(trace: &Path, more: &str) -> Vec<(String, Value)> {
    let document = json(&format!("report --tasks {more}"), &[trace]);
    let rows = tool::rows(&document["tasks"]).iter();
    rows.map(|row| (name(row), row.clone())).collect()
}

/// Compares the tasks of a function with what the clients measured, and prints a line. A client's time has the server's
/// in it. The two clocks differ by less than one percent, and quantiles are within 7 %.
fn agree(rows: &[(String, Value)], function: &str, mut times: Vec<Duration>) {
    let (_, row) = rows
        .iter()
        .find(|(name, _)| name == function)
        .expect(function);
    times.sort_unstable();
    let count = times.len() as u64;
    let ends = ["tasks", "finished", "dropped"].map(|field| number(row, field));
    assert_eq!(ends, [count, count, 0], "{function}");
    let quantile =
        |percent: usize| times[(times.len() * percent).div_ceil(100) - 1].as_nanos() as u64;
    let client = (
        times.iter().sum::<Duration>().as_nanos() as u64,
        quantile(50),
        quantile(99),
    );
    let [elapsed, p50, p99] =
        ["elapsed_ns", "elapsed_p50_ns", "elapsed_p99_ns"].map(|field| number(row, field));
    let [busy, waiting] = ["busy_ns", "waiting_ns"].map(|field| number(row, field));
    println!(
        "{function:<34} {count:>6} {:>9} {:>9} {:>9}   {:>9} {:>9} {:>9} {:>9} {:>9}",
        client.0 / count,
        client.1,
        client.2,
        elapsed / count,
        p50,
        p99,
        busy / count,
        waiting / count
    );
    assert!(elapsed.abs_diff(busy + waiting) <= 3, "{function}: {row}");
    assert!(
        elapsed <= client.0 / 99 * 100,
        "{function}: {row} {client:?}"
    );
    assert!(p50 <= client.1 / 92 * 100, "{function}: {row} {client:?}");
    assert!(p99 <= client.2 / 92 * 100, "{function}: {row} {client:?}");
}

#[test]
fn mini_redis_tasks_agree_with_clients() {
    let Some(server) = server() else {
        return;
    };
    let folder = Folder::new("mini-redis");
    let address = free_address();
    let port = address.port().to_string();
    let program = Program::new(&server, &folder).args(&["--port", &port]);
    let program = program
        .set("FDR=1 FDR_OUT=%n.fdr FDR_BUDGET=0")
        .env("FDR_TRIGGER", TRIGGER);
    let running = program.start();
    let measured = run_clients(address);
    running.signal("INT");
    drop(running.end().ok());

    // One of the slow command, and the other one of the end.
    assert_eq!(folder.names().len(), 2);
    let [dump, trace] = ["1.fdr", "2.fdr"].map(|name| folder.join(name));
    verify(&dump);
    verify(&trace);
    let reason = check_slow_command(&dump);
    println!("{reason}");

    let rows = rows(&trace, "");
    println!(
        "{:<34} {:>6} {:>9} {:>9} {:>9}   {:>9} {:>9} {:>9} {:>9} {:>9}",
        "ns", "count", "client", "p50", "p99", "server", "p50", "p99", "busy", "waiting"
    );
    let commands: Vec<Duration> = measured.get.iter().chain(&measured.set).copied().collect();
    agree(&rows, "mini_redis::cmd::Command::apply", commands);
    agree(&rows, "mini_redis::cmd::get::Get::apply", measured.get);
    agree(&rows, "mini_redis::cmd::set::Set::apply", measured.set);
    check_connections(&rows);
}

/// What all clients measured.
fn run_clients(address: SocketAddr) -> Measured {
    let first = until("the server", || TcpStream::connect(address).ok());
    let others = (1..CLIENTS).map(|_| TcpStream::connect(address).expect("a connection"));
    let connections: Vec<TcpStream> = [first].into_iter().chain(others).collect();
    let clients: Vec<_> = connections
        .into_iter()
        .enumerate()
        .map(|(number, connection)| {
            thread::spawn(move || client(BufReader::new(connection), number))
        })
        .collect();
    let mut total = Measured::default();
    for client in clients {
        let measured = client.join().expect("a client ends").expect("answers");
        total.get.extend(measured.get);
        total.set.extend(measured.set);
    }
    total
}

// There are two traces: one of the slow command, and one of the end of the program.
fn check_slow_command(dump: &Path) -> String {
    let info = json("info", &[dump]);
    let reason = info["reason"].as_str().expect("a reason");
    assert!(
        reason.contains("mini_redis::cmd::get::Get::apply took 1"),
        "{reason}"
    );
    let by_key = rows(dump, "--by key");
    let is_slow =
        |row: &Value| row["by"] == "slow" && row["name"] == "mini_redis::cmd::get::Get::apply";
    let slow: Vec<&Value> = by_key
        .iter()
        .map(|(_, row)| row)
        .filter(|row| is_slow(row))
        .collect();
    assert_eq!(slow.len(), 1, "{by_key:?}");
    assert_eq!(number(slow[0], "tasks"), 1);
    assert!(
        number(slow[0], "busy_ns") >= SLOW.as_nanos() as u64 / 100 * 99,
        "{slow:?}"
    );
    let words = "report --window --function mini_redis::cmd::get::Get::apply";
    let report = json(words, &[dump]);
    // Below it are the functions that it calls.
    let mut functions = report["functions"].as_array().into_iter().flatten();
    let apply = functions.find(|row| row["name"] == "mini_redis::cmd::get::Get::apply");
    let longest = number(apply.expect("the function"), "max_ns");
    assert!(longest >= SLOW.as_nanos() as u64 / 100 * 99, "{report}");
    reason.to_owned()
}

fn check_connections(rows: &[(String, Value)]) {
    // A connection waits for its client. Its last read finds the end, or the signal ends it first.
    let connections = CLIENTS as u64;
    for (function, count) in [
        ("mini_redis::server::Handler::run", connections),
        (
            "mini_redis::connection::Connection::read_frame",
            connections * (COMMANDS as u64 + 1),
        ),
    ] {
        let (_, row) = rows
            .iter()
            .find(|(name, _)| name == function)
            .expect(function);
        let [finished, dropped] = ["finished", "dropped"].map(|field| number(row, field));
        assert_eq!(finished + dropped, count, "{row}");
        assert!(dropped <= connections, "{row}");
        let [busy, waiting] = ["busy_ns", "waiting_ns"].map(|field| number(row, field));
        assert!(waiting > 0, "{row}");
        println!("{function}: {count} tasks, busy {busy} ns, waiting {waiting} ns");
    }
}
