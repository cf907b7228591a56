//! How fast a program records with and without snapshots of it beside, in turns. One thread, so that
//! whoever takes the snapshots has a processor of its own. Only told: nothing depends on it.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use fdr_formats::registry;
use fdr_tests::support::truth::{STOP, Truth};

use crate::plan::{Plan, Try};
use crate::snapshots::start;
use crate::victim::Setting;

/// Turns of each kind, and how long each is.
const TURNS: usize = 11;
const TURN: Duration = Duration::from_millis(200);

/// Records a second in a turn during which `beside` runs again and again.
fn turn(truth: &Truth, mut beside: impl FnMut() -> Result<(), String>) -> Result<f64, String> {
    let (begun, before) = (Instant::now(), truth.made());
    while begun.elapsed() < TURN {
        beside()?;
    }
    let records = truth.made() - before;
    Ok(records as f64 / begun.elapsed().as_secs_f64())
}

/// One snapshot, as the tool takes it.
fn snapshot(ring: &Path) -> Result<(), String> {
    let source = registry::open_path(ring);
    drop(source.map_err(|error| format!("{}: {error}", ring.display()))?);
    Ok(())
}

/// The least, the median and the greatest of some rates, in words.
fn shown(mut rates: Vec<f64>) -> (f64, String) {
    rates.sort_by(f64::total_cmp);
    let at = |place: usize| rates.get(place).copied().unwrap_or(0.0) / 1e6;
    let (low, middle, high) = (
        at(0),
        at(rates.len() / 2),
        at(rates.len().saturating_sub(1)),
    );
    (middle, format!("{middle:.2} ({low:.2} to {high:.2})"))
}

/// The medians side by side, in words.
pub(crate) fn compare(plan: &Plan) -> Result<String, String> {
    let one = Try {
        plan,
        index: u64::MAX,
        seed: plan.seed,
    };
    let folder = one.folder(true);
    let (mut child, truth) = start(plan, &folder, 1, 1, Setting::plain())?;
    let ring = folder.ending(".fdr-ring");
    let ring = ring.first().ok_or("no ring")?;
    let (mut alone, mut some, mut many, mut count) = (Vec::new(), Vec::new(), Vec::new(), 0u64);
    let pause = || thread::sleep(TURN / 2);
    for _ in 0..TURNS {
        alone.push(turn(&truth, || {
            pause();
            Ok(())
        })?);
        some.push(turn(&truth, || {
            pause();
            snapshot(ring)
        })?);
        many.push(turn(&truth, || {
            count += 1;
            snapshot(ring)
        })?);
    }
    truth.set(0, STOP, 1);
    child.succeed(folder.path(), Duration::from_secs(30))?;
    let ((alone, alone_shown), (some, some_shown)) = (shown(alone), shown(some));
    let (many, many_shown) = shown(many);
    let percent = |rate: f64| 100.0 * (rate / alone - 1.0);
    let every = TURN.as_secs_f64() * 1e3 * TURNS as f64 / count.max(1) as f64;
    Ok(format!(
        "million records/s of one thread, median (least to greatest of {TURNS} turns in rotation): alone \
         {alone_shown}; with a snapshot every {} ms {some_shown}, {:+.1} %; with one after another, each \
         {every:.1} ms, {many_shown}, {:+.1} %",
        (TURN / 2).as_millis(),
        percent(some),
        percent(many),
    ))
}
