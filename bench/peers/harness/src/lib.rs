//! The code that all peers' programs share: the work, the measurement, and the output. Each program has one
//! peer, used as the peer's documentation says.
//!
//! ```text
//! peer-NAME MODE measure BODY THREADS   -> one line per pair of slices, and a last one
//! peer-NAME MODE probe                  -> a fixed number of calls of the mix; what came out of them
//! ```
//!
//! Lines are `key=value` words. The times are ns of CPU. The driver computes sums and medians.

pub mod measure;
pub mod sys;
pub mod work;

use std::env;
use std::fs;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use work::{Body, Scratch};

/// An error is a message for people.
pub type Result<T> = std::result::Result<T, String>;

/// Makes one batch of calls and returns what they computed.
pub type Batch = fn(Body, &mut Scratch) -> u64;

/// Batches of the mix in a probe: few enough for every peer's buffers.
const PROBE: u64 = 10;

/// The size of the recorder's output, as far as it is known.
#[derive(Debug, Default)]
pub struct RecordedSize {
    /// Bytes written or sent.
    pub bytes: Option<u64>,
    /// Calls that can be found in them.
    pub calls: Option<u64>,
}

/// A recorder that runs.
pub trait Peer: Sync {
    /// Called around each batch of traced calls, on the thread that makes them. Its time is measured.
    fn batch(&self, calls: &mut dyn FnMut()) {
        calls();
    }

    /// Called between slices: waits until the recorder's own threads have finished their work. This time
    /// does not count for the measured thread, but counts for the process.
    fn settle(&self) {}

    /// CPU time that other processes have spent for the recording, in ns.
    ///
    /// # Errors
    ///
    /// If it cannot be known.
    fn helpers_cpu_ns(&self) -> Result<u64> {
        Ok(0)
    }

    /// Ends the recording and makes all of it come out.
    ///
    /// # Errors
    ///
    /// If nothing was recorded.
    fn finish(&self) -> Result<RecordedSize> {
        Ok(RecordedSize::default())
    }
}

macro_rules! plain {
    ($name:ident($($arguments:tt)*) -> $result:tt { $($body:tt)* }) => {
        #[inline(never)]
        fn $name($($arguments)*) -> $result {
            $($body)*
        }
    };
}

twin!(pub untraced, plain);

/// Makes the module `$module` with a `batch` that is written in C: `peer-native` compiles it.
#[macro_export]
macro_rules! native {
    ($module:ident, $function:ident) => {
        mod $module {
            use $crate::work::{Body, Scratch, Slot};

            unsafe extern "C" {
                fn $function(
                    body: u32,
                    text: *const u8,
                    length: usize,
                    table: *mut Slot,
                    slots: usize,
                ) -> u64;
            }

            pub fn batch(body: Body, scratch: &mut Scratch) -> u64 {
                let Scratch { text, table } = scratch;
                // SAFETY: pointers and lengths belong together, and the function keeps neither.
                unsafe {
                    $function(
                        body as u32,
                        text.as_ptr(),
                        text.len(),
                        table.as_mut_ptr(),
                        table.len(),
                    )
                }
            }
        }
    };
}

/// The `main` of every peer: the untraced twin and the traced one, and what starts the recorder in a mode.
pub fn main<P: Peer>(twins: [Batch; 2], start: impl FnOnce(&str) -> Result<P>) -> ExitCode {
    let words: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    ended(match words.as_slice() {
        [mode, "measure", body, threads] => measured(twins, || start(mode), body, threads),
        [mode, "probe"] => probed(twins, || start(mode)),
        _ => Err("usage: MODE measure BODY THREADS | MODE probe".to_owned()),
    })
}

/// Set for a program that runs below a recorder's own.
const BELOW: &str = "PEER_BELOW";

/// The `main` of a peer whose recorder starts the recorded program. `record` gets a folder and this program
/// as a command, and lets the recorder run the command in the folder. The text that `record` returns follows
/// the program's lines. The program that the recorder has started behaves as [`main`].
pub fn main_below<P: Peer>(
    twins: [Batch; 2],
    record: impl FnOnce(&Path, Command) -> Result<String>,
    start: impl FnOnce(&str) -> Result<P>,
) -> ExitCode {
    if env::var_os(BELOW).is_some() {
        return main(twins, start);
    }
    let recorded = || {
        let mut myself = myself()?;
        myself.env(BELOW, "1");
        record(&folder()?, myself)
    };
    ended(recorded())
}

