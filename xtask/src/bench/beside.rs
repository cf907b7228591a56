//! Another revision's bench program, built in a copy of its own and measured in the same rounds: whether
//! the recorder became slower is seen side by side. Must never compare with figures of another run.

use std::fmt::Write;
use std::fs;

use super::code::{self, Twins};
use super::figures::{Cell, Spread, Table};
use super::{BODIES, Program, VARIANTS};
use crate::Result;
use crate::process::{cargo, command, output, root, run, work_folder};

/// The other revision, and what was measured of it.
pub(crate) struct Beside {
    revision: String,
    pub(crate) program: Program,
    pub(crate) table: Table,
}

impl Beside {
    /// Builds it; `revision` is whatever git takes for one.
    pub(crate) fn build(revision: &str) -> Result<Beside> {
        let folder = work_folder("beside")?;
        let copy = folder.join("source");
        if copy.exists() {
            fs::remove_dir_all(&copy)
                .map_err(|error| format!("cannot remove {}: {error}", copy.display()))?;
        }
        let revision = format!("{revision}^{{commit}}");
        let (revision, _) = output(command("git").args(["rev-parse", "--short", &revision]))?;
        let revision = revision.trim().to_owned();
        let clone = ["clone", "--quiet", "--shared", "--no-checkout"];
        run(command("git").args(clone).arg(root()).arg(&copy))?;
        let checkout = ["checkout", "--quiet", "--detach", &revision];
        run(command("git").args(checkout).current_dir(&copy))?;
        let mut build = cargo("build --release --package fdr-bench --target-dir");
        run(build.arg(folder.join("target")).current_dir(&copy))?;
        Ok(Beside {
            revision,
            program: Program {
                path: folder.join("target/release/fdr-bench"),
                folder: work_folder("beside/traces")?,
            },
            table: Table::new(BODIES.len(), VARIANTS.len()),
        })
    }

    /// What the calls of ours cost more, round by round; counts that do not vary.
    pub(crate) fn text(&self, ours: &Table, code: &Result<Twins>) -> String {
        let there = &self.revision;
        let mut text = format!(
            "\nbeside {there}, in the same rounds; ns per call over the untraced twin\n\n\
             {:<16} {:<13} {:>9} {there:>9} {:>7}  (least .. most)\n",
            "body", "variant", "now", "more"
        );
        for (body, (label, ..)) in BODIES.iter().enumerate() {
            let mut label = *label;
            for (variant, cell) in ours.row(body).iter().enumerate() {
                let name = VARIANTS[variant].label;
                let _ = writeln!(
                    text,
                    "{label:<16} {name:<13} {}",
                    compared(cell, &self.table.row(body)[variant])
                );
                label = "";
            }
        }
        text + "\n"
            + &counts(
                "code bytes of a leaf",
                code,
                &code::leaf_bytes(&self.program.path),
            )
    }
}

/// Both medians, and the spread of the rounds' differences.
fn compared(here: &Cell, there: &Cell) -> String {
    for cell in [here, there] {
        if let Some(failure) = &cell.failure {
            // What the bench program itself said, where it did: it is under the command that was run.
            let mut lines = failure.lines();
            let first = lines.clone().next().unwrap_or_default();
            let said = lines.find_map(|line| line.strip_prefix("fdr-bench: "));
            return format!("not measured: {}", said.unwrap_or(first));
        }
    }
    let pairs = here.samples.iter().zip(&there.samples);
    let more = Spread::of(pairs.map(|(here, there)| here.over - there.over));
    match (here.over(), there.over(), more) {
        (Some(here), Some(there), Some(Spread { median, min, max })) => format!(
            "{:>9.2} {:>9.2} {median:>+7.2}  ({min:+.2} .. {max:+.2})",
            here.median, there.median
        ),
        _ => "not measured".to_owned(),
    }
}

fn counts(what: &str, here: &Result<Twins>, there: &Result<Twins>) -> String {
    match (here, there) {
        (Ok(here), Ok(there)) => format!(
            "{what}, traced less untraced: {:.0} now, {:.0} there\n",
            here.more(),
            there.more()
        ),
        (Err(error), _) | (_, Err(error)) => format!("{what}: not measured: {error}\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::figures::Sample;

    fn cell(overs: &[f64]) -> Cell {
        let sample = |&over: &f64| Sample {
            untraced: 1.0,
            over,
            scaling: None,
        };
        Cell {
            samples: overs.iter().map(sample).collect(),
            failure: None,
        }
    }

    #[test]
    fn rounds_are_compared_with_their_own() {
        // A machine that becomes slower meanwhile: medians alone would not say so.
        let (here, there) = (cell(&[40.0, 50.0, 61.0]), cell(&[38.0, 49.0, 60.0]));
        let text = compared(&here, &there);
        let words: Vec<&str> = text.split_whitespace().collect();
        assert_eq!(words, ["50.00", "49.00", "+1.00", "(+1.00", "..", "+2.00)"]);
        let mut failed = cell(&[]);
        failed.failure = Some("no trace".to_owned());
        assert_eq!(compared(&here, &failed), "not measured: no trace");
        failed.failure =
            Some("`fdr-bench measure`: 2\nfdr-bench: unknown variant\nmore".to_owned());
        assert_eq!(compared(&here, &failed), "not measured: unknown variant");
    }
}
