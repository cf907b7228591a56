//! The bench's results as text for people and as JSON. Every number for people has its unit, and what
//! was not measured says why.

use std::fmt::Write;

use super::code::Twins;
use super::figures::{Cell, Scalings, Spread, Table};
use super::{BODIES, VARIANTS};
use crate::Result;

/// Everything that a run found.
pub(crate) struct Findings {
    pub(crate) machine: String,
    pub(crate) rounds: usize,
    pub(crate) table: Table,
    pub(crate) code: Result<Twins>,
    pub(crate) instructions: Result<Twins>,
}

impl Findings {
    /// Median of the variant over the median of its floor, if both were measured.
    pub(crate) fn ratio(&self, body: usize, variant: usize) -> Option<f64> {
        let row = self.table.row(body);
        let floor = VARIANTS
            .iter()
            .position(|other| Some(other.label) == VARIANTS[variant].floor)?;
        Some(row[variant].over()?.median / row[floor].over()?.median)
    }

    /// A table and three remarks.
    pub(crate) fn text(&self) -> String {
        let mut text = format!(
            "{}; {} rounds, each process pinned; ns of the calling thread's CPU per call\n\n",
            self.machine, self.rounds
        );
        let _ = writeln!(
            text,
            "{:<16} {:<13} {:>9}  {:>19} {:>8} {:>8} {:>6}",
            "body", "variant", "ns/call", "(least .. most)", "x floor", "2 : 2x1", "wall"
        );
        for (body, (label, ..)) in BODIES.iter().enumerate() {
            let (untraced, scaling) = self.table.untraced(body);
            text += &row(label, "untraced", untraced, None, scaling);
            for (variant, cell) in self.table.row(body).iter().enumerate() {
                text += &self.cell_row(body, variant, cell);
            }
        }
        let _ = write!(
            text,
            "\nuntraced: a whole call; others: what they add to it. floor: two clock reads and two\n\
             stores, nothing else. 2 : 2x1: calls of two threads in a second of CPU, over twice\n\
             those of one; wall: in a second on the wall, which other programs disturb.\n\n"
        );
        text += &remark("code bytes of a leaf", &self.code);
        text += &remark("instructions of a call that is off", &self.instructions);
        text
    }

    fn cell_row(&self, body: usize, variant: usize, cell: &Cell) -> String {
        let label = VARIANTS[variant].label;
        if let Some(failure) = &cell.failure {
            return format!("{:<16} {label:<13} not measured: {failure}\n", "");
        }
        row(
            "",
            label,
            cell.over(),
            self.ratio(body, variant),
            cell.scaling(),
        )
    }
}

fn row(
    body: &str,
    variant: &str,
    ns: Option<Spread>,
    ratio: Option<f64>,
    scaling: Option<Scalings>,
) -> String {
    let (median, spread) = match ns {
        Some(Spread { median, min, max }) => {
            (format!("{median:.2}"), format!("({min:.2} .. {max:.2})"))
        }
        None => ("-".to_owned(), String::new()),
    };
    let ratio = ratio.map_or_else(String::new, |ratio| format!("{ratio:.3}"));
    let scaling = scaling.map_or_else(String::new, |Scalings { cpu, wall }| {
        format!("{:>8.3} {:>6.3}", cpu.median, wall.median)
    });
    let line = format!("{body:<16} {variant:<13} {median:>9}  {spread:>19} {ratio:>8} {scaling}");
    format!("{}\n", line.trim_end())
}

fn remark(what: &str, twins: &Result<Twins>) -> String {
    match twins {
        Ok(twins) => format!(
            "{what}: untraced {:.0}, traced {:.0}: {:.0} more\n",
            twins.untraced,
            twins.traced,
            twins.more()
        ),
        Err(error) => format!("{what}: not measured: {error}\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::figures::{Sample, Scaling};

    fn findings() -> Findings {
        let mut table = Table::new(BODIES.len(), VARIANTS.len());
        for (variant, over) in [40.0, 42.0, 20.0, 21.0].into_iter().enumerate() {
            let scaling = Some([
                Scaling {
                    cpu: 1.0,
                    wall: 0.9,
                },
                Scaling {
                    cpu: 0.98,
                    wall: 0.8,
                },
            ]);
            table.cell(0, variant).samples.push(Sample {
                untraced: 1.5,
                over,
                scaling,
            });
        }
        table.cell(0, 5).failure = Some("no \"trace\"".to_owned());
        Findings {
            machine: "a machine".to_owned(),
            rounds: 7,
            table,
            code: Ok(Twins {
                untraced: 30.0,
                traced: 83.0,
            }),
            instructions: Err("valgrind is not installed".to_owned()),
        }
    }

    #[test]
    fn the_table_has_ratios_and_reasons() {
        let text = findings().text();
        let line = |what: &str| {
            text.lines()
                .find(|line| line.contains(what))
                .unwrap_or_default()
        };
        let words = |what: &str| line(what).split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(
            words("leaf   "),
            "leaf untraced 1.50 (1.50 .. 1.50) 1.000 0.900"
        );
        assert_eq!(
            words("on rdtscp"),
            "on rdtscp 42.00 (42.00 .. 42.00) 1.050 0.980 0.800"
        );
        assert_eq!(words("off"), "off not measured: no \"trace\"");
        assert!(
            line("code bytes").ends_with("untraced 30, traced 83: 53 more"),
            "{text}"
        );
        assert!(
            line("instructions").ends_with("not measured: valgrind is not installed"),
            "{text}"
        );
    }
}
