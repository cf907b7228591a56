//! The example of a service over HTTP: its requests are tasks with a route and a status, and their figures agree with
//! what the clients measured. Times are compared in one direction only, because a client's time has the server's in it.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;

use fdr_tests::example;
use fdr_tests::support::folder::Folder;
use fdr_tests::support::program::Program;
use fdr_tests::support::tool::{json, verify};
use serde_json::Value;

/// Twenty for each of four clients are 16 items, 3 searches and a digest.
const TWENTIES: u64 = 4 * 5;

/// What the program prints of a route, in microseconds.
struct Measured {
    requests: u64,
    not_found: u64,
    p50: u64,
    p99: u64,
    mean: u64,
}

/// The table that the program prints, by route.
fn measured(stdout: &str) -> BTreeMap<String, Measured> {
    let rows = stdout.lines().skip(1);
    rows.map(|row| {
        let words: Vec<&str> = row.split_whitespace().collect();
        let [numbers @ .., route] = &words[..] else {
            panic!("{stdout}");
        };
        let numbers: Vec<u64> = numbers
            .iter()
            .filter_map(|word| word.parse().ok())
            .collect();
        let [requests, not_found, p50, p99, mean] = numbers[..] else {
            panic!("{stdout}");
        };
        let measured = Measured {
            requests,
            not_found,
            p50,
            p99,
            mean,
        };
        ((*route).to_owned(), measured)
    })
    .collect()
}

/// The rows of one function, by a field.
fn rows_by(folder: &Folder, field: &str, function: &str) -> BTreeMap<String, Value> {
    let words = format!("report --tasks --by {field}");
    let document = json(&words, &[&folder.only_trace()]);
    let rows = document["tasks"].as_array().expect("rows").clone();
    rows.into_iter()
        .filter(|row| row["name"] == function)
        .map(|row| (row["by"].as_str().unwrap_or("none").to_owned(), row))
        .collect()
}

pub(crate) fn number(row: &Value, field: &str) -> u64 {
    row[field]
        .as_u64()
        .unwrap_or_else(|| panic!("{field} of {row}"))
}

/// How many tasks there were, how many finished, and how many were dropped.
fn ends(row: &Value) -> [u64; 3] {
    ["tasks", "finished", "dropped"].map(|field| number(row, field))
}

/// Compares the requests of a route with what the clients measured.
fn check_route(row: &Value, route: &str, client: &Measured, keep: &str) {
    assert_eq!(
        ends(row),
        [client.requests, client.requests, 0],
        "{keep} {route}"
    );
    let elapsed = number(row, "elapsed_ns");
    let parts = number(row, "busy_ns") + number(row, "waiting_ns");
    // Each of the three is made of ticks alone.
    assert!(elapsed.abs_diff(parts) <= 3, "{keep} {route}: {row}");
    // Ticks and the clients' clock differ by less than one percent; the clients cut to microseconds.
    let at_most = |micros: u64, percent| (micros + 1) * 10 * percent;
    let of_clients = at_most(client.mean, 101) * client.requests;
    assert!(
        elapsed <= of_clients,
        "{keep} {route}: {row} {}",
        client.mean
    );
    // Quantiles are within 7 %.
    let [p50, p99] = ["elapsed_p50_ns", "elapsed_p99_ns"].map(|field| number(row, field));
    assert!(
        p50 <= at_most(client.p50, 108),
        "{keep} {route}: {row} {}",
        client.p50
    );
    assert!(
        p99 <= at_most(client.p99, 108),
        "{keep} {route}: {row} {}",
        client.p99
    );
    // A query takes two milliseconds at least.
    let queries = match route {
        "/item/{number}" => 1,
        "/search/{word}" => 3,
        _ => 0,
    };
    assert!(
        p50 >= queries * 2_000_000 * 92 / 100,
        "{keep} {route}: {row}"
    );
}

#[test]
fn route_figures_agree_with_the_clients() {
    for keep in ["10s", "0"] {
        let folder = Folder::new("http-service");
        let program = Program::new(example("http_service"), &folder);
        let program = program.set("FDR=1").env("FDR_KEEP", keep).args(&["100"]);
        let outcome = program.run().ok();
        verify(&folder.only_trace());
        let clients = measured(&outcome.stdout);
        let counts: Vec<_> = clients
            .iter()
            .map(|(route, all)| (route.as_str(), all.requests, all.not_found))
            .collect();
        let wanted = [
            ("/digest", TWENTIES, 0),
            ("/item/{number}", 16 * TWENTIES, 8 * TWENTIES),
            ("/search/{word}", 3 * TWENTIES, 0),
        ];
        assert_eq!(counts, wanted, "{keep}");

        let routes = rows_by(&folder, "route", "fdr_tower::request");
        assert_eq!(routes.len(), clients.len() + 1, "{keep}: {routes:?}");
        assert_eq!(ends(&routes["/news"]), [1, 0, 1], "{keep}");
        for (route, client) in &clients {
            check_route(&routes[route], route, client, keep);
        }
        // The tasks inside of a request have its route.
        let queries = rows_by(&folder, "route", "http_service::query");
        let wanted = [("/item/{number}", 16), ("/search/{word}", 9)];
        for (route, times) in wanted {
            let count = times * TWENTIES;
            assert_eq!(ends(&queries[route]), [count, count, 0], "{keep} {route}");
        }
        let statuses = rows_by(&folder, "status", "fdr_tower::request");
        let counts: Vec<_> = statuses
            .iter()
            .map(|(status, row)| (status.as_str(), ends(row)))
            .collect();
        let [found, missing] = [12, 8].map(|of_20| of_20 * TWENTIES);
        let wanted = [
            ("200", [found, found, 0]),
            ("404", [missing, missing, 0]),
            ("none", [1, 0, 1]),
        ];
        assert_eq!(counts, wanted, "{keep}");
    }
}

#[test]
fn it_serves_whoever_asks() {
    let folder = Folder::new("http-service-asked");
    let program = Program::new(example("http_service"), &folder);
    let mut service = program.set("FDR=1").args(&["127.0.0.1:0"]).start();
    let line = service.line();
    let (address, _) = line
        .strip_prefix("http://")
        .and_then(|line| line.split_once('/'))
        .expect("its address");
    let mut connection = TcpStream::connect(address).expect("it listens");
    let request = b"GET /item/8 HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    connection.write_all(request).expect("it reads");
    let mut response = String::new();
    let _ = connection
        .read_to_string(&mut response)
        .expect("it answers");
    assert!(
        response.starts_with("HTTP/1.1 200") && response.ends_with("item 80\n"),
        "{response}"
    );
    drop(service.end().ok());
    let routes = rows_by(&folder, "route", "fdr_tower::request");
    assert_eq!(ends(&routes["/item/{number}"]), [1, 1, 0]);
}
