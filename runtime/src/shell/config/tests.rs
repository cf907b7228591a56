//! Tests of the configuration as a whole.

use std::collections::HashMap;
use std::os::unix::ffi::OsStringExt;

#[cfg(feature = "stream")]
use fdr_formats::writer::Kind;

use super::*;
use crate::dump::output::Names;

fn read(set: &[(&str, &str)]) -> Result<Box<Settings>, Vec<String>> {
    both(set, &Config::new())
}

fn both(set: &[(&str, &str)], code: &Config) -> Result<Box<Settings>, Vec<String>> {
    let set: HashMap<&str, &str> = set.iter().copied().collect();
    let get = |name: &str| set.get(name).map(OsString::from);
    Settings::from(&get, code, Path::new("/start"))
}

fn error(name: &str, value: &str) -> String {
    let errors = read(&[(name, value)]).unwrap_err();
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert!(errors[0].starts_with(&format!("{name}=")), "{errors:?}");
    assert!(!errors[0].contains('\n'), "{errors:?}");
    errors[0].clone()
}

fn path(config: &Settings) -> PathBuf {
    config.output.path(&Names {
        program: "prog",
        pid: 7,
        number: 1,
        unix_time_s: 0,
    })
}

#[test]
fn nothing_set_is_the_documented_defaults_and_off() {
    let config = read(&[]).unwrap();
    assert_eq!(config.filter, None);
    assert_eq!(path(&config), Path::new("/start/prog.7.1.fdr"));
    assert_eq!(config.format.0.name, "xray");
    assert_eq!(config.address, None);
    assert_eq!(config.signal, Some(libc::SIGUSR2));
    assert_eq!(config.buffer_bytes, 4 << 20);
    assert_eq!(config.memory_bytes, 1 << 30);
    assert_eq!(config.keep, Duration::from_secs(10));
    assert_eq!(config.mode, Mode::Ring);
    assert_eq!(config.clock, Clock::Rdtscp);
    assert_eq!(config.dir, None);
    assert_eq!(config.log, Log::Warn);
    assert!(!config.panic && config.crash);
}

#[test]
fn short_calls_stay_without_totals_in_the_trace() {
    assert!(read(&[]).unwrap().keeps());
    assert!(!read(&[("FDR_KEEP", "0")]).unwrap().keeps());
    let all = [("FDR_MODE", "full"), ("FDR_KEEP", "5s")];
    assert!(!read(&all).unwrap().keeps());
    assert!(!read(&all[..1]).unwrap().keeps());
    for target in registry::recorded().filter(|target| target.name != "xray") {
        let set = [("FDR_FORMAT", target.name), ("FDR_KEEP", "5s")];
        assert!(!read(&set[..1]).unwrap().keeps(), "{}", target.name);
        assert!(read(&set).unwrap().keeps(), "{}", target.name);
    }
}

#[test]
fn empty_values_are_unset() {
    let empty: Vec<(&str, &str)> = VARIABLES.iter().map(|known| (known.0, "")).collect();
    assert_eq!(read(&empty), read(&[]));
}

#[test]
fn every_variable_is_read() {
    let config = read(&[
        ("FDR", "app::*,-app::hot"),
        ("FDR_BUFFER", "200000"),
        ("FDR_CLOCK", "Monotonic"),
        ("FDR_CRASH", "off"),
        ("FDR_DIR", "rings"),
        ("FDR_FORMAT", "xray1"),
        ("FDR_LOG", " info "),
        ("FDR_MEMORY", "300K"),
        ("FDR_MODE", "full"),
        ("FDR_OUT", "/tmp/%e/"),
        ("FDR_PANIC", "1"),
        ("FDR_SIGNAL", "none"),
    ])
    .unwrap();
    let filter = config.filter.as_ref().unwrap();
    assert!(filter.matches("app::f") && !filter.matches("app::hot"));
    // Rings are rounded up to whole chunks, the budget down.
    assert_eq!(config.buffer_bytes, 4 * CHUNK);
    assert_eq!(config.memory_bytes, 4 * CHUNK);
    assert_eq!(config.clock, Clock::Monotonic);
    assert_eq!(config.dir, Some(PathBuf::from("/start/rings")));
    assert_eq!(config.format.0.name, "xray1");
    assert_eq!(config.log, Log::Info);
    assert_eq!(config.mode, Mode::Full);
    assert_eq!(path(&config), Path::new("/tmp/prog/prog.7.1.fdr"));
    assert!(config.panic && !config.crash);
    assert_eq!(config.signal, None);
}

