//! The API without any environment, in the order of a person who tries it out. Each step checks what the program itself
//! can see, and prints a line. The test that runs the program checks the traces.

use std::error::Error as _;
use std::io::{self, Write};

use fdr::{Clock, Config, Error, Mode, traced};
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
    enable_all();
    work(2);
}

/// Turns on every function.
fn enable_all() {
    let on = fdr::enable();
    let statistics = fdr::statistics();
    assert_eq!(on, Ok(statistics.functions_on as usize));
    assert_eq!(statistics.functions_on, statistics.functions);
}

fn recorded() -> u64 {
    facts::total(&fdr::statistics())
}

fn dump(label: &str) {
    match fdr::dump() {
        Ok(dump) => println!(
            "{label} {} {} {}",
            dump.threads,
            dump.records,
            dump.path.display()
        ),
        Err(error) => println!("{label} error {error}"),
    }
}

pub(crate) fn main(words: &[&str]) {
    match words {
        ["tour"] => tour(),
        ["filters"] => filters(),
        ["broken"] => broken(),
        ["chosen"] => chosen(),
        ["late"] => late(),
        ["named"] => named(),
        ["handed"] => handed(),
        ["unwritable"] => unwritable(),
        other => panic!("no such way: {other:?}"),
    }
}

/// Names a moment and a dump, before the recorder is up and afterwards.
fn named() {
    assert_eq!(fdr::mark("nowhere"), Ok(()));
    assert!(matches!(
        fdr::mark("two\nlines"),
        Err(Error::Configuration(_))
    ));
    enable_all();
    work(1);
    for name in ["warm", "hot", "warm"] {
        assert_eq!(fdr::mark(name), Ok(()));
        work(2);
    }
    assert!(matches!(fdr::mark(" "), Err(Error::Configuration(_))));
    assert!(matches!(
        fdr::dump_because(""),
        Err(Error::Configuration(_))
    ));
    let dump = fdr::dump_because("the cart is lost").expect("a trace");
    println!(
        "because {} {} {}",
        dump.threads,
        dump.records,
        dump.path.display()
    );
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
    enable_all();
    enable_all();
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
    for text in ["", " , ", "-", "off,programs::api::*", "a,-"] {
        match fdr::set_filter(text) {
            Err(Error::Configuration(why)) => println!("refused {text:?} {why}"),
            other => panic!("{text:?}: {other:?}"),
        }
    }
    // Before the recorder is up, the filter waits.
    assert_eq!(
        fdr::set_filter("programs::api::*,-programs::api::hot::*"),
        Ok(3)
    );
    assert!(!fdr::is_enabled());
    hot::inner(1);
    assert_eq!(fdr::enable(), Ok(3));
    hot::inner(1);
    assert_eq!(recorded(), 2);
    // While it records, the filter takes effect at once.
    assert_eq!(fdr::set_filter("programs::api::hot::inner"), Ok(1));
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
    assert_eq!(
        fdr::set_filter("programs::api::hot::iner,programs::api::w?rk"),
        Ok(1)
    );
    work(5);
    assert_eq!(recorded(), 8);
    dump("filtered");
    println!("{}", facts::of_statistics(&fdr::statistics()));
}

/// The environment has a wrong value, and the program asks for a recording for the first time.
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

/// What the code chooses instead of the environment, as far as the environment is silent.
fn choice() -> Config {
    Config::new()
        .filter("programs::api::work,programs::api::hot::*")
        .output("chosen.fdr")
        .dir("rings/")
        .buffer(128 << 10)
        .memory(1 << 20)
        .clock(Clock::Monotonic)
        .mode(Mode::Full)
        .signal("none")
}

fn chosen() {
    match choice().enable() {
        Ok(on) => println!("on {on}"),
        Err(error) => println!("refused {error}"),
    }
    hot::inner(1);
    println!("up {}", fdr::is_enabled());
    (0..20_000).for_each(|_| {
        work(1);
    });
    println!("{}", facts::of_statistics(&fdr::statistics()));
}

/// A choice after recording was brought up: only its filter counts.
fn late() {
    enable_all();
    assert_eq!(Config::new().filter("programs::api::work").enable(), Ok(1));
    hot::inner(1);
    assert_eq!(recorded(), 2);
    // A setting with the value in force prints no line.
    assert_eq!(Config::new().mode(Mode::Ring).enable(), Ok(1));
    assert_eq!(Config::new().mode(Mode::Full).enable(), Ok(1));
    match Config::new().buffer(4).enable() {
        Err(Error::Configuration(why)) => println!("refused {why}"),
        other => panic!("{other:?}"),
    }
    assert!(fdr::is_enabled());
}

/// A writer that takes this many bytes, and then fails.
struct Narrow(usize);

impl Write for Narrow {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(self.0);
        self.0 -= taken;
        match taken {
            0 => Err(io::ErrorKind::BrokenPipe.into()),
            taken => Ok(taken),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Traces that go to writers.
fn handed() {
    match fdr::dump_to(io::sink()) {
        Err(error) => println!("never error {error}"),
        Ok(dump) => panic!("{dump:?}"),
    }
    assert!(fdr::enable().is_ok());
    hot::inner(1);
    let mut body = Vec::new();
    match fdr::dump_to(&mut body) {
        Ok(dump) => {
            assert_eq!((dump.path.as_os_str().len(), dump.threads), (0, 1));
            std::fs::write("body", &body).expect("a file");
            println!("body {} {} body", dump.threads, dump.records);
        }
        Err(error) => println!("body error {error}"),
    }
    match fdr::dump_to(Narrow(100)) {
        Err(Error::Failed(failure)) => {
            let cause = failure.source().map(ToString::to_string);
            println!("narrow {failure}: {}", cause.unwrap_or_default());
        }
        other => println!("narrow {other:?}"),
    }
    dump("after");
}

/// If a trace can't be written, the source of the error is the system's error.
fn unwritable() {
    enable_all();
    work(1);
    std::fs::remove_dir("gone").expect("the folder");
    let error = fdr::dump().expect_err("there is no folder");
    let source = error
        .source()
        .and_then(|source| source.downcast_ref::<io::Error>());
    println!("kind {:?}", source.map(io::Error::kind));
    println!("error {error}");
    assert_eq!(error, error.clone());
}
