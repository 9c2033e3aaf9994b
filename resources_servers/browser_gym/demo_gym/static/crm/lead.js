// A lead's own page: the form and what its account is worth.

import { read } from "../store.js";
import { el, renderTopbar } from "../ui.js";
import { renderForm } from "./form.js";

const id = new URLSearchParams(location.search).get("id");
const detail = document.querySelector(".detail");
const account = document.querySelector(".account");

function fact(caption, value, index) {
  const left = 24 + (index % 3) * 240;
  const top = 60 + Math.floor(index / 3) * 100;
  return el(
    "div",
    { class: "fact", style: `left:${left}px; top:${top}px` },
    el("span", { class: "caption" }, caption),
    el("span", { class: "value" }, value),
  );
}

function render() {
  const lead = read("crm:leads")[id];
  if (lead === undefined) {
    detail.replaceChildren(el("p", { class: "empty" }, "There is no such lead."));
    account.hidden = true;
    return;
  }
  document.title = `${lead.name} · Harbour CRM`;
  account.replaceChildren(
    el("h2", {}, "Account"),
    fact("Budget", `$${lead.budget.toLocaleString("en-US")}`, 0),
    fact("Contract", lead.contract || "–", 1),
    fact("Renewal", lead.renewal || "–", 2),
    fact("Owner", lead.owner, 3),
    fact("Source", lead.source, 4),
  );
  renderForm(detail, id, render);
}

renderTopbar("crm", "Harbour CRM");
render();
