// Which rollouts the list shows.

import { el } from "./dom.js";
import { verdictOf } from "./words.js";

const REWARDS = { pass: "1 or more", part: "between 0 and 1", fail: "0", masked: "masked" };
const FIELDS = [
  ["task", "Task", (one) => one.task],
  ["agent", "Agent", (one) => one.agent],
  ["model", "Model", (one) => one.model],
  ["category", "Category", (one) => one.category],
  ["reward", "Reward", (one) => REWARDS[verdictOf(one)]],
  ["failure", "Failure", (one) => one.failure],
  ["end", "Ended by", (one) => one.end],
];

export class Filters {
  #search;
  #selects = [];
  #texts;

  /** Fill `form` with a search field and a choice per field that has several values. */
  constructor(form, rollouts, onchange) {
    this.#texts = rollouts.map((one) =>
      [one.task, one.agent, one.model, one.words].join("\n").toLowerCase(),
    );
    this.#search = el("input", { type: "search", id: "search", autocomplete: "off", oninput: onchange });
    form.replaceChildren(el("label", { class: "search" }, "Search", this.#search));
    const choices = el("div", { class: "choices" });
    for (const [name, title, value] of FIELDS) {
      const counts = new Map();
      for (const one of rollouts) counts.set(value(one), (counts.get(value(one)) ?? 0) + 1);
      if (counts.size < 2) continue;
      const select = el("select", { name, onchange }, options(counts));
      this.#selects.push([select, value]);
      choices.append(el("label", {}, title, select));
    }
    form.append(choices);
    form.addEventListener("submit", (event) => event.preventDefault());
  }

  /** The places of the rollouts that are wanted. */
  chosen(rollouts) {
    const terms = this.#search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const places = [];
    rollouts.forEach((one, place) => {
      const fits = this.#selects.every(([select, value]) => !select.value || select.value === `=${value(one)}`);
      if (fits && terms.every((term) => this.#texts[place].includes(term))) places.push(place);
    });
    return places;
  }

  focus() {
    this.#search.focus();
    this.#search.select();
  }
}

function options(counts) {
  const names = [...counts.keys()].sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
  const named = names.map((name) => el("option", { value: `=${name}` }, `${name || "none"} (${counts.get(name)})`));
  return [el("option", { value: "" }, "all"), ...named];
}
