//! `cargo xtask bench`: what a traced call costs, beside the floor of two bare clock reads, and beside what
//! another revision's costs in the same rounds. Figures are compared within one run only.

use std::collections::HashMap;
use std::path::Path;

use xshell::cmd;
use xtask::process::{on_path, output, shell, work_folder};

use crate::Result;
use crate::figures::{Cell, MIN_ROUNDS, Spread, Words, in_rounds};
use crate::program::{Program, machine, remove};
use crate::table::{NONE, Table, last_line, middle, number, spread_cell};

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Seven rounds
    #[arg(long)]
    quick: bool,
    /// Seven at least
    #[arg(long, value_name = "N", default_value_t = 15)]
    rounds: usize,
    /// What another revision's calls cost, in the same rounds
    #[arg(long, value_name = "REVISION")]
    beside: Option<String>,
}

/// What is measured: label, body, threads.
pub(crate) const BODIES: [(&str, &str, &str); 4] = [
    ("leaf", "leaf", "1"),
    ("fib", "fib", "1"),
    ("50 ns chain", "chain", "1"),
    ("leaf, 2 threads", "leaf", "2"),
];

/// One way to run a body: its label, the argument of the bench program, `FDR_CLOCK` if it records, and the index of the
/// floor by which its figure is divided.
pub(crate) const VARIANTS: [(&str, &str, Option<&str>, Option<usize>); 7] = [
    ("floor rdtscp", "floor-rdtscp", None, None),
    ("on rdtscp", "traced", Some("rdtscp"), Some(0)),
    ("floor rdtsc", "floor-rdtsc", None, None),
    ("on rdtsc", "traced", Some("rdtsc"), Some(2)),
    ("untimed", "untimed", Some("rdtsc"), Some(2)),
    ("off", "traced", None, None),
    ("untimed, off", "untimed", None, None),
];

const LEGEND: &str = "
untraced: a whole call; others: what they add to it. floor: two clock reads and two stores, nothing else.
2 : 2x1: calls of two threads in a second of CPU, over twice those of one; wall: in a second on the wall, which
other programs disturb.
";

/// What was measured of one revision: a cell for each body and variant.
struct Measured {
    program: Program,
    cells: Vec<Cell<Words>>,
}

impl Measured {
    fn new(program: Program) -> Measured {
        let cells = vec![Cell::default(); BODIES.len() * VARIANTS.len()];
        Measured { program, cells }
    }

    fn measure(&mut self, at: usize, steps: &str) {
        let (_, body, threads) = BODIES[at / VARIANTS.len()];
        let (_, word, clock, _) = VARIANTS[at % VARIANTS.len()];
        let words = ["measure", body, word, threads, steps];
        self.cells[at].add(|| self.program.ask(&words, clock));
    }

    fn over(&self, at: usize) -> Option<Spread> {
        self.cells[at].spread(over)
    }

    /// Median over the median of its floor, if both were measured.
    fn ratio(&self, at: usize) -> Option<f64> {
        let variant = at % VARIANTS.len();
        let floor = at - variant + VARIANTS[variant].3?;
        Some(self.over(at)?.median / self.over(floor)?.median)
    }
}

/// ns per call over the untraced twin.
pub(crate) fn over(words: &Words) -> Option<f64> {
    words.over("measured", "untraced")
}

/// Measures, and prints the table.
///
/// # Errors
/// If the bench program can't be built or does not run at all. A configuration that can't be measured is reported in
/// the table.
pub(crate) fn run(options: &Options) -> Result<()> {
    let rounds = match options.quick {
        true => MIN_ROUNDS,
        false => options.rounds.max(MIN_ROUNDS),
    };
    let mut here = Measured::new(Program::build()?);
    let revision = options.beside.as_deref().map(Program::of_revision);
    let mut there = revision
        .transpose()?
        .map(|(name, program)| (name, Measured::new(program)));
    let steps = here
        .program
        .ask(&["steps"], None)?
        .get("steps")?
        .to_string();
    in_rounds(rounds, here.cells.len(), |at| {
        here.measure(at, &steps);
        if let Some((_, there)) = &mut there {
            there.measure(at, &steps);
        }
    });
    let machine = machine();
    println!(
        "{machine}; {rounds} rounds, each process pinned; ns of the calling thread's CPU per call\n"
    );
    let beside = there.as_ref().map(|(name, there)| (name.as_str(), there));
    print!("{}{LEGEND}", text(&here, beside));
    let programs = [Some(("", &here)), beside];
    for (name, measured) in programs.into_iter().flatten() {
        let name = if name.is_empty() {
            String::new()
        } else {
            format!("{name}: ")
        };
        let path = &measured.program.path;
        println!("\n{name}code bytes of a leaf: {}", twins(leaf_bytes(path)));
        let instructions = twins(leaf_instructions(path));
        println!("{name}instructions of a call that is off: {instructions}");
    }
    Ok(())
}

