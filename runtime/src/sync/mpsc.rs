//! The channels of [`std::sync::mpsc`], whose waits are recorded: of a receiver for a message, and of a sender for room.
//!
//! [`Sender`] is the type of the standard library, because it never waits. The name of a channel is its type, and the
//! file and line of the call that made it. [`named_channel`] and [`named_sync_channel`] set another name.
//!
//! # Examples
//! ```
//! use fdr::sync::mpsc;
//!
//! let (jobs, queue) = mpsc::sync_channel(8);
//! let worker = std::thread::spawn(move || queue.iter().sum::<u32>());
//! for job in 1..=4 {
//!     jobs.send(job).unwrap();
//! }
//! drop(jobs);
//! assert_eq!(worker.join().unwrap(), 10);
//! ```

use core::any::type_name;
use core::fmt;
use core::time::Duration;
use std::sync::mpsc;

pub use std::sync::mpsc::{
    RecvError, RecvTimeoutError, SendError, Sender, TryRecvError, TrySendError,
};

use super::watch::{Origin, Waiting, is_on};

/// A channel without a bound, as [`std::sync::mpsc::channel`].
#[track_caller]
#[must_use]
pub fn channel<T>() -> (Sender<T>, Receiver<T>) {
    unbounded(Origin::here())
}

/// [`channel`] with a name.
#[must_use]
pub fn named_channel<T>(name: &'static str) -> (Sender<T>, Receiver<T>) {
    unbounded(Origin::named(name))
}

/// A channel with room for `bound` messages, as [`std::sync::mpsc::sync_channel`].
#[track_caller]
#[must_use]
pub fn sync_channel<T>(bound: usize) -> (SyncSender<T>, Receiver<T>) {
    bounded(Origin::here(), bound)
}

/// [`sync_channel`] with a name.
#[must_use]
pub fn named_sync_channel<T>(name: &'static str, bound: usize) -> (SyncSender<T>, Receiver<T>) {
    bounded(Origin::named(name), bound)
}

fn unbounded<T>(origin: Origin) -> (Sender<T>, Receiver<T>) {
    let (sender, inner) = mpsc::channel();
    (sender, Receiver { origin, inner })
}

fn bounded<T>(origin: Origin, bound: usize) -> (SyncSender<T>, Receiver<T>) {
    let (sender, inner) = mpsc::sync_channel(bound);
    let sender = SyncSender {
        origin: origin.clone(),
        inner: sender,
    };
    (sender, Receiver { origin, inner })
}

/// [`std::sync::mpsc::Receiver`], whose waits are recorded.
pub struct Receiver<T> {
    origin: Origin,
    inner: mpsc::Receiver<T>,
}

/// [`std::sync::mpsc::SyncSender`], whose waits are recorded.
pub struct SyncSender<T> {
    origin: Origin,
    inner: mpsc::SyncSender<T>,
}

impl<T> Receiver<T> {
    /// A message, if there is one.
    ///
    /// # Errors
    /// If there is no message now, or if all senders are gone.
    #[inline]
    pub fn try_recv(&self) -> Result<T, TryRecvError> {
        self.inner.try_recv()
    }

    /// Waits for a message.
    ///
    /// # Errors
    /// If there will be none, because there is no sender.
    #[inline]
    pub fn recv(&self) -> Result<T, RecvError> {
        if is_on() {
            return self.watched(|| self.inner.recv(), || RecvError);
        }
        self.inner.recv()
    }

    /// Waits for a message, for a time at most.
    ///
    /// # Errors
    /// If none came, or there will be none.
    #[inline]
    pub fn recv_timeout(&self, timeout: Duration) -> Result<T, RecvTimeoutError> {
        if is_on() {
            let recv = || self.inner.recv_timeout(timeout);
            return self.watched(recv, || RecvTimeoutError::Disconnected);
        }
        self.inner.recv_timeout(timeout)
    }

    /// The messages, as they come.
    pub fn iter(&self) -> Iter<'_, T> {
        Iter { receiver: self }
    }

    /// The messages that there are now.
    pub fn try_iter(&self) -> TryIter<'_, T> {
        TryIter { receiver: self }
    }

    #[cold]
    #[inline(never)]
    fn watched<E>(
        &self,
        recv: impl FnOnce() -> Result<T, E>,
        disconnected: impl FnOnce() -> E,
    ) -> Result<T, E> {
        match self.inner.try_recv() {
            Ok(message) => return Ok(message),
            Err(TryRecvError::Disconnected) => return Err(disconnected()),
            Err(TryRecvError::Empty) => {}
        }
        let mut waiting = Waiting::for_channel(&self.origin, type_name::<Receiver<T>>());
        waiting.blocks();
        recv()
    }
}

impl<T> SyncSender<T> {
    /// Sends a message, and waits for room.
    ///
    /// # Errors
    /// If there is no receiver. The error has the message.
    #[inline]
    pub fn send(&self, message: T) -> Result<(), SendError<T>> {
        if is_on() {
            return self.send_watched(message);
        }
        self.inner.send(message)
    }

    /// Sends a message if there is room.
    ///
    /// # Errors
    /// If there is no room, or no receiver. The error has the message.
    #[inline]
    pub fn try_send(&self, message: T) -> Result<(), TrySendError<T>> {
        self.inner.try_send(message)
    }

    #[cold]
    #[inline(never)]
    fn send_watched(&self, message: T) -> Result<(), SendError<T>> {
        match self.inner.try_send(message) {
            Ok(()) => Ok(()),
            Err(TrySendError::Disconnected(message)) => Err(SendError(message)),
            Err(TrySendError::Full(message)) => {
                let of = type_name::<SyncSender<T>>();
                let mut waiting = Waiting::for_channel(&self.origin, of);
                waiting.blocks();
                self.inner.send(message)
            }
        }
    }
}

impl<T> Clone for SyncSender<T> {
    fn clone(&self) -> SyncSender<T> {
        SyncSender {
            origin: self.origin.clone(),
            inner: self.inner.clone(),
        }
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl<T> fmt::Debug for SyncSender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

/// What [`Receiver::iter`] gives.
#[derive(Debug)]
pub struct Iter<'a, T> {
    receiver: &'a Receiver<T>,
}

impl<T> Iterator for Iter<'_, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        self.receiver.recv().ok()
    }
}

/// What [`Receiver::try_iter`] gives.
#[derive(Debug)]
pub struct TryIter<'a, T> {
    receiver: &'a Receiver<T>,
}

impl<T> Iterator for TryIter<'_, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        self.receiver.try_recv().ok()
    }
}

/// The iterator of `for message in receiver`, which owns the receiver.
#[derive(Debug)]
pub struct IntoIter<T> {
    receiver: Receiver<T>,
}

impl<T> Iterator for IntoIter<T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        self.receiver.recv().ok()
    }
}

impl<T> IntoIterator for Receiver<T> {
    type Item = T;
    type IntoIter = IntoIter<T>;

    fn into_iter(self) -> IntoIter<T> {
        IntoIter { receiver: self }
    }
}

impl<'a, T> IntoIterator for &'a Receiver<T> {
    type Item = T;
    type IntoIter = Iter<'a, T>;

    fn into_iter(self) -> Iter<'a, T> {
        self.iter()
    }
}
