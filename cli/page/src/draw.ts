// Draws the stage on a canvas: axis, overview, lanes with states, events, gaps and calls, and curves below. Calls that are shorter than a
// pixel are drawn as one, and never left out. What is not known is hatched, and never looks like a thread that did nothing.

import { draw as band } from "./band";
import { Bars, colour } from "./bars";
import { draw as curve, Pen } from "./curves";
import { CALLS, CLIPPED, Picture, place, Row, SHORT } from "./model";
import { clean, duration, last, moment, short, shorten, tail } from "./format";
import { heading, lane as tasks } from "./task_lanes";
import { AXIS, GUTTER, has_band, Lane, PIN, ROW, Scale, Stage } from "./stage";
import { tone } from "./tones";
import { arrows, draw as waits } from "./waits";

const MAP = 34;

interface Colours {
  [name: string]: string;
}

export class Drawing implements Pen {
  readonly context: CanvasRenderingContext2D;
  private colours: Colours = {};
  private fills = new Map<number, string>();
  private numbers = new Map<number, number>();
  private readonly bars = new Bars();
  private labels = new Map<number, string>();
  private widths = new Map<string, number>();
  private hatch: CanvasPattern | null = null;
  private readonly overview_image = document.createElement("canvas");
  /** What the overview's image shows. */
  private drawn = "";

  constructor(
    readonly canvas: HTMLCanvasElement,
    readonly stage: Stage,
  ) {
    const context = canvas.getContext("2d", { alpha: false });
    if (!context) throw new Error("this browser has no canvas");
    this.context = context;
    this.theme();
  }

  /** Colours may have changed. */
  theme(): void {
    const style = getComputedStyle(document.documentElement);
    const names = ["back", "raised", "line", "text", "soft", "accent", "running", "preempted", "waiting", "unknown", "lightness", "chroma", "label", "mark", "gap", "event", "wait"];
    this.colours = Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
    this.fills.clear();
    this.numbers.clear();
    this.drawn = "";
    const tile = document.createElement("canvas");
    tile.width = tile.height = 8;
    const context = tile.getContext("2d");
    if (context) {
      context.strokeStyle = this.colours["gap"] ?? "";
      context.lineWidth = 1;
      for (const shift of [-8, 0, 8]) {
        context.moveTo(shift - 1, 9);
        context.lineTo(shift + 9, -1);
      }
      context.stroke();
      this.hatch = this.context.createPattern(tile, "repeat");
    }
  }

  colour(name: string): string {
    return this.colours[name] ?? "#888";
  }

  /** The colour of a function. */
  fill(of: number): string {
    let fill = this.fills.get(of);
    if (!fill) {
      const { hue, chroma, lightness } = this.tone(of);
      fill = of === SHORT ? this.colour("waiting") : `hsl(${hue.toFixed(1)} ${chroma}% ${lightness}%)`;
      this.fills.set(of, fill);
    }
    return fill;
  }

  private tone(of: number): { hue: number; chroma: number; lightness: number } {
    const { hue, lighter } = tone(of);
    return { hue, chroma: parseFloat(this.colour("chroma")), lightness: parseFloat(this.colour("lightness")) + lighter };
  }

  /** The same as a number of an image. */
  private number(of: number): number {
    let number = this.numbers.get(of);
    if (number === undefined) {
      const { hue, chroma, lightness } = this.tone(of);
      const text = this.colour("waiting").replace("#", "");
      const [red = 128, green = 128, blue = 128] = (text.match(/../g) ?? []).map((part) => parseInt(part, 16));
      number = of === SHORT ? ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0 : colour(hue, chroma, lightness);
      this.numbers.set(of, number);
    }
    return number;
  }

  resize(): void {
    const box = this.canvas.getBoundingClientRect();
    const scale = window.devicePixelRatio || 1;
    [this.stage.width, this.stage.height] = [Math.max(box.width, GUTTER + 50), Math.max(box.height, AXIS + 20)];
    this.canvas.width = Math.round(this.stage.width * scale);
    this.canvas.height = Math.round(this.stage.height * scale);
    this.context.setTransform(scale, 0, 0, scale, 0, 0);
  }

