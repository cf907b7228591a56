//! The control block of a running process's ring: one command in, one answer out. `fdr_formats::ring::control` has the
//! protocol.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::AtomicU32;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use fdr_formats::ring::control::{self, Head, Kind};
use fdr_formats::ring::layout;
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use rustix::thread::futex;
use vmap::MapMut;
use zerocopy::FromBytes;

use crate::ring::find::{self, RingAccess};

/// How long a process may take until it reads a command, and how long another tool may take with its command.
const MAX_ANSWER_TIME: Duration = Duration::from_secs(2);
/// The shortest and the longest pause between two looks at the block.
const MIN_PAUSE: Duration = Duration::from_micros(20);
const MAX_PAUSE: Duration = Duration::from_millis(1);

/// The block of one ring.
pub(super) struct Channel {
    process: u32,
    file: File,
    at: u64,
    /// The page of the block's head. Only its address is used, to wake the process.
    page: MapMut,
}

/// The control blocks of the rings that the process records into. There is more than one if the process has several
/// versions of the recorder.
///
/// # Errors
/// If there is no such process, if this user may not inspect it, or if it takes no commands.
pub(super) fn open(process: u32) -> anyhow::Result<Vec<Channel>> {
    let mut channels = Vec::new();
    for mapped in find::rings(process, RingAccess::Writing)? {
        let mut head = [0; layout::HEADER_SIZE];
        mapped.file.read_exact_at(&mut head, 0)?;
        let at = layout::Header::decode(&head).map_or(0, |header| header.control);
        if at == 0 {
            continue;
        }
        let is_whole = at
            .checked_add(control::SIZE as u64)
            .is_some_and(|end| mapped.file.metadata().is_ok_and(|file| end <= file.len()));
        if !at.is_multiple_of(8) || !is_whole {
            bail!(
                "the ring of process {process} is damaged: its control block is at {at}, behind the file's end"
            );
        }
        let page = MapMut::with_options()
            .offset(usize::try_from(at)?)
            .len(4)
            .map(&mapped.file);
        let page = page.with_context(|| format!("the ring of process {process}"))?;
        channels.push(Channel {
            process,
            file: mapped.file,
            at,
            page,
        });
    }
    if channels.is_empty() {
        bail!(
            "process {process} has an older version of the recorder, which takes no commands: send it the dump signal, \
             or build it with the present fdr"
        );
    }
    // A process that has just begun has no thread yet. A copy of the recorder that is not in use never has one.
    let end = Instant::now() + MAX_ANSWER_TIME;
    loop {
        let mut listening = Vec::new();
        for (at, channel) in channels.iter().enumerate() {
            if channel.head()?.listens {
                listening.push(at);
            }
        }
        if !listening.is_empty() {
            let mut at = 0..;
            channels.retain(|_| at.next().is_some_and(|at| listening.contains(&at)));
            return Ok(channels);
        }
        if Instant::now() > end {
            bail!(
                "process {process} has no recorder's thread that takes commands: it is the child of a fork, which has \
                 one only after fdr::enable(), or {}",
                state_in_words(process)
            );
        }
        thread::sleep(MAX_PAUSE);
    }
}

impl Channel {
    /// Has the process carry out a command. Returns the answer, or why the process refused.
    ///
    /// # Errors
    /// Where the process does not answer.
    pub(super) fn ask(&mut self, kind: Kind, text: &str) -> anyhow::Result<Result<String, String>> {
        let _alone = self.lock()?;
        let head = self.head()?;
        let number = next_number(&head);
        self.write(number, kind, text)?;
        let begin = Instant::now();
        let mut pause = MIN_PAUSE;
        loop {
            let head = self.head()?;
            if head.answered == number {
                return self.answer(number);
            }
            if find::has_ended(self.process) {
                bail!("process {} ended before it answered", self.process);
            }
            // Once the command was read, only the process's end can stop it: a large trace takes its time.
            if head.received != number && begin.elapsed() > MAX_ANSWER_TIME {
                self.write(number.wrapping_add(1), Kind::Nothing, "")?;
                bail!(
                    "process {} did not answer in {} s, and the command was withdrawn: {}",
                    self.process,
                    MAX_ANSWER_TIME.as_secs(),
                    state_in_words(self.process)
                );
            }
            thread::sleep(pause);
            pause = (pause * 2).min(MAX_PAUSE);
        }
    }

    fn head(&self) -> anyhow::Result<Head> {
        let mut bytes = [0; control::COMMAND_AT];
        self.file
            .read_exact_at(&mut bytes, self.at)
            .map_err(|_| self.is_cut())?;
        control::decode_head(&bytes).ok_or_else(|| self.is_cut())
    }

