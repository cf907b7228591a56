//! How long functions and threads ran, were preempted and waited, in ns. The time whose state is unknown is shown
//! separately, and is part of no figure.

use std::collections::BTreeMap;
use std::sync::Arc;

use fdr_formats::states::{States, StretchStates};
use fdr_formats::{Clock, FunctionId, ThreadId, Ticks, TraceInfo};
use serde::Serialize;

use super::stats::Stats;
use crate::off_cpu::{OffCpu, Split, states_of};
use crate::ui;

/// A time in states. The first three are what is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct InStates {
    pub(crate) running_ns: u64,
    pub(crate) preempted_ns: u64,
    pub(crate) waiting_ns: u64,
    pub(crate) unknown_ns: u64,
}

impl InStates {
    fn new(clock: &Clock, ticks: u64, away: &OffCpu) -> InStates {
        let split = Split::new(ticks, away);
        let ns = |ticks| clock.nanos(Ticks(ticks)).0;
        InStates {
            running_ns: ns(split.running),
            preempted_ns: ns(split.preempted),
            waiting_ns: ns(split.waiting),
            unknown_ns: ns(split.unknown),
        }
    }

    /// What is known of a stretch of time.
    pub(crate) fn of_stretch(clock: &Clock, known: &StretchStates) -> InStates {
        let ns = |ticks: Ticks| clock.nanos(ticks).0;
        InStates {
            running_ns: ns(known.spent.running),
            preempted_ns: ns(known.spent.preempted),
            waiting_ns: ns(known.spent.waiting),
            unknown_ns: ns(known.unknown),
        }
    }

    /// What is known.
    pub(crate) fn known_ns(&self) -> u64 {
        self.running_ns
            .saturating_add(self.preempted_ns)
            .saturating_add(self.waiting_ns)
    }

    /// A part as a share of what is known. `None`: nothing is.
    pub(crate) fn share(&self, ns: u64) -> Option<f64> {
        let known = self.known_ns();
        (known > 0).then(|| ns as f64 / known as f64)
    }

    pub(super) fn add(&mut self, more: &InStates) {
        self.running_ns = self.running_ns.saturating_add(more.running_ns);
        self.preempted_ns = self.preempted_ns.saturating_add(more.preempted_ns);
        self.waiting_ns = self.waiting_ns.saturating_add(more.waiting_ns);
        self.unknown_ns = self.unknown_ns.saturating_add(more.unknown_ns);
    }
}

/// The time of a function in each state: within its total time and within its self time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct RowStates {
    pub(crate) total: InStates,
    #[serde(rename = "self")]
    pub(crate) own: InStates,
}

impl RowStates {
    pub(crate) fn new(clock: &Clock, stats: &Stats) -> RowStates {
        RowStates {
            total: InStates::new(clock, stats.total, &stats.total_away),
            own: InStates::new(clock, stats.own, &stats.own_away),
        }
    }
}

/// Those of some functions, by id; empty where the trace knows no states.
pub(crate) type RowsStates = BTreeMap<FunctionId, RowStates>;

/// Those of all functions whose calls have records.
pub(super) fn of_functions(
    info: &TraceInfo,
    functions: &BTreeMap<FunctionId, Box<Stats>>,
) -> RowsStates {
    if info.schedule.switches.is_empty() {
        return RowsStates::new();
    }
    let is_timed = |id| info.function(id).is_none_or(|function| !function.untimed);
    let timed = functions.iter().filter(|(id, _)| is_timed(**id));
    timed
        .map(|(&id, stats)| (id, RowStates::new(&info.clock, stats)))
        .collect()
}

/// What the system counted of a thread, from its readings of `schedstat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Coarse {
    pub(crate) running_ns: u64,
    pub(crate) run_delay_ns: u64,
    pub(crate) times: u64,
    /// The time between the first reading and the last. `None`: there is only one reading, and the figures are of the
    /// whole life of the thread.
    pub(crate) over_ns: Option<u64>,
}

/// What is known of a thread as a whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ThreadStates {
    /// From its first record to its last one. `None`: the trace knows no states.
    pub(crate) spent: Option<InStates>,
    pub(crate) coarse: Option<Coarse>,
}

/// What is known of the threads.
pub(super) struct AllThreadStates {
    states: Option<Arc<States>>,
    coarse: BTreeMap<ThreadId, Coarse>,
}

impl AllThreadStates {
    pub(super) fn new(info: &TraceInfo) -> AllThreadStates {
        let mut accounts: Vec<_> = info.schedule.accounts.iter().collect();
        accounts.sort_by_key(|account| (account.thread, account.time));
        let of_each = accounts.chunk_by(|one, other| one.thread == other.thread);
        let coarse = of_each.filter_map(|readings| {
            let (first, last) = (readings.first()?, readings.last()?);
            let alone = readings.len() == 1;
            let less = |from: u64, to: u64| if alone { to } else { to.saturating_sub(from) };
            let over = info.clock.nanos(last.time.since(first.time)).0;
            let coarse = Coarse {
                running_ns: less(first.running_ns, last.running_ns),
                run_delay_ns: less(first.run_delay_ns, last.run_delay_ns),
                times: less(first.times, last.times),
                over_ns: (!alone).then_some(over),
            };
            Some((last.thread, coarse))
        });
        AllThreadStates {
            coarse: coarse.collect(),
            states: states_of(info),
        }
    }

    pub(super) fn of_thread(
        &self,
        clock: &Clock,
        thread: ThreadId,
        first: Option<Ticks>,
        last: Ticks,
    ) -> ThreadStates {
        let spent = self.states.as_ref().zip(first).map(|(states, first)| {
            let away = states.in_stretch(thread, first, last).into();
            InStates::new(clock, last.since(first).0, &away)
        });
        ThreadStates {
            spent,
            coarse: self.coarse.get(&thread).copied(),
        }
    }
}

/// `12.3 %`.
pub(crate) fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// The facts of a thread, for its line.
pub(super) fn thread_facts(states: &ThreadStates) -> Vec<String> {
    let mut facts = Vec::new();
    if let Some(spent) = states.spent {
        match spent.known_ns() {
            0 => facts.push("states not known".to_owned()),
            _ => {
                for (name, ns) in parts(&spent) {
                    facts.push(format!(
                        "{name} {}",
                        percent(spent.share(ns).unwrap_or(0.0))
                    ));
                }
                if spent.unknown_ns > 0 {
                    facts.push(format!("not known {}", ui::duration(spent.unknown_ns)));
                }
            }
        }
    }
    if let Some(coarse) = states.coarse {
        let since = match coarse.over_ns {
            Some(_) => "",
            None => " since it began",
        };
        if states.spent.is_none_or(|spent| spent.known_ns() == 0) {
            facts.push(format!(
                "coarse: ran {}{since}",
                ui::duration(coarse.running_ns)
            ));
        }
        facts.push(format!(
            "run delay {}{since}",
            ui::duration(coarse.run_delay_ns)
        ));
    }
    facts
}

/// The parts that are known, with their names.
pub(crate) fn parts(spent: &InStates) -> [(&'static str, u64); 3] {
    [
        ("running", spent.running_ns),
        ("preempted", spent.preempted_ns),
        ("waiting", spent.waiting_ns),
    ]
}
