//! Screens as they are drawn, and figures of looks that are typed by hand.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use fdr_formats::model::FunctionTotals;
use fdr_formats::ring::{LiveThread, OpenCall, Reading};
use fdr_formats::{FunctionId, ThreadId, Ticks, TraceInfo, lengths};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::figures::{Interval, Picture, Row, Sort, ThreadRow, between};
use super::reading::{OneRing, RingSample, Spent};
use super::view::{KeyAction, Page, View};
use crate::report::states::{InStates, RowStates};
use crate::testing::functions;

fn function(name: &str, calls: u64, own: u64) -> Row {
    Row {
        name: name.into(),
        calls: 10 * calls,
        total_ns: 30 * own,
        self_ns: 10 * own,
        longest_ns: Some(5_000_000),
        interval: Interval {
            calls,
            calls_per_s: calls as f64,
            total_ns: Some(3 * own),
            self_ns: Some(own),
            p50_ns: Some(1_100),
            p99_ns: Some(123_456),
            per_second: 1.0,
            ..Interval::default()
        },
        ..Row::default()
    }
}

fn picture() -> Picture {
    let untimed = Row {
        interval: Interval {
            calls: 70_000_000,
            calls_per_s: 70e6,
            per_second: 1.0,
            ..Interval::default()
        },
        untimed: true,
        longest_ns: None,
        ..function("my_app::text::is_stop_word", 1, 0)
    };
    let worker = ThreadRow {
        id: 4712,
        name: "worker-1".into(),
        calls_per_s: 1234.5,
        running_ns: Some(250_000_000),
        ready_ns: Some(1_000_000),
        waiting_ns: Some(749_000_000),
        function: Some("my_app::handle".into()),
        open_ns: Some(12_345),
        functions: vec![function("my_app::handle", 12, 500_000)],
        ..ThreadRow::default()
    };
    let hostile = ThreadRow {
        id: 4713,
        name: "\x1b[2J\u{202e}x".into(),
        function: Some("a\nb::\u{200b}c".into()),
        ..ThreadRow::default()
    };
    Picture {
        process: 4711,
        program: "my_app".into(),
        interval_ns: 1_000_000_000,
        calls_per_s: 70e6,
        functions: vec![
            function("my_app::handle", 1_234_567, 812_345_678),
            function(
                "<my_app::tokens::Stemmer as my_app::Step>::apply_to_all_of_the_words",
                1,
                7_000,
            ),
            untimed,
            function("evil\x1b]0;owned\x07\n::名前名前", 0, 0),
        ],
        threads: vec![hostile, worker],
        ..Picture::default()
    }
}

fn view(page: Page, sort: Sort) -> View {
    View::new(page, sort, None, Duration::from_secs(1))
}

/// The lines of a screen, without what is blank at their ends.
fn screen(view: &mut View, picture: Option<&Picture>, width: u16, height: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal");
    terminal
        .draw(|frame| view.draw(frame, picture))
        .expect("a picture");
    let buffer = terminal.backend().buffer();
    let line = |y: u16| {
        let cells = (0..width).map(|x| buffer[(x, y)].symbol());
        cells.collect::<String>().trim_end().to_owned()
    };
    let lines: Vec<String> = (0..height).map(line).collect();
    for line in &lines {
        assert!(
            !line.chars().any(|character| character.is_control()),
            "{line:?}"
        );
        assert!(!line.contains(['\u{202e}', '\u{200b}']), "{line:?}");
    }
    lines
}

fn press(view: &mut View, code: KeyCode) -> KeyAction {
    view.key(KeyEvent::new(code, KeyModifiers::NONE), &picture())
}

#[test]
fn functions_at_80_columns() {
    let mut view = view(Page::Functions, Sort::Own);
    let lines = screen(&mut view, Some(&picture()), 80, 8);
    let wanted = [
        "my_app 4711 · 2 threads · 70.0 M calls/s · 0.25 CPUs · over 1.000 s",
        "functions of all threads · by self",
        "  calls/s    self/s   total/s       p99  function",
        "1,234,567  812.3 ms   2.437 s  123.5 µs  my_app::handle",
        "     1.00  7.000 µs  21.00 µs  123.5 µs  <my_app::token…ly_to_all_of_the_words",
        "        0         0         0  123.5 µs  evil\\u{1b}]0;owned\\u{7}\\n::名 前 名 前",
        "   70.0 M         -         -         -  my_app::text::is_stop_word",
        "Tab threads  s sort  / filter  p pause  d dump  ? help  q quit",
    ];
    assert_eq!(lines, wanted);
}

