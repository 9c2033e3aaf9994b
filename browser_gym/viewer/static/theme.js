// What the page remembers: light or dark, and whether keys are on.

import { byId } from "./dom.js";

const THEMES = ["auto", "light", "dark"];

export function startTheme() {
  const button = byId("theme");
  const show = (theme) => {
    document.documentElement.dataset.theme = theme;
    button.textContent = `Theme: ${theme}`;
  };
  show(THEMES.includes(recall("theme")) ? recall("theme") : "auto");
  button.addEventListener("click", () => {
    const at = THEMES.indexOf(document.documentElement.dataset.theme);
    const theme = THEMES[(at + 1) % THEMES.length];
    remember("theme", theme);
    show(theme);
  });
}

/** What was remembered; a page opened as a file may have nowhere to keep it. */
export function recall(name) {
  try {
    return localStorage.getItem(`browser-gym-${name}`);
  } catch {
    return null;
  }
}

export function remember(name, value) {
  try {
    localStorage.setItem(`browser-gym-${name}`, value);
  } catch {
    // It then holds until the page is left.
  }
}
