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

use super::feed::{Feed, Parked};
use crate::dump::staged::Staged;
use crate::messages;
use crate::shell::link;
use crate::sys::{process, socket::Socket};

/// The first wait before another try to connect; each is twice the one before.
const FIRST_WAIT: Duration = Duration::from_millis(100);
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// So many clients are served at once.
const MOST_CLIENTS: usize = 32;

/// Where receivers come from.
pub(super) struct Door {
    target: &'static Target,
    place: Place,
    /// When to try next; `None` = never.
    next: Option<Instant>,
    wait: Duration,
    /// The writer of a peer that went away.
    parked: Option<Parked>,
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
    crowd: bool,
}

impl Door {
    pub(super) fn to_address(target: &'static Target, address: Address) -> Door {
        Door::new(target, Place::Address(address))
    }

    pub(super) fn to_path(target: &'static Target, path: PathBuf, make_folders: bool) -> Door {
        let place = Place::Path {
            path,
            make_folders,
            staged: None,
        };
        Door::new(target, place)
    }

    fn new(target: &'static Target, place: Place) -> Door {
        Door {
            target,
            place,
            next: Some(Instant::now()),
            wait: FIRST_WAIT,
            parked: None,
            told: Told::default(),
        }
    }

    /// Where the trace goes, for people.
    fn name(&self) -> String {
        match &self.place {
            Place::Address(address) => link::name(address),
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
    pub(super) fn let_in(
        &mut self,
        feeds: &mut Vec<Feed>,
        info: impl Fn() -> TraceInfo,
    ) -> io::Result<()> {
        if matches!(self.place, Place::Address(Address::Listen(_))) {
            while let Some(socket) = link::accept() {
                if feeds.len() < MOST_CLIENTS {
                    feeds.push(Feed::peer(socket, self.target, &info(), None)?);
                } else if !std::mem::replace(&mut self.told.crowd, true) {
                    messages::warn(format_args!(
                        "more than {MOST_CLIENTS} clients: turned away"
                    ));
                }
            }
            return Ok(());
        }
        if !feeds.is_empty() || self.next.is_none_or(|next| Instant::now() < next) {
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
                    let feed = Feed::growing(output, self.target, &info())?;
                    file.place()?;
                    feeds.push(feed);
                } else {
                    feeds.push(Feed::path(output, self.target, &info())?);
                    *staged = Some(file);
                }
                Ok(())
            }
            Place::Address(address) => match link::connect(address) {
                Ok(socket) => self.connected(socket, feeds, &info()),
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
        feeds: &mut Vec<Feed>,
        info: &TraceInfo,
    ) -> io::Result<()> {
        if self.told.absent || self.told.lost {
            messages::info(format_args!("{}: connected", self.name()));
        }
        self.wait = FIRST_WAIT;
        feeds.push(Feed::peer(socket, self.target, info, self.parked.take())?);
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
    pub(super) fn gone(&mut self, feed: Feed, error: &io::Error) {
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
                self.parked = feed.park();
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
