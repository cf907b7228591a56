//! `cargo xtask bench whole`: what the recorder costs other people's programs, marked whole by `cargo fdr instrument`.
//! Each has a workload. The unmarked program, and the marked one off and on, run in turn. Traces are held against the
//! accounting, and against each other where the calls do not depend on time.

mod build;
mod inputs;
mod self_times;
mod trace;
mod workload;

use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use comfy_table::Table;
use tempfile::TempDir;
use xshell::cmd;
use xtask::process::{into_files, output, run as run_command, shell, target, work_folder};

use crate::Result;
use crate::figures::median;
use crate::program::{self, RunCost, load, machine, measured};
use crate::table::{NONE, table};
use build::{Build, Built};
use trace::{Report, threshold};
use workload::Workload;

/// Other people's programs, marked whole, with a workload each; fetches them, builds take most of an hour
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Only this workload or program; may be repeated
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Runs of each kind; the median counts
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    rounds: u64,
    /// Builds all programs into one folder, and measures no builds
    #[arg(long)]
    quick: bool,
    /// Compares self times with those of runs in which each call leaves its records, instead of all else
    #[arg(long)]
    self_times: bool,
}

type Variables = &'static [(&'static str, &'static str)];

/// How a program is run.
#[derive(Clone, Copy, PartialEq)]
enum Mode {
    Original,
    Off,
    /// Recording, with these variables.
    On(Variables),
}

const EVERY: Variables = &[("FDR_KEEP", "0")];
const KEPT: Variables = &[("FDR_KEEP", "10s")];
const SMALL_BUDGET: Variables = &[("FDR_BUDGET", "3%")];

/// The one that takes longest comes last, so that a machine that becomes faster or slower meanwhile changes the others'
/// ratios little.
const MODES: [Mode; 5] = [
    Mode::Original,
    Mode::Off,
    Mode::On(KEPT),
    Mode::On(SMALL_BUDGET),
    Mode::On(EVERY),
];

/// What each mode took in a round.
type Round = [RunCost; MODES.len()];

/// What a workload showed.
struct WorkloadFigures {
    rounds: Vec<Round>,
    every: Report,
    kept: Report,
    /// The threshold, as `fdr info` has it.
    threshold: String,
}

impl WorkloadFigures {
    /// How long the runs with these variables took, s.
    fn seconds(&self, variables: Variables) -> f64 {
        let mode = MODES.iter().position(|mode| *mode == Mode::On(variables));
        let rounds = self.rounds.iter();
        median(rounds.filter_map(|round| Some(round[mode?].seconds)))
    }
}

/// Builds the programs, runs their workloads, and prints tables.
///
/// # Errors
/// If a program can't be had, built or run, or its trace is not what it must be.
pub(crate) fn run(options: &Options) -> Result<()> {
    let chosen = workload::choose(&options.only)?;
    program::build()?;
    let folder = work_folder("bench/whole")?;
    let sh = shell()?;
    run_command(cmd!(
        sh,
        "cargo build --quiet --release --package fdr-cli --bins"
    ))?;
    let mut builds = Vec::new();
    let mut shown = Vec::new();
    let mut compared = Vec::new();
    let mut findings = Vec::new();
    for recipe in &chosen {
        // A program that can't be built or run is a finding, so that the others have their figures.
        let built = Build::new(&folder, recipe, options.quick).and_then(|build| build.run());
        let built = match built {
            Ok(built) => built,
            Err(error) => {
                findings.push(format!("{}: {error}", recipe.name));
                continue;
            }
        };
        for workload in &recipe.workloads {
            eprintln!(
                "{}: {} rounds, load {}",
                workload.name,
                options.rounds,
                load()
            );
            if options.self_times {
                match compare_self_times(workload, &built, options.rounds) {
                    Ok(pairs) => compared.push((workload.name.as_str(), pairs)),
                    Err(error) => findings.push(format!("{}: {error}", workload.name)),
                }
                continue;
            }
            match measure(workload, &built, options.rounds, &mut findings) {
                Ok(of_workload) => shown.push((workload, of_workload)),
                Err(error) => findings.push(format!("{}: {error}", workload.name)),
            }
        }
        builds.push(built);
    }
    println!(
        "{}, load {}; marked by cargo fdr instrument; medians of {} rounds, and of ratios within a round\n",
        machine(),
        load(),
        options.rounds
    );
    if options.self_times {
        println!("{}", self_times::table(&compared));
    } else {
        println!("{}\n", costs(&shown));
        println!("{}\n", histories(&shown));
        println!("{}\n", build_table(&builds));
    }
    for finding in &findings {
        println!("{finding}");
    }
    match findings.len() {
        0 => Ok(()),
        count => Err(format!("{count} findings").into()),
    }
}

