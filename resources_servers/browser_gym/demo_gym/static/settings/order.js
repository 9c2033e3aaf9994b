// The home screen's rows, put in order by dragging them with pointer events.

import { read, write } from "../store.js";
import { el } from "../ui.js";

const ROW_HEIGHT = 64;

/** Fill `list` with the rows as they are stored. */
export function renderOrder(list) {
  const names = read("settings:home");
  list.replaceChildren(...names.map((name, index) => row(list, names, name, index)));
}

function row(list, names, name, index) {
  const node = el(
    "li",
    { style: `top:${index * ROW_HEIGHT}px`, "data-name": name },
    el("span", { class: "grip" }),
    el("span", { class: "place" }, String(index + 1)),
    el("span", { class: "name line" }, name),
  );
  let startY = null; // where the pointer went down, while the row is held

  function placeAt(y) {
    const moved = Math.round((y - startY) / ROW_HEIGHT);
    return Math.max(0, Math.min(names.length - 1, index + moved));
  }

  function orderAt(y) {
    const order = names.filter((other) => other !== name);
    order.splice(placeAt(y), 0, name);
    return order;
  }

  node.addEventListener("pointerdown", (event) => {
    startY = event.clientY;
    node.setPointerCapture(event.pointerId);
    node.classList.add("held");
  });
  node.addEventListener("pointermove", (event) => {
    if (startY === null) {
      return;
    }
    orderAt(event.clientY).forEach((other, place) => {
      list.querySelector(`[data-name="${other}"]`).style.top = `${place * ROW_HEIGHT}px`;
    });
    node.style.top = `${index * ROW_HEIGHT + event.clientY - startY}px`;
  });
  node.addEventListener("pointerup", (event) => {
    write("settings:home", orderAt(event.clientY));
    renderOrder(list);
  });
  node.addEventListener("pointercancel", () => renderOrder(list));
  return node;
}