#[test]
fn the_end_of_the_process_is_reported_first() {
    let mut picture = picture();
    picture.over = Some("process 4711 has ended".into());
    let mut view = view(Page::Functions, Sort::Own);
    let lines = screen(&mut view, Some(&picture), 80, 8);
    assert_eq!(
        lines[1],
        "process 4711 has ended: the last figures · functions of all threads · by self"
    );
}

#[test]
fn functions_with_states_fit_80_and_120_columns() {
    let mut view = view(Page::Functions, Sort::Waiting);
    let mut shown = picture();
    shown.states_over_ns = Some(500_000_000);
    let states = |waiting_ns| {
        let own = InStates {
            running_ns: 1_000_000,
            waiting_ns,
            ..InStates::default()
        };
        Some(RowStates { total: own, own })
    };
    for (row, waiting) in shown.functions.iter_mut().zip([5_000_000, 400_000_000]) {
        row.interval.states = states(waiting);
        row.interval.states_per_second = 2.0;
    }
    let lines = screen(&mut view, Some(&shown), 80, 8);
    let wanted = [
        "functions of all threads · by waiting",
        "  calls/s  running/s  waiting/s       p99  function",
        "     1.00   2.000 ms   800.0 ms  123.5 µs  <my_app::toke…y_to_all_of_the_words",
        "1,234,567   2.000 ms   10.00 ms  123.5 µs  my_app::handle",
    ];
    assert_eq!(lines[1..5], wanted);
    let wide = screen(&mut view, Some(&shown), 120, 8);
    let head = "  calls/s    self/s  running/s  waiting/s   total/s       p50       p99  function";
    assert_eq!(wide[2], head);
    // Keys that these figures do not have are passed over.
    let press_s = |view: &mut View, picture: &Picture| {
        let _ = view.key(
            KeyEvent::new(KeyCode::Char('s'), KeyModifiers::NONE),
            picture,
        );
        view.sort.in_words()
    };
    view.sort = Sort::Own;
    assert_eq!(press_s(&mut view, &shown), "running");
    view.sort = Sort::Own;
    assert_eq!(press_s(&mut view, &picture()), "total");
}

#[test]
fn functions_at_200_columns() {
    let mut view = view(Page::Functions, Sort::Calls);
    let lines = screen(&mut view, Some(&picture()), 200, 8);
    assert_eq!(
        lines[2..6],
        [
            "  calls/s    self/s   total/s       p50       p99   longest          calls  function",
            "   70.0 M         -         -         -         -         -             10  my_app::text::is_stop_word",
            "1,234,567  812.3 ms   2.437 s  1.100 µs  123.5 µs  5.000 ms     12,345,670  my_app::handle",
            "     1.00  7.000 µs  21.00 µs  1.100 µs  123.5 µs  5.000 ms             10  \
             <my_app::tokens::Stemmer as my_app::Step>::apply_to_all_of_the_words",
        ]
    );
}

#[test]
fn threads_at_80_and_at_200_columns() {
    let mut view = view(Page::Threads, Sort::Own);
    let lines = screen(&mut view, Some(&picture()), 80, 6);
    let wanted = [
        "my_app 4711 · 2 threads · 70.0 M calls/s · 0.25 CPUs · over 1.000 s",
        "threads · by self",
        "  calls/s  running    ready  waiting  thread           in",
        "    1,235   25.0 %    0.1 %   74.9 %  worker-1         my_app::handle",
    ];
    assert_eq!(lines[..4], wanted);
    assert!(
        lines[4].starts_with("        0        -        -        -  "),
        "{lines:?}"
    );
    let lines = screen(&mut view, Some(&picture()), 200, 6);
    let wanted =
        "    1,235   25.0 %    0.1 %   74.9 %  worker-1            4712  12.35 µs  my_app::handle";
    assert_eq!(lines[3], wanted);
}

#[test]
fn no_size_of_a_terminal_is_too_small() {
    let mut view = view(Page::Functions, Sort::Own);
    for help in [false, true] {
        for page in [Page::Functions, Page::Threads, Page::OfThread(9)] {
            view.page = page;
            for (width, height) in [(1, 1), (2, 3), (10, 2), (40, 4), (80, 3), (300, 100)] {
                let _ = screen(&mut view, None, width, height);
                let _ = screen(&mut view, Some(&picture()), width, height);
            }
        }
        if !help {
            assert_eq!(press(&mut view, KeyCode::Char('?')), KeyAction::Nothing);
        }
    }
}

