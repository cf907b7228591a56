// The page: puts its parts together, and does what keys, mouse and buttons ask for.

import { Alignment, alignment, ALIGNMENTS, exactness, shifts } from "./align";
import { Asking } from "./asking";
import { endings, gone, outdated, replaced } from "./banners";
import { Causes } from "./causes";
import { el, fill } from "./dom";
import { Drawing } from "./draw";
import { open } from "./embedded";
import { clean, duration, short, things } from "./format";
import { help as make_help } from "./help";
import { Actions, on_key } from "./keys";
import { Info, SHORT, Source } from "./model";
import { Panel } from "./panel";
import { beginning, filling, longest_inside } from "./places";
import { pointer } from "./pointer";
import { Search } from "./search";
import { Served } from "./served";
import { event_at } from "./events";
import { GUTTER, Lane, PIN, Stage } from "./stage";
import { empty, read, Selected, write } from "./view";
import { wait_at } from "./waits";

async function main(): Promise<void> {
  const status = el("output", { id: "status", "aria-live": "polite" });
  const say = (text: string): void => {
    fill(status, clean(text));
    status.dispatchEvent(new Event("said"));
  };
  const data = document.getElementById("data")?.textContent?.trim() ?? "";
  document.body.replaceChildren(el("p", {}, "reading the trace…"));
  const alarms = el("ul", { class: "banners", role: "alert" });
  let known: Info | null = null;
  /** A banner that stays. The end of the server takes the place of what was told before. */
  const alarm = (words: typeof gone) => (): void => {
    if (!known || (alarms.childElementCount > 0 && words !== gone)) return;
    fill(alarms, el("li", {}, ...words(known)));
    window.dispatchEvent(new Event("resize"));
  };
  const served = new Served({ gone: alarm(gone), replaced: alarm(replaced), outdated: alarm(outdated) });
  const source: Source = data ? await open(data) : served;
  if (source === served) void served.stay();
  known = await source.info();
  document.body.replaceChildren(...page(source, known, status, say, alarms));
  window.dispatchEvent(new Event("resize"));
}

