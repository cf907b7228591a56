// The page: puts its parts together, and does what keys, mouse and buttons ask for.

import { Alignment, alignment, ALIGNMENTS, shifts } from "./align";
import { Asking } from "./asking";
import { words as words_of_band } from "./band";
import { words } from "./curves";
import { el, fill } from "./dom";
import { Drawing } from "./draw";
import { open } from "./embedded";
import { clean, duration, matcher, things } from "./format";
import { Actions, KEYS, on_key } from "./keys";
import { CALLS, Info, SHORT, Source } from "./model";
import { Panel } from "./panel";
import { Served } from "./served";
import { GUTTER, Lane, Stage } from "./stage";
import { words as words_of_task } from "./task_lanes";
import { empty, read, Selected, write } from "./view";

async function main(): Promise<void> {
  const status = el("output", { id: "status", "aria-live": "polite" });
  const say = (text: string): void => fill(status, clean(text));
  const data = document.getElementById("data")?.textContent?.trim() ?? "";
  document.body.replaceChildren(el("p", {}, "reading the trace…"));
  const served = new Served(() => say("fdr view has ended: what is not here already can't be read any more"));
  const source: Source = data ? await open(data) : served;
  if (source === served) void served.stay();
  const info = await source.info();
  document.body.replaceChildren(...page(source, info, status, say));
  window.dispatchEvent(new Event("resize"));
}

