//! The moments that `fdr ctl PID mark` named, for people and for JSON.

use fdr_formats::{Ticks, TraceInfo, moments};
use serde::Serialize;

use crate::ui;

/// All that a trace has.
#[derive(Clone, Debug, Default)]
pub(crate) struct Moments {
    /// By their numbers.
    pub(crate) list: Vec<Moment>,
    /// How many earlier ones were replaced by them.
    pub(crate) earlier: u64,
}

/// One of them.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Moment {
    number: u64,
    name: String,
    /// By the trace's clock.
    time_ns: u64,
    /// Since the first record of the trace. Negative: before it.
    since_first_ns: Option<i64>,
    unix_ns: Option<u64>,
}

impl Moments {
    /// Those of a trace whose first record is at that tick.
    pub(crate) fn from_info(info: &TraceInfo, first: Option<Ticks>) -> Moments {
        let clock = &info.clock;
        let since = |time: Ticks, first: Ticks| {
            let ns = |ticks| i64::try_from(clock.nanos(ticks).0).unwrap_or(i64::MAX);
            match time >= first {
                true => ns(time.since(first)),
                false => -ns(first.since(time)),
            }
        };
        let list = info.moments.iter().map(|moment| Moment {
            number: moment.number,
            name: moment.name.clone(),
            time_ns: clock.nanos(moment.time).0,
            since_first_ns: first.map(|first| since(moment.time, first)),
            unix_ns: clock.unix_nanos(moment.time),
        });
        Moments {
            list: list.collect(),
            earlier: moments::earlier(&info.moments),
        }
    }

    /// A line for each moment, and a line with the number of replaced moments. Each line begins with `before`.
    pub(crate) fn in_words<'a>(&'a self, before: &'a str) -> impl Iterator<Item = String> + 'a {
        let earlier = (self.earlier > 0).then(|| {
            let earlier = ui::things(self.earlier, "earlier mark");
            format!("{earlier} were replaced by newer ones")
        });
        let lines = earlier.into_iter().chain(self.list.iter().map(in_words));
        lines.map(move |line| format!("{before}{line}"))
    }
}

/// `+1.234 s here I clicked (2026-11-23T12:00:00.000000Z)`.
fn in_words(moment: &Moment) -> String {
    let since = moment.since_first_ns.map_or(String::new(), |ns| {
        let sign = if ns < 0 { '-' } else { '+' };
        format!("{sign}{} ", ui::duration(ns.unsigned_abs()))
    });
    let unix = moment.unix_ns;
    let unix = unix.map_or(String::new(), |unix| format!(" ({})", ui::utc(unix)));
    format!("{since}{}{unix}", ui::clean(&moment.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_reported_beside_the_first_record() {
        let mut info = TraceInfo::default();
        info.clock.anchor = Some((Ticks(0), 1_700_000_000_000_000_000));
        for (number, tick, name) in [(7, 500, "before"), (8, 2_000, "b\x1b[2J")] {
            info.moments.push(fdr_formats::model::Moment {
                number,
                time: Ticks(tick),
                name: name.to_owned(),
            });
        }
        let moments = Moments::from_info(&info, Some(Ticks(1_000)));
        let lines: Vec<String> = moments.in_words("").collect();
        assert_eq!(lines[0], "6 earlier marks were replaced by newer ones");
        assert!(
            lines[1].starts_with("-500 ns before (2023-11-14T22:13:20"),
            "{lines:?}"
        );
        assert!(lines[2].starts_with("+1.000 µs b\\u{1b}[2J ("), "{lines:?}");
        let first = &moments.list[0];
        assert_eq!((first.time_ns, first.since_first_ns), (500, Some(-500)));
        assert_eq!(first.unix_ns, Some(1_700_000_000_000_000_500));
        let lost = Moments::from_info(&info, None);
        assert_eq!(lost.list[1].since_first_ns, None);
        assert!(
            lost.in_words("mark: ")
                .nth(1)
                .is_some_and(|said| said.starts_with("mark: before ("))
        );
    }
}
