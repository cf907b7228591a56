//! How the programs of this package print entries, in one form for both versions of `entrace_core`.

use std::fmt::Debug;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// One entry, as ENTRACE's own reader has it.
#[derive(Debug)]
pub struct Line {
    pub parent: u32,
    pub children: Vec<u32>,
    pub message: Option<String>,
    pub name: String,
    pub target: String,
    pub level: String,
    pub module: Option<String>,
    pub file: Option<String>,
    pub line: Option<u32>,
    /// Name and value, as Rust prints it: `U64(5)`.
    pub attributes: Vec<(String, String)>,
}

/// Whatever went wrong.
pub type Error = Box<dyn std::error::Error>;

/// What both versions' readers can do.
pub trait Entries {
    /// Takes over what the reader's own thread has read.
    fn pump(&mut self);
    /// How many entries there are so far.
    fn count(&self) -> usize;
    /// An entry.
    fn line(&self, index: u32) -> Result<Line, Error>;
}

/// Waits for `wanted` entries, and prints each in a line.
pub fn print(entries: &mut dyn Entries, wanted: usize) -> Result<(), Error> {
    let end = Instant::now() + Duration::from_secs(60);
    let last = u32::try_from(wanted)?.saturating_sub(1);
    loop {
        entries.pump();
        // Entries and their children arrive one after the other.
        if entries.count() >= wanted && entries.line(last).is_ok() {
            break;
        }
        if Instant::now() > end {
            let count = entries.count();
            return Err(format!("{count} of {wanted} entries came").into());
        }
        sleep(Duration::from_millis(5));
    }
    for index in 0..u32::try_from(entries.count())? {
        println!("{:?}", entries.line(index)?);
    }
    Ok(())
}

/// The same text whatever the type.
pub fn shown(value: &impl Debug) -> String {
    format!("{value:?}")
}

/// Reading with one version of the crate: `load` for a file, `listen` for a program that connects.
/// `open` and `attributes` are what the versions do not have in common.
macro_rules! version {
    ($name:ident, $core:ident, { $($different:tt)* }) => {
        pub mod $name {
            use std::net::TcpListener;
            use std::path::Path;

            use $core::remote::{IETEvent, IETInfo, RemoteLogProvider};
            use $core::{IETPresentationConfig, LoadConfig, LogProvider};

            use super::{Entries, Error, Line, shown};

            $($different)*

            struct Read<P: ?Sized>(Box<P>);

            impl<P: LogProvider + ?Sized> Entries for Read<P> {
                fn pump(&mut self) {
                    self.0.frame_callback();
                }

                fn count(&self) -> usize {
                    self.0.len()
                }

                fn line(&self, index: u32) -> Result<Line, Error> {
                    let provider = &*self.0;
                    let meta = provider.meta(index)?;
                    Ok(Line {
                        parent: provider.parent(index)?,
                        children: provider.children(index)?.to_vec(),
                        message: provider.header(index)?.message.map(str::to_owned),
                        name: meta.name.to_owned(),
                        target: meta.target.to_owned(),
                        level: shown(&meta.level),
                        module: meta.module_path.map(str::to_owned),
                        file: meta.file.map(str::to_owned),
                        line: meta.line,
                        attributes: attributes(provider, index)?,
                    })
                }
            }

            /// Prints a file's entries.
            ///
            /// # Errors
            /// What the reader says.
            pub fn load(path: &Path, wanted: usize) -> Result<(), Error> {
                super::print(&mut Read(open(path)?), wanted)
            }

            /// Prints where it listens; accepts one connection, and prints its entries when it is
            /// closed.
            ///
            /// # Errors
            /// What the reader says.
            pub fn listen(wanted: usize) -> Result<(), Error> {
                let listener = TcpListener::bind("127.0.0.1:0")?;
                println!("{}", listener.local_addr()?);
                let (sender, events) = crossbeam_channel::unbounded();
                let mut config = IETPresentationConfig::default();
                config.event_tx = Some(sender);
                let provider = RemoteLogProvider::new(listener, config);
                for event in events {
                    match event {
                        IETEvent::Info(IETInfo::RemoteClosedConnection) => break,
                        IETEvent::Info(_) => {}
                        IETEvent::Error(error) => return Err(error.into()),
                    }
                }
                super::print(&mut Read(Box::new(provider)), wanted)
            }
        }
    };
}

version!(one, entrace_core_1, {
    fn open(path: &Path) -> Result<Box<dyn LogProvider + Send + Sync>, Error> {
        // SAFETY: the file is mapped, and nobody changes it while this program runs.
        Ok(unsafe { entrace_core_1::load_trace(path.to_owned(), LoadConfig::default()) }?)
    }

    fn attributes<P: LogProvider + ?Sized>(
        provider: &P,
        index: u32,
    ) -> Result<Vec<(String, String)>, Error> {
        let attributes = provider.attrs(index)?;
        let attributes = attributes.iter();
        Ok(attributes
            .map(|(name, value)| ((*name).to_owned(), shown(value)))
            .collect())
    }
});

version!(two, entrace_core_2, {
    fn open(path: &Path) -> Result<Box<dyn LogProvider>, Error> {
        // SAFETY: the file is mapped, and nobody changes it while this program runs.
        let provider = unsafe { entrace_core_2::load_trace(path, LoadConfig::default()) }?;
        Ok(Box::new(provider))
    }

    fn attributes<P: LogProvider + ?Sized>(
        provider: &P,
        index: u32,
    ) -> Result<Vec<(String, String)>, Error> {
        let names = provider.attr_names(index)?;
        let values = provider.attr_values(index)?;
        assert_eq!(names.len(), values.len());
        for (name, value) in names.iter().zip(&values) {
            // The search that ENTRACE's viewer makes, which needs sorted names.
            let found = provider.attr_value(index, name)?;
            assert_eq!(
                found.as_ref().map(shown),
                Some(shown(value)),
                "{name} is not found"
            );
        }
        let attributes = names.iter().zip(&values);
        Ok(attributes
            .map(|(name, value)| ((*name).to_owned(), shown(value)))
            .collect())
    }
});