fn text(here: &Measured, there: Option<(&str, &Measured)>) -> String {
    let mut heads = "body | variant | ns/call (least..most) | x floor | 2 : 2x1 | wall".to_owned();
    if let Some((name, _)) = there {
        heads += &format!(" | {name} | more here");
    }
    let mut table = Table::new(&heads);
    for (body, (label, ..)) in BODIES.iter().enumerate() {
        let cells = &here.cells[body * VARIANTS.len()..][..VARIANTS.len()];
        let twin = |key: &str| {
            let samples = cells.iter().flat_map(|cell| &cell.samples);
            Spread::from_values(samples.filter_map(|words| words.find(key)))
        };
        table.add([
            (*label).to_owned(),
            "untraced".to_owned(),
            spread_cell(twin("untraced"), 2),
            NONE.to_owned(),
            middle(twin("cpu_scaling_untraced"), 3),
            middle(twin("wall_scaling_untraced"), 3),
        ]);
        for (variant, cell) in cells.iter().enumerate() {
            let at = body * VARIANTS.len() + variant;
            let name = VARIANTS[variant].0.to_owned();
            if let Some(why) = &cell.failure {
                table.add([
                    String::new(),
                    name,
                    format!("not measured: {}", last_line(why)),
                ]);
                continue;
            }
            let scaling = |key| middle(cell.spread(|words| words.find(key)), 3);
            let mut row = vec![
                String::new(),
                name,
                spread_cell(here.over(at), 2),
                number(here.ratio(at), 3),
                scaling("cpu_scaling"),
                scaling("wall_scaling"),
            ];
            if let Some((_, there)) = there {
                let rounds = cell.samples.iter().zip(&there.cells[at].samples);
                let more = rounds.filter_map(|(here, there)| Some(over(here)? - over(there)?));
                row.extend([
                    middle(there.over(at), 2),
                    spread_cell(Spread::from_values(more), 2),
                ]);
            }
            table.add(row);
        }
    }
    table.text()
}

/// Of the untraced twin, and of the traced one.
pub(crate) type Twins = [f64; 2];

fn twins(twins: Result<Twins>) -> String {
    match twins {
        Ok([untraced, traced]) => {
            let more = traced - untraced;
            format!("untraced {untraced:.0}, traced {traced:.0}: {more:.0} more")
        }
        Err(error) => format!("not measured: {error}"),
    }
}

fn leaf_bytes(program: &Path) -> Result<Twins> {
    code_bytes(program, [&["::untraced::leaf"], &["::traced::leaf"]])
}

/// Code bytes of two functions, each known by the first of its names that is there.
///
/// # Errors
/// If `nm` (Debian package binutils) is missing, or the program has no such symbols.
pub(crate) fn code_bytes(program: &Path, twins: [&[&str]; 2]) -> Result<Twins> {
    let sh = shell()?;
    let (symbols, _) = output(cmd!(
        sh,
        "nm --print-size --demangle --defined-only {program}"
    ))?;
    let [untraced, traced] = twins.map(|names| {
        let mut found = names.iter().filter_map(|name| bytes_of(&symbols, name));
        found
            .next()
            .ok_or_else(|| format!("no symbol {names:?} in {}", program.display()))
    });
    Ok([untraced?, traced?])
}

/// Sum of the sizes of the function and of what belongs to it (closures, parts split off).
fn bytes_of(symbols: &str, function: &str) -> Option<f64> {
    let size = |line: &str| {
        // Address, size, kind, name: only functions have kind t or T.
        let mut fields = line.splitn(4, ' ');
        let (size, kind, name) = (fields.nth(1)?, fields.next()?, fields.next()?);
        let (_, rest) = name.split_once(function)?;
        // The name ends there, or a closure, a hash or a suffix follows; not `leaf_loop`.
        let whole = rest.is_empty() || rest.starts_with(['.', ':', ' ']);
        let size = u64::from_str_radix(size, 16).ok()?;
        (whole && matches!(kind, "t" | "T")).then_some(size as f64)
    };
    let sizes: Vec<f64> = symbols.lines().filter_map(size).collect();
    (!sizes.is_empty()).then(|| sizes.iter().sum())
}

