//! The format of callgrind's output, as KCachegrind, QCachegrind and `callgrind_annotate` read it: the ns of each
//! function by itself, and of each caller how often it called whom, and the ns in those calls.

use std::collections::BTreeMap;
use std::io::Write;

use super::facts::Facts;
use super::paths::Folded;
use super::{Export, Holds, Make, Out, target};
use crate::commands::flame::tree::{Label, Node};
use crate::ui;

/// The format.
pub(super) const EXPORT: Export = Export {
    target: target("callgrind", "callgrind", "callgrind"),
    holds: Holds {
        clipped: false,
        places: true,
        ..super::paths::HOLDS
    },
    make: Make::Paths(write),
};

/// What is known of a function.
#[derive(Default)]
struct Costs {
    own: u64,
    /// Calls of each function that it called, and the ticks in them.
    called: BTreeMap<Label, (u64, u64)>,
}

fn write(out: &mut Out, facts: &Facts, folded: &Folded) -> anyhow::Result<()> {
    let costs = costs(folded);
    writeln!(
        out,
        "# callgrind format\nversion: 1\ncreator: fdr\ncmd: {}\npositions: line\nevents: ns",
        ui::clean(&facts.title())
    )?;
    let sum: u64 = costs.values().map(|costs| facts.length(costs.own)).sum();
    writeln!(out, "summary: {sum}")?;
    let mut numbers: BTreeMap<Label, usize> = BTreeMap::new();
    for (&label, costs) in &costs {
        let line = function(out, facts, label, ["fl", "fn"], &mut numbers, true)?;
        writeln!(out, "{line} {}", facts.length(costs.own))?;
        for (&callee, &(calls, ticks)) in &costs.called {
            let there = function(out, facts, callee, ["cfi", "cfn"], &mut numbers, false)?;
            writeln!(out, "calls={calls} {there}\n{line} {}", facts.length(ticks))?;
        }
    }
    writeln!(out, "\ntotals: {sum}")?;
    Ok(())
}

/// Sums by function.
fn costs(folded: &Folded) -> BTreeMap<Label, Costs> {
    let nodes: Vec<&Node> = folded.tree.nodes().map(|(_, node)| node).collect();
    // Callers come before those that they call.
    let mut all: Vec<u64> = nodes.iter().map(|node| node.own).collect();
    for (at, node) in nodes.iter().enumerate().skip(1).rev() {
        let inside = all[at];
        let caller = &mut all[node.caller.index()];
        *caller = caller.saturating_add(inside);
    }
    let mut costs: BTreeMap<Label, Costs> = BTreeMap::new();
    for (at, node) in nodes.iter().enumerate().skip(1) {
        let caller = nodes[node.caller.index()];
        if node.label == Label::Open {
            // The function itself, in calls that had not ended.
            costs.entry(caller.label).or_default().own += node.own;
            let around = nodes[caller.caller.index()].label;
            if around != Label::Root {
                let around = costs.entry(around).or_default();
                around.called.entry(caller.label).or_default().0 += node.calls;
            }
            continue;
        }
        costs.entry(node.label).or_default().own += node.own;
        if caller.label != Label::Root {
            let around = costs.entry(caller.label).or_default();
            let called = around.called.entry(node.label).or_default();
            called.0 += node.calls;
            called.1 = called.1.saturating_add(all[at]);
        }
    }
    costs
}

/// Names a function, and gives its line. The first time its name comes with its number.
fn function(
    out: &mut Out,
    facts: &Facts,
    label: Label,
    [file_key, name_key]: [&str; 2],
    numbers: &mut BTreeMap<Label, usize>,
    begins: bool,
) -> anyhow::Result<u32> {
    let (file, line) = match label {
        Label::Function(id) => facts.place(id).unwrap_or(("???", 0)),
        _ => ("???", 0),
    };
    if begins {
        writeln!(out)?;
    }
    writeln!(out, "{file_key}={}", ui::clean(file).trim())?;
    let next = numbers.len() + 1;
    let number = *numbers.entry(label).or_insert(next);
    match number == next {
        true => {
            let name = super::paths::name(facts, label);
            let name = ui::clean(&name).trim().to_owned();
            let name = if name.is_empty() { "?" } else { &name };
            writeln!(out, "{name_key}=({number}) {name}")?;
        }
        false => writeln!(out, "{name_key}=({number})")?,
    }
    Ok(line)
}
