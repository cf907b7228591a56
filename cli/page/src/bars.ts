// The bars of a lane's calls as an image: a pixel high for each row, then stretched to the row's height. There may be
// tens of thousands of bars in a frame, most of them about a pixel wide, so they are written as numbers, not drawn one by
// one.

import { place, Row } from "./model";

/** A colour as a number of an image: red is the lowest byte. */
export function colour(hue: number, chroma: number, lightness: number): number {
  const strength = (chroma / 100) * Math.min(lightness / 100, 1 - lightness / 100);
  const part = (shift: number): number => {
    const at = (shift + hue / 30) % 12;
    return Math.round(255 * (lightness / 100 - strength * Math.max(-1, Math.min(at - 3, 9 - at, 1))));
  };
  return ((255 << 24) | (part(4) << 16) | (part(8) << 8) | part(0)) >>> 0;
}

/** The same colour, so much of it. */
const faded = (colour: number, share: number): number => ((colour & 0xffffff) | (Math.round(255 * share) << 24)) >>> 0;

export class Bars {
  private readonly canvas = document.createElement("canvas");
  private readonly context = this.canvas.getContext("2d");
  private image: ImageData | null = null;
  private pixels = new Uint32Array();

  /** Begins an image of so many columns and rows. */
  begin(columns: number, rows: number): void {
    if (!this.context) return;
    if (!this.image || this.image.width !== columns || this.image.height < rows) {
      this.image = this.context.createImageData(Math.max(columns, 1), Math.max(rows, 32));
      [this.canvas.width, this.canvas.height] = [this.image.width, this.image.height];
      this.pixels = new Uint32Array(this.image.data.buffer);
    }
    this.pixels.fill(0, 0, rows * columns);
  }

  /** Puts the bars of a row. `column`: where a tick is; `is_pale`: of which functions the bars are pale. */
  row(nth: number, row: Row, first: number, column: (tick: number) => number, fill: (of: number) => number, is_pale: (of: number) => boolean): void {
    const columns = this.image?.width ?? 0;
    const base = nth * columns;
    const { start, end, function: of } = row;
    for (let at = place(end, first); at < row.length; at++) {
      const begins = column(start[at] ?? 0);
      if (begins >= columns) break;
      const from = begins > 0 ? Math.floor(begins) : 0;
      const ends = column(end[at] ?? 0);
      // Each bar has a pixel at least. Behind a wide one, half a pixel is left free.
      const to = Math.min(Math.max(Math.round(ends), from + 1), columns);
      const id = of[at] ?? 0;
      const whole = fill(id);
      const pixel = is_pale(id) ? faded(whole, 0.25) : whole;
      if (to - from === 1) this.pixels[base + from] = pixel;
      else {
        this.pixels.fill(pixel, base + from, base + to);
        if (to - from > 3 && ends < columns) this.pixels[base + to - 1] = faded(pixel, ((pixel >>> 24) / 255) * 0.4);
      }
    }
  }

  /** Draws a row of the image. */
  draw(context: CanvasRenderingContext2D, nth: number, x: number, y: number, width: number, height: number): void {
    context.drawImage(this.canvas, 0, nth, this.canvas.width, 1, x, y, width, height);
  }

  /** All rows are there. */
  end(rows: number): void {
    if (this.image) this.context?.putImageData(this.image, 0, 0, 0, 0, this.image.width, rows);
  }
}
