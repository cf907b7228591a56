//! The call tree as a list: each path of calls below its caller, the longest first, with its total and self time.

use std::cmp::Reverse;
use std::io::Write;

use fdr_formats::TraceInfo;
use serde_json::{Value, json};

use super::folding::Row;
use crate::columns::Columns;
use crate::report::json;
use crate::{trace, ui};

/// Parts of the tree that are left out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Paths below this part of all time.
    pub(crate) least: f64,
    /// All but so many paths, those with the most time.
    pub(crate) most: Option<usize>,
}

/// A path that is shown.
#[derive(Debug, PartialEq)]
struct Line {
    /// The place of its caller in the list.
    caller: Option<usize>,
    depth: usize,
    name: String,
    calls: u64,
    /// ns.
    total: u64,
    own: u64,
}

/// The paths that are shown, each behind its caller.
#[derive(Debug)]
pub(crate) struct Outline {
    lines: Vec<Line>,
    /// The time of all paths, ns.
    all: u64,
    limits: Limits,
    /// Paths that are left out, and their self time.
    hidden: (u64, u64),
}

impl Outline {
    /// Of the paths of a trace, callers first.
    pub(crate) fn new(mut rows: Vec<Row>, limits: Limits) -> Outline {
        let mut totals: Vec<u64> = vec![0; rows.len()];
        for at in (1..rows.len()).rev() {
            let (caller, own, calls) = (rows[at].caller, rows[at].own, rows[at].calls);
            // What was open at the end is a call of its function.
            if rows[at].is_open {
                rows[caller].own = rows[caller].own.saturating_add(own);
                rows[caller].calls = rows[caller].calls.saturating_add(calls);
                continue;
            }
            totals[at] = totals[at].saturating_add(own);
            totals[caller] = totals[caller].saturating_add(totals[at]);
        }
        let all = totals.first().copied().unwrap_or(0);
        let paths = (1..rows.len()).filter(|&at| !rows[at].is_open);
        // An untimed function has calls alone; what `--filter` leaves out has neither.
        let mut paths: Vec<usize> = paths
            .filter(|&at| totals[at] > 0 || rows[at].calls > 0)
            .collect();
        // A caller has at least the time of what it calls, and a smaller number. So it stays if one of them stays.
        paths.sort_by_key(|&at| (Reverse(totals[at]), at));
        let least = (limits.least * all as f64).ceil() as u64;
        let above = paths.partition_point(|&at| totals[at] >= least);
        let shown = above.min(limits.most.unwrap_or(usize::MAX));
        let own = paths[shown..].iter().map(|&at| rows[at].own);
        let hidden = (own.len() as u64, own.fold(0, u64::saturating_add));
        let mut below: Vec<Vec<usize>> = vec![Vec::new(); rows.len()];
        for &at in &paths[..shown] {
            below[rows[at].caller].push(at);
        }
        for called in &mut below {
            // The last one is written first.
            called.sort_by(|&left, &right| {
                let by_name = rows[right].name.cmp(&rows[left].name);
                totals[left].cmp(&totals[right]).then(by_name)
            });
        }
        let mut lines: Vec<Line> = Vec::with_capacity(shown);
        let top = below.first_mut().map(std::mem::take).unwrap_or_default();
        let mut waiting: Vec<(Option<usize>, usize)> = top.iter().map(|&at| (None, at)).collect();
        while let Some((caller, at)) = waiting.pop() {
            let place = lines.len();
            lines.push(Line {
                caller,
                depth: caller.map_or(0, |caller| lines[caller].depth + 1),
                name: std::mem::take(&mut rows[at].name),
                calls: rows[at].calls,
                total: totals[at],
                own: rows[at].own,
            });
            waiting.extend(below[at].iter().map(|&called| (Some(place), called)));
        }
        Outline {
            lines,
            all,
            limits,
            hidden,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// The part of all time.
    fn share(&self, ns: u64) -> f64 {
        ns as f64 / self.all.max(1) as f64
    }

    /// Writes it for people.
    pub(crate) fn write(&self, out: &mut dyn Write, info: &TraceInfo) -> anyhow::Result<()> {
        let mut facts = Vec::from_iter(trace::program(info));
        facts.push("time by path of calls".to_owned());
        facts.push(format!("{} in all", ui::duration(self.all)));
        writeln!(out, "{}\n", facts.join(" · "))?;
        let head = ["total", "self", "total %", "calls", "function"];
        let columns = Columns {
            spare: &["calls", "self"],
            ..Columns::new(&head, 4)
        };
        let row = |line: &Line| {
            let calls = match line.calls {
                // A thread.
                0 => "-".to_owned(),
                calls => ui::count(calls),
            };
            let name = ui::clean(&line.name);
            vec![
                ui::duration(line.total),
                ui::duration(line.own),
                format!("{:.1} %", 100.0 * self.share(line.total)),
                calls,
                format!("{:indent$}{name}", "", indent = 2 * line.depth),
            ]
        };
        columns.write_with_note(out, || self.lines.iter().map(row))?;
        let (paths, own) = self.hidden;
        if paths > 0 {
            let note = format!(
                "left out: {} with {} of self time (--min {} %{})",
                ui::things(paths, "path"),
                ui::duration(own),
                100.0 * self.limits.least,
                match self.limits.most {
                    Some(most) => format!(", --limit {most}"),
                    None => String::new(),
                }
            );
            writeln!(out, "{}", ui::paragraph(&note, 2))?;
        }
        Ok(())
    }

    /// Writes it as JSON: see docs/json.md.
    pub(crate) fn write_json(
        &self,
        out: &mut dyn Write,
        file: &str,
        info: &TraceInfo,
    ) -> anyhow::Result<()> {
        let path = |line: &Line| {
            json!({
                "name": line.name,
                "caller": line.caller,
                "depth": line.depth,
                "calls": line.calls,
                "total_ns": line.total,
                "self_ns": line.own,
                "share": self.share(line.total),
            })
        };
        let document = json!({
            "all_ns": self.all,
            "min_share": self.limits.least,
            "paths": self.lines.iter().map(path).collect::<Value>(),
            "paths_not_shown": self.hidden.0,
            "not_shown_ns": self.hidden.1,
        });
        json::print_of(out, file, info, document)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A path below the one at that place, with its self time and its calls.
    fn row(caller: usize, name: &str, own: u64, calls: u64) -> Row {
        Row {
            caller,
            name: name.to_owned(),
            is_function: true,
            is_open: false,
            own,
            calls,
        }
    }

    fn rows() -> Vec<Row> {
        let mut rows = vec![
            row(0, "", 0, 0),
            row(0, "a", 100, 1),
            row(1, "b", 300, 3),
            row(1, "c", 400, 2),
            row(0, "d", 190, 1),
            row(3, "", 6, 1),
            row(3, "e", 4, 9),
        ];
        rows[5].is_open = true;
        rows
    }

    fn shown(limits: Limits) -> (Vec<String>, (u64, u64)) {
        let outline = Outline::new(rows(), limits);
        assert_eq!(outline.all, 1000);
        let line = |line: &Line| {
            let Line { depth, name, .. } = line;
            format!("{depth} {name} {} {} {}", line.total, line.own, line.calls)
        };
        (outline.lines.iter().map(line).collect(), outline.hidden)
    }

    #[test]
    fn paths_stand_below_callers_longest_first() {
        let all = shown(Limits {
            least: 0.0,
            most: None,
        });
        let lines = [
            "0 a 810 100 1",
            "1 c 410 406 3",
            "2 e 4 4 9",
            "1 b 300 300 3",
        ];
        let lines = lines.into_iter().chain(["0 d 190 190 1"]);
        assert_eq!(all, (lines.map(str::to_owned).collect(), (0, 0)));
    }

    #[test]
    fn small_paths_and_those_beyond_the_limit_are_counted() {
        let (lines, hidden) = shown(Limits {
            least: 0.2,
            most: None,
        });
        assert_eq!((lines.len(), hidden), (3, (2, 194)));
        let (lines, hidden) = shown(Limits {
            least: 0.0,
            most: Some(2),
        });
        assert_eq!(lines, ["0 a 810 100 1", "1 c 410 406 3"]);
        assert_eq!(hidden, (3, 494));
    }
}