    /// Writes a command and wakes the process.
    fn write(&mut self, number: u32, kind: Kind, text: &str) -> anyhow::Result<()> {
        let Some(bytes) = control::encode_command(number, kind, text) else {
            bail!(
                "the text has {} bytes; at most {} fit",
                text.len(),
                control::MAX_TEXT
            );
        };
        // If another program has cut the file, a write behind its end would make it longer.
        let end = self.at + control::SIZE as u64;
        if self.file.metadata()?.len() < end {
            return Err(self.is_cut());
        }
        self.file
            .write_all_at(&bytes, self.at + control::COMMAND_AT as u64)?;
        self.file.write_all_at(&number.to_le_bytes(), self.at)?;
        self.wake()
    }

    fn wake(&mut self) -> anyhow::Result<()> {
        if let Ok(word) = AtomicU32::mut_from_bytes(&mut self.page) {
            let woken = futex::wake(word, futex::Flags::empty(), 1);
            woken.context("waking the recorder's thread")?;
        }
        Ok(())
    }

    fn answer(&self, number: u32) -> anyhow::Result<Result<String, String>> {
        let mut bytes = [0; control::ANSWER_SIZE];
        let at = self.at + control::ANSWER_AT as u64;
        self.file
            .read_exact_at(&mut bytes, at)
            .map_err(|_| self.is_cut())?;
        match control::decode_answer(number, &bytes) {
            Some(answer) => Ok(answer.map(str::to_owned).map_err(str::to_owned)),
            None => bail!(
                "the answer of process {} is damaged: try again",
                self.process
            ),
        }
    }

    fn is_cut(&self) -> anyhow::Error {
        anyhow::anyhow!(
            "the ring file of process {} was cut short by somebody: the process records no more",
            self.process
        )
    }

    /// Waits until no other tool is at work. The lock is of the open file, so it ends with this process at the latest.
    fn lock(&self) -> anyhow::Result<Locked> {
        let file = self.file.try_clone()?;
        let end = Instant::now() + MAX_ANSWER_TIME;
        loop {
            match fcntl(&file, FcntlArg::F_OFD_SETLK(&self.range(libc::F_WRLCK))) {
                Ok(_) => {
                    let range = self.range(libc::F_UNLCK);
                    return Ok(Locked { file, range });
                }
                Err(Errno::EAGAIN | Errno::EACCES) if Instant::now() < end => {
                    thread::sleep(MAX_PAUSE);
                }
                Err(Errno::EAGAIN | Errno::EACCES) => bail!(
                    "another fdr ctl is at work on process {}, or waits for its trace: try again when it is done",
                    self.process
                ),
                Err(error) => return Err(io::Error::from(error).into()),
            }
        }
    }

    /// The bytes of the block's head.
    fn range(&self, kind: i32) -> libc::flock {
        libc::flock {
            l_type: kind as libc::c_short,
            l_whence: libc::SEEK_SET as libc::c_short,
            l_start: self.at as libc::off_t,
            l_len: control::COMMAND_AT as libc::off_t,
            l_pid: 0,
        }
    }
}

/// The lock, until this is dropped.
struct Locked {
    file: File,
    range: libc::flock,
}

impl Drop for Locked {
    fn drop(&mut self) {
        let _ = fcntl(&self.file, FcntlArg::F_OFD_SETLK(&self.range));
    }
}

/// A number that no command has that may still be under way.
fn next_number(head: &Head) -> u32 {
    let mut number = head.requested.wrapping_add(1);
    while number == head.answered || number == head.received {
        number = number.wrapping_add(1);
    }
    number
}

/// Why a process may be silent, and what to do.
fn state_in_words(process: u32) -> String {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let state = stat
        .rsplit_once(") ")
        .and_then(|(_, rest)| rest.chars().next());
    match state {
        Some('T') => format!("it is stopped; kill -CONT {process} lets it go on"),
        Some('t') => "a debugger has stopped it".to_owned(),
        _ => "its recorder's thread is busy, for example with a trace to a slow place; fdr dump asks nothing of it"
            .to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_none_that_is_under_way() {
        let head = |requested, answered, received| Head {
            requested,
            answered,
            received,
            listens: true,
            moments: 0,
        };
        assert_eq!(next_number(&head(0, 0, 0)), 1);
        assert_eq!(next_number(&head(u32::MAX, u32::MAX, u32::MAX)), 0);
        assert_eq!(next_number(&head(4, 5, 6)), 7);
    }

    #[test]
    fn a_stopped_process_is_reported() {
        assert!(state_in_words(std::process::id()).contains("busy"));
    }
}
