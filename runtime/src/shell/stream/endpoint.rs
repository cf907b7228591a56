//! How receivers come: we connect to one, again and again with growing patience, or they connect to us,
//! or the receiver is a file or folder that we make. Says each kind of trouble once. Must never keep
//! the stream's thread for longer than one try to connect takes.

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

/// The first wait before another try to connect; each is twice the one before.
const FIRST_WAIT: Duration = Duration::from_millis(100);
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// So many clients are served at once.
const MOST_CLIENTS: usize = 32;

/// Where receivers come from.
pub(super) struct Endpoint {
    target: &'static Target,
    place: Place,
    /// When to try next; `None` = never.
    next: Option<Instant>,
    wait: Duration,
    /// The writer of a peer that went away.
    detached: Option<DetachedWriter>,
    told: Told,
}

/// Where the trace goes.
enum Place {
    Address(Address),
    /// The final path, and what it is until it is whole (nothing if it is readable from the start).
    Path {
        path: PathBuf,
        make_folders: bool,
        staged: Option<Staged>,
    },
}

/// What was said already.
#[derive(Default)]
struct Told {
    absent: bool,
    lost: bool,
    too_many: bool,
}

impl Endpoint {
    pub(super) fn to_address(target: &'static Target, address: Address) -> Endpoint {
        Endpoint::new(target, Place::Address(address))
    }

    pub(super) fn to_path(target: &'static Target, path: PathBuf, make_folders: bool) -> Endpoint {
        let place = Place::Path {
            path,
            make_folders,
            staged: None,
        };
        Endpoint::new(target, place)
    }

    fn new(target: &'static Target, place: Place) -> Endpoint {
        Endpoint {
            target,
            place,
            next: Some(Instant::now()),
            wait: FIRST_WAIT,
            detached: None,
            told: Told::default(),
        }
    }

    /// Where the trace goes, for people.
    fn name(&self) -> String {
        match &self.place {
            Place::Address(address) => connection::name(address),
            Place::Path { path, .. } => path.display().to_string(),
        }
    }

    /// Whether the trace is a file or a folder.
    pub(super) fn is_path(&self) -> bool {
        matches!(self.place, Place::Path { .. })
    }

    /// Lets receivers in that are there now. `info` is asked for what a trace says of itself.
    ///
    /// # Errors
    /// No trace can be made, now or ever.
    pub(super) fn accept_receivers(
        &mut self,
        receivers: &mut Vec<Receiver>,
        info: impl Fn() -> TraceInfo,
    ) -> io::Result<()> {
        if matches!(self.place, Place::Address(Address::Listen(_))) {
            while let Some(socket) = connection::accept() {
                if receivers.len() < MOST_CLIENTS {
                    receivers.push(Receiver::peer(socket, self.target, &info(), None)?);
                } else if !std::mem::replace(&mut self.told.too_many, true) {
                    messages::warn(format_args!(
                        "more than {MOST_CLIENTS} clients: turned away"
                    ));
                }
            }
            return Ok(());
        }
        if !receivers.is_empty() || self.next.is_none_or(|next| Instant::now() < next) {
            return Ok(());
        }
        match &mut self.place {
            Place::Path {
                path,
                make_folders,
                staged,
            } => {
                self.next = None;
                let nonce = process::random();
                let (file, output) = Staged::begin(path, *make_folders, self.target, nonce)?;
                if self.target.kind == Kind::Stream {
                    let receiver = Receiver::growing(output, self.target, &info())?;
                    file.place()?;
                    receivers.push(receiver);
                } else {
                    receivers.push(Receiver::path(output, self.target, &info())?);
                    *staged = Some(file);
                }
                Ok(())
            }
            Place::Address(address) => match connection::connect(address) {
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
        if self.told.absent || self.told.lost {
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
        if !std::mem::replace(&mut self.told.absent, true) && !self.told.lost {
            let name = self.name();
            messages::warn(format_args!(
                "{name}: {error}; what the rings can't hold until it is there is lost"
            ));
        }
        self.again();
    }

    fn again(&mut self) {
        self.next = Some(Instant::now() + self.wait);
        self.wait = (self.wait * 2).min(LONGEST_WAIT);
    }

    /// A receiver is gone.
    pub(super) fn gone(&mut self, receiver: Receiver, error: &io::Error) {
        let what = match &self.place {
            Place::Address(Address::Listen(_)) => "a client is gone",
            Place::Address(Address::Stdout) => "nobody reads it any more; what follows is lost",
            Place::Address(_) => "the connection is lost; trying again",
            Place::Path { .. } => "what follows is lost",
        };
        let name = self.name();
        if std::mem::replace(&mut self.told.lost, true) {
            messages::info(format_args!("{name}: {error}: {what}"));
        } else {
            messages::warn(format_args!("{name}: {error}: {what}"));
        }
        match &self.place {
            Place::Address(Address::Connect(_) | Address::Unix(_)) => {
                self.detached = receiver.detach();
                self.again();
            }
            Place::Address(Address::Stdout) | Place::Path { .. } => self.next = None,
            Place::Address(Address::Listen(_)) => {}
        }
    }

    /// The writer has completed the trace: it gets its final name.
    ///
    /// # Errors
    /// Where that can't be; the trace is gone then.
    pub(super) fn close(&mut self) -> io::Result<()> {
        match &mut self.place {
            Place::Path { staged, .. } => staged.take().map_or(Ok(()), Staged::place),
            Place::Address(_) => Ok(()),
        }
    }
}
