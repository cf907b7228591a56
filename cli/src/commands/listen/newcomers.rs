//! Connections that have not sent enough bytes yet to show whether they send a trace. Anybody who reaches the address
//! can connect. A connection that sends something else is closed, and its bytes are dropped. So a stranger can neither
//! end the command nor write into the program's file.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read};
use std::os::fd::AsFd;
use std::time::Instant;

use fdr_formats::registry;

use super::peers::{Listener, Peer};
use crate::input::packed;
use crate::signals::Stop;
use crate::ui::{self, Arrivals};

/// Bytes that tell the format of a file.
const HEAD: usize = 64;
/// The most connections that wait at the same time. One more connection closes the oldest one.
const MAX_WAITING: usize = 64;
/// The most messages about connections that send no trace. Without this bound a stranger could fill a log.
const MAX_MESSAGES: u32 = 20;

/// Those that wait.
#[derive(Debug, Default)]
pub(super) struct Newcomers {
    waiting: VecDeque<Peer>,
    messages: u32,
}

/// What the first bytes of a connection tell.
enum Kind {
    Trace,
    Other,
    /// More have to come.
    Unknown,
}

fn kind(head: &[u8]) -> Kind {
    match registry::of_file(head).is_some() || packed::probe(head) {
        true => Kind::Trace,
        false if head.len() >= HEAD => Kind::Other,
        false => Kind::Unknown,
    }
}

impl Newcomers {
    /// Waits for the next peer that sends a trace. `None`: `end` has come first, or the user has ended the command.
    ///
    /// # Errors
    /// The system's error, if another try would not help.
    pub(super) fn next(
        &mut self,
        listener: &Listener,
        stop: &Stop,
        end: Option<Instant>,
        progress: &Arrivals,
    ) -> io::Result<Option<Peer>> {
        loop {
            let streams = self.waiting.iter().map(|peer| peer.stream.as_fd());
            let all: Vec<_> = std::iter::once(listener.as_fd()).chain(streams).collect();
            let ready = stop.wait_for_any(&all, end)?;
            if !ready.contains(&true) {
                return Ok(None);
            }
            // The last ones first: places of others stay as they are.
            for nth in (1..ready.len()).rev().filter(|&nth| ready[nth]) {
                if let Some(peer) = self.read(nth - 1, progress) {
                    return Ok(Some(peer));
                }
            }
            if ready[0]
                && let Some(peer) = listener.accept()?
            {
                self.waiting.push_back(peer);
                if self.waiting.len() > MAX_WAITING
                    && let Some(oldest) = self.waiting.pop_front()
                {
                    self.report(&oldest, "too many connections wait", progress);
                }
            }
        }
    }

    /// Reads what one has sent. Returns it if it sends a trace.
    fn read(&mut self, nth: usize, progress: &Arrivals) -> Option<Peer> {
        let peer = self.waiting.get_mut(nth)?;
        let mut buffer = [0; HEAD];
        let room = HEAD - peer.head.len();
        let end = match peer.stream.read(&mut buffer[..room]) {
            Ok(0) => String::new(),
            Ok(count) => {
                peer.head.extend_from_slice(&buffer[..count]);
                match kind(&peer.head) {
                    Kind::Trace => return self.waiting.remove(nth),
                    Kind::Unknown => return None,
                    Kind::Other => String::new(),
                }
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => return None,
            Err(error) => format!("the connection broke: {error}"),
        };
        if let Some(peer) = self.waiting.remove(nth) {
            self.report(&peer, &end, progress);
        }
        None
    }

    /// Says of a connection that no trace came.
    fn report(&mut self, peer: &Peer, end: &str, progress: &Arrivals) {
        self.messages = self.messages.saturating_add(1);
        if self.messages > MAX_MESSAGES {
            return;
        }
        let from = match &*peer.name {
            "" => String::new(),
            name => format!(" from {name}"),
        };
        let what = match peer.head.is_empty() {
            true => format!("nothing came{from}"),
            false => format!("what came{from} is no trace, and is not kept"),
        };
        let end = match end {
            "" => String::new(),
            end => format!(": {end}"),
        };
        let last = match self.messages == MAX_MESSAGES {
            true => " (the last message of this kind)",
            false => "",
        };
        progress.aside(|| ui::complain(&format!("{what}{end}{last}")));
    }
}
