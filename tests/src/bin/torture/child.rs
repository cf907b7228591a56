//! A program that is started, watched and ended. Its output goes to files in its folder, so the test need not read it
//! while the program runs.

use std::env;
use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child as Process, ChildStderr, ChildStdout, Command, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

use fdr_tests::support::wait::Patience;

/// The pause between two looks at a condition.
const LOOK: Duration = Duration::from_micros(100);

pub(crate) struct Child(Process);

/// A command with its folder, and without any variable of the recorder's.
pub(crate) fn command(program: &Path, folder: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(folder);
    for (name, _) in env::vars_os() {
        if name.to_string_lossy().starts_with("FDR") {
            command.env_remove(name);
        }
    }
    command
}

impl Child {
    /// Starts it with the variables, in the form `FDR=1 FDR_MODE=full`.
    pub(crate) fn start(
        program: &Path,
        folder: &Path,
        variables: &str,
        arguments: &[String],
    ) -> Result<Child, String> {
        let mut command = command(program, folder);
        for variable in variables.split_whitespace() {
            let (name, value) = variable.split_once('=').unwrap_or((variable, ""));
            command.env(name, value);
        }
        let output = |name: &str| {
            let path = folder.join(name);
            File::create(&path).map_err(|error| format!("{}: {error}", path.display()))
        };
        let command = command
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(output("stdout")?)
            .stderr(output("stderr")?);
        Child::spawn(command)
    }

    /// Starts a command that is complete.
    pub(crate) fn spawn(command: &mut Command) -> Result<Child, String> {
        let process = command.spawn();
        process
            .map(Child)
            .map_err(|error| format!("{:?}: {error}", command.get_program()))
    }

    /// Its outputs, where they are pipes.
    pub(crate) fn outputs(&mut self) -> (Option<ChildStdout>, Option<ChildStderr>) {
        (self.0.stdout.take(), self.0.stderr.take())
    }

    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }

    /// SIGKILL, and the end.
    pub(crate) fn kill(mut self) -> Result<ExitStatus, String> {
        let wrong = |error| format!("cannot kill: {error}");
        self.0.kill().map_err(wrong)?;
        self.0.wait().map_err(wrong)
    }

    /// Whether it has ended.
    pub(crate) fn ended(&mut self) -> Result<Option<ExitStatus>, String> {
        self.0.try_wait().map_err(|error| format!("wait: {error}"))
    }

    /// Waits until something is so, or the program has ended, which is an error.
    pub(crate) fn until(
        &mut self,
        what: &str,
        limit: Duration,
        mut is_so: impl FnMut() -> bool,
    ) -> Result<(), String> {
        let mut patience = Patience::new(limit);
        while !is_so() {
            if let Some(status) = self.ended()? {
                return Err(format!("ended ({status}) before {what}"));
            }
            if patience.is_over() {
                let states = self.states();
                return Err(format!("hangs: {what} did not come in {limit:?}: {states}"));
            }
            thread::sleep(LOOK);
        }
        Ok(())
    }

    /// Its own end, which comes within that time.
    pub(crate) fn end(&mut self, limit: Duration) -> Result<ExitStatus, String> {
        self.end_after(limit, || 0)
    }

    /// Its own end, which comes at most so long after the last change of `progress`.
    fn end_after(
        &mut self,
        limit: Duration,
        progress: impl Fn() -> u64,
    ) -> Result<ExitStatus, String> {
        let mut patience = Patience::new(limit);
        let mut before = progress();
        loop {
            if let Some(status) = self.ended()? {
                return Ok(status);
            }
            let now = progress();
            if now != before {
                before = now;
                patience.restart();
            }
            if patience.is_over() {
                return Err(format!("hangs: no end in {limit:?}: {}", self.states()));
            }
            thread::sleep(LOOK);
        }
    }

    /// What its threads are doing, for people: a letter as in `ps`, and the system call or place.
    fn states(&self) -> String {
        let tasks = Path::new("/proc").join(self.id().to_string()).join("task");
        let tasks = fs::read_dir(tasks).into_iter().flatten().flatten();
        let word = |path: &Path, name: &str| fs::read_to_string(path.join(name));
        let state = |path: &Path| {
            let stat = word(path, "stat").ok()?;
            let letter = stat.rsplit_once(") ")?.1.chars().next()?;
            let place = word(path, "wchan").unwrap_or_default();
            Some(format!("{letter} {place}"))
        };
        let states: Vec<String> = tasks.filter_map(|task| state(&task.path())).collect();
        states.join(", ")
    }

    /// The same where it must have succeeded.
    pub(crate) fn succeed(&mut self, folder: &Path, limit: Duration) -> Result<(), String> {
        self.goes_on(folder, limit, || 0)
    }

    /// The same, however long it takes: at most so long after the last change of `progress`.
    pub(crate) fn goes_on(
        &mut self,
        folder: &Path,
        limit: Duration,
        progress: impl Fn() -> u64,
    ) -> Result<(), String> {
        let status = self.end_after(limit, progress)?;
        match status.success() {
            true => Ok(()),
            false => Err(format!("{status}: {}", stderr_of(folder))),
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The end of the child's standard error.
pub(crate) fn stderr_of(folder: &Path) -> String {
    let text = fs::read(folder.join("stderr")).unwrap_or_default();
    let begin = text.len().saturating_sub(2000);
    // The first message of a panic tells more than the last lines of its backtrace.
    let begin = text
        .windows(8)
        .position(|word| word == b"panicked")
        .map_or(begin, |at| at.min(begin));
    let tail = &text[begin..text.len().min(begin + 2000)];
    String::from_utf8_lossy(tail).into_owned()
}

/// What a status is, in short.
pub(crate) fn signal(status: ExitStatus) -> i32 {
    status.signal().unwrap_or(0)
}
