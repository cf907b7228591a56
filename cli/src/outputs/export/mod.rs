//! Exports: formats of other people's viewers, which fdr writes and never reads. One file a format. An export sees
//! complete calls, as [`walker`] gives them, or paths of calls, as [`paths`] does. It must never match calls by
//! itself, and never be silent about what its format can't hold.

mod chrome;
mod csv;
mod facts;
mod firefox;
mod folded;
mod happenings;
mod left_out;
mod otlp;
mod paths;
mod perfetto;
mod perfetto_messages;
mod pprof;
mod receiver;
mod spool;
mod survey;
#[cfg(test)]
mod tests;
mod value;
mod walker;

use std::io::{self, BufWriter, Write};
use std::sync::Arc;

use fdr_formats::writer::{Kind, Output, Target, Writer, WriterResult};
use fdr_formats::{Error, Source, TraceInfo};

use self::facts::Facts;
use self::receiver::Receiver;
use self::survey::Survey;
use self::walker::Walker;

/// Where the bytes go.
type Out = BufWriter<Box<dyn Write + Send>>;

/// A format that is written and not read.
pub(crate) struct Export {
    pub(crate) target: Target,
    /// The parts of a trace that the format can hold.
    holds: Capabilities,
    make: Make,
}

/// Begins to write calls.
type MakeReceiver = fn(Out, &Arc<Facts>) -> io::Result<Box<dyn Receiver>>;

/// How an export gets what it writes.
#[derive(Clone, Copy)]
enum Make {
    /// Call by call, in order.
    Calls(MakeReceiver),
    /// As sums by path of calls, at the end.
    Paths(paths::WriteSums),
}

/// The parts of a trace that a format can hold. Other parts are counted and reported.
#[derive(Clone, Copy, Debug, Default)]
struct Capabilities {
    /// Arguments and results of calls.
    arguments: bool,
    /// Events, counters, tasks, and what threads waited for.
    events: bool,
    /// Places where records are missing, or the clock jumped; counts of overwritten and dropped records.
    gaps: bool,
    /// Which calls were seen in part.
    clipped: bool,
    /// Changes of CPU.
    cpus: bool,
    /// The states of threads.
    states: bool,
    /// Named moments.
    moments: bool,
    /// Files and lines of functions.
    places: bool,
    /// Calls that left no records.
    short: bool,
    /// Durations of calls, without their place on a time axis: the clock may go back, and untimed functions have no
    /// times.
    sums: bool,
}

impl Capabilities {
    const NONE: Capabilities = Capabilities {
        arguments: false,
        events: false,
        gaps: false,
        clipped: false,
        cpus: false,
        states: false,
        moments: false,
        places: false,
        sums: false,
        short: true,
    };
    const ALL: Capabilities = Capabilities {
        arguments: true,
        events: true,
        gaps: true,
        clipped: true,
        cpus: true,
        states: true,
        moments: true,
        places: true,
        sums: true,
        short: true,
    };
}

/// A target whose bytes go to a stream.
pub(super) const fn target(
    name: &'static str,
    title: &'static str,
    extension: &'static str,
) -> Target {
    Target {
        name,
        title,
        extension,
        kind: Kind::Stream,
        file_as_stream: true,
        create: without_source,
    }
}

/// Exports look at the whole trace before they begin: [`begin`].
fn without_source(_: Output, _: &TraceInfo) -> WriterResult {
    let what = "this format is made of a trace by `fdr convert` alone";
    Err(io::Error::new(io::ErrorKind::Unsupported, what).into())
}

/// All of them.
pub(crate) static EXPORTS: [&Export; 8] = [
    &perfetto::EXPORT,
    &chrome::EXPORT,
    &firefox::EXPORT,
    &folded::EXPORT,
    &pprof::EXPORT,
    &otlp::EXPORT,
    &otlp::JSON,
    &csv::EXPORT,
];

/// The export whose target that is.
pub(super) fn for_target(target: &Target) -> Option<&'static Export> {
    EXPORTS
        .iter()
        .find(|export| export.target.name == target.name)
        .copied()
}

impl Export {
    /// Begins an export of a trace, which is read once to find out when it begins, and which calls began before it.
    ///
    /// # Errors
    /// Where the trace can't be read, or nothing be written.
    pub(super) fn begin(
        &self,
        output: Output,
        source: &dyn Source,
    ) -> Result<Box<dyn Writer>, Error> {
        let survey = Survey::read(source)?;
        let out = BufWriter::new(output.into_stream()?);
        let facts = Arc::new(Facts::new(source, &survey));
        match self.make {
            Make::Calls(make) => {
                let receiver = make(out, &facts)?;
                Ok(Box::new(Walker::new(receiver, facts, survey, self.holds)?))
            }
            Make::Paths(write) => {
                let paths = paths::Paths::new(out, facts, source, write, self.holds);
                Ok(Box::new(paths))
            }
        }
    }
}