/// Times of all modes, in turn, and the reports of the last round.
fn measure(
    workload: &Workload,
    built: &Built,
    rounds: u64,
    findings: &mut Vec<String>,
) -> Result<WorkloadFigures> {
    let mut runs = Runs::new(workload, built)?;
    for _ in 0..rounds {
        runs.round()?;
    }
    let [every, kept] = runs.reports.each_mut().map(Option::take);
    let (Some(every), Some(kept)) = (every, kept) else {
        return Err("no round".into());
    };
    if workload.repeats {
        runs.findings.extend(every.same_calls(&kept));
        runs.compare_output()?;
    }
    let named = |what: &String| format!("{}: {what}", workload.name);
    findings.extend(runs.findings.iter().map(named));
    Ok(WorkloadFigures {
        rounds: runs.rounds,
        every,
        kept,
        threshold: runs.threshold,
    })
}

/// The runs of a workload.
struct Runs<'a> {
    workload: &'a Workload,
    built: &'a Built,
    folder: TempDir,
    input: PathBuf,
    rounds: Vec<Round>,
    /// The last ones: of each call, and of calls that are kept.
    reports: [Option<Report>; 2],
    threshold: String,
    findings: Vec<String>,
}

impl Runs<'_> {
    fn new<'a>(workload: &'a Workload, built: &'a Built) -> Result<Runs<'a>> {
        let folder = tempfile::Builder::new().tempdir_in(work_folder("bench/whole")?)?;
        Ok(Runs {
            workload,
            built,
            input: workload.input.make(folder.path())?,
            folder,
            rounds: Vec::new(),
            reports: [None, None],
            threshold: NONE.to_owned(),
            findings: Vec::new(),
        })
    }

    /// Where the output of a mode goes.
    fn output(&self, mode: usize) -> PathBuf {
        self.folder.path().join(format!("said-{mode}"))
    }

    /// One run of each mode.
    fn round(&mut self) -> Result<()> {
        let mut round = Vec::new();
        for (at, mode) in MODES.into_iter().enumerate() {
            let traces = tempfile::Builder::new().tempdir_in(&self.folder)?;
            let program = match mode {
                Mode::Original => &self.built.programs[0],
                Mode::Off | Mode::On(_) => &self.built.programs[1],
            };
            let output = self.output(at);
            round.push(once(
                self.workload,
                program,
                &self.input,
                mode,
                &traces,
                &output,
            )?);
            match mode {
                Mode::Original | Mode::Off => {}
                Mode::On(EVERY) => self.reports[0] = Some(self.report(&traces)?),
                Mode::On(KEPT) => self.keep(&traces)?,
                Mode::On(_) => {
                    self.report(&traces)?;
                }
            }
        }
        let round = round.try_into().map_err(|_| "a round is not whole")?;
        self.rounds.push(round);
        Ok(())
    }

    /// The report of a trace that is as it must be.
    fn report(&mut self, traces: &TempDir) -> Result<Report> {
        let trace = only_trace(traces)?;
        if let Err(error) = ask_tool("verify", &trace) {
            self.findings.push(error.to_string());
        }
        let report = whole_report(&trace)?;
        self.findings.extend(report.findings());
        Ok(report)
    }

    /// Takes the report of a run whose short calls left no records.
    fn keep(&mut self, traces: &TempDir) -> Result<()> {
        let report = self.report(traces)?;
        let info = ask_tool("info", &only_trace(traces)?)?;
        threshold(&info)
            .unwrap_or(NONE)
            .clone_into(&mut self.threshold);
        if let Some(before) = &self.reports[1]
            && self.workload.repeats
        {
            self.findings.extend(before.different_calls(&report));
        }
        self.reports[1] = Some(report);
        Ok(())
    }

    /// All runs print the same.
    fn compare_output(&mut self) -> Result<()> {
        let first = fs::read(self.output(0))?;
        for at in 1..MODES.len() {
            if fs::read(self.output(at))? != first {
                let what = "it prints something else where it is marked or records";
                self.findings.push(what.to_owned());
            }
        }
        Ok(())
    }
}

