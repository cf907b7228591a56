//! The commands of both hosts of the plug-in. Each argument of a host is a command. `open:PATH` opens a plug-in, and
//! `close` closes the one that was opened last. `work` calls the traced function on this thread, `many` calls it
//! 300,000 times, and `threads` calls it on each of four new threads. `dump`, `handed`, `enable`, `recorded`, `spans`,
//! `stepped` and `wait` call the function of that name in the plug-in. `race` enables all open plug-ins at once, each
//! on a thread of its own, which then does `work` a hundred times. `cut` cuts the ring in the current folder to no
//! bytes.

use std::ffi::{CStr, CString, c_void};
use std::sync::Barrier;
use std::thread;

struct Plugin(*mut c_void);

impl Plugin {
    fn open(path: &str) -> Plugin {
        let path = CString::new(path).expect("a path");
        // SAFETY: the path is NUL-terminated; the library's initialisers are the recorder's.
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        // SAFETY: dlerror gives a NUL-terminated text after a failure.
        assert!(!handle.is_null(), "{:?}", unsafe {
            CStr::from_ptr(libc::dlerror())
        });
        Plugin(handle)
    }

    fn find(&self, name: &CStr) -> *mut c_void {
        // SAFETY: the handle is open and the name NUL-terminated.
        let symbol = unsafe { libc::dlsym(self.0, name.as_ptr()) };
        assert!(!symbol.is_null(), "{name:?}");
        symbol
    }

    fn ask(&self, name: &CStr) -> u64 {
        self.question(name)()
    }

    fn question(&self, name: &CStr) -> extern "C" fn() -> u64 {
        // SAFETY: all callers name functions with this signature.
        unsafe { std::mem::transmute::<*mut c_void, extern "C" fn() -> u64>(self.find(name)) }
    }

    fn work(&self) -> extern "C" fn(u64) -> u64 {
        // SAFETY: `plugin_work` has this signature.
        unsafe { std::mem::transmute(self.find(c"plugin_work")) }
    }

    fn close(self) {
        // SAFETY: the handle is open, and nothing of it is used afterwards.
        assert_eq!(unsafe { libc::dlclose(self.0) }, 0);
    }
}

fn race(plugins: &[Plugin]) {
    let start = Barrier::new(plugins.len());
    let start = &start;
    thread::scope(|scope| {
        for plugin in plugins {
            let (enable, work) = (plugin.question(c"plugin_enable"), plugin.work());
            scope.spawn(move || {
                start.wait();
                assert!(enable() > 0);
                (0..100).for_each(|_| assert_eq!(work(20), 42));
            });
        }
    });
}

fn cut() {
    let rings = std::fs::read_dir(".").expect("the folder");
    let rings = rings.map(|entry| entry.expect("an entry").path());
    let rings = rings.filter(|path| path.extension().is_some_and(|end| end == "fdr-ring"));
    for ring in rings {
        let file = std::fs::OpenOptions::new().write(true).open(ring);
        file.and_then(|file| file.set_len(0)).expect("a ring");
    }
}

/// Carries out the arguments; `own` is called for the word `own`.
pub(crate) fn run(own: impl Fn()) {
    let mut plugins: Vec<Plugin> = Vec::new();
    for word in std::env::args().skip(1) {
        if let Some(path) = word.strip_prefix("open:") {
            plugins.push(Plugin::open(path));
            continue;
        }
        if word == "own" {
            own();
            continue;
        }
        if word == "cut" {
            cut();
            continue;
        }
        if word == "race" {
            race(&plugins);
            continue;
        }
        let plugin = plugins.last().expect("a plug-in is open");
        match &*word {
            "work" => assert_eq!(plugin.work()(20), 42),
            "many" => {
                let work = plugin.work();
                (0..300_000).for_each(|_| assert_eq!(work(20), 42));
            }
            "threads" => {
                let work = plugin.work();
                let threads = [(); 4].map(|()| thread::spawn(move || work(20)));
                for thread in threads {
                    assert_eq!(thread.join().expect("a result"), 42);
                }
            }
            "handed" => println!("handed {}", plugin.ask(c"plugin_handed")),
            "dump" => println!("dumped {}", plugin.ask(c"plugin_dump")),
            "enable" => println!("enabled {}", plugin.ask(c"plugin_enable")),
            "recorded" => println!("recorded {}", plugin.ask(c"plugin_recorded")),
            "spans" => assert_eq!(plugin.ask(c"plugin_spans"), 0),
            "wait" => assert_eq!(plugin.ask(c"plugin_wait"), 2),
            "stepped" => assert_eq!(plugin.ask(c"plugin_stepped"), 0),
            "close" => plugins.pop().expect("a plug-in is open").close(),
            other => panic!("no such command: {other:?}"),
        }
    }
    println!("done");
}
