//! Stacks of tasks of a trace that is typed by hand. 1 tick = 1 ns.

use fdr_formats::calls::{CallHandler, CallStack, EdgeStatus, EndedCall, Exit, OpenCall as Open};
use fdr_formats::notes::{Field, FieldValue, Note, task_state};
use fdr_formats::{Call, Thread};

use super::*;
use crate::stacks::Pass;
use crate::testing::functions;

const SERVE: u32 = 1;
const READ: u32 = 2;
const ACCEPT: u32 = 3;
const NUMBER: u32 = 4;

fn info() -> TraceInfo {
    let names = [
        (SERVE, "serve"),
        (READ, "read"),
        (ACCEPT, "accept"),
        (NUMBER, "number"),
    ];
    TraceInfo {
        functions: functions(&names),
        threads: vec![Thread {
            id: ThreadId(7),
            name: "main".into(),
            ..Thread::default()
        }],
        end: Some(Ticks(1000)),
        ..TraceInfo::default()
    }
}

/// Gives a pass the calls and notes of thread 7.
struct Typed {
    pass: TasksPass,
    stack: CallStack<u32>,
}

impl CallHandler<u32> for TasksPass {
    fn missing(&mut self, _: FunctionId, _: Exit, _: Option<&u32>) -> u32 {
        0
    }

    fn ended(&mut self, ended: EndedCall<u32>, _: &mut [Open<u32>]) {
        let is_open = ended.exit != EdgeStatus::Measured;
        Pass::ended(self, &ended, is_open);
    }
}

impl Typed {
    fn new(moment: u64) -> Typed {
        let mut pass = TasksPass::new(Ticks(moment));
        pass.thread(ThreadId(7));
        let stack = CallStack::new();
        Typed { pass, stack }
    }

    fn enter(&mut self, time: u64, function: u32) {
        let data = self.pass.entered(FunctionId(function), 0);
        let call = Call::entry(Ticks(time), FunctionId(function));
        self.stack.enter(&call, data);
    }

    fn exit(&mut self, time: u64, function: u32) {
        let call = Call::exit(Ticks(time), FunctionId(function));
        self.stack.exit(&call, &mut self.pass);
    }

    fn note(&mut self, time: u64, note: &Note<'_>) {
        let body = note.encode().expect("a note");
        self.pass.note(0, Ticks(time), note.kind(), &body);
    }

    /// A note of a task that began at `begin`.
    fn task(&mut self, time: u64, [task, parent, begin, polls]: [u64; 4], name: u32, state: u8) {
        self.note(
            time,
            &Note::Task {
                task,
                parent,
                by: 0,
                name,
                state,
                counted: 0,
                elapsed: time - begin,
                busy: polls,
                polls,
            },
        );
    }

    fn argument(&mut self, time: u64, function: u32, number: u64) {
        let field = Field {
            name: NUMBER,
            place: 0,
            value: FieldValue::Unsigned(number),
        };
        let fields = vec![field];
        self.note(time, &Note::Arguments { function, fields });
    }

    /// A poll of `serve` with a poll of `read` inside, both with notes.
    fn serve(&mut self, time: u64, id: u64, polls: u64, begin: u64, state: u8) {
        self.enter(time, SERVE);
        self.argument(time, SERVE, id);
        self.enter(time + 1, READ);
        self.task(time + 2, [id + 1, id, begin + 1, polls], READ, state);
        self.exit(time + 2, READ);
        self.task(time + 3, [id, 99, begin, polls], SERVE, state);
        self.exit(time + 3, SERVE);
    }

    fn found(mut self, moment: Moment) -> TaskStacks {
        self.stack.finish(Some(Ticks(1000)), &mut self.pass);
        let (tasks, open_calls) = TasksPass::gather(vec![self.pass]);
        TaskStacks::new(&info(), tasks, open_calls, moment).expect("memory")
    }
}

fn at(time: u64) -> Moment {
    Moment {
        time: Ticks(time),
        is_end: time == 1000,
        is_whole: true,
        whole_since: Ticks(0),
        first: None,
    }
}

fn shown(found: &TaskStacks) -> String {
    let mut out = Vec::new();
    text(&mut out, &info(), found, &[]).expect("text");
    String::from_utf8(out).expect("UTF-8")
}

const WAITING: u8 = task_state::WAITING;

