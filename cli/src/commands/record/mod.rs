//! `fdr record`: runs a command with the recorder switched on.
//!
//! The recorder is in the command itself. This file only sets the environment, waits for the command, and says
//! afterwards which traces there are. It must never change what the command's caller sees: its output, its exit code,
//! the signal that ended it.

mod child;
mod outcome_lines;
mod values;
mod written;

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, anyhow, bail};
use clap::ValueHint;
use fdr_formats::address::{Address, Side};
use fdr_formats::registry;
use fdr_formats::writer::{Kind, Target};

use self::child::End;
use self::outcome_lines::Outcome;
use self::written::Outputs;
use super::Status;
use crate::outputs::target;
use crate::ui;

/// The recorder's default for the path of traces. The format's extension follows.
const DEFAULT_OUTPUT: &str = "%e.%p.%n.";

const HELP: &str = "\
Each option sets an environment variable of the recorder. Without the option
the variable stays as it is, also `FDR=off`. If FDR is not set, everything is
recorded. The command must be built with the crate `fdr`. Other programs just
run.

A command that crashes writes a trace, and so does one that Ctrl-C or TERM
ends. A command that is killed writes none, but leaves its ring file. fdr names
the ring, and fdr dump makes a trace of it.

fdr ends with the command's exit code. If a signal ended the command, fdr ends
by the same signal, which a shell shows as 128 + n. 126: the command can't be
run. 127: it does not exist. fdr passes INT, TERM, HUP, QUIT, USR1 and USR2 on
to the command. The command gets signals of a terminal anyway.

Examples:
  fdr record ./my_app --fast
  fdr record --filter 'my_app::*,-my_app::hot::*' -o traces/ ./my_app
  fdr record --buffer 64M --mode full cargo run --release
  fdr record --trigger 'my_app::handle>50ms +2s' ./server
  fdr record --signal USR1 ./server &  kill -USR1 $!  a trace while it runs
  fdr record --mode stream -o tcp://127.0.0.1:7000 ./server
      to fdr listen, as it comes";

/// Run a command with the recorder on
#[derive(clap::Args)]
#[command(after_help = HELP, override_usage = "fdr record [OPTIONS] COMMAND…")]
pub(crate) struct Options {
    /// What to record: globs on function names, comma between; `-` before a glob excludes; or `off`
    /// (FDR, default: *)
    #[arg(short, long, value_name = "GLOBS", allow_hyphen_values = true)]
    filter: Option<OsString>,
    /// File or folder of the traces. %e: program, %p: process, %n: number of the dump, %t: time. A
    /// name that ends with / is a folder, which is made. Or a stream: tcp://host:port,
    /// tcp-listen://host:port, unix:/path, - (FDR_OUT)
    #[arg(short, long, value_name = "PATH")]
    output: Option<OsString>,
    /// Format of the traces: xray, xray1, heph, htdump or htdump-be (FDR_FORMAT)
    #[arg(long, alias = "format", value_name = "FORMAT", value_parser = target::Parser::Recorded, hide_possible_values = true)]
    to: Option<&'static Target>,
    /// Signal that makes the command write a trace: a name, a number or none (FDR_SIGNAL)
    #[arg(long, value_name = "SIGNAL")]
    signal: Option<OsString>,
    /// Size of each thread's ring, such as 4M or 256K (FDR_BUFFER)
    #[arg(long, value_name = "SIZE")]
    buffer: Option<OsString>,
    /// Memory for all rings, such as 1G (FDR_MEMORY)
    #[arg(long, value_name = "SIZE")]
    memory: Option<OsString>,
    /// The time that a full ring should hold: short calls are summed up. The default is 10s; 0 records
    /// every call (FDR_KEEP)
    #[arg(long, value_name = "TIME")]
    keep: Option<OsString>,
    /// How much of the program's CPU time recording may take, such as 5%. If it takes more,
    /// calls of some functions are only counted (FDR_BUDGET)
    #[arg(long, value_name = "SHARE")]
    budget: Option<OsString>,
    /// Also record when threads run, are preempted and wait (FDR_SCHED)
    #[arg(long)]
    sched: bool,
    /// What makes the command write a trace by itself: my_app::handle>50ms, rss>2G, every 10m, panic, exit,
    /// int, term, signal; with commas between. The default is exit, int, term (FDR_TRIGGER)
    #[arg(long, value_name = "TRIGGERS")]
    trigger: Option<OsString>,
    /// How many traces of triggers the command leaves, and how many bytes, such as 10,1G
    /// (FDR_OUT_MOST)
    #[arg(long, value_name = "MAX")]
    out_most: Option<OsString>,
    /// What tells this run from others: key=value, with commas between (FDR_TAGS)
    #[arg(long, value_name = "TAGS")]
    tags: Option<OsString>,
    /// What to keep if a ring is full: ring (the newest records) or full (the oldest). Or stream:
    /// hand over all records while the command runs (FDR_MODE)
    #[arg(long, value_name = "MODE", value_parser = ["ring", "full", "stream"], ignore_case = true)]
    mode: Option<String>,
    /// The clock (FDR_CLOCK)
    #[arg(long, value_name = "CLOCK", value_parser = ["rdtscp", "rdtsc", "monotonic"], ignore_case = true)]
    clock: Option<String>,
    /// Folder of the ring files, while the command runs (FDR_DIR)
    #[arg(long, value_name = "FOLDER")]
    dir: Option<OsString>,
    /// How much the recorder prints (FDR_LOG)
    #[arg(long, value_name = "LEVEL", value_parser = ["quiet", "warn", "info"], ignore_case = true)]
    log: Option<String>,
    /// Write a trace when the command panics (FDR_PANIC)
    #[arg(long)]
    panic: bool,
    /// Print only what is wrong; the same as --log quiet
    #[arg(short, long, conflicts_with = "log")]
    quiet: bool,
    /// The command and its arguments
    #[arg(trailing_var_arg = true, required = true, value_name = "COMMAND", value_hint = ValueHint::CommandWithArguments)]
    command: Vec<OsString>,
}

