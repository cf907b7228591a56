// What the mouse does on the lanes: wheel, drag and click; and where the words about the place below it stand.

import { Causes } from "./causes";
import { fill } from "./dom";
import { Drawing } from "./draw";
import { Actions } from "./keys";
import { GUTTER, Stage } from "./stage";
import { told_at } from "./tips";

export interface Pointed {
  click(x: number, y: number): void;
  mark(from: number, to: number, is_done: boolean): void;
}

/** Wheel, drag, click, and what is told of the call below the pointer. */
export function pointer(canvas: HTMLCanvasElement, stage: Stage, drawing: Drawing, tip: HTMLElement, causes: Causes, actions: Actions, on: Pointed): void {
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
    const text = x < GUTTER ? null : told_at(stage, causes, x, y);
    tip.hidden = text === null;
    if (text === null) return;
    fill(tip, text);
    const left = Math.min(x + 14, stage.width - tip.offsetWidth - 6);
    const top = y + 18 + tip.offsetHeight > stage.height ? y - tip.offsetHeight - 10 : y + 18;
    tip.style.left = `${Math.max(left, 0)}px`;
    tip.style.top = `${Math.max(top, 0)}px`;
  };
}
