// Builds elements. All text of rollouts goes through here as text, never as HTML or an address.

export function el(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) {
      element.setAttribute(name, value);
    }
  }
  element.append(...children.flat().filter((child) => child !== null && child !== ""));
  return element;
}

export function button(text, onclick, attributes = {}) {
  return el("button", { type: "button", onclick, ...attributes }, text);
}

/** A term list of the pairs that have a value. */
export function facts(pairs, attributes = {}) {
  const known = pairs.filter(([, value]) => value !== null && value !== "");
  const parts = known.map(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]);
  return el("dl", { class: "facts", ...attributes }, parts.flat());
}

/** A part that opens on a click. */
export function fold(title, content, open = false) {
  return el("details", { open }, el("summary", {}, title), content);
}

export function text(words, kind = "") {
  return el("div", { class: `text ${kind}` }, words);
}

export function byId(id) {
  return document.getElementById(id);
}
