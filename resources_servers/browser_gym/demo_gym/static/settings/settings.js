// Switches, sliders, a theme, two lists to choose from, and rows to put in order. Every change is
// stored at once.

import { onChangeElsewhere, read, update } from "../store.js";
import { el, field, renderTopbar } from "../ui.js";
import { renderOrder } from "./order.js";

const SWITCHES = [
  ["mentions", "Mentions", "When someone writes your name"],
  ["comments", "Comments", "New comments on your documents"],
  ["digest", "Weekly digest", "A summary by mail every Friday"],
  ["sounds", "Sounds", "A short tone with each notification"],
  ["marketing", "Product news", "New features and offers"],
];
const SLIDERS = [
  { key: "volume", name: "Volume", min: 0, max: 100, step: 10, unit: "%", top: 92 },
  { key: "textSize", name: "Text size", min: 10, max: 24, step: 1, unit: " px", top: 176 },
];
const THEMES = [["Light", "#ffffff"], ["Dark", "#1f2937"], ["Sand", "#f3e6d0"]];
const LISTS = [
  ["language", "Language", ["English", "Deutsch", "Español", "Français", "Português"], 256],
  ["weekStart", "Week starts on", ["Monday", "Saturday", "Sunday"], 332],
];

const notifications = document.querySelector(".notifications");
const display = document.querySelector(".display");

function renderSwitches() {
  const values = read("settings:notifications");
  notifications.querySelectorAll(".setting").forEach((node) => node.remove());
  notifications.append(
    ...SWITCHES.map(([key, name, note], index) =>
      el(
        "div",
        { class: "setting", style: `top:${84 + index * 76}px` },
        el("span", { class: "name line" }, name),
        el("span", { class: "note line" }, note),
        el("button", {
          type: "button",
          class: values[key] ? "switch on" : "switch",
          role: "switch",
          ariaChecked: String(values[key]),
          ariaLabel: name,
          onclick: () => {
            update("settings:notifications", (stored) => { stored[key] = !stored[key]; });
            renderSwitches();
          },
        }),
      ),
    ),
  );
}

function setDisplay(key, value) {
  update("settings:display", (stored) => { stored[key] = value; });
}

function slider({ key, name, min, max, step, unit, top }, value) {
  const shown = el("span", { class: "slider-value", style: `top:${top}px` });
  const input = el("input", { type: "range", class: "slider", style: `top:${top + 28}px`, min, max, step, ariaLabel: name });
  function show() {
    shown.textContent = `${input.value}${unit}`;
    input.style.setProperty("--filled", `${(100 * (input.value - min)) / (max - min)}%`);
  }
  input.value = value;
  input.addEventListener("input", show);
  input.addEventListener("change", () => setDisplay(key, Number(input.value)));
  show();
  return [el("span", { class: "slider-name line", style: `top:${top}px` }, name), shown, input];
}

function themeButton([name, color], index, chosen) {
  return el(
    "button",
    {
      type: "button",
      class: name === chosen ? "theme chosen" : "theme",
      style: `left:${24 + index * 121}px`,
      onclick: () => {
        setDisplay("theme", name);
        renderDisplay();
      },
    },
    el("span", { class: "swatch", style: `background:${color}` }),
    el("span", { class: "label" }, name),
  );
}

function list([key, name, choices, top], value) {
  const select = el(
    "select",
    { class: "select", ariaLabel: name, onchange: () => setDisplay(key, select.value) },
    ...choices.map((choice) => el("option", { value: choice, selected: choice === value }, choice)),
  );
  return field(name, select, `left:24px; top:${top}px; width:350px`);
}

function renderDisplay() {
  const values = read("settings:display");
  display.querySelectorAll(":scope > :not(h2, .about)").forEach((node) => node.remove());
  display.append(
    ...SLIDERS.flatMap((options) => slider(options, values[options.key])),
    el("span", { class: "theme-name line" }, "Theme"),
    ...THEMES.map((theme, index) => themeButton(theme, index, values.theme)),
    ...LISTS.map((options) => list(options, values[options[0]])),
  );
}

function render() {
  renderSwitches();
  renderDisplay();
  renderOrder(document.querySelector(".order"));
}

renderTopbar("settings", "Settings");
onChangeElsewhere(render);
render();
