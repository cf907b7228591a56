//! The API without any environment, in the order of a person who tries it out. Each step checks what
//! it can see itself and prints a line; what traces hold is for the test that runs this.

use std::env;

use fdr::{Error, traced};
use fdr_tests::support::facts;

#[traced]
fn work(number: u64) -> u64 {
    std::hint::black_box(number) * 7
}

mod hot {
    #[fdr::traced]
    pub(crate) fn inner(number: u64) -> u64 {
        super::work(number) + 1
    }
}

/// Stops the recording inside its own call.
#[traced]
fn stop() {
    work(1);
    fdr::disable();
    work(2);
}

/// Starts it inside its own call.
#[traced]
fn start() {
    work(1);
    assert_eq!(fdr::enable(), Ok(4));
    work(2);
}

fn recorded() -> u64 {
    facts::total(&fdr::statistics())
}

fn dump(what: &str) {
    match fdr::dump() {
        Ok(dump) => println!(
            "{what} {} {} {}",
            dump.threads,
            dump.records,
            dump.path.display()
        ),
        Err(error) => println!("{what} error {error}"),
    }
}

fn main() {
    match env::args().nth(1).unwrap_or_default().as_str() {
        "tour" => tour(),
        "filters" => filters(),
        "broken" => broken(),
        other => panic!("no such way: {other:?}"),
    }
}

fn tour() {
    // Nothing is up.
    assert!(!fdr::is_enabled());
    let statistics = fdr::statistics();
    assert_eq!((statistics.threads.len(), statistics.functions_on), (0, 0));
    fdr::disable();
    dump("never");
    work(0);
    assert_eq!(recorded(), 0);

    // On, twice, and used.
    assert_eq!(fdr::enable(), Ok(4));
    assert_eq!(fdr::enable(), Ok(4));
    assert!(fdr::is_enabled());
    dump("unused");
    hot::inner(1);
    assert_eq!(recorded(), 4);
    dump("used");

    // Off in the middle of a call: its exit is recorded, calls after that are not.
    stop();
    assert!(!fdr::is_enabled());
    work(3);
    assert_eq!(recorded(), 4 + 4);
    dump("stopped");

    // On again in the middle of a call: neither of that call's edges is recorded.
    start();
    assert_eq!(recorded(), 8 + 2);
    dump("started");

    // The end of the program writes one more.
    println!("{}", facts::of_statistics(&fdr::statistics()));
}

fn filters() {
    for text in ["", " , ", "-", "off,api::*", "a,-"] {
        match fdr::set_filter(text) {
            Err(Error::Configuration(why)) => println!("refused {text:?} {why}"),
            other => panic!("{text:?}: {other:?}"),
        }
    }
    // Before the recorder is up, the filter waits.
    assert_eq!(fdr::set_filter("api::*,-api::hot::*"), Ok(3));
    assert!(!fdr::is_enabled());
    hot::inner(1);
    assert_eq!(fdr::enable(), Ok(3));
    hot::inner(1);
    assert_eq!(recorded(), 2);
    // While it records, the filter takes effect at once.
    assert_eq!(fdr::set_filter("api::hot::inner"), Ok(1));
    assert_eq!(fdr::statistics().functions_on, 1);
    hot::inner(2);
    assert_eq!(recorded(), 2 + 2);
    // A refused one leaves the former in place.
    assert!(fdr::set_filter("-").is_err());
    hot::inner(3);
    assert_eq!(recorded(), 4 + 2);
    assert_eq!(fdr::set_filter("off"), Ok(0));
    hot::inner(4);
    assert_eq!(recorded(), 6);
    assert_eq!(fdr::set_filter("api::hot::iner,api::w?rk"), Ok(1));
    work(5);
    assert_eq!(recorded(), 8);
    dump("filtered");
    println!("{}", facts::of_statistics(&fdr::statistics()));
}

/// The environment is wrong, and nobody asked for a recording until now.
fn broken() {
    match fdr::enable() {
        Err(Error::Configuration(why)) => println!("refused {why}"),
        other => panic!("{other:?}"),
    }
    assert!(!fdr::is_enabled());
    work(1);
    assert_eq!(recorded(), 0);
    dump("broken");
}
