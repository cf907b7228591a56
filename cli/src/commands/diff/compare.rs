//! Two sides, function by function: what changed, and for which functions it is shown that it did.

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;

use super::moderated::{self, LEVEL, Pair};
use super::runs::{Figures, Run, Scope};

/// A function with less of the self time on both sides is not tested: it would only make the test weaker for others.
pub(super) const MIN_SHARE: f64 = 0.001;

/// What is shown of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Verdict {
    Slower,
    Faster,
    /// The difference may be chance.
    NotShown,
    /// There is one run on a side, or the function takes too little time.
    NotTested,
    /// It has calls on one side only.
    New,
    Gone,
}

/// The means over the runs of a side. Times are ns of a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(super) struct Side {
    /// Calls in a run.
    pub(super) calls: f64,
    #[serde(rename = "self_ns")]
    pub(super) own: f64,
    #[serde(rename = "total_ns")]
    pub(super) total: f64,
    #[serde(rename = "p50_ns")]
    pub(super) p50: Option<f64>,
    #[serde(rename = "p99_ns")]
    pub(super) p99: Option<f64>,
}

/// A function.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Line {
    pub(super) name: String,
    /// Its name before, if it moved.
    pub(super) was: Option<String>,
    pub(super) before: Option<Side>,
    pub(super) after: Option<Side>,
    /// The change of the self time of a call, divided by the self time before.
    pub(super) change: Option<f64>,
    pub(super) verdict: Verdict,
    /// The chance of any false alarm if the functions up to this one are named.
    pub(super) chance: Option<f64>,
}

impl Line {
    /// The cost of the change in a run, in ns: the change of a call times the calls of a run.
    pub(super) fn weight(&self) -> f64 {
        let own = |side: &Option<Side>| side.map_or(0.0, |side| side.own);
        let calls = self.after.or(self.before).map_or(0.0, |side| side.calls);
        ((own(&self.after) - own(&self.before)) * calls).abs()
    }
}

/// The comparison of two sides.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Comparison {
    /// Of what the figures are.
    pub(super) scope: Scope,
    /// Runs on each side.
    pub(super) runs: (usize, usize),
    /// Functions that were tested.
    pub(super) tested: usize,
    /// The lines of functions. The one with the largest change of a run's time is first.
    pub(super) lines: Vec<Line>,
}

pub(super) fn compare(before: &[Run], after: &[Run]) -> Comparison {
    let mut lines = Vec::new();
    let mut tests: Vec<(usize, Pair)> = Vec::new();
    let names = names(before, after);
    let shares = |runs: &[Run]| -> Vec<f64> {
        let sum = |run: &Run| {
            run.values()
                .map(|figures| figures.own as f64)
                .sum::<f64>()
                .max(1.0)
        };
        runs.iter().map(sum).collect()
    };
    let (all_before, all_after) = (shares(before), shares(after));
    for (old, new) in names {
        let figures_of = |runs: &[Run], name: &Option<String>| -> Vec<Option<Figures>> {
            let name = name.as_deref().unwrap_or_default();
            runs.iter().map(|run| run.get(name).copied()).collect()
        };
        let (old_runs, new_runs) = (figures_of(before, &old), figures_of(after, &new));
        let (was, is) = (side(&old_runs), side(&new_runs));
        let verdict = match (&was, &is) {
            (None, _) => Verdict::New,
            (_, None) => Verdict::Gone,
            _ => Verdict::NotTested,
        };
        let change = was.zip(is).filter(|(was, _)| was.own > 0.0);
        let change = change.map(|(was, is)| is.own / was.own - 1.0);
        let matters =
            share(&old_runs, &all_before) >= MIN_SHARE || share(&new_runs, &all_after) >= MIN_SHARE;
        if matters
            && let (Some(before), Some(after)) = (logs(&old_runs), logs(&new_runs))
            && before.len() > 1
            && after.len() > 1
        {
            tests.push((lines.len(), Pair { before, after }));
        }
        let name = new.clone().or_else(|| old.clone()).unwrap_or_default();
        lines.push(Line {
            was: old.filter(|old| *old != name && new.is_some()),
            name,
            before: was,
            after: is,
            change,
            verdict,
            chance: None,
        });
    }
    let pairs: Vec<Pair> = tests.iter().map(|(_, pair)| pair.clone()).collect();
    for ((at, _), chance) in tests.iter().zip(moderated::adjusted(&pairs, &pairs)) {
        let line = &mut lines[*at];
        line.chance = Some(chance);
        line.verdict = match line.change {
            Some(change) if chance <= LEVEL && change > 0.0 => Verdict::Slower,
            Some(_) if chance <= LEVEL => Verdict::Faster,
            _ => Verdict::NotShown,
        };
    }
    lines.sort_by(|one, other| {
        let weights = other.weight().total_cmp(&one.weight());
        weights.then_with(|| one.name.cmp(&other.name))
    });
    Comparison {
        scope: Scope::Records,
        runs: (before.len(), after.len()),
        tested: tests.len(),
        lines,
    }
}

