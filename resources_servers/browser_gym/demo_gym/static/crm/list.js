// The list of leads with its search, and the chosen lead's form beside it.

import { onChangeElsewhere, read } from "../store.js";
import { avatar, el, renderTopbar } from "../ui.js";
import { renderForm } from "./form.js";

const search = document.querySelector(".search");
const count = document.querySelector(".count");
const rows = document.querySelector(".rows");
const detail = document.querySelector(".detail");
let selected = null;

function matches(lead, words) {
  const text = `${lead.name} ${lead.company} ${lead.email}`.toLowerCase();
  return words.every((word) => text.includes(word));
}

function row([id, lead]) {
  return el(
    "li",
    { class: id === selected ? "row selected" : "row", "data-id": id, onclick: () => select(id) },
    avatar(lead.name),
    el("span", { class: "name line" }, lead.name),
    el("span", { class: "company line" }, lead.company),
    el("span", { class: `chip ${lead.status}` }, lead.status),
    el("span", { class: "owner line" }, lead.owner),
    el(
      "a",
      {
        class: "open", href: `lead.html?id=${id}`, target: "_blank", title: "Open in a new tab",
        onclick: (event) => event.stopPropagation(),
      },
      "Open",
    ),
  );
}

function renderList() {
  const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
  const found = Object.entries(read("crm:leads")).filter(([, lead]) => matches(lead, words));
  count.textContent = found.length === 1 ? "1 lead" : `${found.length} leads`;
  rows.replaceChildren(
    ...(found.length ? found.map(row) : [el("li", { class: "none" }, "No lead matches this search.")]),
  );
}

function select(id) {
  selected = id;
  renderList();
  renderForm(detail, id, select);
}

renderTopbar("crm", "Harbour CRM");
search.addEventListener("input", renderList);
document.querySelector(".new").addEventListener("click", () => {
  selected = null;
  renderList();
  renderForm(detail, null, select);
});
onChangeElsewhere(renderList);
detail.append(el("p", { class: "empty" }, "Choose a lead to see its details."));
renderList();