#[test]
fn each_invalid_value_has_its_own_error() {
    for (name, value, accepted) in [
        ("FDR", ",", "`on`"),
        ("FDR_BUFFER", "4X", "K, M or G"),
        ("FDR_CLOCK", "tsc", "rdtscp, rdtsc, monotonic"),
        ("FDR_CRASH", "never", "1, 0"),
        ("FDR_FORMAT", "json", "xray, xray1"),
        ("FDR_LOG", "loud", "quiet, warn, info"),
        ("FDR_MEMORY", "lots", "K, M or G"),
        ("FDR_MODE", "circle", "ring, full, stream"),
        ("FDR_OUT", "%q", "%e (program)"),
        #[cfg(feature = "stream")]
        ("FDR_OUT", "udp://a:1", "tcp://host:port"),
        ("FDR_PANIC", "yes", "1, 0"),
        ("FDR_SIGNAL", "KILL", "USR2"),
    ] {
        let error = error(name, value);
        assert!(
            error.contains(accepted) && error.contains(&format!("{value:?}")),
            "{error}"
        );
    }
    let both = read(&[("FDR_MODE", "x"), ("FDR_LOG", "y"), ("FDR", "on")]).unwrap_err();
    assert_eq!(both.len(), 2, "{both:?}");
}

#[test]
fn sizes_have_limits_that_fit_each_other() {
    assert_eq!(
        read(&[("FDR_BUFFER", "128K")]).unwrap().buffer_bytes,
        MIN_RING
    );
    assert!(error("FDR_BUFFER", "131071").contains("least is 128K"));
    assert!(error("FDR_MEMORY", "64K").contains("least is 128K"));
    assert_eq!(read(&[("FDR_BUFFER", "1G")]).unwrap().buffer_bytes, 1 << 30);
    let error = error("FDR_BUFFER", "1025M");
    assert!(
        error.contains("1025 MiB exceeds the budget FDR_MEMORY, 1 GiB"),
        "{error}"
    );
    assert!(read(&[("FDR_BUFFER", "2G"), ("FDR_MEMORY", "2G")]).is_ok());
    assert!(read(&[("FDR_BUFFER", "256K"), ("FDR_MEMORY", "128K")]).is_err());
    // The default ring gives way to a small budget.
    assert_eq!(read(&[("FDR_MEMORY", "1M")]).unwrap().buffer_bytes, 1 << 20);
    assert_eq!(
        read(&[("FDR_MEMORY", "200K")]).unwrap().buffer_bytes,
        3 * CHUNK
    );
    // An invalid budget is one error, not two.
    assert_eq!(
        read(&[("FDR_BUFFER", "1G"), ("FDR_MEMORY", "x")])
            .unwrap_err()
            .len(),
        1
    );
}

#[test]
fn bad_utf8_is_an_error_except_in_paths() {
    let odd = || OsString::from_vec(b"\xff\n".to_vec());
    let errors = Settings::from(
        &|name| (name == "FDR").then(odd),
        &Config::new(),
        Path::new("/"),
    )
    .unwrap_err();
    assert_eq!(errors, ["FDR=\"\u{fffd}\\n\": not UTF-8"]);
    let get = |name: &str| (name == "FDR_DIR" || name == "FDR_OUT").then(odd);
    let config = Settings::from(&get, &Config::new(), Path::new("/s")).unwrap();
    assert_eq!(config.dir, Some(Path::new("/s").join(odd())));
    assert_eq!(path(&config), Path::new("/s").join(odd()));
}

