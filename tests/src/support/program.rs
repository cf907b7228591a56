//! Programs under test: started with a clean environment in a folder of their own, watched with a deadline, killed when
//! their test fails.

use std::env;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::facts;
use super::folder::Folder;
use super::wait::{DEADLINE, Patience, until, within};

/// The pause between two looks at a condition whose moment matters.
const LOOK: Duration = Duration::from_micros(100);

/// The options of `unshare` for a container whose processes see no others.
pub const CONTAINED: [&str; 5] = [
    "--user",
    "--map-root-user",
    "--pid",
    "--fork",
    "--mount-proc",
];

/// A program that is about to be run.
#[derive(Debug)]
pub struct Program(Command);

/// How a program ended, and what it printed.
#[derive(Debug)]
pub struct Outcome {
    /// Its exit status.
    pub status: ExitStatus,
    /// All of its standard output.
    pub stdout: String,
    /// All of its standard error, the recorder's lines among it.
    pub stderr: String,
}

impl Program {
    /// The program at `path`, in `folder`, without any `FDR…` variable of the test's own environment.
    #[must_use]
    pub fn new(path: impl AsRef<OsStr>, folder: &Folder) -> Program {
        let mut command = Command::new(path);
        command.current_dir(folder.path());
        for (name, _) in env::vars_os() {
            if name.to_string_lossy().starts_with("FDR") {
                command.env_remove(name);
            }
        }
        Program(command)
    }

    /// The program of that name in `src/bin/programs`.
    #[must_use]
    pub fn named(name: &str, folder: &Folder) -> Program {
        Program::new(crate::programs(), folder).args(&[name])
    }

    /// `program` run by `sh -c`, as `"$0"`, after what the script does before: `ulimit -f 1; exec "$0" "$@"`.
    #[must_use]
    pub fn in_shell(script: &str, program: impl AsRef<OsStr>, folder: &Folder) -> Program {
        let shell = Program::new("sh", folder).args(&["-c", script]);
        shell.args(&[program])
    }

    /// The same with the program of that name in `src/bin/programs`: the name is the first word of `"$@"`.
    #[must_use]
    pub fn named_in_shell(script: &str, name: &str, folder: &Folder) -> Program {
        Program::in_shell(script, crate::programs(), folder).args(&[name])
    }

    /// More arguments.
    #[must_use]
    pub fn args(mut self, arguments: &[impl AsRef<OsStr>]) -> Program {
        self.0.args(arguments);
        self
    }

    /// A variable of its environment.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Program {
        self.0.env(name, value);
        self
    }

    /// Several variables: `"FDR=1 FDR_MODE=full"`.
    #[must_use]
    pub fn set(mut self, variables: &str) -> Program {
        for variable in variables.split_whitespace() {
            let (name, value) = variable.split_once('=').unwrap_or((variable, ""));
            self.0.env(name, value);
        }
        self
    }

    /// The command, for a test that starts it in its own way.
    #[must_use]
    pub fn into_command(self) -> Command {
        self.0
    }

    /// Runs it to its end.
    #[must_use]
    pub fn run(self) -> Outcome {
        self.start().end()
    }

    /// Starts it, and waits until it has printed `ready`, and nothing before that.
    ///
    /// # Panics
    ///
    /// If it cannot be started, or its first line is another one or does not come.
    #[must_use]
    pub fn start_ready(self) -> Running {
        let mut running = self.start();
        assert_eq!(running.line(), "ready");
        running
    }

    /// Starts it, and waits until it has printed that line. Other lines may come before.
    ///
    /// # Panics
    ///
    /// If it cannot be started, or the line does not come.
    #[must_use]
    pub fn start_until(self, line: &str) -> Running {
        let mut running = self.start();
        while running.line() != line {}
        running
    }

    /// Starts it.
    ///
    /// # Panics
    ///
    /// If it cannot be started.
    #[must_use]
    pub fn start(mut self) -> Running {
        let name = format!("{:?}", self.0);
        let command = self
            .0
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command
            .spawn()
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        let (send, lines) = channel();
        let output = BufReader::new(child.stdout.take().expect("piped"));
        let mut errors = child.stderr.take().expect("piped");
        thread::spawn(move || {
            for line in output.split(b'\n').map_while(Result::ok) {
                let _ = send.send(String::from_utf8_lossy(&line).into_owned());
            }
        });
        let stderr = Arc::new(Mutex::new(Vec::new()));
        let shared = Arc::clone(&stderr);
        let stderr_reader = thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = errors.read(&mut bytes) {
                lock(&shared).extend_from_slice(&bytes[..count]);
            }
        });
        Running {
            stdin: child.stdin.take(),
            child,
            name,
            lines,
            stdout: String::new(),
            stderr,
            stderr_reader: Some(stderr_reader),
        }
    }
}

fn lock(bytes: &Mutex<Vec<u8>>) -> MutexGuard<'_, Vec<u8>> {
    bytes.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A program that runs. Killed when it is dropped.
#[derive(Debug)]
pub struct Running {
    child: Child,
    name: String,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    /// The output that was read so far.
    stdout: String,
    /// Its standard error so far, and the thread that reads it.
    stderr: Arc<Mutex<Vec<u8>>>,
    stderr_reader: Option<JoinHandle<()>>,
}

impl Running {
    /// Its process id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Its next line of output, without the newline.
    ///
    /// # Panics
    ///
    /// If none comes in time.
    pub fn line(&mut self) -> String {
        let line = within(DEADLINE, || match self.lines.try_recv() {
            Err(TryRecvError::Empty) => None,
            line => Some(line.ok()),
        });
        let line = line.flatten();
        let line =
            line.unwrap_or_else(|| panic!("{}: no line; it said {:?}", self.name, self.stderr()));
        self.stdout += &line;
        self.stdout.push('\n');
        line
    }

