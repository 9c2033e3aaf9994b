// Shows what the address says: `#rollout=LINE&step=N&compare=LINE`.

import { button, byId, el } from "./dom.js";
import { startKeys } from "./keys.js";
import { List } from "./list.js";
import { Pane } from "./pane.js";
import { openSource } from "./source.js";
import { stepWords } from "./step.js";
import { startTheme } from "./theme.js";
import { nameOf, rewardOf, taskOf } from "./words.js";

const CHOOSE = "Choose a rollout.";

const source = openSource();
let rollouts = [];
let list;
let panes = [];
/** Places of the rollouts shown, and the step, from 0. */
let shown = { place: undefined, compare: null, step: 0 };
let asked = 0;

async function start() {
  startTheme();
  const index = await source.index();
  rollouts = index.rollouts;
  byId("file").textContent = index.name;
  list = new List(rollouts);
  startKeys({
    j: () => go(shown.step + 1),
    ArrowRight: () => go(shown.step + 1),
    k: () => go(shown.step - 1),
    ArrowLeft: () => go(shown.step - 1),
    Home: () => go(0),
    End: () => go(Infinity),
    a: () => panes.forEach((pane) => pane.showPicture()),
    n: () => open(list.next(shown.place, 1)),
    p: () => open(list.next(shown.place, -1)),
    c: () => compare(shown.compare === null ? others(shown.place)[0] : null),
    "/": () => list.search(),
  });
  window.addEventListener("hashchange", follow);
  await follow();
}

/** Show what the address says. */
async function follow() {
  const wanted = new URLSearchParams(location.hash.slice(1));
  const place = placeOf(wanted.get("rollout"));
  const other = place === null ? null : placeOf(wanted.get("compare"));
  document.body.classList.toggle("reading", place !== null);
  const step = Math.max(0, (parseInt(wanted.get("step"), 10) || 1) - 1);
  const same = place === shown.place && other === shown.compare;
  if (same || (await load(place, other))) go(step);
}

/** Make the panes, and return whether they are still wanted. */
async function load(place, other) {
  const turn = ++asked;
  shown = { place, compare: other, step: 0 };
  panes = [];
  list.mark(place);
  const places = [place, other].filter((one) => one !== null);
  say(places.length ? "Loading …" : CHOOSE);
  let loaded;
  try {
    loaded = await Promise.all(places.map((one) => source.rollout(one)));
  } catch (error) {
    if (turn === asked) say(error.message);
    return false;
  }
  if (turn !== asked) return false; // another was asked for meanwhile
  say(loaded.length === 2 ? difference(...loaded) : places.length ? "" : CHOOSE);
  panes = loaded.map((one, index) => new Pane(one, go, controls(places[index], index === 0)));
  byId("panes").className = panes.length === 2 ? "two" : "";
  byId("panes").replaceChildren(...panes.map((pane) => pane.element));
  const next = list.next(place, 1);
  if (place !== null && next !== undefined) source.rollout(next).catch(() => {});
  return true;
}

/** Show a step of all panes and put it into the address. */
function go(step) {
  if (!panes.length) return;
  const last = Math.max(...panes.map((pane) => pane.length)) - 1;
  shown.step = Math.min(Math.max(step, 0), last);
  const words = panes.map((pane) => pane.show(shown.step));
  byId("said").textContent = words.join(". ");
  history.replaceState(null, "", address(shown.place, shown.step, shown.compare));
  document.title = `${taskOf(rollouts[shown.place])}, step ${shown.step + 1}`;
}

function open(place) {
  if (place !== undefined) location.hash = address(place, 0, null);
}

function compare(other) {
  if (other !== undefined && typeof shown.place === "number") location.hash = address(shown.place, shown.step, other);
}

function address(place, step, other) {
  const with_ = other === null ? "" : `&compare=${rollouts[other].line}`;
  return `#rollout=${rollouts[place].line}&step=${step + 1}${with_}`;
}

function placeOf(line) {
  const place = rollouts.findIndex((one) => String(one.line) === line);
  return place < 0 ? null : place;
}

/** The places of the other rollouts of a rollout's task. */
function others(place) {
  if (typeof place !== "number") return [];
  const same = (one) => one.group === rollouts[place].group;
  return rollouts.flatMap((one, index) => (index !== place && same(one) ? [index] : []));
}

function controls(place, first) {
  if (!first) return button("Stop comparing", () => compare(null));
  const known = others(place);
  if (!known.length) return null;
  const choices = known.map((one) => {
    const words = `${nameOf(rollouts[one])}, ${rewardOf(rollouts[one])}`;
    return el("option", { value: one, selected: one === shown.compare }, words);
  });
  const onchange = (event) => compare(event.target.value === "" ? null : Number(event.target.value));
  const none = el("option", { value: "" }, "none");
  return el("label", { class: "compare" }, "Compare with", el("select", { onchange }, none, choices));
}

/** Say from where on two rollouts differ. */
function difference({ trajectory: one }, { trajectory: two }) {
  const most = Math.max(one.steps.length, two.steps.length);
  for (let index = 0; index < most; index++) {
    const words = [one, two].map((each) => each.steps[index] && stepWords(each.steps[index]));
    if (words[0] !== words[1]) return `The actions differ from step ${index + 1} on.`;
  }
  return "Both did the same.";
}

function say(words) {
  byId("notice").textContent = words;
  if (!panes.length) byId("panes").replaceChildren();
}

start().catch((error) => say(error.message));