/// Self times of both kinds of runs, and of the first kind once more, in turn.
fn compare_self_times(
    workload: &Workload,
    built: &Built,
    rounds: u64,
) -> Result<self_times::Compared> {
    let place = tempfile::Builder::new().tempdir_in(work_folder("bench/whole")?)?;
    let input = workload.input.make(place.path())?;
    let stdout_path = place.path().join("said");
    let mut reports = [Vec::new(), Vec::new(), Vec::new()];
    let kinds = [
        self_times::EVERY,
        self_times::KEEP_TEN_SECONDS,
        self_times::EVERY,
    ];
    for _ in 0..rounds {
        for (reports, variables) in reports.iter_mut().zip(kinds) {
            let traces = tempfile::Builder::new().tempdir_in(&place)?;
            let (program, mode) = (&built.programs[1], Mode::On(variables));
            once(workload, program, &input, mode, &traces, &stdout_path)?;
            reports.push(whole_report(&only_trace(&traces)?)?);
        }
    }
    let [every, kept, again] = reports;
    let mut complete = every.iter().chain(&again);
    if complete.any(|report| report.overwritten() > 0) {
        return Err(format!("{}: the rings do not hold the whole run", workload.name).into());
    }
    Ok(self_times::Compared {
        kept: self_times::compare(&every, &kept),
        again: self_times::compare(&every, &again),
    })
}

/// Runs the workload once. What it prints goes to a file.
fn once(
    workload: &Workload,
    program: &Path,
    input: &Path,
    mode: Mode,
    traces: &TempDir,
    stdout_path: &Path,
) -> Result<RunCost> {
    let (sh, words) = (shell()?, workload.words(input));
    let mut command = measured(&sh)?.arg(program).args(words);
    if let Mode::On(variables) = mode {
        command = command
            .env("FDR", "1")
            .envs(variables.iter().copied())
            .env("FDR_LOG", "warn")
            .env("FDR_OUT", traces.path().join(""));
    }
    let log = stdout_path.with_extension("log");
    let (stdout, stderr) = (File::create(stdout_path)?, File::create(&log)?);
    let status = into_files(command, stdout, stderr)?;
    let log = fs::read(log)?;
    let log = String::from_utf8_lossy(&log);
    match status.success() {
        true => RunCost::parse(&log),
        false => Err(format!("{}: {status}\n{}", program.display(), log.trim_end()).into()),
    }
}

/// What the tool says of a trace.
fn ask_tool(words: &str, trace: &Path) -> Result<String> {
    let (sh, tool, words) = (shell()?, target()?.join("release/fdr"), words.split(' '));
    Ok(output(cmd!(sh, "{tool} {words...} {trace}"))?.0)
}

/// The report of all functions.
fn whole_report(trace: &Path) -> Result<Report> {
    Report::parse(&ask_tool("report --json --limit 1000000", trace)?)
}