function page(source: Source, info: Info, status: HTMLElement, say: (text: string) => void): Node[] {
  const view = empty();
  const canvas = el("canvas", { tabindex: 0, role: "img", "aria-label": "Lanes of all threads on one axis of time. The arrow keys select calls, and the details below tell of them." });
  const tip = el("div", { id: "tip", hidden: true });
  const notes = el("ul", { id: "notes", "aria-label": "what to know of this trace" });
  const title = el("h1");
  const find = el("input", { type: "search", placeholder: "search functions ( / )", "aria-label": "search functions by text or glob" });
  const unseen = el("p", { class: "unseen", "aria-live": "polite" });
  /** By trace: the call that was selected last. */
  const chosen: (Selected | undefined)[] = [];
  const aligned = el("select", { "aria-label": "how the traces are aligned", onchange: () => align(aligned.value as Alignment) },
    ...ALIGNMENTS.map(([by, text]) => el("option", { value: by }, text)));
  let is_dirty = false;
  let wanted = 0;

  const stage = new Stage(info, view, changed);
  const asking = new Asking(stage, source, changed, (error) => say(String(error instanceof Error ? error.message : error)));
  const drawing = new Drawing(canvas, stage);
  const panel = new Panel(stage, source, { search, select: (trace, call) => select({ trace, ...call }), locate, show_task }, () => {
    panel.hide();
    resized();
    canvas.focus();
  });

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

  function told(): void {
    const names = stage.info.traces.map((trace) => trace.program || trace.file.split("/").at(-1) || trace.file);
    const facts = stage.info.traces.map((trace) => `${things(trace.threads.length, "thread")}, ${duration(stage.ns(trace, trace.end - trace.begin))}`);
    fill(title, clean(names.join(" · ")).slice(0, 200));
    title.title = clean(stage.info.traces.map((trace) => `${trace.file}: ${trace.format}; ${trace.reason}`).join("\n")).slice(0, 2000);
    document.title = `${clean(names.join(" · ")).slice(0, 100)} - fdr`;
    fill(notes, ...stage.info.traces.flatMap((trace) => trace.notes.map((note) => el("li", {}, clean(note).slice(0, 2000)))));
    const progress = Math.min(...stage.info.traces.map((trace) => trace.progress));
    say(progress < 1 ? `reading: ${Math.floor(progress * 100)} %` : facts.join(" · "));
  }

  function align(by: Alignment): void {
    const found = shifts(stage, by, chosen);
    if (typeof found === "string") say(found);
    else {
      stage.align(found);
      told();
      void panel.refresh();
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
      const was_shown = panel.is_shown;
      panel.show("call");
      if (!was_shown) resized();
    }
    changed();
  }

  async function show_task(trace: number, wanted: string | number, at: number): Promise<void> {
    const task = await source.task(trace, wanted, at);
    view.task = { trace, task: task.task, lane: task.lane, start: task.start };
    stage.reveal_task(trace, task);
    panel.show("task");
    resized();
  }

  function search(text: string): void {
    find.value = text;
    view.search = text;
    stage.found = [];
    if (text) {
      const matches = matcher(text);
      stage.info.traces.forEach((trace, nth) => {
        const ids = trace.functions.filter((of) => of.is_called && matches(of.name)).map((of) => of.id);
        stage.found[nth] = new Set(ids);
      });
      const count = stage.found.reduce((sum, found) => sum + found.size, 0);
      say(`${things(count, "function")} found${count > 0 ? ": N goes through their calls" : /[*?]/.test(text) ? ": a glob is of the whole name, as *::step_*" : ""}`);
    } else told();
    changed();
  }

  /** Goes to the next call that the search found. */
  async function next(direction: 1 | -1): Promise<void> {
    const trace = view.selected?.trace ?? stage.found.findIndex((found) => found.size > 0);
    const found = stage.found[trace];
    if (!found || found.size === 0) return say(view.search ? "no function is found" : "search first: /");
    say("searching…");
    const at = view.selected?.trace === trace ? view.selected : { thread: 0, depth: 0, start: stage.tick(trace, view.from), end: 0, function: 0, flags: 0 };
    const survey = await source.survey(trace, [...found], at);
    const call = direction > 0 ? survey.next : survey.previous;
    if (!call) return say(`no ${direction > 0 ? "later" : "earlier"} one of ${things(survey.calls, "call")}`);
    const is_among = found.has(view.selected?.function ?? -1);
    const number = direction > 0 ? survey.before + (is_among ? 2 : 1) : survey.before;
    select({ trace, ...call });
    say(`call ${number} of ${survey.calls} found`);
  }

  /** Selects the call of a function that begins then. */
  async function locate(trace: number, thread: number, of: number, since_first_ns: number): Promise<void> {
    const tick = stage.trace(trace).begin + (since_first_ns * stage.trace(trace).frequency) / 1e9;
    const slack = Math.max(stage.trace(trace).frequency / 1e9, 1) * 2;
    const [picture] = await source.lanes(trace, [thread], tick - slack, tick + slack, 0);
    for (const [depth, row] of (picture?.rows ?? []).entries()) {
      for (let nth = 0; nth < row.length; nth++) {
        const start = row.start[nth] ?? 0;
        const count = row.count[nth] ?? 0;
        if (row.function[nth] !== of || Math.abs(start - tick) > slack || (count & CALLS) !== 1) continue;
        return select({ trace, thread, depth, start, end: row.end[nth] ?? start, function: of, flags: (count & ~CALLS) >>> 0 });
      }
    }
    say("the call is not in the picture");
  }

  /** The lane of the selected call, or the first one that is seen. */
  const lane_of = (selected: Selected): Lane | undefined =>
    stage.lanes.find((lane) => lane.trace === selected.trace && lane.thread === selected.thread);

  function step(direction: "left" | "right" | "up" | "down"): void {
    const { selected } = view;
    const choose = (found: ReturnType<Stage["call_in"]>): void => {
      if (found) select({ trace: found.lane.trace, ...found.call });
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
      const [from, to] = selected ? [stage.at(selected.trace, selected.start), stage.at(selected.trace, selected.end)] : mark ?? [0, stage.end];
      const margin = Math.max((to - from) * 0.1, 5);
      stage.show(from - margin, to + margin);
    },
    search: () => find.focus(),
    next,
    mark: () => {
      const { selected } = view;
      view.mark = selected ? [stage.at(selected.trace, selected.start), stage.at(selected.trace, selected.end)] : [Math.max(view.from, 0), Math.min(view.to, stage.end)];
      panel.show("table");
      resized();
    },
    clear: () => {
      if (view.search) search("");
      else if (view.mark) view.mark = null;
      else [view.selected, view.task] = [null, null];
      void panel.refresh();
      changed();
    },
    step,
    tasks: () => {
      const is_open = stage.headings.some((heading) => heading.is_open);
      const [first] = stage.headings;
      if (!first) return say("no task is in this trace");
      for (const { trace } of [...stage.headings]) stage.open_tasks(trace, !is_open);
      if (!is_open && stage.seen(stage.tasks).length === 0) stage.scroll(first.top - view.scroll);
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
  const help = el(
    "dialog", { "aria-label": "keys" }, el("h2", {}, "Keys"),
    el("table", {}, el("tbody", {}, ...KEYS.map(([keys, what]) => el("tr", {}, el("td", { class: "name" }, what), el("td", {}, el("kbd", {}, keys)))))),
    el("form", { method: "dialog" }, el("button", {}, "close")),
  );

  pointer(canvas, stage, drawing, tip, actions, {
    click: (x, y) => {
      const lane = stage.lane_at(y);
      if (x < GUTTER && lane) {
        lane.lane.is_open = !lane.lane.is_open;
        stage.update(stage.info);
        return changed();
      }
      const heading = stage.strip_at(stage.headings, y);
      if (heading) return stage.open_tasks(heading.trace, !heading.is_open);
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
      if (is_done && view.mark) {
        panel.show("table");
        resized();
      }
      changed();
    },
  });
  find.addEventListener("input", () => search(find.value));
  find.addEventListener("keydown", (event) => {
    if (event.key === "Escape") search("");
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
    if (view.task && !view.selected) void show_task(view.task.trace, view.task.task, view.task.start);
    else if (view.selected) panel.show("call");
    else if (view.mark) panel.show("table");
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
  }

  [view.from, view.to] = [0, stage.end];
  const read_view = read(location.hash);
  told();
  queueMicrotask(() => {
    if (Object.keys(read_view).length > 0) from_fragment();
    else stage.fit();
    follow().catch((error: unknown) => say(String(error)));
    canvas.focus();
  });
  const header = el(
    "header", {}, title, find, status, el("span", { class: "space" }), info.traces.length > 1 && aligned,
    el("button", { onclick: () => (panel.show("table"), resized()) }, "Functions"),
    info.snapshot !== null && el("button", { onclick: () => void renew(), title: "R" }, "New snapshot"),
    el("button", { onclick: actions.fit, title: "F" }, "Fit"),
    el("button", { onclick: actions.theme, title: "T" }, "Light / dark"),
    el("button", { onclick: actions.help, title: "?" }, "Keys"),
  );
  return [header, notes, el("div", { id: "stage" }, canvas, tip), panel.element, unseen, help];
}

interface Pointed {
  click(x: number, y: number): void;
  mark(from: number, to: number, is_done: boolean): void;
}

/** Wheel, drag, click, and what is told of the call below the pointer. */
function pointer(canvas: HTMLCanvasElement, stage: Stage, drawing: Drawing, tip: HTMLElement, actions: Actions, on: Pointed): void {
  let held: { x: number; y: number; from: number; to: number; scroll: number; is_mark: boolean; is_map: boolean; moved: boolean } | null = null;
  const to_map = (x: number): void => {
    const middle = ((x - GUTTER) / (stage.width - GUTTER)) * stage.end;
    const width = stage.view.to - stage.view.from;
    stage.show(middle - width / 2, middle + width / 2);
  };
  canvas.addEventListener(
    "wheel",
    (event) => {
      event.preventDefault();
      const by = event.deltaMode === 1 ? event.deltaY * 30 : event.deltaY;
      if (event.offsetX < GUTTER) return stage.scroll(by);
      if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) return actions.pan((event.deltaX || by) / 800);
      stage.zoom(Math.exp(Math.max(-1, Math.min(1, by / 300))), stage.time(event.offsetX));
    },
    { passive: false },
  );
  canvas.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    canvas.setPointerCapture(event.pointerId);
    const is_map = drawing.is_overview(event.offsetY);
    const { from, to, scroll } = stage.view;
    held = { x: event.offsetX, y: event.offsetY, from, to, scroll, is_mark: event.shiftKey && !is_map, is_map, moved: false };
    if (is_map) to_map(event.offsetX);
  });
  canvas.addEventListener("pointermove", (event) => {
    const { offsetX: x, offsetY: y } = event;
    if (!held) return hover(x, y);
    tip.hidden = true;
    held.moved ||= Math.hypot(x - held.x, y - held.y) > 3;
    if (!held.moved) return;
    if (held.is_map) return to_map(x);
    if (held.is_mark) {
      const [one, other] = [stage.time(held.x), stage.time(x)];
      return on.mark(Math.min(one, other), Math.max(one, other), false);
    }
    const by = ((held.x - x) / (stage.width - GUTTER)) * (held.to - held.from);
    stage.view.scroll = held.scroll;
    stage.scroll(held.y - y);
    stage.show(held.from + by, held.to + by);
  });
  canvas.addEventListener("pointerup", (event) => {
    const was = held;
    held = null;
    if (!was || was.is_map) return;
    if (!was.moved) return on.click(event.offsetX, event.offsetY);
    if (was.is_mark) {
      const [one, other] = [stage.time(was.x), stage.time(event.offsetX)];
      on.mark(Math.min(one, other), Math.max(one, other), true);
    }
  });
  canvas.addEventListener("pointerleave", () => (tip.hidden = true));
  const hover = (x: number, y: number): void => {
    const text = x < GUTTER ? null : told_at(stage, x, y);
    tip.hidden = text === null;
    if (text === null) return;
    fill(tip, text);
    const left = Math.min(x + 14, stage.width - tip.offsetWidth - 6);
    const top = y + 18 + tip.offsetHeight > stage.height ? y - tip.offsetHeight - 10 : y + 18;
    tip.style.left = `${Math.max(left, 0)}px`;
    tip.style.top = `${Math.max(top, 0)}px`;
  };
}

/** What is told of a place of the screen. */
function told_at(stage: Stage, x: number, y: number): string | null {
  const counter = stage.strip_at(stage.counters, y);
  if (counter) return words(stage, counter, x);
  const task = words_of_task(stage, x, y);
  if (task) return task;
  const lane = stage.strip_at(stage.lanes, y);
  const band = lane && words_of_band(stage, lane, x, y);
  if (band) return band;
  const found = stage.call_at(x, y);
  if (!found) return null;
  const trace = stage.trace(found.lane.trace);
  const of = found.call.function;
  const name = of === SHORT ? "calls without records" : clean(stage.name(found.lane.trace, of)).slice(0, 400);
  const time = duration(stage.ns(trace, found.call.end - found.call.start));
  const many = of === SHORT ? `${things(found.calls, "short call")} in ${time}` : `${things(found.calls, "call")} in ${time}, too short to draw; the longest: ${name}`;
  return found.calls === 1 && of !== SHORT ? `${name}\n${time}` : many;
}

main().catch((error: unknown) => {
  document.body.replaceChildren(el("p", { role: "alert" }, `fdr view: ${clean(String(error instanceof Error ? error.message : error))}`));
});
