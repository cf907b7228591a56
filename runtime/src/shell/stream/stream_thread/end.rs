//! The end of a stream: the counts of every thread, the end of the trace, and a limited wait until peers have
//! taken the rest. A peer that takes nothing must never keep the process from ending.

use std::io;
use std::time::{Duration, Instant};

use super::{CONTROL, Receiver, StreamThread, trace_info};

/// How long a peer may take nothing at the end, and how long a peer may take in total.
const GRACE: Duration = Duration::from_secs(2);
const MAX_END: Duration = Duration::from_secs(30);

/// How long records are read at the end if a signal ends the process. Who sends SIGTERM often sends SIGKILL after 10 s.
const MAX_READING: Duration = Duration::from_secs(6);

/// Whether the rest of the records is given up.
pub(super) fn is_late(since: Instant) -> bool {
    CONTROL.ends_by_signal() && since.elapsed() > MAX_READING
}

impl StreamThread {
    /// Gives up the peers that keep the process from ending.
    pub(super) fn give_up(&mut self, end: Instant) {
        let over = end.elapsed() > MAX_END;
        let stuck = |receiver: &Receiver| {
            let still = receiver.progress.elapsed() > GRACE;
            !receiver.is_ready() && (over || still)
        };
        let (stuck, others) = std::mem::take(&mut self.receivers)
            .into_iter()
            .partition(stuck);
        self.receivers = others;
        let stuck: Vec<Receiver> = stuck;
        for receiver in stuck {
            let error = io::Error::new(io::ErrorKind::TimedOut, "the peer does not take the rest");
            self.endpoint.gone(receiver, &error);
        }
        self.settle();
    }

    /// Completes the trace of every receiver, and waits until the receivers have taken it.
    pub(super) fn end(&mut self, since: Instant) {
        for slot in self.ring.slots() {
            self.count(slot, core::ptr::from_ref(slot).addr(), true);
        }
        if self.endpoint.is_path() {
            CONTROL.writes();
        }
        let end = trace_info::now(self.state);
        for mut receiver in std::mem::take(&mut self.receivers) {
            match receiver.finish(end) {
                Ok(losses) => {
                    self.losses = losses;
                    self.receivers.push(receiver);
                }
                Err(error) => self.failed = Some(error),
            }
        }
        if self.failed.is_none() {
            self.failed = self.endpoint.close().err();
        }
        loop {
            self.push();
            self.give_up(since);
            let Some(socket) = self.receivers.iter().find(|receiver| !receiver.is_ready()) else {
                break;
            };
            if let Some(socket) = socket.socket() {
                socket.wait(Duration::from_millis(10));
            }
        }
        self.receivers.drain(..).for_each(Receiver::end);
        self.settle();
        if self.failed.is_some() && self.endpoint.is_path() {
            self.totals.streamed = 0;
        }
        let all = trace_info::recorded(self.ring);
        self.totals.lost = all.saturating_sub(self.totals.streamed);
        CONTROL.publish(self.totals, 0);
    }
}
