//! A workload of the server mini-redis: clients set and get keys over TCP, a fixed number of times, and the server is
//! shut down. `cargo xtask bench whole` builds it beside the server's sources.

use mini_redis::{client, server};
use tokio::net::TcpListener;
use tokio::sync::oneshot;

const CLIENTS: u32 = 4;

#[tokio::main(worker_threads = 2)]
async fn main() {
    let requests: u32 = std::env::args()
        .nth(1)
        .and_then(|word| word.parse().ok())
        .expect("a number of requests");
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let (stop, stopped) = oneshot::channel::<()>();
    let server = tokio::spawn(async move {
        server::run(listener, stopped)
            .await
            .map_err(|error| error.to_string())
    });
    let clients: Vec<_> = (0..CLIENTS)
        .map(|number| tokio::spawn(ask(address, number, requests / CLIENTS)))
        .collect();
    let mut bytes = 0;
    for client in clients {
        bytes += client.await.expect("a client ends");
    }
    stop.send(()).expect("the server runs");
    server
        .await
        .expect("the server ends")
        .expect("the server has no error");
    println!("{bytes} bytes");
}

/// Every fourth request sets a key, the others get one.
async fn ask(address: std::net::SocketAddr, number: u32, requests: u32) -> usize {
    let mut client = client::connect(address).await.expect("a connection");
    let mut bytes = 0;
    for request in 0..requests {
        let key = format!("key {number} {}", request % 100);
        if request % 4 == 0 {
            let value = "value ".repeat(1 + request as usize % 20);
            client
                .set(&key, value.into())
                .await
                .expect("the key is set");
        } else if let Some(value) = client.get(&key).await.expect("an answer") {
            bytes += value.len();
        }
    }
    bytes
}
