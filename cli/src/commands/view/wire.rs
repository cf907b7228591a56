//! Pictures as arrays of numbers, for the page to read: there are many of them. `pictures` and `curves` of the page's
//! `wire.ts` read them.

use fdr_formats::model::State;

use super::curves::Curve;
use super::index::Sign;
use super::picture::Picture;
use super::viewed::ViewedTrace;

/// A list of numbers as the page reads it: columns of it become arrays without a copy.
type Row = (f64, f64, u32, u32);

/// Puts a list: 4 bytes its length, 4 zero; then all first numbers, all second ones, all third and all fourth ones.
fn put_rows(body: &mut Vec<u8>, rows: &[Row]) {
    body.extend(u32::try_from(rows.len()).unwrap_or(u32::MAX).to_le_bytes());
    body.extend([0; 4]);
    body.reserve(rows.len() * 24);
    rows.iter().for_each(|row| body.extend(row.0.to_le_bytes()));
    rows.iter().for_each(|row| body.extend(row.1.to_le_bytes()));
    rows.iter().for_each(|row| body.extend(row.2.to_le_bytes()));
    rows.iter().for_each(|row| body.extend(row.3.to_le_bytes()));
}

/// Puts a thread's picture behind others. All numbers are little-endian, and each part has a multiple of 8 bytes:
///
/// | bytes | what |
/// | --- | --- |
/// | 4, 4 | place of the thread; number of depths |
/// | 8, 8 | until when the thread was read, or NaN: all; ticks below which calls are joined for want of memory |
/// | list | of each depth, calls: begin, end, function, count and flags |
/// | list | states: from, until, state (3: not known), CPU + 1 (0: not known) |
/// | list | signs: time, until, kind (0 gap, 1 break, 2 event), name or records |
/// | list | CPUs: from, until (infinite: not known), changes of the CPU up to this, CPU |
/// | list | waits for locks: from, until, place of the holder + 1 (0: not known), name of the lock |
/// | list | of each of these waits: 0, 0, function of the holder, number of waits that are joined |
pub(super) fn put(body: &mut Vec<u8>, viewed: &ViewedTrace, thread: usize, picture: &Picture) {
    let at = |tick: u64| viewed.relative(tick);
    for number in [thread, picture.rows.len()] {
        body.extend(u32::try_from(number).unwrap_or(u32::MAX).to_le_bytes());
    }
    body.extend(picture.until.map_or(f64::NAN, at).to_le_bytes());
    body.extend((picture.coarse as f64).to_le_bytes());
    let put = |body: &mut Vec<u8>, rows: &mut dyn Iterator<Item = Row>| {
        put_rows(body, &rows.collect::<Vec<_>>());
    };
    for row in &picture.rows {
        let calls = row.iter().map(|item| {
            let (start, end) = (at(item.start), at(item.end));
            (start, end, item.function, item.count_and_flags())
        });
        put(body, &mut { calls });
    }
    let states = picture.states.iter().map(|stay| {
        let state = match stay.state {
            Some(State::Running) => 0,
            Some(State::Preempted) => 1,
            Some(State::Waiting) => 2,
            None => 3,
        };
        let cpu = stay.cpu.map_or(0, |cpu| cpu.0.saturating_add(1));
        (at(stay.from.0), at(stay.until.0), state, cpu)
    });
    put(body, &mut { states });
    let signs = picture.signs.iter().map(|(time, sign)| match *sign {
        Sign::Gap { until, records } => {
            let records = u32::try_from(records).unwrap_or(u32::MAX);
            (at(*time), at(until), 0, records)
        }
        Sign::Break => (at(*time), 0.0, 1, 0),
        Sign::Event { name } => (at(*time), 0.0, 2, name),
    });
    put(body, &mut { signs });
    let cpus = picture.cpus.iter().enumerate().map(|(nth, stay)| {
        let next = picture.cpus.get(nth + 1);
        let until = next.map_or(f64::INFINITY, |next| at(next.from));
        (at(stay.from), until, stay.changes, stay.cpu)
    });
    put(body, &mut { cpus });
    let waits = picture.waits.iter().map(|wait| {
        let holder = viewed.index.thread_of(wait.holder);
        let holder = holder.and_then(|place| u32::try_from(place + 1).ok());
        (
            at(wait.from),
            at(wait.until),
            holder.unwrap_or(0),
            wait.name,
        )
    });
    put(body, &mut { waits });
    let waits = picture.waits.iter();
    put(
        body,
        &mut waits.map(|wait| (0.0, 0.0, wait.function, wait.count)),
    );
}

/// Puts curves of counters behind others. All numbers are little-endian:
///
/// | bytes | what |
/// | --- | --- |
/// | 4, 4, 8 | the counter's name; number of its values; ticks within which values are joined for want of memory |
/// | each: 6 of 8 | from when; until when; the least, the greatest and the last value; how many they are |
pub(super) fn put_curves(body: &mut Vec<u8>, viewed: &ViewedTrace, curves: &[Curve]) {
    for curve in curves {
        body.extend(curve.id.to_le_bytes());
        let count = u32::try_from(curve.values.len()).unwrap_or(u32::MAX);
        body.extend(count.to_le_bytes());
        body.extend((curve.coarse as f64).to_le_bytes());
        for values in &curve.values {
            let times = [viewed.relative(values.from), viewed.relative(values.until)];
            let numbers = [values.least, values.greatest, values.last];
            let count = f64::from(values.count);
            for number in times.into_iter().chain(numbers).chain([count]) {
                body.extend(number.to_le_bytes());
            }
        }
    }
}
