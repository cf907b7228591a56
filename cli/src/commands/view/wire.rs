//! Pictures as arrays of numbers, for the page to read: there are many of them. `pictures` and `curves` of the page's
//! `wire.ts` read them. Must never write a number in another order than the tables here say.

use fdr_formats::model::State;

use super::counters::Curve;
use super::index::Sign;
use super::picture::Picture;
use super::viewed::Viewed;

/// Puts a thread's picture behind others. All numbers are little-endian:
///
/// | bytes | what |
/// | --- | --- |
/// | 4, 4 | place of the thread; number of depths |
/// | 8, 8 | until when the thread was read, or NaN: all; ticks below which calls are joined for want of memory |
/// | 4, each: 8, 8, 4, 4 | of each depth: number of calls; begin, end, function, count and flags |
/// | 4, each: 8, 8, 4, 4 | number of states; from, until, state (3: not known), CPU + 1 (0: not known) |
/// | 4, each: 8, 8, 4, 4 | number of signs; time, until, kind (0 gap, 1 break, 2 event), name or records |
/// | 4, each: 8, 8, 4, 4 | number of CPUs; from, until (infinite: not known), changes of the CPU up to this, CPU |
pub(super) fn put(body: &mut Vec<u8>, viewed: &Viewed, thread: usize, picture: &Picture) {
    let base = viewed.base();
    let at = |tick: u64| ((i128::from(tick) - i128::from(base)) as f64).to_le_bytes();
    let count = |body: &mut Vec<u8>, number: usize| {
        body.extend(u32::try_from(number).unwrap_or(u32::MAX).to_le_bytes());
    };
    count(body, thread);
    count(body, picture.rows.len());
    body.extend(picture.until.map_or(f64::NAN.to_le_bytes(), at));
    body.extend((picture.coarse as f64).to_le_bytes());
    for row in &picture.rows {
        count(body, row.len());
        for item in row {
            body.extend(at(item.start));
            body.extend(at(item.end));
            body.extend(item.function.to_le_bytes());
            body.extend(item.count_and_flags().to_le_bytes());
        }
    }
    count(body, picture.states.len());
    for stay in &picture.states {
        let state = match stay.state {
            Some(State::Running) => 0_u32,
            Some(State::Preempted) => 1,
            Some(State::Waiting) => 2,
            None => 3,
        };
        body.extend(at(stay.from.0));
        body.extend(at(stay.until.0));
        body.extend(state.to_le_bytes());
        let cpu = stay.cpu.map_or(0, |cpu| cpu.0.saturating_add(1));
        body.extend(cpu.to_le_bytes());
    }
    count(body, picture.signs.len());
    for (time, sign) in &picture.signs {
        let (value, kind, name) = match *sign {
            Sign::Gap { until, records } => {
                let records = u32::try_from(records).unwrap_or(u32::MAX);
                (at(until), 0_u32, records)
            }
            Sign::Break => (0.0_f64.to_le_bytes(), 1, 0),
            Sign::Event { name } => (0.0_f64.to_le_bytes(), 2, name),
        };
        body.extend(at(*time));
        body.extend(value);
        body.extend(kind.to_le_bytes());
        body.extend(name.to_le_bytes());
    }
    count(body, picture.cpus.len());
    for (nth, stay) in picture.cpus.iter().enumerate() {
        let next = picture.cpus.get(nth + 1);
        body.extend(at(stay.from));
        body.extend(next.map_or(f64::INFINITY.to_le_bytes(), |next| at(next.from)));
        body.extend(stay.changes.to_le_bytes());
        body.extend(stay.cpu.to_le_bytes());
    }
}

/// Puts curves of counters behind others. All numbers are little-endian:
///
/// | bytes | what |
/// | --- | --- |
/// | 4, 4, 8 | the counter's name; number of its values; ticks within which values are joined for want of memory |
/// | each: 6 of 8 | from when; until when; the least, the greatest and the last value; how many they are |
pub(super) fn put_curves(body: &mut Vec<u8>, viewed: &Viewed, curves: &[Curve]) {
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
