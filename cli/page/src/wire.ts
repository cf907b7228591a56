// Pictures as the server's `wire.rs` writes them: arrays of numbers.

import { Curve, Picture, Row, Spans, Waits } from "./model";

/** The pictures in an answer; `put` of the server's `wire.rs` has the order. Lists are parts of the answer, not copies. */
export function pictures(bytes: ArrayBuffer): Picture[] {
  const view = new DataView(bytes);
  let at = 0;
  const list = (): [number, Float64Array, Float64Array, Uint32Array, Uint32Array] => {
    const length = view.getUint32(at, true);
    const begin = at + 8;
    at = begin + length * 24;
    return [
      length, new Float64Array(bytes, begin, length), new Float64Array(bytes, begin + length * 8, length),
      new Uint32Array(bytes, begin + length * 16, length), new Uint32Array(bytes, begin + length * 20, length),
    ];
  };
  const spans = (): Spans => {
    const [length, from, to, kind, what] = list();
    return { length, from, to, kind, what };
  };
  const waits = (): Waits => {
    const [length, from, to, holder, name] = list();
    const [, , , of, count] = list();
    return { length, from, to, holder, name, function: of, count };
  };
  const found: Picture[] = [];
  while (at < view.byteLength) {
    const [thread, depths] = [view.getUint32(at, true), view.getUint32(at + 4, true)];
    const [until, coarse] = [view.getFloat64(at + 8, true), view.getFloat64(at + 16, true)];
    at += 24;
    const rows: Row[] = [];
    for (let depth = 0; depth < depths; depth++) {
      const [length, start, end, of, count] = list();
      rows.push({ length, start, end, function: of, count });
    }
    found.push({ thread, until, coarse, rows, states: spans(), signs: spans(), cpus: spans(), waits: waits() });
  }
  return found;
}

/** The curves in an answer; `put_curves` of the server's `wire.rs` has the order. */
export function curves(bytes: ArrayBuffer): Curve[] {
  const view = new DataView(bytes);
  const found: Curve[] = [];
  for (let at = 0; at < view.byteLength; ) {
    const [id, length, coarse] = [view.getUint32(at, true), view.getUint32(at + 4, true), view.getFloat64(at + 8, true)];
    at += 16;
    const list = (): Float64Array => new Float64Array(length);
    const curve: Curve = { id, length, coarse, from: list(), until: list(), least: list(), greatest: list(), last: list(), count: list() };
    const lists = [curve.from, curve.until, curve.least, curve.greatest, curve.last, curve.count];
    for (let nth = 0; nth < length; nth++) {
      for (const list of lists) {
        list[nth] = view.getFloat64(at, true);
        at += 8;
      }
    }
    found.push(curve);
  }
  return found;
}
