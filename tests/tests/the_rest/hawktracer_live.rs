//! HTDUMP as a live stream: HawkTracer's converter connects to a TCP server, as it does to HawkTracer's
//! own, and gets what is in our files.

use std::fs;
use std::io::Write;
use std::net::TcpListener;
use std::thread;

use fdr_tests::reader;
use fdr_tests::support::folder::Folder;

use crate::the_rest::hawktracer_support::{converted, debug_events, debug_rows, recorded};

#[test]
fn clients_receive_the_files_content() {
    let check = "hawktracer-converter-rs reads HTDUMP from a TCP server";
    let Some(converter) = reader("hawktracer-converter-rs", check) else {
        return;
    };
    let folder = Folder::new("hawktracer-live");
    let (file, wanted) = recorded(&folder, "htdump");
    let bytes = fs::read(&file).expect("our own file");
    let server = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = server.local_addr().expect("its address").to_string();
    let sender = thread::spawn(move || {
        let (mut client, _) = server.accept().expect("a client");
        // In pieces that end anywhere: a stream has no records.
        for piece in bytes.chunks(1021) {
            client.write_all(piece).expect("a client that reads");
        }
    });
    let live = debug_events(&converted(&converter, &address, "json_debug", &folder));
    sender.join().expect("all was sent");
    let path = file.to_str().expect("UTF-8");
    let filed = debug_events(&converted(&converter, path, "json_debug", &folder));
    assert_eq!(live, filed);
    assert_eq!(debug_rows(&live), wanted);
}