function page(source: Source, info: Info, status: HTMLElement, say: (text: string) => void, alarms: HTMLElement): Node[] {
  const view = empty();
  const canvas = el("canvas", { tabindex: 0, role: "img", "aria-label": "Lanes of all threads on one axis of time. The arrow keys select calls, and the details below tell of them." });
  const tip = el("div", { id: "tip", hidden: true });
  const notes = el("ul", { id: "notes", "aria-label": "what to know of this trace" });
  const ended = el("ul", { class: "banners", "aria-label": "what ended the recording" });
  const title = el("h1");
  const find = el("input", { type: "search", placeholder: "search ( / )", "aria-label": "search functions by text or glob" });
  const unseen = el("p", { class: "unseen", "aria-live": "polite" });
  const aligned = el("select", { "aria-label": "how the traces are aligned", onchange: () => align(aligned.value as Alignment) },
    ...ALIGNMENTS.map(([by, text]) => el("option", { value: by }, text)));
  let is_dirty = false;
  let wanted = 0;

  const stage = new Stage(info, view, changed);
  const { chosen } = stage;
  const asking = new Asking(stage, source, changed, (error) => say(String(error instanceof Error ? error.message : error)));
  const drawing = new Drawing(canvas, stage);
  const causes = new Causes(stage, source);
  const panel = new Panel(stage, source, causes, { search, select: (trace, call) => select({ trace, ...call }), locate, go, show_task, show_event }, () => {
    panel.hide();
    resized();
    canvas.focus();
  }, resized);
  const searching = new Search(stage, source, causes, { say, told, select, show_event, changed, survey: () => void asking.survey().catch(() => undefined) });
  const slow_button = el("button", { title: "C", onclick: () => panel.show("slow") }, "Slow calls");

  function changed(): void {
    if (is_dirty) return;
    is_dirty = true;
    requestAnimationFrame(() => {
      is_dirty = false;
      drawing.draw();
      void asking.want();
    });
    clearTimeout(wanted);
    wanted = window.setTimeout(() => history.replaceState(null, "", write(view)), 250);
  }

  function resized(): void {
    drawing.resize();
    stage.scroll(0);
    changed();
  }

  /** Tells what ended the traces: once, so that the focus stays where it is. */
  function tell_endings(): void {
    fill(ended, ...endings(stage, (...call) => void go(...call)));
  }

  function told(): void {
    const names = stage.info.traces.map((trace) => [short(trace.file), trace.program].filter((name) => name).join(" · "));
    const files = stage.info.traces.map((trace) => short(trace.file));
    const programs = new Set(stage.info.traces.map((trace) => trace.program));
    // Of several traces of one program, its name stands once.
    const heading = names.length > 1 && programs.size === 1 ? [...files, [...programs][0]].filter((name) => name).join(" · ") : names.join(" · ");
    const facts = stage.info.traces.map((trace) => `${things(trace.threads.length, "thread")}, ${duration(stage.ns(trace, trace.end - trace.begin))}`);
    fill(title, clean(heading).slice(0, 200));
    title.title = clean(stage.info.traces.map((trace) => [`${trace.file}: ${trace.format}`, trace.reason].filter((part) => part).join("; ")).join("\n")).slice(0, 2000);
    document.title = `${clean(heading).slice(0, 100)} - fdr`;
    fill(notes, ...stage.info.traces.flatMap((trace) => trace.notes.map((note) => el("li", {}, clean(note).slice(0, 2000)))));
    const progress = Math.min(...stage.info.traces.map((trace) => trace.progress));
    fill(status, progress < 1 ? `reading: ${Math.floor(progress * 100)} %` : facts.join(" · "));
  }

  function align(by: Alignment): void {
    const found = shifts(stage, by, chosen);
    if (typeof found === "string") say(found);
    else {
      stage.align(found);
      told();
      void panel.refresh();
      if (by === "clock") say(exactness(stage));
      aligned.title = by === "clock" ? exactness(stage) : "";
    }
    aligned.value = alignment(stage);
  }

  function select(selected: Selected | null, reveal = true): void {
    view.selected = selected;
    if (selected) {
      chosen[selected.trace] = selected;
      const name = selected.function === SHORT ? "calls without records" : stage.name(selected.trace, selected.function);
      fill(unseen, `${clean(name).slice(0, 300)}, ${duration(stage.ns(stage.trace(selected.trace), selected.end - selected.start))}, depth ${selected.depth}`);
      if (reveal) stage.reveal(selected.trace, selected);
      panel.show("call");
      searching.follow(selected);
    } else if (panel.is_at("call")) void panel.refresh();
    changed();
  }

  async function show_task(trace: number, wanted: string | number, at: number): Promise<void> {
    const task = await source.task(trace, wanted, at);
    view.task = { trace, task: task.task, lane: task.lane, start: task.start };
    stage.reveal_task(trace, task);
    panel.show("task");
  }

  function show_event(trace: number, thread: number, time: number): void {
    view.event = { trace, thread, counter: null, time };
    stage.reveal_tick(trace, thread, time);
    panel.show("event");
  }

  /** Selects what the holder of a lock was in. */
  function show_holder({ lane, waits, nth }: NonNullable<ReturnType<typeof wait_at>>): void {
    const holder = (waits.holder[nth] ?? 0) - 1;
    const of = waits.function[nth] ?? 0;
    if (holder < 0) return say("the holder of the lock is not known");
    void go(lane.trace, holder, of ? stage.name(lane.trace, of) : null, waits.from[nth] ?? 0, waits.to[nth] ?? 0);
  }

  function search(text: string): void {
    find.value = text;
    searching.functions(text);
  }

  /** Selects the call of a function that begins then. */
  async function locate(trace: number, thread: number, of: number, since_first_ns: number): Promise<void> {
    const call = await beginning(stage, source, trace, thread, of, since_first_ns);
    if (call) select({ trace, ...call });
    else say("the call is not in the picture");
  }

  /** Selects the call of a thread that fills most of a stretch. */
  async function go(trace: number, thread: number, name: string | null, from: number, to: number): Promise<void> {
    const call = await filling(stage, source, { trace, thread, from, to }, name);
    if (call) select({ trace, ...call });
    else say("the call is not in the trace");
  }

  /** The lane of the selected call, or the first one that is seen. */
  const lane_of = (selected: Selected): Lane | undefined =>
    stage.lanes.find((lane) => lane.trace === selected.trace && lane.thread === selected.thread);

  function step(direction: "left" | "right" | "up" | "down"): void {
    const { selected } = view;
    const choose = (found: ReturnType<Stage["call_in"]>): void => {
      if (!found) return;
      select({ trace: found.lane.trace, ...found.call });
      // The call around is seen as a whole.
      const { start, end } = found.call;
      const is_cut = stage.at(found.lane.trace, start) < view.from || stage.at(found.lane.trace, end) > view.to;
      if (direction === "up" && is_cut) actions.fit_selected();
    };
    if (!selected) {
      const lane = stage.visible()[0];
      if (lane) choose(stage.call_in(lane, 0, stage.tick(lane.trace, view.from), Infinity));
      return;
    }
    const lane = lane_of(selected);
    if (!lane) return;
    const row = lane.picture?.rows[selected.depth];
    const nth = row ? row.start.findIndex((start) => start >= selected.start) : -1;
    if (direction === "up" && selected.depth > 0) choose(stage.call_in(lane, selected.depth - 1, selected.start, selected.start));
    if (direction === "down") choose(stage.call_in(lane, selected.depth + 1, selected.start, selected.end));
    const next = direction === "right" ? nth + 1 : direction === "left" ? nth - 1 : -1;
    if (row && nth >= 0 && next >= 0 && next < row.length) {
      const start = row.start[next] ?? 0;
      choose(stage.call_in(lane, selected.depth, row.end[next] ?? start, row.end[next] ?? start));
    }
  }

  const actions: Actions = {
    zoom: (factor) => stage.zoom(factor, (view.from + view.to) / 2),
    pan: (share) => stage.show(view.from + share * (view.to - view.from), view.to + share * (view.to - view.from)),
    scroll: (pixels) => stage.scroll(pixels),
    fit: () => stage.fit(),
    fit_selected: () => {
      const { selected, mark } = view;
      if (!selected && !mark) return say("nothing is selected: F shows everything");
      const [from, to] = selected ? [stage.at(selected.trace, selected.start), stage.at(selected.trace, selected.end)] : mark ?? [0, stage.end];
      const margin = Math.max((to - from) * 0.1, 5);
      stage.show(from - margin, to + margin);
    },
    search: () => find.focus(),
    next: (direction) => searching.next(direction),
    mark: () => {
      const { selected } = view;
      view.mark = selected ? [stage.at(selected.trace, selected.start), stage.at(selected.trace, selected.end)] : [Math.max(view.from, 0), Math.min(view.to, stage.end)];
      show_marked();
    },
    clear: () => {
      if (view.search) search("");
      else if (view.mark) view.mark = null;
      else [view.selected, view.task, view.event] = [null, null, null];
      void panel.refresh();
      changed();
    },
    step,
    longest_inside: () => {
      const { selected } = view;
      if (selected) void longest_inside(source, selected.trace, selected).then((call) => (call ? select({ trace: selected.trace, ...call }) : say("no call inside")));
    },
    slow: () => panel.show("slow"),
    tab: (nth) => panel.show_nth(nth),
    tasks: () => {
      const is_open = stage.headings.some((heading) => heading.is_open);
      const [first] = stage.headings;
      if (!first) return say("no task is in this trace");
      for (const { trace } of [...stage.headings]) stage.open_tasks(trace, !is_open);
      if (!is_open && stage.seen(stage.tasks).length === 0) stage.scroll(first.top - view.scroll);
    },
    event: async (direction) => {
      const at = view.event ?? { trace: 0, thread: 0, time: stage.tick(0, view.from) - 1 };
      const { previous, next } = await source.events(at.trace, Math.max(at.thread, 0), at.time, [...(stage.found_events[at.trace] ?? [])]);
      const to = direction > 0 ? next : previous;
      if (to) show_event(at.trace, to.thread, to.time);
      else say(`no ${direction > 0 ? "later" : "earlier"} event`);
    },
    holder: () => {
      const { selected } = view;
      const lane = selected && lane_of(selected);
      const waits = lane?.picture?.waits;
      let best = -1;
      for (let nth = 0; selected && waits && nth < waits.length; nth++) {
        const [from, to] = [waits.from[nth] ?? 0, waits.to[nth] ?? 0];
        const is_longer = best < 0 || to - from > (waits.to[best] ?? 0) - (waits.from[best] ?? 0);
        if (from >= selected.start && to <= selected.end && is_longer) best = nth;
      }
      if (lane && waits && best >= 0) show_holder({ lane, waits, nth: best });
      else say("the selected call waited for no lock");
    },
    pin: () => {
      if (view.selected) stage.pin(view.selected.trace, view.selected.thread);
      else say("no call is selected");
    },
    align: () => (stage.info.traces.length > 1 ? align("call") : say("only one trace is shown")),
    help: () => help.showModal(),
    renew,
    theme: () => {
      const is_dark = getComputedStyle(document.documentElement).getPropertyValue("--back").trim() !== "#ffffff";
      document.documentElement.dataset["theme"] = is_dark ? "light" : "dark";
      drawing.theme();
      changed();
    },
  };
  const help = make_help();

  pointer(canvas, stage, drawing, tip, causes, actions, {
    click: (x, y) => {
      const lane = stage.lane_at(y);
      if (x < GUTTER && x >= GUTTER - PIN && lane) return stage.pin(lane.lane.trace, lane.lane.thread);
      if (x < GUTTER && lane) {
        lane.lane.is_open = !lane.lane.is_open;
        stage.update(stage.info);
        return changed();
      }
      const heading = stage.strip_at(stage.headings, y);
      if (heading) return stage.open_tasks(heading.trace, !heading.is_open);
      const wait = wait_at(stage, x, y);
      if (wait) return wait.waits.count[wait.nth] === 1 ? show_holder(wait) : stage.zoom(0.2, stage.time(x));
      const event = event_at(stage, x, y);
      if (event) return show_event(event.lane.trace, event.lane.thread, event.tick);
      const counter = x < GUTTER ? null : stage.strip_at(stage.counters, y);
      if (counter) {
        view.event = { trace: counter.trace, thread: -1, counter: counter.counter.id, time: Math.round(stage.tick(counter.trace, stage.time(x))) };
        return panel.show("event");
      }
      const task = stage.task_at(x, y);
      if (task && task.tasks === 1) {
        const { trace, lane } = task.lane;
        // A poll is a call of a thread; the call's details lead back to the task.
        if (task.poll && task.polls === 1) void source.task(trace, lane, task.tick).then((found) => {
          const poll = found.list.find((poll) => poll.start === task.poll?.start);
          view.task = { trace, task: found.task, lane, start: found.start };
          if (poll) select({ trace, ...poll });
        });
        else void show_task(trace, lane, task.tick);
        return;
      }
      if (task) return stage.zoom(0.2, stage.time(x));
      const found = stage.call_at(x, y);
      if (found && found.calls === 1) return select({ trace: found.lane.trace, ...found.call }, false);
      if (found) return stage.zoom(0.2, stage.time(x));
      select(null);
    },
    mark: (from, to, is_done) => {
      view.mark = to - from > 0 ? [from, to] : null;
      if (is_done && view.mark) show_marked();
      changed();
    },
  });
  let fading = 0;
  status.addEventListener("said", () => {
    clearTimeout(fading);
    fading = window.setTimeout(() => !view.search && !searching.is_walking && told(), 7000);
  });
  find.addEventListener("input", () => search(find.value));
  find.addEventListener("keydown", (event) => {
    if (event.key === "Escape") search("");
    if (event.key === "Enter") searching.first();
    if (event.key === "Enter" || event.key === "Escape") canvas.focus();
  });
  document.addEventListener("keydown", (event) => on_key(event, actions));
  window.addEventListener("unhandledrejection", (event) => say(String(event.reason instanceof Error ? event.reason.message : event.reason)));
  window.addEventListener("resize", resized);
  window.addEventListener("hashchange", () => from_fragment());
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    drawing.theme();
    changed();
  });

  function from_fragment(): void {
    Object.assign(view, read(location.hash));
    if (view.shifts.length !== stage.info.traces.length) view.shifts = stage.info.traces.map(() => 0);
    aligned.value = alignment(stage);
    if (view.selected && !stage.info.traces[view.selected.trace]?.threads[view.selected.thread]) view.selected = null;
    if (view.selected) chosen[view.selected.trace] = view.selected;
    if (view.search) search(view.search);
    if (view.task && !stage.info.traces[view.task.trace]) view.task = null;
    if (view.event && !stage.info.traces[view.event.trace]) view.event = null;
    stage.update(stage.info);
    if (view.event && !view.selected && !view.task) panel.show("event");
    else if (view.task && !view.selected) void show_task(view.task.trace, view.task.task, view.task.start);
    else if (view.selected) panel.show("call");
    else if (view.mark) panel.show("table");
    resized();
  }

  /** A stretch is marked: the tab that is shown tells of it, or else the table. */
  function show_marked(): void {
    const is_of_stretch = (["table", "flame", "tree", "slow"] as const).some((tab) => panel.is_at(tab));
    if (is_of_stretch) void panel.refresh();
    else panel.show("table");
    resized();
  }

  /** Shows another snapshot of the process, and looks at the same time and the same call. */
  function replace(info: Info): void {
    const was_all = view.from <= 0 && view.to >= stage.end * 0.999;
    const old = stage.info;
    stage.replace(info);
    const [before, now] = [old.traces[0], info.traces[0]];
    if (before && now && !was_all) {
      const later = Number(BigInt(now.base) - BigInt(before.base));
      const ns = stage.ns(now, later + now.begin - before.begin);
      [view.from, view.to] = [view.from - ns, view.to - ns];
      if (view.mark) view.mark = [view.mark[0] - ns, view.mark[1] - ns];
    }
    const { selected } = view;
    if (selected) {
      const [was, is] = [old.traces[selected.trace], info.traces[selected.trace]];
      const thread = is?.threads.findIndex((thread) => thread.id === was?.threads[selected.thread]?.id) ?? -1;
      const later = was && is ? Number(BigInt(is.base) - BigInt(was.base)) : 0;
      view.selected = thread < 0 ? null : { ...selected, thread, start: selected.start - later, end: selected.end - later };
    }
    // The places of events are others, too.
    view.event = null;
    const { task } = view;
    const is_same = (): boolean => view.task?.task === task?.task;
    if (task) source.task(task.trace, task.task, 0).then(
      ({ lane, start }) => is_same() && (view.task = { ...task, lane, start }),
      () => is_same() && (view.task = null),
    ).finally(changed);
    if (view.search) search(view.search);
    if (was_all) stage.fit();
    else stage.show(view.from, view.to);
    stage.scroll(0);
    panel.renew();
    tell_endings();
    told();
  }

  async function renew(): Promise<void> {
    if (stage.info.snapshot === null) return say("this page shows a trace: only a running process has new snapshots");
    say("taking a snapshot…");
    replace(await source.snapshot());
    await follow();
  }

  let following = 0;

  /** Until the whole trace is read, the picture grows. */
  async function follow(): Promise<void> {
    let shown = 0;
    const serial = ++following;
    while (stage.info.traces.some((trace) => trace.progress < 1)) {
      await new Promise((done) => setTimeout(done, 250));
      const was_all = view.from <= 0 && view.to >= stage.end * 0.999;
      const info = await source.info();
      if (serial !== following) return;
      if (info.snapshot === stage.info.snapshot) stage.update(info);
      else replace(info);
      if (was_all && !location.hash.includes("t=")) stage.fit();
      told();
      changed();
      if (Date.now() - shown > 1000) {
        shown = Date.now();
        await asking.survey();
      }
    }
    await asking.survey();
    told();
    if (serial === following) await count_slow();
  }

  let is_first = true;

  /** Says how many calls are slow. At the start they are shown, unless the address says what is. */
  async function count_slow(): Promise<void> {
    const { snapshot } = stage.info;
    // Of a snapshot that is replaced meanwhile, nobody wants to know.
    const count = await causes.count().catch(() => null);
    if (snapshot !== stage.info.snapshot) return;
    fill(slow_button, count === null ? "Slow calls" : count === 0 ? "No slow calls" : things(count, "slow call"));
    const is_fresh = is_first && Object.keys(read_view).length === 0 && !panel.is_shown && !view.selected && !view.mark;
    is_first = false;
    if (is_fresh && count) panel.show("slow");
  }

  [view.from, view.to] = [0, stage.end];
  const read_view = read(location.hash);
  tell_endings();
  told();
  queueMicrotask(() => {
    if (Object.keys(read_view).length > 0) from_fragment();
    else stage.fit();
    follow().catch((error: unknown) => say(String(error)));
  });
  const header = el(
    "header", {}, title, find, status, el("span", { class: "space" }), info.traces.length > 1 && aligned,
    slow_button,
    el("button", { onclick: () => panel.show("table") }, "Functions"),
    info.snapshot !== null && el("button", { onclick: () => void renew(), title: "R" }, "New snapshot"),
    el("button", { onclick: actions.fit, title: "F" }, "Fit"),
    el("button", { onclick: actions.theme, title: "T: light or dark", "aria-label": "light or dark" }, "◐"),
    el("button", { onclick: actions.help, title: "?" }, "Help"),
  );
  return [header, alarms, ended, notes, el("div", { id: "stage" }, canvas, tip), panel.element, unseen, help];
}

main().catch((error: unknown) => {
  document.body.replaceChildren(el("p", { role: "alert" }, `fdr view: ${clean(String(error instanceof Error ? error.message : error))}`));
});
