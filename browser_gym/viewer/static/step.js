// What a step says beside its picture.

import { el, facts, fold, text } from "./dom.js";
import { dollars, milliseconds, tokens } from "./words.js";

export function stepDetails(step) {
  const parts = [];
  if (step.nudged) parts.push(text("An empty reply; the model was asked again.", "warning"));
  if (step.reasoning) parts.push(section("Reasoning", text(step.reasoning, "thought")));
  if (step.message) parts.push(section("Words", text(step.message)));
  parts.push(...step.calls.map(call));
  if (!step.calls.length && !step.message && !step.nudged) parts.push(text("No action, no words."));
  parts.push(
    facts([
      ["model", milliseconds(step.model_ms)],
      ["tokens", tokens(step.usage)],
      ["cost", dollars(step.cost)],
      ["url", step.url],
      ["url after", step.url_after === step.url ? "" : step.url_after],
    ]),
  );
  return parts;
}

/** A step's actions in a few words. */
export function stepWords(step) {
  const actions = step.calls.flatMap((one) => one.actions.map((action) => action.text));
  return actions.join("; ") || step.message || "no action";
}

export function failed(step) {
  return step.calls.some((one) => one.error || one.actions.some((a) => a.status === "error"));
}

function call(one) {
  const timings = Object.entries(one.timings_ms).map(([name, ms]) => `${name} ${milliseconds(ms)}`);
  return section(
    "Actions",
    el("ol", { class: "actions" }, one.actions.map(action)),
    one.error ? text(`Not executed: ${one.error}`, "error") : null,
    one.safety.length ? bullets(`Safety checks (${one.safety_policy})`, one.safety) : null,
    one.texts.length ? bullets("The model was told", one.texts) : null,
    one.events.length ? bullets("Events", one.events.map((e) => `${e.type}: ${e.text}`)) : null,
    one.tabs.length ? bullets("Tabs", one.tabs.map(tab)) : null,
    facts([["browser", timings.join(", ") + (one.settled ? "" : "; the page was not quiet")]]),
    fold("As the model wrote it", text(one.native, "code")),
  );
}

function action({ text: words, status, error, answer }) {
  return el(
    "li",
    { class: status === "ok" ? "" : status },
    el("span", { class: "action" }, words),
    status && status !== "ok" ? el("span", { class: "status" }, ` ${status.replace("_", " ")}`) : null,
    error ? text(error, "error") : null,
    answer ? text(answer, "code") : null,
  );
}

function tab({ title, url, active }) {
  return `${active ? "shown: " : ""}${title || "no title"} (${url})`;
}

function bullets(title, items) {
  return section(title, el("ul", {}, items.map((item) => el("li", {}, text(item)))));
}

function section(title, ...content) {
  return el("section", {}, el("h4", {}, title), content);
}