/// Has the command run.
///
/// # Errors
///
/// If it can't be started, or fails.
pub fn run(command: &mut Command) -> Result<()> {
    let name = command.get_program().display().to_string();
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{name}: {status}")),
        Err(error) => Err(format!("cannot run {name}: {error}")),
    }
}

fn ended(done: Result<String>) -> ExitCode {
    match done {
        Ok(text) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn measured<P: Peer>(
    twins: [Batch; 2],
    start: impl FnOnce() -> Result<P>,
    body: &str,
    threads: &str,
) -> Result<String> {
    let body = Body::parse(body)?;
    let threads: usize = threads.parse().map_err(|_| "THREADS must be a number")?;
    let cores = sys::cores()?;
    if threads == 0 || cores.len() < threads {
        return Err(format!("{threads} threads on {} cores", cores.len()));
    }
    let peer = start()?;
    // The recorder's own threads have the first core, which usually serves the interrupts too; what is
    // measured begins at the last.
    sys::pin_all(cores[0])?;
    let measured: Vec<usize> = cores.into_iter().rev().take(threads).collect();
    let taken = measure::measure(&peer, twins, body, &measured)?;
    let kept = peer.finish()?;
    let process_ns = measure::all_cpu_ns(&peer)? - taken.since_ns;
    let mut text = String::new();
    for [untraced, traced] in taken.pairs {
        text += &format!(
            "untraced_calls={} untraced_ns={} traced_calls={} traced_ns={}\n",
            untraced.calls, untraced.cpu_ns, traced.calls, traced.cpu_ns
        );
    }
    Ok(text + &format!("process_ns={process_ns}{}\n", words(&kept)))
}

fn probed<P: Peer>(twins: [Batch; 2], start: impl FnOnce() -> Result<P>) -> Result<String> {
    let peer = start()?;
    let mut scratch = Scratch::new();
    for _ in 0..PROBE {
        measure::one_batch(&peer, twins[1], Body::Mix, &mut scratch);
    }
    peer.settle();
    let calls = PROBE * Body::Mix.calls();
    Ok(format!("calls={calls}{}\n", words(&peer.finish()?)))
}

/// What is known, as words to add to a line.
fn words(kept: &RecordedSize) -> String {
    let word = |name: &str, value: Option<u64>| {
        value.map_or_else(String::new, |value| format!(" {name}={value}"))
    };
    word("bytes", kept.bytes) + &word("kept", kept.calls)
}

/// Sees to it that the program runs with these variables: starts it over if it does not. For recorders
/// that read the environment before `main`.
///
/// # Errors
///
/// If it cannot be started over.
pub fn with_environment(variables: &[(&str, &str)]) -> Result<()> {
    if variables
        .iter()
        .all(|(name, value)| env::var_os(name).is_some_and(|now| now == *value))
    {
        return Ok(());
    }
    let mut again = myself()?;
    again.envs(variables.iter().copied());
    Err(format!("cannot start over: {}", again.exec()))
}

/// This program with the same arguments.
///
/// # Errors
///
/// If its path is not known.
pub fn myself() -> Result<Command> {
    let path = env::current_exe().map_err(|error| format!("where am I? {error}"))?;
    let mut myself = Command::new(path);
    myself.args(env::args_os().skip(1));
    Ok(myself)
}

/// The folder for the recorder's files. The driver that started the program empties it afterwards.
///
/// # Errors
///
/// If it was not given.
pub fn folder() -> Result<PathBuf> {
    let folder = env::var_os("PEER_FOLDER");
    folder
        .map(PathBuf::from)
        .ok_or_else(|| "PEER_FOLDER is not set".to_owned())
}

/// Bytes of all files below a folder.
///
/// # Errors
///
/// If it cannot be read.
pub fn bytes_below(folder: &Path) -> Result<u64> {
    let bad = |error: io::Error| format!("{}: {error}", folder.display());
    let mut bytes = 0;
    for entry in fs::read_dir(folder).map_err(bad)? {
        let path = entry.map_err(bad)?.path();
        bytes += if path.is_dir() {
            bytes_below(&path)?
        } else {
            path.metadata().map_err(bad)?.len()
        };
    }
    Ok(bytes)
}

/// A writer that counts bytes and drops them: the cheapest place for a recorder that makes text.
#[derive(Debug, Clone, Default)]
pub struct Counter(Arc<AtomicU64>);

impl Counter {
    /// Bytes so far.
    pub fn bytes(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Write for Counter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