impl Options {
    /// The variables that these options set.
    fn variables(&self, inherited: Option<&OsStr>) -> Vec<(&'static str, OsString)> {
        let filter = self.filter.clone().or_else(|| match inherited {
            Some(value) if !value.is_empty() => None,
            _ => Some("*".into()),
        });
        let text = |value: &Option<String>| value.as_ref().map(OsString::from);
        [
            ("FDR", filter),
            ("FDR_OUT", self.output.clone()),
            ("FDR_FORMAT", self.to.map(|target| target.name.into())),
            ("FDR_SIGNAL", self.signal.clone()),
            ("FDR_BUFFER", self.buffer.clone()),
            ("FDR_MEMORY", self.memory.clone()),
            ("FDR_KEEP", self.keep.clone()),
            ("FDR_BUDGET", self.budget.clone()),
            ("FDR_SCHED", self.sched.then(|| "1".into())),
            ("FDR_TRIGGER", self.trigger.clone()),
            ("FDR_OUT_MOST", self.out_most.clone()),
            ("FDR_TAGS", self.tags.clone()),
            ("FDR_MODE", text(&self.mode)),
            ("FDR_CLOCK", text(&self.clock)),
            ("FDR_DIR", self.dir.clone()),
            (
                "FDR_LOG",
                text(&self.log).or_else(|| self.quiet.then(|| "quiet".into())),
            ),
            ("FDR_PANIC", self.panic.then(|| "1".into())),
        ]
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)))
        .collect()
    }

    /// Refuses what the recorder would refuse, before anything runs.
    fn check(&self) -> anyhow::Result<()> {
        let given = |value: &Option<OsString>| value.clone().filter(|value| !value.is_empty());
        let named = |name: &'static str| move |what: String| anyhow!("{name}: {what}");
        if let Some(filter) = &self.filter {
            values::is_off(filter).map_err(named("--filter"))?;
        }
        if let Some(signal) = given(&self.signal) {
            values::check_signal(&signal).map_err(named("--signal"))?;
        }
        if let Some(output) = given(&self.output) {
            match address(&output) {
                Some(address) => address.map(|_| ()),
                None => values::check_pattern(&output),
            }
            .map_err(named("--output"))?;
        }
        if let (true, Some(format)) = (self.is_stream(), self.format())
            && format.kind != Kind::Stream
        {
            let title = format.title;
            bail!("--output: {title} can't be sent as a stream; --to chooses another");
        }
        if let Some(keep) = given(&self.keep) {
            values::check_time(&keep).map_err(|what| anyhow!("--keep: {what}"))?;
        }
        if let Some(budget) = given(&self.budget) {
            values::check_share(&budget).map_err(|what| anyhow!("--budget: {what}"))?;
        }
        if let Some(triggers) = given(&self.trigger) {
            values::check_triggers(&triggers).map_err(named("--trigger"))?;
        }
        if let Some(most) = given(&self.out_most) {
            values::check_out_most(&most).map_err(named("--out-most"))?;
        }
        if let Some(tags) = given(&self.tags) {
            values::check_tags(&tags).map_err(named("--tags"))?;
        }
        // A budget in the environment is the recorder's business, and so is a ring beside it.
        let memory = given(&self.memory).or_else(|| variable("FDR_MEMORY"));
        values::check_sizes(given(&self.buffer).as_deref(), memory.as_deref())
            .map_err(|what| anyhow!(what))
    }

    /// Where traces go; `None`: the recorder's default.
    fn output(&self) -> Option<OsString> {
        let output = self.output.clone().filter(|path| !path.is_empty());
        output.or_else(|| variable("FDR_OUT"))
    }

    /// Whether they go to a stream.
    fn is_stream(&self) -> bool {
        self.output()
            .is_some_and(|output| address(&output).is_some())
    }

    /// The format that is asked for.
    fn format(&self) -> Option<&'static Target> {
        if self.to.is_some() {
            return self.to;
        }
        let format = variable("FDR_FORMAT")?;
        let format = format.to_str()?.trim().to_lowercase();
        registry::recorded().find(|target| target.name == format)
    }

    /// What switches recording off, if anything does.
    fn off(&self) -> Option<String> {
        let (name, filter) = match &self.filter {
            Some(filter) => ("--filter ", filter.clone()),
            None => ("FDR=", variable("FDR")?),
        };
        let off = values::is_off(&filter).unwrap_or(false);
        off.then(|| format!("{name}{}", ui::shell(Path::new(&filter))))
    }

    fn quiet(&self) -> bool {
        match &self.log {
            _ if self.quiet => true,
            Some(level) => level.eq_ignore_ascii_case("quiet"),
            None => variable("FDR_LOG").is_some_and(|level| level.eq_ignore_ascii_case("quiet")),
        }
    }
}

