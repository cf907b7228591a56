//! Makes a large XRay trace, to measure exports and queries: `generate FILE CALLS [THREADS [NTH]]`. Calls nest up to
//! twenty deep. Most are short and few are long, and a few functions have most of the calls. NTH says which process of
//! a fleet it is: ten hosts, and then the next of two days.

use std::fs::OpenOptions;

use fdr_formats::identity::{Identity, Part};
use fdr_formats::model::Counts;
use fdr_formats::writer::Output;
use fdr_formats::{
    Call, Clock, Function, FunctionId, Sink, Thread, ThreadId, Ticks, TraceInfo, registry,
};

const FUNCTIONS: u32 = 200;
const HOSTS: u64 = 10;
const DAY_NS: u64 = 86_400_000_000_000;

fn info(nth: u64) -> TraceInfo {
    let mut identity = Identity::default();
    identity.set(Part::Host, &format!("generated-{}", nth % HOSTS));
    identity.set(Part::Boot, "0fd3c1e6-8a7f-4b5e-9a37-000000000002");
    let day = nth / HOSTS % 2;
    let functions = (1..=FUNCTIONS).map(|id| Function {
        id: FunctionId(id),
        name: format!("generated::module_{}::function_{id}", id % 9),
        file: format!("src/module_{}.rs", id % 9),
        line: id,
        ..Function::default()
    });
    TraceInfo {
        clock: Clock {
            frequency: 2_100_000_000,
            anchor: Some((Ticks(1_000_000), 1_772_359_200_000_000_000 + day * DAY_NS)),
            ..Clock::default()
        },
        functions: functions.collect(),
        program: "generated".to_owned(),
        process: Some(77 + nth),
        identity,
        dump: Some(1),
        ..TraceInfo::default()
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (Some(path), Some(calls)) = (words.first(), words.get(1)) else {
        return Err("generate FILE CALLS [THREADS [NTH]]".into());
    };
    let calls: u64 = calls.parse()?;
    let threads: u64 = words.get(2).map_or(Ok(2), |text| text.parse())?;
    let nth: u64 = words.get(3).map_or(Ok(0), |text| text.parse())?;
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .open(path)?;
    let target = registry::target("xray").ok_or("no such format")?;
    let mut writer = (target.create)(Output::File(file), &info(nth))?;
    let mut state = 88_172_645_463_325_252_u64 + nth;
    let mut random = move |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    let mut end = Ticks(0);
    for thread in 1..=threads {
        let each = calls / threads;
        let counts = Counts {
            recorded: 2 * each,
            readable: 2 * each,
            ..Counts::default()
        };
        writer.thread(&Thread {
            id: ThreadId(77 + thread),
            name: format!("worker-{thread}"),
            counts: Some(counts),
            ..Thread::default()
        });
        let (mut now, mut made, mut open, mut batch) =
            (2_000_000, 0, Vec::new(), Vec::with_capacity(4096));
        while made < each || !open.is_empty() {
            // Three quarters are below 100 ns, and one in a thousand takes up to a millisecond.
            now += match random(1000) {
                0 => random(2_000_000),
                1..250 => random(5_000),
                _ => 20 + random(200),
            };
            if made < each && open.len() < 20 && (open.is_empty() || random(2) == 0) {
                let function = FunctionId(
                    1 + (random(u64::from(FUNCTIONS)) * random(u64::from(FUNCTIONS))
                        / u64::from(FUNCTIONS)) as u32,
                );
                open.push(function);
                batch.push(Call::entry(Ticks(now), function));
                made += 1;
            } else if let Some(function) = open.pop() {
                batch.push(Call::exit(Ticks(now), function));
            }
            if batch.len() == 4096 {
                writer.calls(&batch);
                batch.clear();
            }
        }
        writer.calls(&batch);
        end = end.max(Ticks(now));
    }
    writer.end(end);
    writer.finish()?;
    Ok(())
}
