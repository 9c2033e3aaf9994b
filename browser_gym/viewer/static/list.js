// The list of rollouts that fit the filters.

import { byId, el } from "./dom.js";
import { Filters } from "./filters.js";
import { rewardOf, seconds, short, taskOf, verdictOf } from "./words.js";

const AT_ONCE = 200;

export class List {
  #rollouts;
  #filters;
  #chosen = [];
  #drawn = 0;
  #current = null;
  #named;

  constructor(rollouts) {
    this.#rollouts = rollouts;
    this.#named = [(one) => one.agent, (one) => one.model].filter(
      (value) => new Set(rollouts.map(value)).size > 1,
    );
    this.#filters = new Filters(byId("filters"), rollouts, () => this.#filter());
    byId("more").addEventListener("click", () => this.#draw());
    this.#filter();
  }

  /** The place of the rollout `by` lines further down in the list. */
  next(place, by) {
    const at = this.#chosen.indexOf(place);
    return at < 0 ? this.#chosen[0] : this.#chosen[at + by];
  }

  /** Mark a rollout as the one that is shown. */
  mark(place) {
    this.#current = place;
    while (this.#chosen.indexOf(place) >= this.#drawn) this.#draw();
    for (const link of byId("rollouts").querySelectorAll("a")) {
      const current = link.dataset.place === String(place);
      link.setAttribute("aria-current", current ? "true" : "false");
      if (current) link.scrollIntoView({ block: "nearest" });
    }
  }

  search() {
    this.#filters.focus();
  }

  #filter() {
    this.#chosen = this.#filters.chosen(this.#rollouts).sort(byTask(this.#rollouts));
    this.#drawn = 0;
    byId("rollouts").replaceChildren();
    this.#draw();
    byId("counts").textContent = this.#counts();
  }

  #draw() {
    const more = this.#chosen.slice(this.#drawn, this.#drawn + AT_ONCE);
    byId("rollouts").append(...more.map((place) => this.#line(place)));
    this.#drawn += more.length;
    const left = this.#chosen.length - this.#drawn;
    byId("more").hidden = left === 0;
    byId("more").textContent = `Show more (${left})`;
  }

  #line(place) {
    const one = this.#rollouts[place];
    const about = [
      one.repeat === null ? "" : `repeat ${one.repeat}`,
      ...this.#named.map((value) => value(one)),
      one.failure || one.end,
      one.steps === null ? "" : `${one.steps} steps`,
      seconds(one.seconds),
    ];
    const current = place === this.#current;
    return el(
      "li",
      {},
      el(
        "a",
        { href: `#rollout=${one.line}`, "data-place": place, "aria-current": current ? "true" : "false" },
        el("span", { class: "task" }, taskOf(one)),
        el("span", { class: `chip ${verdictOf(one)}` }, rewardOf(one)),
        el("span", { class: "more" }, about.filter(Boolean).join(" · ")),
      ),
    );
  }

  #counts() {
    const all = this.#rollouts.length;
    const chosen = this.#chosen.map((place) => this.#rollouts[place]);
    const valid = chosen.filter((one) => !one.masked && one.reward !== null);
    const sum = valid.reduce((total, one) => total + one.reward, 0);
    const parts = [chosen.length === all ? `${all} rollouts` : `${chosen.length} of ${all} rollouts`];
    if (valid.length) parts.push(`mean reward ${short(sum / valid.length)}`);
    const masked = chosen.filter((one) => one.masked).length;
    if (masked) parts.push(`${masked} masked`);
    return parts.join(", ");
  }
}

const names = new Intl.Collator("en", { numeric: true });

/** Rollouts of a task stand together, whichever ended first. */
function byTask(rollouts) {
  return (a, b) => {
    const [one, two] = [rollouts[a], rollouts[b]];
    return names.compare(one.task, two.task) || one.repeat - two.repeat || one.line - two.line;
  };
}
