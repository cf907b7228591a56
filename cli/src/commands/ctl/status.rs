//! What a process says of its recording, in words and as JSON.

use std::collections::BTreeMap;
use std::io::Write;

use serde::Serialize;

use crate::report::json;
use crate::ui;

/// The answer to the command `status`.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Status {
    process: u32,
    program: String,
    recording: bool,
    functions: u64,
    functions_on: u64,
    filter: String,
    keep_ns: u64,
    /// The highest threshold of a thread.
    threshold_ns: u64,
    /// The number of functions whose calls are only counted.
    counted_functions: u64,
    /// The number of functions that are only looked at.
    looked_at_functions: u64,
    /// What recording takes, and what it may take, in millionths of the CPU time; `null` if there is no budget.
    cost: Option<u64>,
    budget: Option<u64>,
    threads: u64,
    threads_ended: u64,
    recorded: u64,
    readable: u64,
    overwritten: u64,
    dropped: u64,
    summarised: u64,
    triggers: String,
    mode: String,
    format: String,
    next_dump: String,
}

impl Status {
    /// Reads lines of a word, a space, and a value.
    pub(super) fn parse(process: u32, text: &str) -> Status {
        let lines = text.lines().filter_map(|line| line.split_once(' '));
        let values: BTreeMap<&str, &str> = lines.collect();
        let text = |word: &str| values.get(word).copied().unwrap_or_default().to_owned();
        let known = |word: &str| text(word).parse().ok();
        let number = |word: &str| known(word).unwrap_or(0);
        Status {
            process,
            program: text("program"),
            recording: text("recording") == "on",
            functions: number("functions"),
            functions_on: number("functions_on"),
            filter: text("filter"),
            keep_ns: number("keep_ns"),
            threshold_ns: number("threshold_ns"),
            counted_functions: number("counted_functions"),
            looked_at_functions: number("looked_at_functions"),
            cost: known("cost"),
            budget: known("budget"),
            threads: number("threads"),
            threads_ended: number("threads_ended"),
            recorded: number("recorded"),
            readable: number("readable"),
            overwritten: number("overwritten"),
            dropped: number("dropped"),
            summarised: number("summarised"),
            triggers: text("triggers"),
            mode: text("mode"),
            format: text("format"),
            next_dump: text("next_dump"),
        }
    }

    /// Prints it.
    ///
    /// # Errors
    /// Where it can't be written.
    pub(super) fn print(&self, out: &mut dyn Write, as_json: bool) -> anyhow::Result<()> {
        if as_json {
            return json::print(out, self);
        }
        let mut fact = |name: &str, text: &str| {
            let text = ui::clean(text);
            writeln!(out, "{}", ui::paragraph(&format!("{name:<10} {text}"), 11))
        };
        fact("process", &format!("{} ({})", self.process, self.program))?;
        let switch = if self.recording { "on" } else { "off" };
        let functions = ui::count(self.functions);
        let on = ui::count(self.functions_on);
        fact(
            "recording",
            &format!("{switch}: {on} of {functions} functions and events"),
        )?;
        fact("filter", &self.filter)?;
        fact("keep", &self.keep())?;
        if let (Some(cost), Some(budget)) = (self.cost, self.budget) {
            let percent = |millionths: u64| format!("{:.1} %", millionths as f64 / 1e4);
            let (cost, budget) = (percent(cost), percent(budget));
            fact("cost", &format!("{cost} of the CPU time, budget {budget}"))?;
        }
        if self.counted_functions > 0 {
            let functions = ui::things(self.counted_functions, "function");
            fact("counted", &format!("calls of {functions} are only counted"))?;
        }
        if self.looked_at_functions > 0 {
            let functions = ui::things(self.looked_at_functions, "function");
            let fate = "looked at in slices of time, and off between them";
            fact("looked at", &format!("{functions}: {fate}"))?;
        }
        let ended = ui::count(self.threads_ended);
        let threads = ui::things(self.threads, "thread");
        fact(
            "threads",
            &format!("{threads} with a ring; {ended} of them ended"),
        )?;
        let counts = [
            (self.recorded, "recorded"),
            (self.readable, "readable"),
            (self.overwritten, "overwritten"),
            (self.dropped, "dropped"),
            (self.summarised, "summarised"),
        ];
        let counts = counts.map(|(count, what)| format!("{} {what}", ui::count(count)));
        fact("records", &counts.join(", "))?;
        fact("triggers", &self.triggers)?;
        fact("mode", &self.mode)?;
        fact(
            "next dump",
            &format!("{} ({})", self.next_dump, self.format),
        )?;
        Ok(())
    }

    fn keep(&self) -> String {
        match (self.keep_ns, self.threshold_ns) {
            (0, 0) => "every call".to_owned(),
            (0, _) => "every call, from each thread's next chunk on".to_owned(),
            (keep, 0) => format!("{}; every call so far", ui::duration(keep)),
            (keep, threshold) => format!(
                "{}; calls below {} leave no records",
                ui::duration(keep),
                ui::duration(threshold)
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_other_versions_do_no_harm() {
        assert_eq!(
            Status::parse(0, "\nnoise\nthreads many\nmore of it"),
            Status::default()
        );
        let status = Status::parse(7, "threads 2\nfilter a b,*\nrecording on\n");
        assert_eq!((status.process, status.threads), (7, 2));
        assert_eq!((&*status.filter, status.recording), ("a b,*", true));
    }
}
