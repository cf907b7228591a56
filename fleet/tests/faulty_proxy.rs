//! A proxy on loopback between the program under test and a server of HTTP. A test says what goes wrong with each
//! request. Each connection carries one request.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fault {
    /// Nothing.
    None,
    /// The connection ends in the middle of the request's body.
    CutRequest,
    /// The answer is 503, and the server never sees the request.
    Busy,
    /// The server carries out the request, and the connection ends before the answer.
    LostAnswer,
    /// The connection ends in the middle of the answer.
    CutAnswer,
    /// Nothing comes back until the client goes away.
    Silence,
}

/// Says what goes wrong with a request, by its first line.
type Plan = Box<dyn FnMut(&str) -> Fault + Send>;

/// The address of a new proxy. It ends with this process.
pub(crate) fn start(
    server: SocketAddr,
    plan: impl FnMut(&str) -> Fault + Send + 'static,
) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let plan: Arc<Mutex<Plan>> = Arc::new(Mutex::new(Box::new(plan)));
    thread::spawn(move || {
        for client in listener.incoming() {
            let plan = plan.clone();
            // A connection that ends is what this is about.
            thread::spawn(move || client.and_then(|client| serve(client, server, &plan)));
        }
    });
    address
}

fn serve(mut client: TcpStream, server: SocketAddr, plan: &Mutex<Plan>) -> io::Result<()> {
    let mut reader = BufReader::new(client.try_clone()?);
    let mut first = String::new();
    if reader.read_line(&mut first)? == 0 {
        return Ok(());
    }
    let (mut head, mut length) = (first.clone(), 0);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        if line.trim_end().is_empty() {
            break;
        }
        let lower = line.to_ascii_lowercase();
        assert!(!lower.starts_with("transfer-encoding:"), "{line}");
        if let Some(text) = lower.strip_prefix("content-length:") {
            length = text.trim().parse().unwrap();
        }
        if !lower.starts_with("connection:") {
            head += &line;
        }
    }
    head += "Connection: close\r\n\r\n";
    let fault = plan.lock().unwrap()(first.trim_end());
    if fault == Fault::Silence {
        io::copy(&mut reader, &mut io::sink())?;
        return Ok(());
    }
    let mut body = vec![
        0;
        if fault == Fault::CutRequest {
            length / 2
        } else {
            length
        }
    ];
    reader.read_exact(&mut body)?;
    if fault == Fault::Busy {
        let answer = b"HTTP/1.1 503 Slow Down\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
        return client.write_all(answer);
    }
    let mut upstream = TcpStream::connect(server)?;
    upstream.write_all(head.as_bytes())?;
    upstream.write_all(&body)?;
    if fault == Fault::CutRequest {
        return Ok(());
    }
    let mut answer = Vec::new();
    upstream.read_to_end(&mut answer)?;
    match fault {
        Fault::LostAnswer => Ok(()),
        Fault::CutAnswer => client.write_all(&answer[..answer.len() / 2]),
        _ => client.write_all(&answer),
    }
}
