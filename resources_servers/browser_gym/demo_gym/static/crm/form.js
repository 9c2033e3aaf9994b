// The form of one lead: used beside the list and on the lead's own page.

import { nextId, read, update } from "../store.js";
import { avatar, el, field, toast } from "../ui.js";

const STATUSES = ["New", "Contacted", "Qualified", "Won", "Lost"];
const FIELDS = [
  ["name", "Name", "left:20px; top:80px; width:206px"],
  ["company", "Company", "left:238px; top:80px; width:206px"],
  ["email", "Email", "left:20px; top:146px; width:250px"],
  ["phone", "Phone", "left:282px; top:146px; width:162px"],
];
const BLANK = {
  name: "", company: "", email: "", phone: "", status: "New", owner: "Alex Moreau",
  source: "Entered by hand", contract: "", renewal: "", budget: 0, notes: [],
};

/**
 * Fill `panel` with the form of a lead; an `id` of null makes the form of a new one.
 * `onSaved(id)` is called after every change that was stored.
 */
export function renderForm(panel, id, onSaved) {
  const lead = id === null ? structuredClone(BLANK) : read("crm:leads")[id];
  let status = lead.status;
  const inputs = {};

  const fields = FIELDS.map(([key, caption, style]) => {
    inputs[key] = el("input", { class: "input", value: lead[key], name: key, autocomplete: "off" });
    return field(caption, inputs[key], style);
  });

  const buttons = STATUSES.map((name, index) =>
    el(
      "button",
      {
        type: "button",
        class: name === status ? "chosen" : "",
        style: `left:${index * 86}px`,
        onclick: (event) => {
          status = name;
          buttons.forEach((button) => button.classList.toggle("chosen", button === event.currentTarget));
        },
      },
      name,
    ),
  );

  const problem = el("span", { class: "problem line" });

  function save() {
    if (inputs.name.value.trim() === "") {
      problem.textContent = "Please enter a name.";
      return;
    }
    const leadId = id ?? nextId("L-", read("crm:leads"), 4);
    update("crm:leads", (leads) => {
      leads[leadId] ??= structuredClone(BLANK);
      for (const [key] of FIELDS) {
        leads[leadId][key] = inputs[key].value.trim();
      }
      leads[leadId].status = status;
    });
    toast(id === null ? "Lead created" : "Changes saved");
    onSaved(leadId);
  }

  const form = el(
    "form",
    { autocomplete: "off", onsubmit: (event) => { event.preventDefault(); save(); } },
    ...fields,
    el("div", { class: "statuses" }, el("span", { class: "caption" }, "Status"), ...buttons),
    el("button", { class: "button primary save", type: "submit" }, id === null ? "Create lead" : "Save changes"),
    el("button", { class: "button discard", type: "button", onclick: () => renderForm(panel, id, onSaved) }, "Discard"),
    problem,
  );

  panel.replaceChildren(
    avatar(lead.name || "+"),
    el("span", { class: "title line" }, lead.name || "New lead"),
    el("span", { class: "subtitle line" }, id === null ? "Not saved yet" : `${id} · ${lead.company}`),
    form,
    ...(id === null ? [] : notes(panel, id, lead, onSaved)),
  );
  if (id === null) {
    inputs.name.focus();
  }
}

function notes(panel, id, lead, onSaved) {
  const text = el("textarea", { class: "input note", placeholder: "Write a note", ariaLabel: "New note" });
  const list = lead.notes.map((note) => el("li", {}, note));

  function add() {
    if (text.value.trim() === "") {
      return;
    }
    update("crm:leads", (leads) => { leads[id].notes.push(text.value.trim()); });
    toast("Note added");
    onSaved(id);
  }

  return [
    el("span", { class: "notes-title line" }, `Notes (${lead.notes.length})`),
    el("ul", { class: "notes scroll" }, ...(list.length ? list : [el("li", { class: "none" }, "No notes yet.")])),
    text,
    el("button", { class: "button add-note", type: "button", onclick: add }, "Add note"),
  ];
}
