//! The ways to get receivers. The recorder connects to one, and tries again with growing pauses. Or clients
//! connect to the recorder. Or the receiver is a file that the recorder makes. Each kind of failure
//! is a warning once. The stream's thread must never wait here for longer than one try to connect.

use core::time::Duration;
use std::io;
use std::path::PathBuf;
use std::time::Instant;

use fdr_formats::TraceInfo;
use fdr_formats::address::Address;
use fdr_formats::writer::{Kind, Target};

use super::receiver::{DetachedWriter, Receiver};
use crate::dump::staged::Staged;
use crate::messages;
use crate::shell::connection;
use crate::sys::{process, socket::Socket};

/// The first pause before another try to connect. Each pause is twice the one before.
const FIRST_WAIT: Duration = Duration::from_millis(100);
const MAX_WAIT: Duration = Duration::from_secs(5);

/// The largest number of clients at once.
const MAX_CLIENTS: usize = 32;

/// The source of receivers.
pub(super) struct Endpoint {
    target: &'static Target,
    place: Destination,
    /// When to try next. `None` = never.
    next: Option<Instant>,
    wait: Duration,
    /// The writer of a peer that went away.
    detached: Option<DetachedWriter>,
    printed: PrintedWarnings,
}

/// The destination of the trace.
enum Destination {
    Address(Address),
    /// The final path, and the trace under its temporary name. `staged` is `None` for a trace that is readable
    /// from the start.
    Path {
        path: PathBuf,
        make_folders: bool,
        staged: Option<Staged>,
    },
}

/// The warnings that were printed already.
#[derive(Default)]
struct PrintedWarnings {
    absent: bool,
    lost: bool,
    too_many: bool,
}

impl Endpoint {
    pub(super) fn to_address(target: &'static Target, address: Address) -> Endpoint {
        Endpoint::new(target, Destination::Address(address))
    }

    pub(super) fn to_path(target: &'static Target, path: PathBuf, make_folders: bool) -> Endpoint {
        let place = Destination::Path {
            path,
            make_folders,
            staged: None,
        };
        Endpoint::new(target, place)
    }

    fn new(target: &'static Target, place: Destination) -> Endpoint {
        Endpoint {
            target,
            place,
            next: Some(Instant::now()),
            wait: FIRST_WAIT,
            detached: None,
            printed: PrintedWarnings::default(),
        }
    }

    /// The destination of the trace, for people.
    fn name(&self) -> String {
        match &self.place {
            Destination::Address(address) => connection::name(address),
            Destination::Path { path, .. } => path.display().to_string(),
        }
    }

    /// Whether the trace is a file.
    pub(super) fn is_path(&self) -> bool {
        matches!(self.place, Destination::Path { .. })
    }

    /// Adds the receivers that are available now. `info` returns what the trace says of itself.
    ///
    /// # Errors
    /// No trace can be made, now or later.
    pub(super) fn accept_receivers(
        &mut self,
        receivers: &mut Vec<Receiver>,
        info: impl Fn() -> TraceInfo,
    ) -> io::Result<()> {
        if matches!(self.place, Destination::Address(Address::Listen(_))) {
            while let Some(socket) = connection::accept() {
                if receivers.len() < MAX_CLIENTS {
                    receivers.push(Receiver::peer(socket, self.target, &info(), None)?);
                } else if !std::mem::replace(&mut self.printed.too_many, true) {
                    messages::warn(format_args!("more than {MAX_CLIENTS} clients: turned away"));
                }
            }
            return Ok(());
        }
        if !receivers.is_empty() || self.next.is_none_or(|next| Instant::now() < next) {
            return Ok(());
        }
        match &mut self.place {
            Destination::Path {
                path,
                make_folders,
                staged,
            } => {
                self.next = None;
                let nonce = process::random();
                let (trace, file) = Staged::begin(path, *make_folders, nonce)?;
                if self.target.kind == Kind::Stream {
                    let receiver = Receiver::growing(file, self.target, &info())?;
                    trace.place()?;
                    receivers.push(receiver);
                } else {
                    receivers.push(Receiver::path(file, self.target, &info())?);
                    *staged = Some(trace);
                }
                Ok(())
            }
            Destination::Address(address) => match connection::connect(address) {
                Ok(socket) => self.connected(socket, receivers, &info()),
                Err(error) => {
                    self.absent(&error);
                    Ok(())
                }
            },
        }
    }

    fn connected(
        &mut self,
        socket: Socket,
        receivers: &mut Vec<Receiver>,
        info: &TraceInfo,
    ) -> io::Result<()> {
        if self.printed.absent || self.printed.lost {
            messages::info(format_args!("{}: connected", self.name()));
        }
        self.wait = FIRST_WAIT;
        receivers.push(Receiver::peer(
            socket,
            self.target,
            info,
            self.detached.take(),
        )?);
        Ok(())
    }

    fn absent(&mut self, error: &io::Error) {
        if !std::mem::replace(&mut self.printed.absent, true) && !self.printed.lost {
            let name = self.name();
            messages::warn(format_args!(
                "{name}: {error}; what the rings can't hold until it is there is lost"
            ));
        }
        self.again();
    }

    fn again(&mut self) {
        self.next = Some(Instant::now() + self.wait);
        self.wait = (self.wait * 2).min(MAX_WAIT);
    }

    /// Handles the loss of a receiver.
    pub(super) fn gone(&mut self, receiver: Receiver, error: &io::Error) {
        let what = match &self.place {
            Destination::Address(Address::Listen(_)) => "a client is gone",
            Destination::Address(Address::Stdout) => {
                "nobody reads it any more; what follows is lost"
            }
            Destination::Address(_) => "the connection is lost; trying again",
            Destination::Path { .. } => "what follows is lost",
        };
        let name = self.name();
        if std::mem::replace(&mut self.printed.lost, true) {
            messages::info(format_args!("{name}: {error}: {what}"));
        } else {
            messages::warn(format_args!("{name}: {error}: {what}"));
        }
        match &self.place {
            Destination::Address(Address::Connect(_) | Address::Unix(_)) => {
                self.detached = receiver.detach();
                self.again();
            }
            Destination::Address(Address::Stdout) | Destination::Path { .. } => self.next = None,
            Destination::Address(Address::Listen(_)) => {}
        }
    }

    /// Gives the trace its final name. The writer has completed it.
    ///
    /// # Errors
    /// The rename failed. The trace is then removed.
    pub(super) fn close(&mut self) -> io::Result<()> {
        match &mut self.place {
            Destination::Path { staged, .. } => staged.take().map_or(Ok(()), Staged::place),
            Destination::Address(_) => Ok(()),
        }
    }
}