  draw(): void {
    const { context, stage } = this;
    context.fillStyle = this.colour("back");
    context.fillRect(0, 0, stage.width, stage.height);
    context.textBaseline = "middle";
    context.save();
    context.beginPath();
    context.rect(0, AXIS, stage.width, stage.height - AXIS);
    context.clip();
    for (const lane of stage.visible().filter((lane) => stage.is_fixed(lane))) this.lane(lane);
    context.save();
    context.beginPath();
    context.rect(0, AXIS + stage.fixed, stage.width, stage.height);
    context.clip();
    for (const lane of stage.visible().filter((lane) => !stage.is_fixed(lane))) this.lane(lane);
    for (const each of stage.seen(stage.headings)) heading(this, each);
    for (const lane of stage.seen(stage.tasks)) tasks(this, lane);
    for (const lane of stage.seen(stage.counters)) curve(this, lane);
    context.restore();
    if (stage.fixed > 0) {
      context.fillStyle = this.colour("soft");
      context.fillRect(0, AXIS + stage.fixed - 1, stage.width, 2);
    }
    context.save();
    context.beginPath();
    context.rect(GUTTER, AXIS, stage.width, stage.height);
    context.clip();
    for (const lane of stage.visible()) arrows(this, lane);
    context.restore();
    this.mark();
    context.restore();
    this.overview();
    this.axis();
  }

  private lane(lane: Lane): void {
    const { context, stage } = this;
    const trace = stage.trace(lane.trace);
    const thread = trace.threads[lane.thread];
    if (!thread) return;
    const top = stage.y(lane);
    const { picture } = lane;
    context.save();
    context.beginPath();
    context.rect(GUTTER, top, stage.width - GUTTER, lane.height);
    context.clip();
    if (picture) {
      const scale = stage.scale(lane.trace);
      const { x } = scale;
      this.unknown(lane, picture, x, top);
      let y = top + 2;
      if (has_band(trace)) {
        band(this, picture, scale, y);
        y += 6;
      }
      this.signs(picture, x, y, lane);
      this.calls(lane, picture, scale, top + stage.head(trace));
      waits(this, lane, picture, scale);
    } else {
      context.fillStyle = this.colour("soft");
      context.font = "12px system-ui, sans-serif";
      context.fillText("reading…", GUTTER + 8, top + lane.height / 2);
    }
    context.restore();
    context.fillStyle = this.colour("raised");
    context.fillRect(0, top, GUTTER, lane.height);
    context.strokeStyle = this.colour("line");
    context.beginPath();
    context.moveTo(0, top + lane.height - 0.5);
    context.lineTo(stage.width, top + lane.height - 0.5);
    context.stroke();
    this.gutter(lane, top);
  }

  private gutter(lane: Lane, top: number): void {
    const { context, stage } = this;
    const trace = stage.trace(lane.trace);
    const thread = trace.threads[lane.thread];
    if (!thread) return;
    context.save();
    context.beginPath();
    context.rect(0, top, GUTTER - 4, lane.height - 1);
    context.clip();
    context.fillStyle = this.colour("text");
    context.font = "600 12px system-ui, sans-serif";
    context.fillText(this.fitted(clean(thread.name) || `thread ${thread.id}`, GUTTER - 8 - PIN), 8, top + 12);
    const is_pinned = stage.is_pinned(lane.trace, lane.thread);
    context.fillStyle = this.colour(is_pinned ? "accent" : "line");
    context.fillText(is_pinned ? "★" : "☆", GUTTER - PIN + 4, top + 12);
    context.fillStyle = this.colour("soft");
    context.font = "11px system-ui, sans-serif";
    const file = stage.info.traces.length > 1 ? shorten(clean(short(trace.file)), 40) : "";
    const facts = [[thread.name && (file ? String(thread.id) : `thread ${thread.id}`), file].filter((fact) => fact).join(", ")];
    if (thread.has_failed) facts.push("named by the trace's reason");
    if (lane.rows < thread.depth) facts.push(`+ ${thread.depth - lane.rows} deeper rows (click)`);
    facts
      .filter((fact) => fact)
      .forEach((fact, nth) => {
        if (33 + nth * 13 <= lane.height) context.fillText(this.fitted(fact, GUTTER - 16), 8, top + 27 + nth * 13);
      });
    context.restore();
  }

  /** A text in that many pixels: its end is cut. */
  private fitted(text: string, room: number): string {
    const width = (text: string): number => this.context.measureText(text).width;
    let fits = Math.min(text.length, 200);
    while (fits > 1 && width(shorten(text, fits)) > room) fits--;
    return shorten(text, fits);
  }

