// How a rollout was graded, and what it left in the browser.

import { el, fold, text } from "./dom.js";

export function verdictParts(trajectory) {
  return [assertions(trajectory.assertions), storage(trajectory.storage)];
}

function assertions(all) {
  if (!all.length) return null;
  const passed = all.filter((one) => one.result === "pass").length;
  const rows = all.map((one) => [
    el("span", { class: `chip ${one.result === "pass" ? "pass" : "fail"}` }, one.result),
    one.category ? `${one.title} (${one.category})` : one.title,
    value(one.expected),
    value(one.actual),
  ]);
  const names = ["result", "assertion", "expected", "actual"];
  return fold(`Assertions: ${passed} of ${all.length} pass`, table(names, rows), true);
}

function storage(stored) {
  if (!stored) return null;
  if (stored.final) {
    const rows = Object.entries(stored.final).map(([key, item]) => [key, value(item)]);
    const title = "Storage at the end; what it was at the start is not in the row";
    return fold(title, table(["key", "value"], rows));
  }
  const count = stored.changes.length + stored.more;
  const title = `Storage of ${stored.origin}: ${count} ${count === 1 ? "change" : "changes"}`;
  const rows = stored.changes.map((one) => [one.path, value(one.before), value(one.after)]);
  const more = stored.more ? text(`and ${stored.more} more`) : null;
  return fold(title, el("div", {}, table(["place", "at the start", "at the end"], rows), more), true);
}

function table(names, rows) {
  if (!rows.length) return text("none");
  const head = el("tr", {}, names.map((name) => el("th", { scope: "col" }, name)));
  // The names once more in each cell: a phone shows a row as a list.
  const body = rows.map((cells) =>
    el("tr", {}, cells.map((cell, index) => el("td", { "data-name": names[index] }, cell))),
  );
  return el("table", {}, el("thead", {}, head), el("tbody", {}, body));
}

function value(item) {
  return item === undefined ? el("em", {}, "nothing") : text(item, "code");
}
