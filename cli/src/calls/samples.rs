//! Where in the program a slow call's thread was while it ran, by samples. They tell what the calls of traced functions
//! don't.

use fdr_formats::model::{self, Schedule};
use foldhash::{HashMap, HashMapExt};

use super::slow_call::SlowCall;
use crate::symbols::{CodeLocation, Symbols};
use crate::ui;

/// Places that are shown.
const MAX_PLACES: usize = 3;

/// How many samples each line of a function has.
type Lines = HashMap<Option<(String, u32)>, u64>;

/// The samples of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sampled {
    pub(crate) count: u64,
    /// The most frequent functions, each with the line that is the most frequent in it.
    pub(crate) places: Vec<(CodeLocation, u64)>,
}

/// The samples of a call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Samples {
    /// The samples of CPU time.
    pub(crate) time: Sampled,
    /// The samples of page faults: one for [`model::FAULTS_OF_SAMPLE`] page faults.
    pub(crate) faults: Sampled,
}

impl Samples {
    /// `None`: there is none.
    pub(crate) fn in_call(
        call: &SlowCall,
        schedule: &Schedule,
        symbols: &mut Symbols<'_>,
    ) -> Option<Samples> {
        let mut of = |cause| {
            let is_inside = |sample: &&model::Sample| {
                let is_there = call.start <= sample.time && sample.time <= call.end;
                is_there && sample.thread == call.thread && sample.cause == cause
            };
            let inside = schedule.samples.iter().filter(is_inside);
            Sampled::from_places(inside.map(|sample| symbols.place(sample.address)))
        };
        let samples = Samples {
            time: of(model::Cause::Time),
            faults: of(model::Cause::PageFault),
        };
        (samples != Samples::default()).then_some(samples)
    }

    /// A line each, for people.
    pub(crate) fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if self.time.count > 0 {
            let samples = ui::things(self.time.count, "sample");
            lines.push(format!("{samples} while it ran: {}", self.time.in_words()));
        }
        if self.faults.count > 0 {
            let faults = ui::count(self.faults.count * model::FAULTS_OF_SAMPLE);
            lines.push(format!(
                "about {faults} page faults: {}",
                self.faults.in_words()
            ));
        }
        lines
    }
}

impl Sampled {
    pub(super) fn from_places(places: impl Iterator<Item = CodeLocation>) -> Sampled {
        let mut functions: HashMap<String, (u64, Lines)> = HashMap::new();
        let mut count = 0;
        for place in places {
            count += 1;
            let (all, lines) = functions.entry(place.function).or_default();
            *all += 1;
            *lines.entry(place.line).or_default() += 1;
        }
        let mut places: Vec<(CodeLocation, u64)> = Vec::new();
        for (function, (all, lines)) in functions {
            let mut lines: Vec<_> = lines.into_iter().collect();
            lines.sort_by(|one, other| other.1.cmp(&one.1).then_with(|| one.0.cmp(&other.0)));
            let line = lines.into_iter().next().and_then(|(line, _)| line);
            places.push((CodeLocation { function, line }, all));
        }
        places.sort_by(|one, other| {
            let by_name = || one.0.function.cmp(&other.0.function);
            other.1.cmp(&one.1).then_with(by_name)
        });
        places.truncate(MAX_PLACES);
        Sampled { count, places }
    }

    /// `86 % in app::scan (main.rs:31), 14 % in libc.so.6+0x1d2f0`.
    pub(super) fn in_words(&self) -> String {
        let places = self.places.iter().map(|(place, count)| {
            let line = match &place.line {
                Some((file, line)) => {
                    let file = file.rsplit('/').next().unwrap_or(file);
                    format!(" ({}:{line})", ui::clean(file))
                }
                None => String::new(),
            };
            let share = 100.0 * *count as f64 / self.count as f64;
            format!("{share:.0} % in {}{line}", ui::clean(&place.function))
        });
        places.collect::<Vec<_>>().join(", ")
    }
}