#[test]
fn keys_do_what_the_help_says() {
    let mut view = view(Page::Functions, Sort::Own);
    assert_eq!(press(&mut view, KeyCode::Char('d')), KeyAction::Dump);
    press(&mut view, KeyCode::Char('s'));
    assert_eq!(view.sort, Sort::Total);
    press(&mut view, KeyCode::Char('S'));
    press(&mut view, KeyCode::Char('S'));
    assert_eq!(view.sort, Sort::Name);
    let names = |view: &View| -> Vec<String> {
        let picture = picture();
        view.rows(&picture)
            .iter()
            .map(|row| row.name.clone())
            .collect()
    };
    assert!(names(&view)[0].starts_with("<my_app") && names(&view)[3].ends_with("stop_word"));
    press(&mut view, KeyCode::Char('p'));
    let lines = screen(&mut view, Some(&picture()), 80, 8);
    assert_eq!(lines[1], "functions of all threads · by name · paused");
    for key in ['/', 's', 't', 'o', 'q'] {
        assert_eq!(press(&mut view, KeyCode::Char(key)), KeyAction::Nothing);
    }
    press(&mut view, KeyCode::Backspace);
    let lines = screen(&mut view, Some(&picture()), 80, 8);
    assert!(lines[7].starts_with("/sto"), "{lines:?}");
    press(&mut view, KeyCode::Enter);
    assert_eq!(names(&view), ["my_app::text::is_stop_word"]);
    let lines = screen(&mut view, Some(&picture()), 80, 8);
    assert_eq!(
        lines[1],
        "functions of all threads · by name · only sto · paused"
    );
    press(&mut view, KeyCode::Esc);
    assert_eq!(names(&view).len(), 4);
    press(&mut view, KeyCode::Tab);
    assert_eq!(view.page, Page::Threads);
    press(&mut view, KeyCode::Down);
    press(&mut view, KeyCode::Down);
    let _ = screen(&mut view, Some(&picture()), 80, 8);
    press(&mut view, KeyCode::Enter);
    assert_eq!(view.page, Page::OfThread(4712));
    assert_eq!(names(&view), ["my_app::handle"]);
    press(&mut view, KeyCode::Esc);
    assert_eq!(view.page, Page::Threads);
    press(&mut view, KeyCode::Char('?'));
    let lines = screen(&mut view, Some(&picture()), 80, 20);
    assert!(
        lines
            .iter()
            .any(|line| line.contains("functions or threads"))
    );
    assert_eq!(press(&mut view, KeyCode::Char('q')), KeyAction::Quit);
    let control = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    assert_eq!(view.key(control, &picture()), KeyAction::Quit);
}

#[test]
fn wrong_filters_can_be_mended() {
    let mut view = view(Page::Functions, Sort::Own);
    for key in ['/', '-'] {
        press(&mut view, KeyCode::Char(key));
    }
    press(&mut view, KeyCode::Enter);
    let message = view.message.clone().expect("a message");
    assert!(message.starts_with("-: "), "{message}");
    assert!(view.filter.is_none());
    press(&mut view, KeyCode::Backspace);
    press(&mut view, KeyCode::Enter);
    assert!(view.filter.is_none());
    assert_eq!(press(&mut view, KeyCode::Char('q')), KeyAction::Quit);
}

#[test]
fn a_long_table_is_walked_through() {
    let mut picture = picture();
    picture.functions = (0..100)
        .map(|at| function(&format!("f{at:02}"), 1, 1000 - at))
        .collect();
    let mut view = view(Page::Functions, Sort::Name);
    let first = |view: &mut View, key| {
        view.key(KeyEvent::new(key, KeyModifiers::NONE), &picture);
        let lines = screen(view, Some(&picture), 80, 14);
        let name = |line: &str| line.rsplit(' ').next().unwrap_or_default().to_owned();
        (name(&lines[3]), name(&lines[12]))
    };
    let pair = |one: &str, other: &str| (one.to_owned(), other.to_owned());
    assert_eq!(first(&mut view, KeyCode::Down), pair("f00", "f09"));
    assert_eq!(first(&mut view, KeyCode::End), pair("f90", "f99"));
    assert_eq!(first(&mut view, KeyCode::Up), pair("f90", "f99"));
    assert_eq!(first(&mut view, KeyCode::PageUp), pair("f78", "f87"));
    assert_eq!(first(&mut view, KeyCode::Home), pair("f00", "f09"));
}

