//! What a dump takes. Threads fill their rings and wait. Then they are dumped several times. Each dump prints its time,
//! the file's size, and the memory that the process had in addition. Beside it a plain file of the same size, written
//! in blocks.

use std::error::Error;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::sync::Barrier;
use std::thread;
use std::time::Instant;

use crate::measure::thread_cpu_ns;
use crate::work::{Body, Caller, Variant};

const DUMPS: usize = 5;
const BLOCK: usize = 1 << 20;

/// Fills the rings of so many threads with so many calls each, and dumps them.
///
/// # Errors
///
/// If nothing is recorded, or a file can't be written.
pub(crate) fn flush(threads: usize, calls: u64) -> Result<String, Box<dyn Error>> {
    let (filled, over) = (Barrier::new(threads + 1), Barrier::new(threads + 1));
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                if let Ok(mut caller) = Caller::new(Body::Leaf, Variant::Traced) {
                    caller.call(calls);
                }
                filled.wait();
                over.wait();
            });
        }
        filled.wait();
        let told = (0..DUMPS).map(|_| one()).collect::<Result<Vec<_>, _>>();
        over.wait();
        Ok(told?.join("\n"))
    })
}

/// One dump, and one plain file; both are removed.
fn one() -> Result<String, Box<dyn Error>> {
    // From here on the peak is counted anew.
    fs::write("/proc/self/clear_refs", "5")?;
    let before = kib("VmRSS:")?;
    let (since, cpu) = (Instant::now(), thread_cpu_ns());
    let dump = fdr::dump()?;
    let seconds = since.elapsed().as_secs_f64();
    let cpu = (thread_cpu_ns() - cpu) as f64 / 1e9;
    let more = kib("VmHWM:")?.saturating_sub(before);
    let bytes = fs::metadata(&dump.path)?.len();
    fs::remove_file(&dump.path)?;
    let (plain, plain_cpu) = plain(&dump.path, bytes)?;
    Ok(format!(
        "bytes={bytes} seconds={seconds:.4} cpu={cpu:.4} plain_seconds={plain:.4} \
         plain_cpu={plain_cpu:.4} more_kib={more} records={} threads={}",
        dump.records, dump.threads
    ))
}

/// Seconds, and seconds of CPU, for a file of so many bytes.
fn plain(path: &Path, bytes: u64) -> Result<(f64, f64), Box<dyn Error>> {
    let block = vec![0xA5; BLOCK];
    let (since, cpu) = (Instant::now(), thread_cpu_ns());
    let mut file = File::create_new(path)?;
    let mut left = bytes;
    while left > 0 {
        let length = left.min(BLOCK as u64);
        file.write_all(&block[..length as usize])?;
        left -= length;
    }
    drop(file);
    let took = (
        since.elapsed().as_secs_f64(),
        (thread_cpu_ns() - cpu) as f64 / 1e9,
    );
    fs::remove_file(path)?;
    Ok(took)
}

/// A line of what the system says of this process, in KiB.
fn kib(line: &str) -> Result<u64, Box<dyn Error>> {
    let status = fs::read_to_string("/proc/self/status")?;
    let value = status.lines().find_map(|other| other.strip_prefix(line));
    let value = value.and_then(|value| value.split_whitespace().next());
    Ok(value.ok_or("the system does not say it")?.parse()?)
}
