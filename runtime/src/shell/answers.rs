//! The answers of a host to a guest, as text, and back. Host and guest have the same version of this
//! file, or report that they have not.

use std::io;

use fdr_formats::text::{self, Parts, owned};

use crate::api::{Dump, Error, Failure, Missing, Statistics, ThreadStatistics};

/// The codes of a host's answer.
pub(super) const OK: u32 = 0;
pub(super) const CONFIGURATION: u32 = 1;
pub(super) const NOTHING: u32 = 2;
pub(super) const FAILED: u32 = 3;

/// Text of a failure: what, remedy, and the system's error as its number or its text.
pub(super) fn encode_failure(failure: &Failure) -> String {
    let Failure {
        what,
        remedy,
        cause,
    } = failure;
    let cause = cause.as_ref().map_or(String::new(), |error| {
        let number = error.raw_os_error().map(|number| number.to_string());
        number.unwrap_or_else(|| format!("{error}"))
    });
    format!("{what}\0{remedy}\0{cause}")
}

pub(super) fn decode_failure(text: &str) -> Failure {
    let mut parts = text::parts(text, b'\0');
    let mut next = || parts.next().unwrap_or("");
    let (what, remedy) = (next(), next());
    let cause = parts.rest().unwrap_or("");
    let error = match text::number(cause) {
        Some(number) => io::Error::from_raw_os_error(number as i32),
        None => io::Error::other(cause),
    };
    Failure::new(what, remedy, (!cause.is_empty()).then_some(error))
}

pub(super) fn garbled() -> Error {
    let remedy = "build the program and its libraries with one version of fdr";
    Error::failed("the host's answer is garbled", remedy)
}

pub(super) fn number(text: String) -> Result<usize, Error> {
    let number = text::number(&text).and_then(|number| usize::try_from(number).ok());
    number.ok_or_else(garbled)
}

pub(super) fn encode_dump(dump: &Dump) -> String {
    let Dump {
        path,
        threads,
        records,
        overwritten,
        dropped,
    } = dump;
    format!(
        "{threads} {records} {overwritten} {dropped} {}",
        path.display()
    )
}

pub(super) fn decode_dump(text: &str) -> Option<Dump> {
    let mut words = text::parts(text, b' ');
    let mut number = || text::number(words.next()?);
    let (threads, records, overwritten, dropped) = (number()?, number()?, number()?, number()?);
    Some(Dump {
        path: words.rest()?.into(),
        threads,
        records,
        overwritten,
        dropped,
    })
}

pub(super) fn encode_statistics(statistics: &Statistics) -> String {
    let Statistics {
        functions,
        functions_on,
        missing,
        ..
    } = statistics;
    let Missing {
        threads,
        overwritten,
        dropped,
    } = missing;
    let mut text = format!("{functions} {functions_on} {threads} {overwritten} {dropped}\n");
    for thread in &statistics.threads {
        let ThreadStatistics {
            id,
            recorded,
            readable,
            overwritten,
            dropped,
            summarised,
            ..
        } = thread;
        let ended = u8::from(thread.ended);
        let (steps, name) = (thread.clock_steps, text::on_one_line(&thread.name));
        text += &format!(
            "{id} {ended} {recorded} {readable} {overwritten} {dropped} {summarised} {steps} {name}\n"
        );
    }
    text
}

pub(super) fn decode_statistics(text: &str) -> Statistics {
    let mut lines = text::parts(text, b'\n');
    let mut words = text::parts(lines.next().unwrap_or(""), b' ');
    let mut next = || next_number(&mut words);
    let mut statistics = Statistics {
        functions: next(),
        functions_on: next(),
        missing: Missing {
            threads: next(),
            overwritten: next(),
            dropped: next(),
        },
        ..Statistics::default()
    };
    // The last line ends with a line break, too.
    for line in lines.filter(|line| !line.is_empty()) {
        let mut words = text::parts(line, b' ');
        let mut next = || next_number(&mut words);
        let thread = ThreadStatistics {
            id: next(),
            ended: next() != 0,
            recorded: next(),
            readable: next(),
            overwritten: next(),
            dropped: next(),
            summarised: next(),
            clock_steps: next(),
            name: String::new(),
        };
        let name = owned(words.rest().unwrap_or(""));
        statistics.threads.push(ThreadStatistics { name, ..thread });
    }
    statistics
}

/// 0 if the next word is none.
#[inline(never)]
fn next_number(words: &mut Parts<'_>) -> u64 {
    words.next().and_then(text::number).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn answers_survive_the_way_to_a_guest() {
        let dump = Dump {
            path: "/a folder/x 1.fdr".into(),
            threads: 1,
            records: 2,
            overwritten: 3,
            dropped: 4,
        };
        assert_eq!(decode_dump(&encode_dump(&dump)), Some(dump));
        let thread = ThreadStatistics {
            id: 7,
            name: "a b".into(),
            ended: true,
            recorded: 6,
            readable: 1,
            overwritten: 2,
            dropped: 3,
            summarised: 4,
            clock_steps: 9,
        };
        let statistics = Statistics {
            threads: vec![
                thread.clone(),
                ThreadStatistics {
                    name: String::new(),
                    ..thread
                },
            ],
            functions: 1,
            functions_on: 2,
            missing: Missing {
                threads: 3,
                overwritten: 4,
                dropped: 5,
            },
        };
        assert_eq!(
            decode_statistics(&encode_statistics(&statistics)),
            statistics
        );
    }

    #[test]
    fn failures_survive_the_way_to_a_guest() {
        let errors = [
            None,
            Some(io::Error::from_raw_os_error(28)),
            Some(io::Error::other("left as it is")),
        ];
        for error in errors {
            let sent = Failure::new("/tmp/x: y", "do z", error);
            let come = decode_failure(&encode_failure(&sent));
            assert_eq!(Error::Failed(come.clone()), Error::Failed(sent.clone()));
            assert_eq!(come.in_full(), sent.in_full());
        }
    }
}