/// 10 connections of a task that has ended, of which the last one is polled twice.
fn connections(moment: u64) -> Typed {
    let mut typed = Typed::new(moment);
    for nth in 0..10 {
        typed.serve(100 + 10 * nth, 10 + 2 * nth, 1, 100 + 10 * nth, WAITING);
    }
    typed.serve(300, 28, 2, 190, WAITING);
    typed
}

#[test]
fn equal_stacks_are_one_entry() {
    let wanted = "
20 tasks open

tasks, each awaits the next: 10 such stacks, the longest
  1  serve  task 10 for 900 ns, 1 poll, busy 1 ns
     arguments  number=10
  2  read  task 11 for 899 ns, 1 poll, busy 1 ns
     waits for 898 ns, and awaits no other traced task; main (7) polled it last
     then task 13 for 888 ns · task 15 for 878 ns · 7 more
";
    let found = connections(1000).found(at(1000));
    let text = shown(&found)
        .replace(" (a.rs:1)", "")
        .replace(" (a.rs:2)", "");
    assert_eq!(text, wanted);
    let json = json(&info(), &found);
    let stack = &json["stacks"][0];
    assert_eq!((&json["open"], &stack["count"]), (&20.into(), &10.into()));
    assert_eq!(stack["functions"], serde_json::json!(["serve", "read"]));
    let longest = stack["longest"].as_array().expect("a list");
    assert_eq!(longest.len(), 3);
    assert_eq!(
        (&longest[0][1]["parent"], &longest[0][1]["waits_ns"]),
        (&10.into(), &898.into())
    );
    assert_eq!(longest[0][0]["arguments"][0]["fields"][0]["value"], 10);
}

#[test]
fn a_moment_inside_of_a_poll_names_the_task() {
    // In the second poll of the last connection, and before it.
    let found = connections(301).found(at(301));
    let first = &found.groups[1].stacks[0];
    let tasks: Vec<_> = first.iter().map(|&at| &found.tasks[at]).collect();
    let facts: Vec<_> = tasks.iter().map(|task| (task.id, task.polls)).collect();
    assert_eq!(facts, [(Some(28), Some(2)), (Some(29), Some(2))]);
    assert!(matches!(
        tasks[1].now,
        Now::Polled {
            since: Ticks(301),
            ..
        }
    ));
    assert_eq!(
        (tasks[0].begin, found.groups[0].stacks.len()),
        (Ticks(190), 9)
    );
    // A task that began later was not there. One that has ended later was.
    let mut typed = connections(150);
    typed.serve(500, 12, 2, 110, task_state::FINISHED);
    let found = typed.found(at(150));
    let mut ids: Vec<_> = found.tasks.iter().filter_map(|task| task.id).collect();
    ids.sort_unstable();
    assert_eq!(ids, [10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20]);
}

#[test]
fn spawned_tasks_are_stacks_of_their_own() {
    let mut typed = Typed::new(1000);
    typed.enter(10, ACCEPT);
    typed.task(20, [99, 0, 10, 1], ACCEPT, WAITING);
    typed.exit(20, ACCEPT);
    typed.serve(100, 10, 1, 100, WAITING);
    // One that is polled when the trace was written, for the first time.
    typed.enter(900, SERVE);
    typed.argument(900, SERVE, 55);
    typed.enter(910, READ);
    let found = typed.found(at(1000));
    let text = shown(&found);
    let stacks: Vec<&str> = text.split("\n\n").collect();
    assert_eq!(stacks.len(), 4, "{text}");
    assert!(stacks[0].contains("5 tasks open"), "{text}");
    assert!(
        stacks[1].contains("  1  accept  task 99 for 990 ns"),
        "{text}"
    );
    assert!(
        stacks[2].contains("     spawned by task 99 accept\n  1  serve  task 10"),
        "{text}"
    );
    assert!(
        stacks[3].contains("  1  serve  a task for 100 ns\n     arguments  number=55\n"),
        "{text}"
    );
    let last = "is polled for 90 ns in main (7); this is its first poll, or it is one of 1 task";
    assert!(stacks[3].contains(last), "{text}");
}

#[test]
fn ends_may_be_overwritten() {
    let moment = Moment {
        whole_since: Ticks(250),
        ..at(1000)
    };
    // There are no totals.
    let found = connections(1000).found(moment);
    assert_eq!((found.tasks.len(), found.perhaps), (2, 18));
    assert!(shown(&found).contains("18 more tasks may be open"));
}