  /** What is not known: overwritten before the first record, and not read yet. */
  private unknown(lane: Lane, picture: Picture, x: (tick: number) => number, top: number): void {
    const { stage } = this;
    const trace = stage.trace(lane.trace);
    const thread = trace.threads[lane.thread];
    if (thread?.overwritten && thread.first !== null) {
      this.hatched(x(trace.begin), x(thread.first), top, lane.height, "older records are overwritten");
    }
    if (stage.info.traces.length > 1 && trace.progress === 1) {
      this.hatched(GUTTER, x(trace.begin), top, lane.height, "before this trace");
      this.hatched(x(trace.end), stage.width, top, lane.height, "after this trace");
    }
    if (!Number.isNaN(picture.until)) {
      this.hatched(x(picture.until), stage.width, top, lane.height, "not read yet");
    }
  }

  private hatched(from: number, to: number, top: number, height: number, what: string): void {
    const { context, stage } = this;
    [from, to] = [Math.max(from, GUTTER), Math.min(to, stage.width)];
    if (to <= from) return;
    context.fillStyle = this.hatch ?? this.colour("gap");
    context.fillRect(from, top, Math.max(to - from, 2), height);
    if (to - from > 60) {
      context.font = "11px system-ui, sans-serif";
      const width = context.measureText(what).width + 10;
      if (width < to - from) {
        context.fillStyle = this.colour("back");
        context.fillRect(from + 6, top + height / 2 - 9, width, 18);
        context.fillStyle = this.colour("soft");
        context.fillText(what, from + 11, top + height / 2);
      }
    }
  }

  private signs(picture: Picture, x: (tick: number) => number, y: number, lane: Lane): void {
    const { context, stage } = this;
    const { signs } = picture;
    const found = stage.found_events[lane.trace];
    const selected = stage.view.event;
    const event = selected?.trace === lane.trace && selected.thread === lane.thread && selected.counter === null ? selected : null;
    for (let nth = 0; nth < signs.length; nth++) {
      const at = x(signs.from[nth] ?? 0);
      if (at > stage.width) break;
      const kind = signs.kind[nth];
      if (kind === 0) {
        this.hatched(at, Math.max(x(signs.to[nth] ?? 0), at + 2), y - 8, lane.height, `${signs.what[nth]} records are missing`);
      } else if (kind === 1) {
        context.fillStyle = this.colour("preempted");
        context.fillRect(at - 1, y - 8, 2, lane.height);
      } else if (at >= GUTTER - 4) {
        const is_selected = event && event.time === signs.from[nth];
        context.fillStyle = this.colour(is_selected ? "text" : "event");
        context.globalAlpha = found && !found.has(signs.what[nth] ?? 0) ? 0.25 : 1;
        context.beginPath();
        context.moveTo(at, y);
        context.lineTo(at + 4, y + 8);
        context.lineTo(at - 4, y + 8);
        context.fill();
        context.globalAlpha = 1;
      }
    }
  }

  private calls(lane: Lane, picture: Picture, ticks: Scale, top: number): void {
    const { context, stage } = this;
    const { first, x } = ticks;
    const rows = picture.rows.slice(0, lane.rows).map((row, depth) => ({ row, depth, y: top + depth * ROW }));
    const seen = rows.filter(({ y }) => y <= stage.height && y + ROW >= AXIS);
    const width = stage.width - GUTTER;
    const scale = window.devicePixelRatio || 1;
    const columns = Math.round(width * scale);
    const column = (tick: number): number => (x(tick) - GUTTER) * scale;
    const found = stage.found[lane.trace];
    const is_pale = (of: number): boolean => found !== undefined && !found.has(of);
    const fill = (of: number): number => this.number(of);
    this.bars.begin(columns, seen.length);
    seen.forEach(({ row }, nth) => this.bars.row(nth, row, first, column, fill, is_pale));
    this.bars.end(seen.length);
    context.imageSmoothingEnabled = false;
    seen.forEach(({ y }, nth) => this.bars.draw(context, nth, GUTTER, y, width, ROW - 1));
    context.imageSmoothingEnabled = true;
    context.font = "11px system-ui, sans-serif";
    for (const { row, depth, y } of seen) this.over_bars(lane, row, depth, ticks, y);
    context.globalAlpha = 1;
  }