/// Of one call of the leaf while recording is off, loop included.
fn leaf_instructions(program: &Path) -> Result<Twins> {
    let (few, many) = (1_000, 101_000);
    let count = |twin: &str, calls: u32| -> Result<f64> {
        let words = ["calls", "leaf", twin, &calls.to_string(), "1"];
        Ok(callgrind(program, &words, &[], &[])?.0["Ir"])
    };
    let per_call = |twin| -> Result<f64> {
        Ok((count(twin, many)? - count(twin, few)?) / f64::from(many - few))
    };
    Ok([per_call("untraced")?, per_call("traced")?])
}

/// The events that callgrind counts in a program and its start, by callgrind's names (`Ir`: instructions), and the
/// output of the program and of valgrind.
///
/// # Errors
/// If valgrind is missing, or can't run the program.
pub(crate) fn callgrind(
    program: &Path,
    words: &[&str],
    flags: &[&str],
    variables: &[(&str, &str)],
) -> Result<(HashMap<String, f64>, String)> {
    if on_path("valgrind").is_none() {
        return Err("valgrind is not installed (Debian package valgrind)".into());
    }
    let out = work_folder("bench")?.join("callgrind.out");
    let sh = shell()?;
    let valgrind = cmd!(
        sh,
        "valgrind --tool=callgrind {flags...} --callgrind-out-file={out} {program} {words...}"
    );
    let (_, log) = output(valgrind.envs(variables.iter().copied()))?;
    remove(&out);
    match events(&log) {
        Some(events) => Ok((events, log)),
        None => Err(format!("callgrind counted nothing:\n{log}").into()),
    }
}

/// From the lines `==PID== Events : Ir Dr …` and `==PID== Collected : 12 3 …`.
fn events(log: &str) -> Option<HashMap<String, f64>> {
    let line = |name: &str| {
        let mut lines = log.lines().filter_map(|line| line.split_once(':'));
        let found = lines.find(|(start, _)| start.contains(name));
        found.map(|(_, rest)| rest.split_whitespace())
    };
    let counts = line("Events ")?.zip(line("Collected ")?);
    counts
        .map(|(name, count)| Some((name.to_owned(), count.parse().ok()?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floors_exist_and_are_measured_first() {
        for (at, (_, _, _, floor)) in VARIANTS.iter().enumerate() {
            if let Some(floor) = floor {
                assert!(*floor < at && VARIANTS[*floor].0.starts_with("floor"));
            }
        }
    }

    #[test]
    fn the_sizes_of_a_function_are_summed() {
        let symbols = "\
0000000000001000 000000000000001e t fdr_bench::work::untraced::leaf
0000000000001020 0000000000000040 t fdr_bench::work::traced::leaf
0000000000001060 0000000000000010 t fdr_bench::work::traced::leaf::{{closure}}
0000000000001080 0000000000000100 t fdr_bench::work::traced::leaf_loop
0000000000002000 0000000000000040 d fdr_bench::work::traced::leaf::SITE
                 U memcpy
";
        assert_eq!(bytes_of(symbols, "::untraced::leaf"), Some(30.0));
        assert_eq!(bytes_of(symbols, "::traced::leaf"), Some(80.0));
        assert_eq!(bytes_of(symbols, "::traced::twig"), None);
    }

    #[test]
    fn events_are_found_by_their_names() {
        let log = "==7== Events    : Ir Dr\n==7== Collected : 100 30\n==7==\n";
        assert_eq!(events(log).expect("events")["Dr"], 30.0);
        assert_eq!(events("==7== nothing\n"), None);
    }

    #[test]
    fn tables_have_ratios_reasons_and_revisions() {
        let program = || Program {
            path: "x".into(),
            place: "x".into(),
        };
        let [mut here, mut there] = [(); 2].map(|()| Measured::new(program()));
        for (at, said) in ["untraced=1.5 measured=41.5", "untraced=1.5 measured=43.5"]
            .iter()
            .enumerate()
        {
            here.cells[at].add(|| Ok(Words::parse(said)));
            there.cells[at].add(|| Ok(Words::parse("untraced=1.5 measured=40.5")));
        }
        here.cells[5].add(|| Err("first\nno trace\n".into()));
        let text = text(&here, Some(("abc", &there)));
        let words = |what: &str| {
            let line = text
                .lines()
                .find(|line| line.contains(what))
                .unwrap_or_default();
            line.split_whitespace().collect::<Vec<_>>().join(" ")
        };
        assert_eq!(words("leaf  "), "leaf untraced 1.50 (1.50..1.50) - - -");
        assert_eq!(
            words("on rdtscp"),
            "on rdtscp 42.00 (42.00..42.00) 1.050 - - 39.00 3.00 (3.00..3.00)"
        );
        assert_eq!(words("off "), "off not measured: no trace");
    }
}