#[test]
fn unknown_variables_are_named_with_the_nearest() {
    let names = [
        "FDR",
        "FDR_OUT",
        "FDR_BUFER",
        "PATH",
        "FDRX",
        "FDR_SIGANL",
        "XFDR_OUT",
        // A variable of the tool, not of the recorder.
        "FDR_PAGER",
    ];
    let warnings = unknown_variables(names.iter().map(OsString::from));
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    assert!(warnings[0].contains("\"FDR_BUFER\"") && warnings[0].ends_with("FDR_BUFFER"));
    assert!(warnings[1].contains("\"FDR_SIGANL\"") && warnings[1].ends_with("FDR_SIGNAL"));
}

#[test]
fn documented_variables_are_listed_in_order() {
    assert!(VARIABLES.is_sorted());
    assert!(unknown_variables(VARIABLES.iter().map(|known| known.0.into())).is_empty());
}

#[test]
fn each_target_has_its_own_extension() {
    for target in registry::recorded() {
        let config = read(&[("FDR_FORMAT", &target.name.to_uppercase())]).unwrap();
        assert_eq!(config.format, Format(target));
        let name = format!("/start/prog.7.1.{}", target.extension);
        assert_eq!(path(&config), Path::new(&name));
    }
}

#[test]
fn a_format_of_the_tool_gives_a_note() {
    for name in ["ctf", " ET2 ", "tcstate"] {
        let config = read(&[("FDR_FORMAT", name)]).unwrap();
        assert_eq!(config.format.0.name, "xray");
        assert!(config.keeps(), "{name}");
        let note = config.format_note.unwrap();
        let command = format!("`fdr convert --to {}` ", name.trim().to_lowercase());
        assert!(
            note.starts_with(&format!("FDR_FORMAT={name:?}: ")),
            "{note}"
        );
        assert!(note.contains(&command), "{note}");
    }
    assert_eq!(read(&[]).unwrap().format_note, None);
}

#[cfg(not(feature = "stream"))]
#[test]
fn a_missing_stream_feature_is_refused() {
    let needs = "this program can't stream: build it with the feature `stream` of fdr";
    for (name, value) in [
        ("FDR_OUT", "tcp://h:1"),
        ("FDR_OUT", "tcp-listen://"),
        ("FDR_OUT", "unix:/s"),
        ("FDR_OUT", "-"),
        ("FDR_MODE", "stream"),
    ] {
        let errors = read(&[(name, value)]).unwrap_err();
        assert_eq!(errors, [format!("{name}=\"{value}\": {needs}")]);
    }
}

#[cfg(feature = "stream")]
#[test]
fn addresses_take_streams_only() {
    for address in ["tcp://h:1", "tcp-listen://h:0", "unix:/s", "-"] {
        let config = read(&[("FDR_OUT", address)]).unwrap();
        assert_eq!(config.format.0.name, "htdump");
        // The ring's file is where it is without an address.
        assert_eq!(config.output.folder("prog", 7), Path::new("/start"));
        assert!(config.address.is_some());
        for target in registry::recorded() {
            let set = [("FDR_OUT", address), ("FDR_FORMAT", target.name)];
            match read(&set) {
                Ok(config) => assert_eq!(config.format, Format(target)),
                Err(errors) => {
                    assert_ne!(target.kind, Kind::Stream);
                    assert_eq!(errors.len(), 1, "{errors:?}");
                    assert!(
                        errors[0].contains("accepted are heph, htdump"),
                        "{errors:?}"
                    );
                }
            }
        }
    }
    // One mistake is one line.
    let errors = read(&[("FDR_OUT", "tcp://h:1"), ("FDR_FORMAT", "iet2")]).unwrap_err();
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert!(
        errors[0].contains("`fdr convert` writes this format"),
        "{errors:?}"
    );
    let errors = read(&[("FDR_OUT", "tcp://h")]).unwrap_err();
    assert_eq!(errors.len(), 1, "{errors:?}");
}