/// A variable of the recorder's; an empty one counts as none.
fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// The address that the recorder would send to; `None` where the text is the name of a file.
fn address(text: &OsStr) -> Option<Result<Address, String>> {
    Address::parse(text, Path::new(""), Side::Program)
}

/// Runs the command, and does not return where a signal ended it.
pub(crate) fn run(options: &Options) -> anyhow::Result<Status> {
    let [program, arguments @ ..] = options.command.as_slice() else {
        bail!("no command; for example: fdr record ./my_app");
    };
    options.check()?;
    let mut command = Command::new(program);
    command
        .args(arguments)
        .envs(options.variables(std::env::var_os("FDR").as_deref()));

    let streamed = options.is_stream();
    let default = || {
        let end = options.format().map_or("fdr", |target| target.extension);
        format!("{DEFAULT_OUTPUT}{end}").into()
    };
    let pattern = match streamed {
        true => default(),
        false => {
            make_folder(options.output.as_deref())?;
            options.output().unwrap_or_else(default)
        }
    };
    let dir = options.dir.clone().or_else(|| variable("FDR_DIR"));
    let traces = match streamed {
        true => Outputs::default(),
        false => Outputs::traces(&pattern),
    };
    let rings = Outputs::rings(&pattern, dir.as_deref().filter(|dir| !dir.is_empty()));
    let end = match child::run(command) {
        Ok(end) => end,
        Err(error) => {
            ui::complain(&format!("{}: {error}", ui::path(&PathBuf::from(program))));
            let missing = error.kind() == io::ErrorKind::NotFound;
            return Ok(Status::Code(if missing { 127 } else { 126 }));
        }
    };
    if !options.quiet() {
        let outcome = Outcome {
            traces: traces.written(),
            rings: rings.leftover_rings(),
            off: options.off(),
            by_signal: matches!(end, End::Signal(_)),
            streamed,
        };
        outcome_lines::lines(&outcome)
            .iter()
            .for_each(|line| ui::complain(line));
    }
    match end {
        End::Code(code) => Ok(Status::Code(code)),
        End::Signal(signal) => Ok(Status::Code(child::end_by(signal))),
    }
}

