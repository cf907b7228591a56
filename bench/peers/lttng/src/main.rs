//! LTTng-UST's function tracing in snapshot mode: C that gcc has compiled with `-finstrument-functions`, the
//! preloaded library `cyg-profile-fast`, and a session whose buffers are written over round and round.
//! Mode: `snapshot`. The program starts a session daemon of its own, and itself below it.

use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread::sleep;
use std::time::Duration;

use peer_harness::{Peer, RecordedSize, Result, bytes_below, folder, main_below, native, run};

native!(untraced, native_untraced_batch);
native!(traced, native_traced_batch);

const LIBRARY: &str = "liblttng-ust-cyg-profile-fast.so.1";
/// 4 MiB for each core.
const CHANNEL: &str =
    "enable-channel --userspace --overwrite --subbuf-size=512K --num-subbuf=8 ring";

struct Lttng;

impl Peer for Lttng {
    fn finish(&self) -> Result<RecordedSize> {
        let home = folder()?;
        lttng(&home, "stop")?;
        lttng(&home, "snapshot record")?;
        Ok(RecordedSize {
            bytes: Some(bytes_below(&home.join("snapshots"))?),
            calls: None,
        })
    }
}

fn start(mode: &str) -> Result<Lttng> {
    match mode {
        "snapshot" => Ok(Lttng),
        _ => Err(format!("unknown mode {mode}: snapshot")),
    }
}

/// Runs the client with these words.
fn lttng(home: &Path, words: &str) -> Result<()> {
    let mut client = Command::new("lttng");
    client.arg("--no-sessiond").args(words.split_whitespace());
    client.env("LTTNG_HOME", home).env_remove("LD_PRELOAD");
    let output = client.stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("cannot run lttng: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("lttng {words}: {}", said.trim_end()))
}

/// A session daemon of this process's own, which ends with it.
struct Daemon(Child);

impl Daemon {
    fn start(home: &Path) -> Result<Daemon> {
        let mut daemon = Command::new("lttng-sessiond");
        daemon.arg("--no-kernel").env("LTTNG_HOME", home);
        daemon
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let daemon = daemon.spawn();
        let daemon = daemon.map_err(|error| format!("cannot run lttng-sessiond: {error}"))?;
        let daemon = Daemon(daemon);
        for _ in 0..100 {
            if lttng(home, "list").is_ok() {
                return Ok(daemon);
            }
            sleep(Duration::from_millis(50));
        }
        Err("the session daemon does not answer".to_owned())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // By its own signal: its consumer ends with it.
        let pid = self.0.id().to_string();
        let _ = Command::new("kill").arg(pid).status();
        let _ = self.0.wait();
    }
}

/// Makes the session and runs the program in it.
fn record(home: &Path, mut program: Command) -> Result<String> {
    let _daemon = Daemon::start(home)?;
    let create = format!(
        "create peers --snapshot --output {}/snapshots",
        home.display()
    );
    let enable = "enable-event --userspace lttng_ust_cyg_profile_fast:* --channel ring";
    for words in [create.as_str(), CHANNEL, enable, "start"] {
        lttng(home, words)?;
    }
    program.env("LTTNG_HOME", home).env("LD_PRELOAD", LIBRARY);
    // It waits for the daemon for as long as that takes.
    program.env("LTTNG_UST_REGISTER_TIMEOUT", "-1");
    let recorded = run(&mut program);
    lttng(home, "destroy peers")?;
    recorded.map(|()| String::new())
}

fn main() -> ExitCode {
    main_below([untraced::batch, traced::batch], record, start)
}
