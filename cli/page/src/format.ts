// Numbers and names as people read them, in the same words as fdr's other commands.

const UNITS: [number, string][] = [[1e9, "s"], [1e6, "ms"], [1e3, "µs"]];

/** A duration with a unit and about four digits: `7 ns`, `12.34 µs`, `1.235 s`. */
export function duration(ns: number): string {
  if (ns < 0) return `-${duration(-ns)}`;
  for (const [unit, name] of UNITS) {
    if (ns >= unit - unit / 20_000) {
      const value = ns / unit;
      const digits = value >= 99.995 ? 1 : value >= 9.9995 ? 2 : 3;
      return `${value.toFixed(digits)} ${name}`;
    }
  }
  return `${Math.round(ns)} ns`;
}

/** A place of the axis, with as many digits as its neighbours differ in. */
export function moment(ns: number, step: number): string {
  const [unit, name] = Math.abs(ns) >= 1e9 || step >= 1e8 ? [1e9, "s"] : Math.abs(ns) >= 1e6 || step >= 1e5 ? [1e6, "ms"] : [1e3, "µs"];
  if (ns === 0) return `0 ${name}`;
  const digits = Math.max(0, Math.ceil(-Math.log10(step / unit) - 1e-9));
  return `${(ns / unit).toFixed(Math.min(digits, 12))} ${name}`;
}

/** A duration to the nanosecond: `1,234,567 ns`. */
export const exact = (ns: number): string => `${count(ns)} ns`;

/** A count with separators: `1,234,567`. */
export const count = (number: number): string =>
  Math.round(number).toString().replace(/\B(?=(\d{3})+(?!\d))/g, ",");

/** `1 call`, `2 calls`. */
export const things = (number: number, thing: string): string => `${count(number)} ${thing}${number === 1 ? "" : "s"}`;

const UNSAFE =
  /[\u0000-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\u{e0000}-\u{e0fff}]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/gu;

/** Text in which no character acts on its neighbours: such a character is written as `\u{1b}`. */
export const clean = (text: string): string =>
  text.replace(UNSAFE, (character) => `\\u{${(character.codePointAt(0) ?? 0).toString(16)}}`);

/** At most so many characters: the end is cut. */
export function shorten(text: string, most: number): string {
  if (text.length <= most) return text;
  return `${text.slice(0, Math.max(most - 1, 1))}…`;
}

/** The end of a name: `Worker::step_3` of `demo::module_1::Worker::step_3`. */
export function tail(name: string): string {
  if (name.includes("<") || name.includes(" ")) return name;
  return name.split("::").slice(-2).join("::");
}

/** The last part of a path. */
export const short = (path: string): string => path.split("/").at(-1) || path;

/** The name itself: `step_3` of `demo::module_1::Worker::step_3`. */
export const last = (name: string): string => (name.includes("<") || name.includes(" ") ? name : (name.split("::").at(-1) ?? name));

/** Whether a name matches a glob: `*` is anything, `?` one character; without a `*`, the name has to have it within. */
export function matcher(glob: string): (name: string) => boolean {
  const within = !/[*?]/.test(glob);
  if (within) return (name) => name.toLowerCase().includes(glob.toLowerCase());
  // Greedy with one place to go back to: linear in practice, and no regular expression of somebody's making.
  return (name) => {
    let [at, in_glob, star, back] = [0, 0, -1, 0];
    while (at < name.length) {
      if (in_glob < glob.length && glob[in_glob] === "*") {
        star = in_glob++;
        back = at;
      } else if (in_glob < glob.length && (glob[in_glob] === "?" || glob[in_glob] === name[at])) {
        in_glob++;
        at++;
      } else if (star >= 0) {
        in_glob = star + 1;
        at = ++back;
      } else return false;
    }
    while (glob[in_glob] === "*") in_glob++;
    return in_glob === glob.length;
  };
}