/// Makes the folder that traces are to go into, where it is named as one and known already.
fn make_folder(pattern: Option<&OsStr>) -> anyhow::Result<()> {
    match pattern {
        Some(path) if path.as_bytes().ends_with(b"/") && !path.as_bytes().contains(&b'%') => {
            fs::create_dir_all(path).with_context(|| ui::path(Path::new(path)))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Args, FromArgMatches};

    fn parse(arguments: &[&str]) -> Options {
        let command = Options::augment_args(clap::Command::new("record").no_binary_name(true));
        Options::from_arg_matches(&command.get_matches_from(arguments)).unwrap()
    }

    fn pairs(options: &Options, inherited: Option<&str>) -> Vec<(&'static str, String)> {
        let variables = options.variables(inherited.map(OsStr::new));
        variables
            .into_iter()
            .map(|(name, value)| (name, value.into_string().unwrap()))
            .collect()
    }

    #[test]
    fn every_option_has_its_variable() {
        let options = parse(&[
            "--filter",
            "-a::*",
            "-o",
            "t/",
            "--to",
            "xray1",
            "--signal",
            "USR1",
            "--buffer",
            "1M",
            "--memory",
            "2G",
            "--keep",
            "5s",
            "--budget",
            "5%",
            "--sched",
            "--trigger",
            "a::b>5ms",
            "--out-most",
            "3",
            "--tags",
            "a=1",
            "--mode",
            "full",
            "--clock",
            "rdtsc",
            "--dir",
            "/d",
            "--log",
            "info",
            "--panic",
            "--",
            "app",
            "-o",
            "x",
        ]);
        let expected = [
            ("FDR", "-a::*"),
            ("FDR_OUT", "t/"),
            ("FDR_FORMAT", "xray1"),
            ("FDR_SIGNAL", "USR1"),
            ("FDR_BUFFER", "1M"),
            ("FDR_MEMORY", "2G"),
            ("FDR_KEEP", "5s"),
            ("FDR_BUDGET", "5%"),
            ("FDR_SCHED", "1"),
            ("FDR_TRIGGER", "a::b>5ms"),
            ("FDR_OUT_MOST", "3"),
            ("FDR_TAGS", "a=1"),
            ("FDR_MODE", "full"),
            ("FDR_CLOCK", "rdtsc"),
            ("FDR_DIR", "/d"),
            ("FDR_LOG", "info"),
            ("FDR_PANIC", "1"),
        ];
        assert_eq!(
            pairs(&options, None),
            expected.map(|(name, value)| (name, value.to_owned()))
        );
        assert_eq!(options.command, ["app", "-o", "x"]);
        for words in [
            &["-q", "app", "--fast", "-o", "x"][..],
            &["-q", "--", "app", "--fast", "-o", "x"],
        ] {
            let options = parse(words);
            assert_eq!(options.command, ["app", "--fast", "-o", "x"]);
            assert!(options.output.is_none() && options.quiet());
        }
    }

    #[test]
    fn without_a_filter_all_is_recorded() {
        let options = parse(&["--", "app"]);
        let all = [("FDR", "*".to_owned())];
        assert_eq!(pairs(&options, None), all);
        assert_eq!(pairs(&options, Some("")), all);
        assert_eq!(
            pairs(&options, Some("off")),
            [],
            "what is said is respected"
        );
        assert_eq!(pairs(&options, Some("a::*")), []);
    }
}
