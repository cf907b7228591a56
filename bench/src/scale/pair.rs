//! Two threads on two cores that record at once, whose slots and regions in the ring lie next to each other, or
//! far from each other; and one alone. Where a line of the cache is written by both, the neighbours are slower.
//! Controls show what would be seen of such a line on this machine.
//!
//! It shows nothing unless both are at work at the same time, which other programs may prevent for most of it. So the
//! calls are measured in groups of some microseconds. A group counts only if the other thread made about as many calls
//! in that time: then neither thread had to leave its core.

use std::error::Error;
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Sender, channel};
use std::thread;

use core_affinity::CoreId;

use super::slots::Slots;
use super::worker::{Company, FAR_LINE, NEXT_LINE, Order, SAME_LINE, Stretches, Words, Work, obey};
use crate::measure::median;
use crate::work::Variant;

/// How often each setting has its turn.
const TURNS: usize = 7;

/// With fewer stretches, all turns together, there is no median worth telling.
const LEAST_STRETCHES: usize = 50;

/// Threads that take a slot each, so that some are far from each other.
const CROWD: usize = 40;

/// A setting: what the measured thread does, and who does what meanwhile.
struct Setting {
    name: String,
    work: Work,
    company: Option<(usize, Work)>,
}

/// Measures pairs; `floor`: the control's clock, which should be that of the recorder. `dropped`: the ring has
/// room for one thread, which is none of the two.
///
/// # Errors
///
/// If nothing is recorded, if there are not two cores, or no two slots are next to each other.
pub(crate) fn pair(floor: Variant, dropped: bool) -> Result<String, Box<dyn Error>> {
    let cores = core_affinity::get_core_ids().unwrap_or_default();
    let [other, .., own] = cores.as_slice() else {
        return Err("two threads at once need two cores".into());
    };
    let words = Arc::new(Words::new());
    thread::scope(|scope| {
        let start = |core: CoreId| {
            let (orders, received) = channel();
            let words = Arc::clone(&words);
            scope.spawn(move || obey(core, floor, &words, &received));
            orders
        };
        // The measured one may be any of the crowd but the first; the others are on the other core.
        let measured = 1;
        let crowd = if dropped { 3 } else { CROWD };
        let crowd: Vec<Sender<Order>> = (0..crowd)
            .map(|at| start(if at == measured { *own } else { *other }))
            .collect();
        let ids = crowd.iter().map(begin).collect::<Result<Vec<u32>, _>>()?;
        if dropped {
            return without_slots(&crowd, measured);
        }
        let slots = Slots::find(&ids)?;
        let near = slots.nearest(measured);
        let far = slots.farthest(measured);
        let mut told = measure(&crowd, measured, &placed(near, far))?;
        for (name, place) in [("near", near), ("far", far)] {
            let (apart, bytes) = slots.apart(measured, place);
            let _ = write!(told, "{name}_slots={apart} {name}_bytes={bytes} ");
        }
        Ok(told)
    })
}

fn placed(near: usize, far: usize) -> Vec<Setting> {
    let traced = [("", Work::Traced), ("untimed_", Work::Untimed)];
    let mut settings = Vec::new();
    for (kind, work) in traced {
        for (name, place) in [("alone", None), ("near", Some(near)), ("far", Some(far))] {
            settings.push(Setting {
                name: format!("{kind}{name}"),
                work,
                company: place.map(|place| (place, work)),
            });
        }
    }
    let places = [
        ("far", FAR_LINE),
        ("next_line", NEXT_LINE),
        ("same_line", SAME_LINE),
    ];
    for kind in ["cursor", "counter", "bare"] {
        let work = |word| match kind {
            "cursor" => Work::Cursor(word),
            "counter" => Work::Counter(word),
            _ => Work::Bare(word),
        };
        for (name, word) in places {
            settings.push(Setting {
                name: format!("{kind}_{name}"),
                work: work(0),
                company: Some((near, work(word))),
            });
        }
    }
    settings
}

/// Threads for which the ring has no room: their records are counted, all in one place.
fn without_slots(crowd: &[Sender<Order>], measured: usize) -> Result<String, Box<dyn Error>> {
    let setting = |name: &str, company| Setting {
        name: name.to_owned(),
        work: Work::Traced,
        company,
    };
    let other = (measured + 1, Work::Traced);
    let settings = [setting("alone", None), setting("near", Some(other))];
    let told = measure(crowd, measured, &settings)?;
    if fdr::statistics().missing.dropped == 0 {
        return Err("the ring had room for all: set FDR_MEMORY to one FDR_BUFFER".into());
    }
    Ok(told)
}

/// A recorded call, which takes a slot; one thread after the other.
fn begin(thread: &Sender<Order>) -> Result<u32, Box<dyn Error>> {
    let (said, say) = channel();
    thread.send(Order::Begin(said))?;
    Ok(say.recv()?)
}

/// ns of a call in each setting, medians over turns that alternate.
fn measure(
    crowd: &[Sender<Order>],
    measured: usize,
    settings: &[Setting],
) -> Result<String, Box<dyn Error>> {
    let mut found: Vec<Stretches> = settings.iter().map(|_| Stretches::default()).collect();
    for turn in 0..TURNS {
        for at in 0..settings.len() {
            // Each round begins elsewhere.
            let at = (at + turn) % settings.len();
            let stretches = one(crowd, measured, &settings[at])?;
            found[at].ns.extend(stretches.ns);
            found[at].all += stretches.all;
        }
    }
    let mut told = String::new();
    let mut share = f64::INFINITY;
    for (Setting { name, .. }, Stretches { ns, all }) in settings.iter().zip(found) {
        if ns.len() < LEAST_STRETCHES {
            let why = format!(
                "{name}: the two threads were at work at once in {} of {all} stretches: the machine is too busy",
                ns.len()
            );
            return Err(why.into());
        }
        share = share.min(ns.len() as f64 / all as f64);
        let _ = write!(told, "{name}={:.4} ", median(ns));
    }
    let _ = write!(told, "together={share:.4} ");
    Ok(told)
}

/// A turn of the measured thread.
fn one(
    crowd: &[Sender<Order>],
    measured: usize,
    setting: &Setting,
) -> Result<Stretches, Box<dyn Error>> {
    let mut company = None;
    if let Some((thread, work)) = setting.company {
        let together = Arc::new(Company::default());
        let (running, runs) = channel();
        crowd[thread].send(Order::Accompany(work, Arc::clone(&together), running))?;
        runs.recv()?;
        company = Some(together);
    }
    let (said, stretches) = channel();
    let order = Order::Measure(setting.work, company.clone(), said);
    let sent = crowd[measured].send(order);
    let stretches = stretches.recv();
    if let Some(company) = company {
        company.stop.store(true, Ordering::Relaxed);
    }
    sent?;
    Ok(stretches?)
}