  /** Names, edges and the selection, on bars that are wide enough. */
  private over_bars(lane: Lane, row: Row, depth: number, ticks: Scale, y: number): void {
    const { context, stage } = this;
    const { first, x } = ticks;
    const found = stage.found[lane.trace];
    // Of several traces, the call that each is aligned by is outlined, too.
    const { view } = stage;
    const is_compared = stage.info.traces.length > 1 && (view.selected !== null || stage.shifts.some((shift) => shift !== 0));
    const selected = view.selected?.trace === lane.trace ? view.selected : is_compared ? stage.chosen[lane.trace] : null;
    const is_lane = selected && selected.thread === lane.thread && selected.depth === depth;
    // Most bars are narrower, and need no place on the screen.
    const least = 6 / ticks.per_tick;
    const { start, end } = row;
    for (let nth = place(end, first); nth < row.length; nth++) {
      const begin = start[nth] ?? 0;
      const is_selected = is_lane && selected.start === begin;
      if ((end[nth] ?? 0) - begin < least && !is_selected) continue;
      const from = Math.max(x(begin), GUTTER - 2);
      if (from > stage.width) break;
      const to = Math.min(x(end[nth] ?? 0), stage.width + 2);
      const [of, count, width] = [row.function[nth] ?? 0, row.count[nth] ?? 0, Math.max(to - from, 1)];
      if ((count & CLIPPED) !== 0 && width > 6) {
        context.fillStyle = this.colour("gap");
        context.fillRect(from, y, 2, ROW - 1);
        context.fillRect(to - 2.5, y, 2, ROW - 1);
      }
      if ((count & CALLS) !== 1) continue;
      if (width > 26) {
        context.globalAlpha = found && !found.has(of) ? 0.25 : 1;
        this.label(lane.trace, of, from, y, width);
        context.globalAlpha = 1;
      }
      if (is_selected) {
        context.strokeStyle = this.colour("text");
        context.lineWidth = 2;
        context.strokeRect(from + 1, y + 1, Math.max(width - 2.5, 2), ROW - 3);
        context.lineWidth = 1;
      }
    }
  }

  private label(trace: number, of: number, from: number, y: number, width: number): void {
    const { context, stage } = this;
    const key = trace * 0x1_0000_0000 + of;
    let name = this.labels.get(key);
    if (name === undefined) {
      name = shorten(clean(of === SHORT ? "calls without records" : stage.name(trace, of)), 120);
      this.labels.set(key, name);
    }
    // No clip, which takes longer than all else: as much of the name as there is room for, by the name's own width.
    const [room, whole] = [width - 8, this.width_of(name)];
    const end = whole <= room ? name : [tail(name), last(name)].find((end) => this.width_of(end) <= room) ?? last(name);
    const fits = Math.floor((end.length * room) / Math.max(this.width_of(end), 1));
    // Two letters say nothing.
    if (fits < Math.min(end.length, 4)) return;
    const text = fits >= end.length ? end : shorten(end, fits - 1);
    context.fillStyle = this.colour("label");
    context.fillText(text, from + 3, y + ROW / 2);
  }

  /** Pixels of a label, which is measured once. */
  private width_of(text: string): number {
    let width = this.widths.get(text);
    if (width === undefined) {
      width = this.context.measureText(text).width;
      this.widths.set(text, width);
    }
    return width;
  }

  private mark(): void {
    const { context, stage } = this;
    for (const [nth, trace] of stage.info.traces.entries()) {
      for (const moment of trace.moments) {
        const at = stage.x(stage.at(nth, moment.time));
        if (at < GUTTER || at > stage.width) continue;
        context.fillStyle = this.colour("accent");
        context.fillRect(at, AXIS, 1, stage.height);
        context.fillText(shorten(clean(moment.name), 40), at + 3, AXIS + 8);
      }
    }
    if (!stage.view.mark) return;
    const [from, to] = stage.view.mark.map((ns) => stage.x(ns)) as [number, number];
    context.fillStyle = this.colour("mark");
    context.fillRect(Math.max(from, GUTTER), AXIS, Math.min(to, stage.width) - Math.max(from, GUTTER), stage.height);
    context.fillStyle = this.colour("accent");
    for (const edge of [from, to]) if (edge >= GUTTER) context.fillRect(edge - 0.5, AXIS, 1, stage.height);
    const [begin, end] = stage.view.mark;
    const text = duration(end - begin);
    context.font = "600 11px system-ui, sans-serif";
    const width = context.measureText(text).width + 8;
    const middle = (Math.max(from, GUTTER) + Math.min(to, stage.width)) / 2;
    if (to < GUTTER || from > stage.width) return;
    const left = Math.min(Math.max(middle - width / 2, GUTTER), stage.width - width);
    context.fillRect(left, AXIS, width, 15);
    context.fillStyle = this.colour("back");
    context.fillText(text, left + 4, AXIS + 8);
  }