/// What every method of the builder says, as text of the variables.
fn all_in_code() -> Config {
    Config::new()
        .filter("app::*")
        .budget(7)
        .buffer(200_000)
        .clock(Clock::Monotonic)
        .crash(false)
        .dir("rings")
        .format("xray1")
        .keep(Duration::from_millis(250))
        .log(Log::Info)
        .memory(300 << 10)
        .mode(Mode::Full)
        .output("/tmp/%e/")
        .panic(true)
        .sched(true)
        .signal("none")
        .tags("a=1")
        .version("2.0")
}

const ALL_SET: [(&str, &str); 17] = [
    ("FDR", "app::*"),
    ("FDR_BUDGET", "7%"),
    ("FDR_BUFFER", "200000"),
    ("FDR_CLOCK", "monotonic"),
    ("FDR_CRASH", "0"),
    ("FDR_DIR", "rings"),
    ("FDR_FORMAT", "xray1"),
    ("FDR_KEEP", "250ms"),
    ("FDR_LOG", "info"),
    ("FDR_MEMORY", "300K"),
    ("FDR_MODE", "full"),
    ("FDR_OUT", "/tmp/%e/"),
    ("FDR_PANIC", "1"),
    ("FDR_SCHED", "1"),
    ("FDR_SIGNAL", "none"),
    ("FDR_TAGS", "a=1"),
    ("FDR_VERSION", "2.0"),
];

#[test]
fn code_and_environment_fill_the_same_settings() {
    assert_eq!(both(&[], &all_in_code()), read(&ALL_SET));
    assert_ne!(read(&ALL_SET), read(&[]));
    let is_built = |mode: &Mode| cfg!(feature = "stream") || *mode != Mode::Stream;
    for choice in Mode::WORDS.into_iter().filter(|(_, mode)| is_built(mode)) {
        let chosen = both(&[], &Config::new().mode(choice.1)).unwrap();
        assert_eq!(chosen.mode, choice.1);
    }
    for choice in Clock::WORDS {
        let chosen = both(&[], &Config::new().clock(choice.1)).unwrap();
        assert_eq!(chosen.clock, choice.1);
    }
    for choice in Log::WORDS {
        assert_eq!(
            both(&[], &Config::new().log(choice.1)).unwrap().log,
            choice.1
        );
    }
}

#[test]
fn the_environment_wins_variable_by_variable() {
    let other = Config::new()
        .filter("lib::*")
        .budget(1)
        .buffer(1 << 20)
        .clock(Clock::Rdtsc)
        .crash(true)
        .dir("/elsewhere")
        .keep(Duration::from_secs(1))
        .format("heph")
        .log(Log::Quiet)
        .memory(1 << 20)
        .mode(Mode::Stream)
        .output("x.fdr")
        .panic(false)
        .sched(false)
        .signal("USR1")
        .tags("b=2")
        .version("3");
    assert_eq!(both(&ALL_SET, &other), read(&ALL_SET));
    for at in 0..ALL_SET.len() {
        // All but one are set: that one is the code's.
        let mut set = ALL_SET.to_vec();
        let (left, _) = set.remove(at);
        assert_eq!(both(&set, &all_in_code()), read(&ALL_SET), "{left}");
    }
    let empty = both(&[("FDR_MODE", "")], &Config::new().mode(Mode::Full)).unwrap();
    assert_eq!(empty.mode, Mode::Full);
}

#[test]
fn a_refused_value_names_its_method() {
    let ring = Config::new().buffer(4);
    let errors = both(&[], &ring).unwrap_err();
    assert_eq!(
        errors,
        ["Config::buffer(\"4\"): too small; the least is 128K"]
    );
    let mistakes = Config::new()
        .filter("")
        .format("json")
        .signal("KILL")
        .output("%q");
    let errors = both(&[], &mistakes).unwrap_err().join("\n");
    for method in ["filter", "format", "signal", "output"] {
        assert!(errors.contains(&format!("Config::{method}(")), "{errors}");
    }
    // A ring in the code that a budget in the environment has no room for.
    let errors = both(&[("FDR_MEMORY", "1M")], &Config::new().buffer(2 << 20)).unwrap_err();
    assert!(errors[0].starts_with("Config::buffer("), "{errors:?}");
    assert!(both(&[("FDR_BUFFER", "1M")], &ring).is_ok());
}
