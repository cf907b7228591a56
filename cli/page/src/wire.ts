// Pictures as the server's `wire.rs` writes them: arrays of numbers.

import { Curve, Picture, Row, Spans } from "./model";

/** The pictures in an answer; `put` of the server's `wire.rs` has the order. */
export function pictures(bytes: ArrayBuffer): Picture[] {
  const view = new DataView(bytes);
  let at = 0;
  const u32 = (): number => ((at += 4), view.getUint32(at - 4, true));
  const f64 = (): number => ((at += 8), view.getFloat64(at - 8, true));
  const list = (): [number, Float64Array, Float64Array, Uint32Array, Uint32Array] => {
    const length = u32();
    const [one, other] = [new Float64Array(length), new Float64Array(length)];
    const [third, fourth] = [new Uint32Array(length), new Uint32Array(length)];
    for (let nth = 0; nth < length; nth++) {
      one[nth] = f64();
      other[nth] = f64();
      third[nth] = u32();
      fourth[nth] = u32();
    }
    return [length, one, other, third, fourth];
  };
  const spans = (): Spans => {
    const [length, from, to, kind, what] = list();
    return { length, from, to, kind, what };
  };
  const found: Picture[] = [];
  while (at < view.byteLength) {
    const thread = u32();
    const depths = u32();
    const until = f64();
    const coarse = f64();
    const rows: Row[] = [];
    for (let depth = 0; depth < depths; depth++) {
      const [length, start, end, of, count] = list();
      rows.push({ length, start, end, function: of, count });
    }
    found.push({ thread, until, coarse, rows, states: spans(), signs: spans(), cpus: spans() });
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
