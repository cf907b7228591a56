// The colour of a function: the same in the lanes and in the flame graph.

import { SHORT } from "./model";

/** Its hue, and how much lighter it is than others. Numbers that follow each other are far apart on the circle of hues. */
export const tone = (of: number): { hue: number; lighter: number } => ({ hue: (of * 137.508) % 360, lighter: ((of >> 3) % 3) * 4 - 4 });

/** The same for a style, of which the page's theme gives chroma and lightness. */
export function css(of: number): string {
  if (of === SHORT) return "var(--waiting)";
  const { hue, lighter } = tone(of);
  return `hsl(${hue.toFixed(1)} var(--chroma) calc(var(--lightness) + ${lighter}%))`;
}
