// Elements made of text alone: nothing here takes markup, so a name of a trace can never become an element.

type Child = Node | string | null | undefined | false;
type Values = Record<string, string | number | boolean | ((event: never) => void) | undefined>;

/** An element with attributes, `on…` handlers and children. */
export function el<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  values: Values = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(values)) {
    if (value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name.slice(2), value as EventListener);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  fill(element, ...children);
  return element;
}

/** Replaces what is in an element. */
export function fill(element: Element, ...children: Child[]): void {
  element.replaceChildren(...children.filter((child): child is Node | string => child !== null && child !== undefined && child !== false));
}