fn totals(calls: u64, length: u64) -> FunctionTotals {
    FunctionTotals {
        function: FunctionId(1),
        calls,
        total: Ticks(calls * length),
        own: Ticks(calls * length),
        longest: Ticks(length),
        lengths: vec![(lengths::class(length) as u8, calls)],
        ..FunctionTotals::default()
    }
}

fn look(at: Instant, ended: Vec<FunctionTotals>, threads: Vec<LiveThread>, now: u64) -> RingSample {
    let info = TraceInfo {
        functions: functions(&[(1, "leaf"), (2, "run")]),
        ..TraceInfo::default()
    };
    let reading = Reading {
        threads,
        ended,
        has_totals: true,
        now: Some(Ticks(now)),
    };
    RingSample {
        at,
        rings: vec![OneRing {
            info,
            reading,
            states: None,
        }],
        spent: BTreeMap::from([(
            7,
            Spent {
                running_ns: now / 4,
                ready_ns: 0,
            },
        )]),
        over: None,
    }
}

fn thread(generation: u64, totals: Vec<FunctionTotals>, open: Vec<OpenCall>) -> LiveThread {
    LiveThread {
        generation,
        id: ThreadId(7),
        totals,
        open,
        ..LiveThread::default()
    }
}

fn open(function: u32, entered: u64, inside: u64) -> OpenCall {
    OpenCall {
        function: FunctionId(function),
        entered: Ticks(entered),
        inside: Ticks(inside),
    }
}

#[test]
fn lasting_calls_count_once() {
    let begin = Instant::now();
    let second = Duration::from_secs(1);
    // `run` was entered at 100 and has called `leaf` three times; the fourth call is open since 900.
    let one = look(
        begin,
        vec![],
        vec![thread(
            1,
            vec![totals(3, 100)],
            vec![open(2, 100, 300), open(1, 900, 0)],
        )],
        1_000,
    );
    // It took 150, and there was another one since.
    let mut more = totals(4, 100);
    more.add(&FunctionTotals {
        calls: 1,
        ..totals(1, 150)
    });
    let other = look(
        begin + second,
        vec![],
        vec![thread(1, vec![more], vec![open(2, 100, 550)])],
        2_000,
    );
    let picture = between(9, &one, &other);
    let find = |name: &str| {
        picture
            .functions
            .iter()
            .find(|row| row.name == name)
            .expect(name)
            .clone()
    };
    let (leaf, run) = (find("leaf"), find("run"));
    // 550 in all, of which 300 and 100 of the open call were before.
    assert_eq!(
        (leaf.calls, leaf.total_ns, leaf.interval.calls),
        (5, 550, 2)
    );
    assert_eq!(
        (leaf.interval.total_ns, leaf.interval.self_ns),
        (Some(150), Some(150))
    );
    assert_eq!(
        (run.calls, run.interval.calls, run.interval.total_ns),
        (0, 0, Some(1_000))
    );
    // Without the calls inside: 1,900 - 550, of which 900 - 300 - 100 were before.
    assert_eq!(run.interval.self_ns, Some(1_350 - 500));
    // The 99th of 2 calls is the longer one, as long as its class allows.
    let p99 = leaf.interval.p99_ns.expect("calls ended");
    assert!((128..=160).contains(&p99), "{p99}");
    let thread = &picture.threads[0];
    assert_eq!(
        (thread.running_ns, thread.waiting_ns),
        (Some(250), Some(999_999_750))
    );
    assert_eq!(
        (thread.function.as_deref(), thread.open_ns),
        (Some("run"), Some(1_900))
    );
}

#[test]
fn a_slot_that_changes_its_owner_loses_nothing() {
    let begin = Instant::now();
    let one = look(
        begin,
        vec![],
        vec![thread(1, vec![totals(10, 50)], vec![])],
        1_000,
    );
    let next = begin + Duration::from_millis(500);
    let other = look(
        next,
        vec![totals(12, 50)],
        vec![thread(2, vec![totals(3, 50)], vec![])],
        2_000,
    );
    let picture = between(9, &one, &other);
    let row = &picture.functions[0];
    assert_eq!((row.calls, row.interval.calls), (15, 5));
    assert_eq!(row.interval.calls_per_s, 10.0);
    assert_eq!(picture.calls_per_s, 10.0);
    // The new thread began in the interval.
    assert_eq!(picture.threads[0].calls_per_s, 6.0);
}
