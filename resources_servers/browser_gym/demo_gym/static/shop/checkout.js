// The order form and the page shown when an order was placed.

import { el, field } from "../ui.js";

const SHIPPING = ["Standard, 5 days", "Express, 2 days", "Pick up in store"];
const FIELDS = [
  ["name", "Full name", "left:32px; top:104px; width:312px"],
  ["email", "Email", "left:368px; top:104px; width:312px"],
  ["street", "Street", "left:32px; top:178px; width:312px"],
  ["city", "City", "left:368px; top:178px; width:312px"],
];

/** Show the order form; `place` gets what was filled in, `back` is called to leave it. */
export function renderCheckout(panel, { back, place }) {
  const inputs = {};
  const fields = FIELDS.map(([key, caption, style]) => {
    inputs[key] = el("input", { class: "input", name: key, autocomplete: "off" });
    return field(caption, inputs[key], style);
  });
  const shipping = el(
    "select",
    { class: "select shipping", ariaLabel: "Shipping" },
    ...SHIPPING.map((name) => el("option", { value: name }, name)),
  );
  const message = el("textarea", { class: "input", style: "height:64px", placeholder: "Optional" });
  const problem = el("span", { class: "problem line" });

  function submit(event) {
    event.preventDefault();
    const customer = {};
    for (const [key] of FIELDS) {
      customer[key] = inputs[key].value.trim();
    }
    if (Object.values(customer).includes("")) {
      problem.textContent = "Please fill in all four fields.";
      return;
    }
    place({ ...customer, shipping: shipping.value, message: message.value.trim() });
  }

  panel.replaceChildren(
    el("h2", { class: "wide" }, "Checkout"),
    el("p", { class: "lead line" }, "Where should we send your order?"),
    el(
      "form",
      { autocomplete: "off", onsubmit: submit },
      ...fields,
      field("Shipping", shipping, "left:32px; top:252px; width:312px"),
      field("Gift message", message, "left:32px; top:326px; width:648px"),
      el("button", { class: "button back", type: "button", onclick: back }, "Back to shop"),
      el("button", { class: "button primary place", type: "submit" }, "Place order"),
      problem,
    ),
  );
  inputs.name.focus();
}

/** Show that order `id` was placed. */
export function renderThanks(panel, id, again) {
  panel.replaceChildren(
    el("span", { class: "tick" }),
    el("p", { class: "thanks" }, "Thank you for your order"),
    el("p", { class: "order line" }, `Your order number is ${id}.`),
    el("button", { class: "button again", type: "button", onclick: again }, "Continue shopping"),
  );
}
