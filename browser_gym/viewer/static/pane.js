// One rollout: what it is, its filmstrip, and one step at a time.

import { button, el, facts, fold, text } from "./dom.js";
import { drawMarks } from "./overlay.js";
import { failed, stepDetails, stepWords } from "./step.js";
import { verdictParts } from "./verdict.js";
import { dollars, nameOf, rewardOf, seconds, short, taskOf, tokens, verdictOf } from "./words.js";

const LONG = 600; // a task in more characters is folded

export class Pane {
  #trajectory;
  #image;
  #pictures = [];
  #picture = 0;
  #frames = [];
  #shown = 0;
  #parts;

  /** `image` gives an image's address; `go` is asked to show a step. */
  constructor({ trajectory, image }, go, controls) {
    this.#trajectory = trajectory;
    this.#image = image;
    this.#frames = trajectory.steps.map((_, index) => this.#frame(index, go));
    this.#frames.push(this.#frame(trajectory.steps.length, go));
    this.#parts = {
      film: el("ol", { class: "film", "aria-label": "Steps" }, this.#frames),
      choice: el("div", { class: "choice", role: "group", "aria-label": "Pictures of this step" }),
      img: el("img", { alt: "" }),
      marks: el("div", { class: "marks", "aria-hidden": "true" }),
      missing: el("p", { class: "missing", hidden: true }, "There is no screenshot."),
      told: el("div", { class: "told" }),
      title: el("h3", {}),
    };
    const { img, marks, missing, film, choice, told, title } = this.#parts;
    img.addEventListener("load", () => this.#draw());
    img.addEventListener("error", () => this.#miss());
    new ResizeObserver(() => this.#draw()).observe(img);
    const screen = el("div", { class: "screen" }, img, marks, missing);
    this.element = el(
      "section",
      { class: "pane", "aria-label": taskOf(trajectory.summary) },
      about(trajectory, controls),
      film,
      el("div", { class: "bar" }, el("div", { class: "choice" }, title, this.#turners(go)), choice),
      el("div", { class: "stage" }, screen, told),
      verdictParts(trajectory),
    );
  }

  #turners(go) {
    return [
      button("‹", () => go(this.#shown - 1), { "aria-label": "Step before" }),
      button("›", () => go(this.#shown + 1), { "aria-label": "Next step" }),
    ];
  }

  /** How many steps there are, the end included. */
  get length() {
    return this.#frames.length;
  }

  /** Show a step, from 0, or the end; return it in words. */
  show(index) {
    this.#shown = Math.min(index, this.length - 1);
    const step = this.#trajectory.steps[this.#shown];
    this.#pictures = step?.pictures ?? [{ image: this.#trajectory.end, region: null, marks: [] }];
    this.#parts.title.textContent = step
      ? `Step ${this.#shown + 1} of ${this.length - 1}`
      : `End, after ${this.length - 1} steps`;
    this.#parts.told.replaceChildren(...(step ? stepDetails(step) : this.#ending()));
    this.#frames.forEach((frame, number) => {
      const current = number === this.#shown;
      frame.firstChild.setAttribute("aria-current", current ? "step" : "false");
    });
    this.#reveal(this.#frames[this.#shown]);
    this.showPicture(0);
    this.#preload();
    return `${this.#parts.title.textContent}: ${step ? stepWords(step) : "end"}`;
  }

  /** Show one of a step's pictures, by its number or the one after the shown one. */
  showPicture(number = this.#picture + 1) {
    this.#picture = number % this.#pictures.length;
    const picture = this.#pictures[this.#picture];
    const { img, marks, missing, choice } = this.#parts;
    const address = picture.image === null ? null : this.#image(picture.image);
    marks.replaceChildren();
    missing.hidden = address !== null;
    img.hidden = address === null;
    img.alt = `Screenshot: ${this.#named(this.#picture)}`;
    if (address !== null && img.getAttribute("src") !== address) img.src = address;
    else if (address !== null && img.complete && !img.naturalWidth) this.#miss();
    else this.#draw();
    const names = this.#pictures.map((_, index) => this.#named(index));
    choice.replaceChildren(
      ...(names.length > 1 ? names : []).map((name, index) =>
        button(name, () => this.showPicture(index), { "aria-pressed": index === this.#picture ? "true" : "false" }),
      ),
    );
  }

  #named(index) {
    if (!this.#trajectory.steps[this.#shown]) return "at the end";
    if (index === 0) return "seen by the model";
    return index === this.#pictures.length - 1 ? "afterwards" : `after action ${index}`;
  }

  #draw() {
    const { img, marks } = this.#parts;
    const picture = this.#pictures[this.#picture];
    if (!picture || img.hidden || !img.complete || !img.naturalWidth || !img.clientWidth) return;
    drawMarks(marks, img, picture.marks, picture.region);
  }

  #miss() {
    this.#parts.img.hidden = true;
    this.#parts.missing.hidden = false;
  }

  #reveal(frame) {
    const film = this.#parts.film;
    const left = frame.offsetLeft - film.offsetLeft - (film.clientWidth - frame.clientWidth) / 2;
    film.scrollLeft = Math.max(0, left);
  }

  /** Have the browser fetch what the next keys will show. */
  #preload() {
    for (const index of [this.#shown + 1, this.#shown + 2, this.#shown - 1]) {
      const number = this.#trajectory.steps[index]?.pictures[0].image ?? null;
      const address = number === null ? null : this.#image(number);
      if (address === null) continue;
      const ahead = new Image();
      ahead.src = address;
      ahead.decode().catch(() => {}); // a missing one is told when it is its turn
    }
  }

  #frame(index, go) {
    const step = this.#trajectory.steps[index];
    const number = step ? step.pictures[0].image : this.#trajectory.end;
    const address = number === null ? null : this.#image(number);
    const name = step ? `${index + 1}` : "end";
    const words = step ? stepWords(step) : this.#trajectory.summary.end || "end";
    const classes = step && failed(step) ? "frame error" : "frame";
    return filmFrame(classes, name, words, address, () => go(index));
  }

  #ending() {
    const { answer, final_url: url, failure_reason: reason, summary } = this.#trajectory;
    return [
      reason ? text(`${summary.failure}: ${reason}`, "error") : null,
      answer ? el("section", {}, el("h4", {}, "Final answer"), text(answer)) : null,
      facts([["ended by", summary.end], ["url", url]]),
    ].filter(Boolean);
  }
}

function filmFrame(classes, name, words, address, onclick) {
  const picture = address ? el("img", { src: address, alt: "", loading: "lazy", decoding: "async" }) : null;
  const caption = el("span", { class: "name" }, name);
  const said = el("span", { class: "said" }, words);
  return el("li", { class: classes }, el("button", { type: "button", onclick, title: words }, picture, caption, said));
}

function about(trajectory, controls) {
  const { summary, prompt, usage, seconds: spent, partial_credit: partial } = trajectory;
  const parts = ["model", "browser", "verify"].filter((name) => spent[name] !== null);
  const times = parts.map((name) => `${name} ${seconds(spent[name])}`).join(", ");
  return el(
    "header",
    { class: "about" },
    el("div", { class: "bar" }, el("h2", {}, taskOf(summary)), controls),
    el(
      "p",
      { class: "chips" },
      el("span", { class: `chip ${verdictOf(summary)}` }, rewardOf(summary)),
      summary.failure ? el("span", { class: "chip masked" }, summary.failure) : null,
      summary.end ? el("span", { class: "chip" }, summary.end) : null,
      el("span", {}, nameOf(summary)),
      el("span", {}, [seconds(spent.total), dollars(summary.cost)].filter(Boolean).join(" · ")),
    ),
    trajectory.failure_reason ? text(trajectory.failure_reason, "error") : null,
    prompt.length > LONG ? fold("The task", text(prompt, "prompt")) : text(prompt, "prompt"),
    fold(
      "About",
      facts([
        ["time", spent.total === null ? "" : `${seconds(spent.total)} (${times})`],
        ["tokens", tokens(usage)],
        ["cost", dollars(summary.cost)],
        ["partial credit", partial === null ? "" : short(partial)],
        ["category", trajectory.category],
        ["verifier", trajectory.verifier],
        ["start page", trajectory.start_url],
        ["last page", trajectory.final_url],
        ["line", `${summary.line}`],
      ]),
    ),
  );
}
