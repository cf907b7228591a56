//! The part of Tracy's receiver that a client needs in order to keep sending: the handshake, and a loop that reads and
//! counts bytes. It never decodes them.

use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::FileExt;
use std::thread::sleep;
use std::time::Duration;

/// What a receiver says first, and the version of the protocol of the client that this crate is built with.
const HELLO: [u8; 8] = *b"TracyPrf";
const PROTOCOL: u32 = 82;
/// The client's answer if it takes the version.
const WELCOME: u8 = 1;

/// Takes until the client ends.
///
/// # Errors
///
/// If there is no client, or it speaks another version.
pub fn run(port: &str, file: &str) -> Result<(), String> {
    let bad = |error: std::io::Error| error.to_string();
    if let Some(&first) = peer_harness::sys::cores()?.first() {
        // Away from what is measured.
        peer_harness::sys::pin(first)?;
    }
    let count = File::create(file).map_err(bad)?;
    count.write_all_at(&[0; 8], 0).map_err(bad)?;
    let mut client = connected(port)?;
    client.write_all(&HELLO).map_err(bad)?;
    client.write_all(&PROTOCOL.to_le_bytes()).map_err(bad)?;
    let mut answer = [0];
    client.read_exact(&mut answer).map_err(bad)?;
    if answer[0] != WELCOME {
        return Err(format!("the client does not speak version {PROTOCOL}"));
    }
    let mut buffer = vec![0; 1 << 20];
    let mut total = 0_u64;
    loop {
        // The client's end is an error like any other here.
        let Ok(bytes @ 1..) = client.read(&mut buffer) else {
            return Ok(());
        };
        total += bytes as u64;
        count.write_all_at(&total.to_le_bytes(), 0).map_err(bad)?;
    }
}

fn connected(port: &str) -> Result<TcpStream, String> {
    let address = format!("127.0.0.1:{port}");
    for _ in 0..250 {
        if let Ok(client) = TcpStream::connect(&address) {
            return Ok(client);
        }
        sleep(Duration::from_millis(20));
    }
    Err(format!("nobody listens on {address}"))
}
