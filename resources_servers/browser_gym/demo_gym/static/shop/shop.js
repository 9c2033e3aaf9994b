// The shop: filters on the left, products in the middle, the cart on the right.

import { onChangeElsewhere, read, update, write } from "../store.js";
import { el, renderTopbar, toast } from "../ui.js";
import { renderCheckout, renderThanks } from "./checkout.js";
import { picture } from "./pictures.js";
import products from "./products.json" with { type: "json" };

const GROUPS = ["Kitchen", "Lighting", "Outdoor", "Stationery", "Home"];
const PRICES = [["Any price", Infinity], ["Under $50", 50], ["Under $100", 100]];
const SORTS = {
  Featured: () => 0,
  "Price: low to high": (a, b) => a.price - b.price,
  "Price: high to low": (a, b) => b.price - a.price,
  "Name: A to Z": (a, b) => a.name.localeCompare(b.name, "en"),
};
const MAX_QUANTITY = 5;

const filters = document.querySelector(".filters");
const catalog = document.querySelector(".catalog");
const cart = document.querySelector(".cart");
const chosenGroups = new Set();
let maxPrice = Infinity;
let sort = "Featured";

const money = (amount) => `$${amount.toFixed(2)}`;
const product = (id) => products.find((item) => item.id === id);

function renderFilters() {
  const choice = (text, on, shape, top, onclick) =>
    el("button", { type: "button", class: `choice ${shape} ${on ? "on" : ""}`, style: `top:${top}px`, onclick }, text);
  const groups = GROUPS.map((group, index) =>
    choice(group, chosenGroups.has(group), "square", 76 + index * 36, () => {
      if (!chosenGroups.delete(group)) {
        chosenGroups.add(group);
      }
      showProducts();
    }),
  );
  const prices = PRICES.map(([text, limit], index) =>
    choice(text, limit === maxPrice, "round", 308 + index * 36, () => {
      maxPrice = limit;
      showProducts();
    }),
  );
  filters.replaceChildren(
    el("h2", {}, "Filters"),
    el("span", { class: "heading", style: "top:52px" }, "Category"),
    ...groups,
    el("span", { class: "heading", style: "top:284px" }, "Price"),
    ...prices,
    el("button", {
      type: "button",
      class: "button clear",
      onclick: () => {
        chosenGroups.clear();
        maxPrice = Infinity;
        showProducts();
      },
    }, "Clear filters"),
  );
}

function productNode(item, index, favorites) {
  const left = 16 + (index % 3) * 228;
  const top = 16 + Math.floor(index / 3) * 248;
  return el(
    "article",
    { class: "product", style: `left:${left}px; top:${top}px`, "data-id": item.id },
    picture(item),
    el("button", {
      type: "button",
      class: favorites.includes(item.id) ? "heart on" : "heart",
      ariaLabel: `Favourite ${item.name}`,
      onclick: (event) => {
        update("shop:favorites", (ids) => {
          if (ids.includes(item.id)) {
            ids.splice(ids.indexOf(item.id), 1);
          } else {
            ids.push(item.id);
          }
        });
        event.currentTarget.classList.toggle("on");
      },
    }),
    el("span", { class: "name line" }, item.name),
    el("span", { class: "group line" }, item.group),
    el("span", { class: "price line" }, money(item.price)),
    el("button", {
      type: "button",
      class: "button primary to-cart",
      onclick: () => {
        update("shop:cart", (lines) => {
          lines[item.id] = Math.min((lines[item.id] ?? 0) + 1, MAX_QUANTITY);
        });
        toast(`${item.name} is in your cart`);
        renderCart();
      },
    }, "Add to cart"),
  );
}

function showProducts() {
  renderFilters();
  const found = products
    .filter((item) => chosenGroups.size === 0 || chosenGroups.has(item.group))
    .filter((item) => item.price < maxPrice)
    .sort(SORTS[sort]);
  const favorites = read("shop:favorites");
  const height = 16 + Math.ceil(found.length / 3) * 248;
  const select = el(
    "select",
    {
      class: "select sort",
      ariaLabel: "Sort by",
      onchange: () => {
        sort = select.value;
        showProducts();
      },
    },
    ...Object.keys(SORTS).map((name) => el("option", { value: name, selected: name === sort }, name)),
  );
  catalog.replaceChildren(
    el("span", { class: "found line" }, found.length === 1 ? "1 product" : `${found.length} products`),
    el("span", { class: "by" }, "Sort by"),
    select,
    el(
      "div",
      { class: "list scroll" },
      el(
        "div",
        { class: "grid", style: `height:${height}px` },
        ...found.map((item, index) => productNode(item, index, favorites)),
      ),
    ),
  );
}

function cartItem(id, quantity) {
  const item = product(id);
  const numbers = Array.from({ length: MAX_QUANTITY }, (_, index) => index + 1);
  const select = el(
    "select",
    {
      class: "select quantity",
      ariaLabel: `Quantity of ${item.name}`,
      onchange: () => {
        update("shop:cart", (lines) => { lines[id] = Number(select.value); });
        renderCart();
      },
    },
    ...numbers.map((number) => el("option", { value: number, selected: number === quantity }, String(number))),
  );
  return el(
    "li",
    { class: "item", "data-id": id },
    picture(item),
    el("span", { class: "name line" }, item.name),
    select,
    el("span", { class: "amount line" }, money(item.price * quantity)),
    el("button", {
      type: "button",
      class: "remove",
      ariaLabel: `Remove ${item.name}`,
      onclick: () => {
        update("shop:cart", (lines) => { delete lines[id]; });
        renderCart();
      },
    }),
  );
}

function renderCart() {
  const lines = Object.entries(read("shop:cart"));
  const total = lines.reduce((sum, [id, quantity]) => sum + product(id).price * quantity, 0);
  const items = lines.map(([id, quantity]) => cartItem(id, quantity));
  cart.replaceChildren(
    el("h2", {}, "Your cart"),
    el("ul", { class: "items scroll" }, ...(items.length ? items : [el("li", { class: "none" }, "Nothing here yet.")])),
    el("span", { class: "total-label" }, "Total"),
    el("span", { class: "total" }, money(total)),
    el("button", {
      type: "button",
      class: "button primary checkout",
      disabled: lines.length === 0,
      onclick: () => renderCheckout(catalog, { back: showProducts, place: placeOrder }),
    }, "Checkout"),
  );
}

function placeOrder(customer) {
  if (Object.keys(read("shop:cart")).length === 0) {
    showProducts();
    return;
  }
  const id = `O-${1001 + Object.keys(read("shop:orders")).length}`;
  update("shop:orders", (orders) => { orders[id] = { ...customer, items: read("shop:cart") }; });
  write("shop:cart", {});
  renderCart();
  renderThanks(catalog, id, showProducts);
}

renderTopbar("shop", "Fieldstone Shop");
onChangeElsewhere(renderCart);
showProducts();
renderCart();