  /** The overview as an image, which is drawn anew only when the overview has changed. */
  private map(): HTMLCanvasElement {
    const { stage } = this;
    const width = stage.width - GUTTER;
    const scale = window.devicePixelRatio || 1;
    const key = [width, scale, stage.surveys, stage.end, stage.lanes.length].join(",");
    if (key === this.drawn) return this.overview_image;
    this.drawn = key;
    [this.overview_image.width, this.overview_image.height] = [Math.round(width * scale), Math.round(MAP * scale)];
    const context = this.overview_image.getContext("2d");
    if (!context) return this.overview_image;
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.fillStyle = this.colour("raised");
    context.fillRect(0, 0, width, MAP);
    const height = Math.max(Math.floor((MAP - 6) / Math.max(Math.min(stage.lanes.length, 16), 1)), 1);
    stage.lanes.slice(0, 16).forEach((lane, nth) => {
      const picture = stage.overview.get(`${lane.trace}/${lane.thread}`);
      const y = 3 + nth * height;
      const found = stage.found[lane.trace];
      // Two depths say where a thread is at work, and at what. What is searched for is seen at any depth.
      for (const [depth, row] of (picture?.rows.slice(0, found ? undefined : 2) ?? []).entries()) {
        for (let at = 0; row && at < row.length; at++) {
          const from = (stage.at(lane.trace, row.start[at] ?? 0) / stage.end) * width;
          const to = (stage.at(lane.trace, row.end[at] ?? 0) / stage.end) * width;
          const of = row.function[at] ?? 0;
          const is_found = found?.has(of) !== false;
          if (depth > 1 && !is_found) continue;
          context.fillStyle = this.fill(of);
          context.globalAlpha = is_found ? 1 : 0.2;
          context.fillRect(from, y, Math.max(to - from, 1), Math.max(height - 1, 1));
        }
      }
    });
    return this.overview_image;
  }

  private overview(): void {
    const { context, stage } = this;
    context.fillStyle = this.colour("raised");
    context.fillRect(0, 0, stage.width, AXIS);
    const width = stage.width - GUTTER;
    const map = this.map();
    context.drawImage(map, GUTTER, 0, width, MAP);
    const [from, to] = [stage.view.from, stage.view.to].map((ns) => GUTTER + (ns / stage.end) * width) as [number, number];
    context.strokeStyle = this.colour("accent");
    context.lineWidth = 2;
    context.strokeRect(Math.max(from, GUTTER) + 1, 1, Math.max(Math.min(to, stage.width) - Math.max(from, GUTTER) - 2, 3), MAP - 2);
    context.lineWidth = 1;
    context.fillStyle = this.colour("soft");
    context.font = "11px system-ui, sans-serif";
    context.fillText("whole trace", 8, MAP / 2);
  }

  private axis(): void {
    const { context, stage } = this;
    const width = stage.view.to - stage.view.from;
    const rough = (width / (stage.width - GUTTER)) * 110;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((times) => times * power).find((step) => step >= rough) ?? rough;
    context.fillStyle = this.colour("soft");
    context.strokeStyle = this.colour("line");
    context.font = "11px system-ui, sans-serif";
    context.save();
    context.beginPath();
    context.rect(GUTTER, MAP, stage.width - GUTTER, AXIS - MAP);
    context.clip();
    for (let at = Math.ceil(stage.view.from / step) * step; at <= stage.view.to; at += step) {
      const x = stage.x(at);
      context.fillRect(x, AXIS - 6, 1, 6);
      context.fillText(moment(at, step), x + 3, AXIS - 14);
    }
    context.restore();
    context.fillText(`${duration(width)} shown`, 8, AXIS - 14);
    context.fillStyle = this.colour("line");
    context.fillRect(0, AXIS - 1, stage.width, 1);
  }

  /** Whether a height of the screen is that of the overview. */
  is_overview(y: number): boolean {
    return y < MAP;
  }
}