    /// Waits until the recorder has printed a line that begins with this text. Returns the line without its prefix.
    ///
    /// # Panics
    ///
    /// If none comes in time.
    #[must_use]
    pub fn wait_for_line(&self, beginning: &str) -> String {
        let what = format!("a line {beginning:?} of {}", self.name);
        until(&what, || self.said_already(beginning))
    }

    /// The same line, if the program has already printed one.
    #[must_use]
    pub fn said_already(&self, beginning: &str) -> Option<String> {
        let stderr = self.stderr();
        // The last line may not be whole.
        let (whole, _) = stderr.rsplit_once('\n')?;
        let mut lines = whole.lines().filter_map(|line| line.strip_prefix("fdr: "));
        lines
            .find(|line| line.starts_with(beginning))
            .map(str::to_owned)
    }

    /// Its standard error so far.
    fn stderr(&self) -> String {
        String::from_utf8_lossy(&lock(&self.stderr)).into_owned()
    }

    /// Gives it a line of input.
    ///
    /// # Panics
    ///
    /// If it does not read.
    pub fn tell(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().expect("its input is open");
        writeln!(stdin, "{line}").unwrap_or_else(|error| panic!("{}: {error}", self.name));
        let _ = stdin.flush();
    }

    /// Sends it a signal: `USR2`, `KILL`.
    ///
    /// # Panics
    ///
    /// If it is gone.
    pub fn signal(&self, signal: &str) {
        let kill = format!("kill -s {signal} {}", self.id());
        let status = Command::new("sh").args(["-c", &kill]).status();
        assert!(status.expect("sh runs").success(), "{}: {kill}", self.name);
    }

    /// Stops it, and waits until it stands still.
    ///
    /// # Panics
    ///
    /// If it is gone, or goes on.
    pub fn stop(&self) {
        self.signal("STOP");
        until("the program to stand still", || {
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.id())).ok()?;
            // The state follows the name, which is in parentheses.
            let (_, rest) = stat.rsplit_once(") ")?;
            rest.starts_with('T').then_some(())
        });
    }

    /// Whether it has ended.
    ///
    /// # Panics
    ///
    /// If the system does not say.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("its state").is_some()
    }

    /// Waits until something is so. Returns false if the program ends before.
    ///
    /// # Panics
    ///
    /// If neither comes in time.
    #[must_use]
    pub fn goes_on_until(&mut self, mut is_so: impl FnMut(&Running) -> bool) -> bool {
        let mut patience = Patience::new(DEADLINE);
        while !is_so(self) {
            if self.has_ended() {
                return false;
            }
            let states = || states_of_threads(self.id());
            assert!(!patience.is_over(), "{} hangs: {}", self.name, states());
            thread::sleep(LOOK);
        }
        true
    }

    /// Ends it by SIGKILL.
    ///
    /// # Panics
    ///
    /// If it cannot be killed.
    #[must_use]
    pub fn kill(mut self) -> Outcome {
        self.child.kill().expect("it can be killed");
        self.end()
    }

    /// Closes its input and waits for its end.
    ///
    /// # Panics
    ///
    /// If it does not end in time.
    #[must_use]
    pub fn end(mut self) -> Outcome {
        drop(self.stdin.take());
        let status = within(DEADLINE, || self.child.try_wait().expect("its state"));
        let status = status.unwrap_or_else(|| {
            let (name, stderr) = (&self.name, self.stderr());
            let states = states_of_threads(self.id());
            panic!("waited in vain for the end of {name}, which said {stderr:?}: {states}")
        });
        let mut stdout = std::mem::take(&mut self.stdout);
        // Ends when the last process with this output is gone.
        for line in &self.lines {
            stdout += &line;
            stdout.push('\n');
        }
        let _ = self.stderr_reader.take().map(JoinHandle::join);
        let stderr = self.stderr();
        Outcome {
            status,
            stdout,
            stderr,
        }
    }
}

/// What a process's threads are doing, for people: a letter as in `ps`, and the system call or place.
fn states_of_threads(process: u32) -> String {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task"));
    let tasks = tasks.into_iter().flatten().flatten();
    let word = |path: &Path, name: &str| std::fs::read_to_string(path.join(name));
    let state = |path: &Path| {
        let stat = word(path, "stat").ok()?;
        let letter = stat.rsplit_once(") ")?.1.chars().next()?;
        let place = word(path, "wchan").unwrap_or_default();
        Some(format!("{letter} {place}"))
    };
    let states: Vec<String> = tasks.filter_map(|task| state(&task.path())).collect();
    states.join(", ")
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Outcome {
    /// The same, where the program succeeded.
    ///
    /// # Panics
    ///
    /// If it did not.
    #[must_use]
    pub fn ok(self) -> Outcome {
        assert!(self.status.success(), "{self:#?}");
        self
    }

    /// The number that the program prints behind `key`, in a line of its own.
    ///
    /// # Panics
    ///
    /// If there is no such line, or more than one.
    #[must_use]
    pub fn fact(&self, key: &str) -> u64 {
        facts::number(&facts::only_line(&self.stdout, key)[0])
    }

    /// The reports of the program's children: process and number of records.
    #[must_use]
    pub fn children(&self) -> Vec<(u32, u64)> {
        facts::children(&self.stdout)
    }

    /// The lines of the recorder, without their prefix.
    #[must_use]
    pub fn recorder_lines(&self) -> Vec<&str> {
        let lines = self.stderr.lines();
        lines
            .filter_map(|line| line.strip_prefix("fdr: "))
            .collect()
    }
}
