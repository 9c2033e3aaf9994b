// All state of all apps lives in localStorage, seeded with fixed data the first time any app is
// opened. Every change is written at once, inside the event that caused it.

import board from "./board/seed.json" with { type: "json" };
import crm from "./crm/seed.json" with { type: "json" };
import docs from "./docs/seed.json" with { type: "json" };
import settings from "./settings/seed.json" with { type: "json" };
import shop from "./shop/seed.json" with { type: "json" };

const SEED = { ...crm, ...board, ...shop, ...docs, ...settings };

for (const [key, value] of Object.entries(SEED)) {
  if (localStorage.getItem(key) === null) {
    localStorage.setItem(key, JSON.stringify(value));
  }
}

/** The stored value of `key`. */
export function read(key) {
  return JSON.parse(localStorage.getItem(key));
}

/** Let `change` alter the value of `key`. Reads it afresh: another tab may have written. */
export function update(key, change) {
  const value = read(key);
  change(value);
  localStorage.setItem(key, JSON.stringify(value));
}

/** Store a new value for `key`. */
export function write(key, value) {
  localStorage.setItem(key, JSON.stringify(value));
}

/** Call `render` when another tab changed the state. */
export function onChangeElsewhere(render) {
  window.addEventListener("storage", render);
}

/** The id after the last one in use: `nextId("C-", {"C-07": …}, 2)` is "C-08". */
export function nextId(prefix, items, digits) {
  const numbers = Object.keys(items).map((id) => Number(id.slice(prefix.length)));
  return prefix + String(Math.max(0, ...numbers) + 1).padStart(digits, "0");
}
