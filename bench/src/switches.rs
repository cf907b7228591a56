//! What recording the states of threads costs where they change: two threads that wake each other in turn, on one core
//! and on two, and threads that begin and end. Each wake-up is a switch of both. No call of these threads is traced:
//! the recorder is on or off beside them, as the environment says. One traced call is made before, so that there is
//! something to record.

use std::error::Error;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::{Duration, Instant};

use core_affinity::CoreId;

use crate::measure::thread_cpu_ns;
use crate::work::{Body, Caller, Variant};

/// Round trips between two looks at the clock.
const TURNS: u64 = 256;

/// Words for xtask: switches a second on one core and on two, and threads a second. Each is measured so long.
///
/// # Errors
///
/// If there are no two cores, or a thread can't be pinned.
pub(crate) fn switches(each: Duration) -> Result<String, Box<dyn Error>> {
    Caller::new(Body::Leaf, Variant::Traced)?.call(1);
    let cores = core_affinity::get_core_ids().unwrap_or_default();
    let (Some(&one), Some(&other)) = (cores.first(), cores.last()) else {
        return Err("no core".into());
    };
    let (same, same_cpu) = ping_pong(one, one, each)?;
    let (apart, apart_cpu) = ping_pong(one, other, each)?;
    Ok(format!(
        "same={same:.1} same_cpu={same_cpu:.1} apart={apart:.1} apart_cpu={apart_cpu:.1} threads={:.1}",
        threads(each)?
    ))
}

/// Switches a second of two threads on these cores, and the CPU time of a switch, in ns.
fn ping_pong(here: CoreId, there: CoreId, each: Duration) -> Result<(f64, f64), Box<dyn Error>> {
    let (mut near, mut far) = UnixStream::pair()?;
    let answers = thread::spawn(move || {
        let is_pinned = core_affinity::set_for_current(there);
        let mut byte = [0];
        while far
            .read_exact(&mut byte)
            .and_then(|()| far.write_all(&byte))
            .is_ok()
        {}
        (is_pinned, thread_cpu_ns())
    });
    let asks = thread::spawn(move || {
        let is_pinned = core_affinity::set_for_current(here);
        let before = waits();
        let since = Instant::now();
        let mut byte = [0];
        while since.elapsed() < each {
            for _ in 0..TURNS {
                near.write_all(&byte)?;
                near.read_exact(&mut byte)?;
            }
        }
        // The other thread waits as often.
        let switches = 2.0 * (waits() - before) as f64;
        let rate = switches / since.elapsed().as_secs_f64();
        Ok::<_, std::io::Error>((is_pinned, switches, rate, thread_cpu_ns()))
    });
    let (here, switches, rate, asked) = asks.join().map_err(|_| "a thread panicked")??;
    let (there, answered) = answers.join().map_err(|_| "a thread panicked")?;
    match here && there {
        true => Ok((rate, (asked + answered) as f64 / switches)),
        false => Err("cannot pin a thread".into()),
    }
}

/// How often the calling thread has waited.
fn waits() -> i64 {
    // SAFETY: zeros are a valid value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the place is valid for writing.
    unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) };
    usage.ru_nvcsw
}

/// Threads that begin and end in a second, one after the other.
fn threads(each: Duration) -> Result<f64, Box<dyn Error>> {
    let since = Instant::now();
    let mut count = 0;
    while since.elapsed() < each {
        thread::spawn(|| {})
            .join()
            .map_err(|_| "a thread panicked")?;
        count += 1;
    }
    Ok(f64::from(count) / since.elapsed().as_secs_f64())
}
