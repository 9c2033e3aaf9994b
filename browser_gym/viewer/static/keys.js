// The keyboard, and the help that tells of it.

import { byId } from "./dom.js";
import { recall, remember } from "./theme.js";

/** Call what `actions` has for a key, unless the key is for a field or a dialog. */
export function startKeys(actions) {
  const help = byId("help");
  const on = byId("keys-on");
  on.checked = recall("keys") !== "off";
  on.addEventListener("change", () => remember("keys", on.checked ? "on" : "off"));
  byId("help-open").addEventListener("click", () => help.showModal());
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || help.open) return;
    const field = event.target.closest("input, select, textarea");
    if (field) {
      if (event.key === "Escape") field.blur();
      return;
    }
    const action = event.key === "?" ? () => help.showModal() : actions[event.key];
    if (!action || !on.checked) return;
    event.preventDefault();
    action();
  });
}