/// The one trace of a folder.
///
/// # Errors
/// If there are none, or more.
fn only_trace(folder: &TempDir) -> Result<PathBuf> {
    let mut traces = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension() == Some(OsStr::new("fdr")) {
            traces.push(path);
        }
    }
    match <[PathBuf; 1]>::try_from(traces) {
        Ok([trace]) => Ok(trace),
        Err(traces) => Err(format!("the program left {} traces, not one", traces.len()).into()),
    }
}

/// Slowdown by mode: CPU time, and in parentheses the time that passed.
fn costs(shown: &[(&Workload, WorkloadFigures)]) -> Table {
    let heads = "program | calls | calls/s | original, s CPU | off | FDR_KEEP=10s | FDR_BUDGET=3% | FDR_KEEP=0";
    let mut table = table(heads);
    for (workload, shown) in shown {
        let ratios = (1..MODES.len()).map(|mode| {
            let ratio = |of: fn(&RunCost) -> f64| {
                let rounds = shown.rounds.iter();
                median(rounds.map(|round| of(&round[mode]) / of(&round[0])))
            };
            let [cpu, wall] = [ratio(|run| run.cpu_seconds), ratio(|run| run.seconds)];
            format!("{cpu:.2} ({wall:.2})")
        });
        let calls = (shown.every.recorded() / 2) as f64;
        let first = [
            workload.name.clone(),
            millions(calls),
            millions(calls / shown.seconds(EVERY)),
            format!(
                "{:.2}",
                median(shown.rounds.iter().map(|round| round[0].cpu_seconds))
            ),
        ];
        table.add_row(first.into_iter().chain(ratios));
    }
    table
}

/// What the traces hold at the end of the run.
fn histories(shown: &[(&Workload, WorkloadFigures)]) -> Table {
    let heads = "program | s, FDR_KEEP=0 | history | s, FDR_KEEP=10s | history | threshold | only counted | summarised | overwritten";
    let mut table = table(heads);
    for (workload, shown) in shown {
        let history = |report: &Report| match report.busiest_thread() {
            Some(thread) if thread.overwritten == 0 => {
                format!("{} whole", seconds(thread.held_ns()))
            }
            Some(thread) => seconds(thread.held_ns()),
            None => NONE.to_owned(),
        };
        let share = |records: u64| {
            let all = shown.kept.recorded() + 2 * shown.kept.counted();
            let all = all.max(1) as f64;
            format!("{:.1} %", records as f64 / all * 100.0)
        };
        table.add_row([
            workload.name.clone(),
            format!("{:.2}", shown.seconds(EVERY)),
            history(&shown.every),
            format!("{:.2}", shown.seconds(KEPT)),
            history(&shown.kept),
            shown.threshold.clone(),
            share(2 * shown.kept.counted()),
            share(shown.kept.summarised()),
            share(shown.kept.overwritten()),
        ]);
    }
    table
}

/// Builds of the programs: original, then marked.
fn build_table(builds: &[Built]) -> Table {
    let heads = "program | functions | stripped, kB | marked | clean release build, s CPU | marked | one file touched, s CPU | marked";
    let mut table = table(heads);
    for built in builds {
        let pairs = [built.clean, built.touched].map(|pair| match pair {
            Some([original, marked]) => [
                format!("{original:.1}"),
                format!("{marked:.1} ({:.2})", marked / original),
            ],
            None => [NONE, NONE].map(str::to_owned),
        });
        let [original, marked] = built.bytes;
        let sizes = [
            format!("{}", original / 1000),
            format!("{} ({:.2})", marked / 1000, marked as f64 / original as f64),
        ];
        let first = [built.name.to_owned(), built.functions.to_string()];
        table.add_row(first.into_iter().chain(sizes).chain(pairs.concat()));
    }
    table
}

fn millions(count: f64) -> String {
    format!("{:.2} M", count / 1e6)
}

fn seconds(ns: u64) -> String {
    match ns {
        0..1_000_000_000 => format!("{:.1} ms", ns as f64 / 1e6),
        _ => format!("{:.2} s", ns as f64 / 1e9),
    }
}