/// The part of the self time of all functions, at most.
fn share(runs: &[Option<Figures>], all: &[f64]) -> f64 {
    let shares = runs.iter().zip(all);
    shares
        .filter_map(|(figures, all)| Some(figures.as_ref()?.own as f64 / all))
        .fold(0.0, f64::max)
}

/// The logarithm of the self time of a call in each run. `None`: in some run the function has no self time.
fn logs(runs: &[Option<Figures>]) -> Option<Vec<f64>> {
    let log = |figures: &Option<Figures>| {
        let figures = figures.filter(|figures| figures.own > 0)?;
        Some((figures.own as f64 / figures.calls as f64).ln())
    };
    runs.iter().map(log).collect()
}

/// The means over the runs that called the function. `None`: no run did.
fn side(runs: &[Option<Figures>]) -> Option<Side> {
    let called: Vec<&Figures> = runs.iter().flatten().collect();
    if called.is_empty() {
        return None;
    }
    let mean = |of: &dyn Fn(&Figures) -> f64| {
        called.iter().map(|figures| of(figures)).sum::<f64>() / called.len() as f64
    };
    let known = |of: &dyn Fn(&Figures) -> Option<u64>| {
        let all: Option<Vec<u64>> = called.iter().map(|figures| of(figures)).collect();
        all.map(|all| all.iter().map(|&ns| ns as f64).sum::<f64>() / all.len() as f64)
    };
    Some(Side {
        calls: called
            .iter()
            .map(|figures| figures.calls as f64)
            .sum::<f64>()
            / runs.len() as f64,
        own: mean(&|figures| figures.own as f64 / figures.calls as f64),
        total: mean(&|figures| figures.total as f64 / figures.calls as f64),
        p50: known(&|figures| figures.p50),
        p99: known(&|figures| figures.p99),
    })
}

/// The functions of both sides by their names before and after. Functions with the same name are the same. Among the
/// others, a function before and one after are the same if they have the same last names, such as `Type::method`, and
/// no other function has those.
fn names(before: &[Run], after: &[Run]) -> Vec<(Option<String>, Option<String>)> {
    let all = |runs: &[Run]| -> BTreeMap<String, ()> {
        let names = runs.iter().flat_map(|run| run.keys());
        names.map(|name| (name.clone(), ())).collect()
    };
    let (mut old, mut new) = (all(before), all(after));
    let both: Vec<String> = old
        .keys()
        .filter(|name| new.contains_key(*name))
        .cloned()
        .collect();
    for name in &both {
        old.remove(name);
        new.remove(name);
    }
    let mut found: Vec<_> = both
        .into_iter()
        .map(|name| (Some(name.clone()), Some(name)))
        .collect();
    let ends = |names: &BTreeMap<String, ()>| -> HashMap<String, Vec<String>> {
        let mut ends: HashMap<String, Vec<String>> = HashMap::new();
        for name in names.keys() {
            ends.entry(last_names(name).to_owned())
                .or_default()
                .push(name.clone());
        }
        ends
    };
    let (old_ends, new_ends) = (ends(&old), ends(&new));
    for (end, olds) in &old_ends {
        if let ([was], Some([is])) = (olds.as_slice(), new_ends.get(end).map(Vec::as_slice)) {
            old.remove(was);
            new.remove(is);
            found.push((Some(was.clone()), Some(is.clone())));
        }
    }
    found.extend(old.into_keys().map(|name| (Some(name), None)));
    found.extend(new.into_keys().map(|name| (None, Some(name))));
    found.sort();
    found
}

/// The end of a name, which stays the same when a function moves to another module: the function, with its type if it
/// has one.
fn last_names(name: &str) -> &str {
    // `<app::Type as app::Trait>::method` is known by all of it but the module.
    if name.starts_with('<') {
        return name.find("::").map_or(name, |at| &name[at..]);
    }
    let mut ends = name.rmatch_indices("::").map(|(at, _)| at);
    let Some(last) = ends.next() else {
        return name;
    };
    let owner = ends.next().map_or(0, |at| at + 2);
    let is_type = name[owner..last].starts_with(|first: char| first.is_uppercase());
    match is_type {
        true => &name[owner..],
        false => &name[last + 2..],
    }
}
