//! What recording took, and which functions were not timed because of the budget.

use fdr_formats::TraceInfo;
use fdr_formats::model::{FunctionTotals, Level};
use serde::Serialize;

use crate::report::json::level_in_words;
use crate::report::states::percent;
use crate::ui;

/// Names of a level that are shown.
const MAX_NAMES: usize = 5;

/// The budget of a trace.
#[derive(Serialize)]
pub(super) struct Budget<'a> {
    /// Millionths of the program's CPU time: what recording took in the end, and what it may take.
    cost: u64,
    budget: u64,
    /// The functions whose calls were not all timed at the end.
    functions: Vec<Lowered<'a>>,
}

/// A function on a lower level.
#[derive(Serialize)]
struct Lowered<'a> {
    id: u32,
    name: &'a str,
    level: &'static str,
    /// Since the trace's clock began.
    since_ns: u64,
    #[serde(skip)]
    since_start_ns: Option<u64>,
}

impl<'a> Budget<'a> {
    /// `None`: the trace has none.
    pub(super) fn new(info: &'a TraceInfo) -> Option<Budget<'a>> {
        let cost = info.recording_cost?;
        let lowered = |totals: &FunctionTotals| {
            let estimate = totals.estimate.as_deref()?;
            let function = info.function(totals.function)?;
            (estimate.level != Level::Timed).then(|| Lowered {
                id: function.id.0,
                name: &function.name,
                level: level_in_words(estimate.level),
                since_ns: info.clock.nanos(estimate.since).0,
                since_start_ns: info
                    .start
                    .map(|start| info.clock.nanos(estimate.since.since(start)).0),
            })
        };
        let mut functions: Vec<Lowered<'a>> =
            info.missing_totals.iter().filter_map(lowered).collect();
        functions.sort_by_key(|function| function.since_ns);
        Some(Budget {
            cost: cost.share,
            budget: cost.budget,
            functions,
        })
    }

    /// The facts in words, each with its name.
    pub(super) fn in_words(&self) -> Vec<(&'static str, String)> {
        let share = |millionths: u64| percent(millionths as f64 / 1e6);
        let cost = format!(
            "{} of the CPU time in the end, budget {}",
            share(self.cost),
            share(self.budget)
        );
        let mut facts = vec![("cost", cost)];
        for (level, word) in [(Level::Counted, "counted"), (Level::LookedAt, "looked at")] {
            let of_level = |function: &&Lowered<'_>| function.level == level_in_words(level);
            let functions: Vec<&Lowered<'_>> = self.functions.iter().filter(of_level).collect();
            if functions.is_empty() {
                continue;
            }
            let name = |function: &&Lowered<'_>| {
                let since = function.since_start_ns.map(ui::duration);
                let since = since.map_or_else(String::new, |since| format!(" since {since}"));
                format!("{}{since}", ui::clean(function.name))
            };
            let mut names: Vec<String> = functions.iter().take(MAX_NAMES).map(name).collect();
            let more = functions.len().saturating_sub(MAX_NAMES);
            if more > 0 {
                names.push(format!("{} more", ui::count(more as u64)));
            }
            facts.push((word, names.join(", ")));
        }
        facts
    }
}
