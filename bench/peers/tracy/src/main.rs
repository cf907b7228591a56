//! Tracy's client: a zone at the head of each function, and a receiver that is connected and takes all that
//! is sent, as Tracy's own viewer would. Mode: `drained`. The receiver is this program once more, as
//! `drain PORT FILE`: it counts in the file how many bytes it got.

mod drain;

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::ExitCode;
use std::thread::sleep;
use std::time::Duration;

use peer_harness::{Peer, RecordedSize, Result, folder, myself, twin, untraced, with_environment};
use tracy_client::Client;

macro_rules! traced {
    ($name:ident($($arguments:tt)*) -> $result:tt { $($body:tt)* }) => {
        #[inline(never)]
        fn $name($($arguments)*) -> $result {
            let _zone = tracy_client::span!();
            $($body)*
        }
    };
}

twin!(traced, traced);

struct Tracy {
    /// Where the receiver counts.
    received: PathBuf,
}

impl Tracy {
    fn received(&self) -> Result<u64> {
        let mut count = [0; 8];
        let read = File::open(&self.received).and_then(|file| file.read_exact_at(&mut count, 0));
        read.map_err(|error| format!("{}: {error}", self.received.display()))?;
        Ok(u64::from_le_bytes(count))
    }
}

impl Peer for Tracy {
    // The client's thread sleeps for 10 ms when it has found nothing to send.
    fn settle(&self) {
        let (mut last, mut same) = (None, 0);
        for _ in 0..1_000 {
            let now = self.received().ok();
            same = if now == last { same + 1 } else { 0 };
            last = now;
            if same == 7 {
                return;
            }
            sleep(Duration::from_millis(5));
        }
    }

    fn finish(&self) -> Result<RecordedSize> {
        self.settle();
        Ok(RecordedSize {
            bytes: Some(self.received()?),
            calls: None,
        })
    }
}

fn start(mode: &str) -> Result<Tracy> {
    if mode != "drained" {
        return Err(format!("unknown mode {mode}: drained"));
    }
    // The same after the program has started over: a process keeps its number.
    let port = (20_000 + std::process::id() % 20_000).to_string();
    with_environment(&[("TRACY_PORT", &port)])?;
    let received = folder()?.join("received");
    Client::start();
    let mut receiver = std::process::Command::new(myself()?.get_program());
    receiver.args(["drain", &port]).arg(&received);
    let spawned = receiver.spawn();
    spawned.map_err(|error| format!("no receiver: {error}"))?;
    for _ in 0..500 {
        if Client::is_connected() {
            return Ok(Tracy { received });
        }
        sleep(Duration::from_millis(20));
    }
    Err("the receiver did not connect".to_owned())
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let [drain, port, file] = words.as_slice()
        && drain == "drain"
    {
        return match drain::run(port, file) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("receiver: {error}");
                ExitCode::FAILURE
            }
        };
    }
    peer_harness::main([untraced::batch, traced::batch], start)
}
