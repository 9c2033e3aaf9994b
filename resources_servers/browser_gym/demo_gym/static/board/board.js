// A kanban board. Cards move by the browser's own drag and drop.

import { nextId, onChangeElsewhere, read, update } from "../store.js";
import { avatar, el, renderTopbar } from "../ui.js";

const NAMES = { backlog: "Backlog", "in-progress": "In progress", review: "Review", done: "Done" };

const main = document.querySelector(".columns");
const summary = document.querySelector(".summary");

function moveCard(id, column, before) {
  update("board:columns", (columns) => {
    for (const ids of Object.values(columns)) {
      if (ids.includes(id)) {
        ids.splice(ids.indexOf(id), 1);
      }
    }
    const place = before === null ? columns[column].length : columns[column].indexOf(before);
    columns[column].splice(place, 0, id);
  });
  render();
}

function addCard(column, title) {
  const id = nextId("C-", read("board:cards"), 2);
  update("board:cards", (cards) => {
    cards[id] = { title, label: "Task", assignee: "Alex Moreau", urgent: false };
  });
  update("board:columns", (columns) => { columns[column].push(id); });
}

/** Put an input in the place of `original`. Enter saves its text, Escape or leaving it does not. */
function edit(original, properties, save) {
  let ended = false;
  function end(text) {
    if (ended) {
      return;
    }
    ended = true;
    input.replaceWith(original);
    if (text !== null) {
      save(text);
      render();
    }
  }
  const input = el("input", {
    ...properties,
    onblur: () => end(null),
    onkeydown: (event) => {
      if (event.key === "Enter" && input.value.trim() !== "") {
        end(input.value.trim());
      } else if (event.key === "Escape") {
        end(null);
      }
    },
  });
  original.replaceWith(input);
  input.focus();
  input.select();
}

function rename(id, title) {
  edit(title, { class: "title", value: title.textContent, ariaLabel: "Card title" }, (text) => {
    update("board:cards", (cards) => { cards[id].title = text; });
  });
}

function cardNode(id, card) {
  const node = el(
    "li",
    {
      class: "card",
      draggable: true,
      "data-id": id,
      ondragstart: (event) => {
        if (node.querySelector("input") !== null) {
          event.preventDefault(); // the pointer selects text in the title's input
          return;
        }
        event.dataTransfer.setData("text/plain", id);
        event.dataTransfer.effectAllowed = "move";
        node.classList.add("dragged");
      },
      ondragend: render,
    },
    el("span", { class: `chip ${card.label}` }, card.label),
    el(
      "button",
      {
        type: "button",
        class: card.urgent ? "flag on" : "flag",
        onclick: () => {
          update("board:cards", (cards) => { cards[id].urgent = !cards[id].urgent; });
          render();
        },
      },
      card.urgent ? "Urgent" : "Mark urgent",
    ),
    el("span", { class: "title line", ondblclick: (event) => rename(id, event.target) }, card.title),
    avatar(card.assignee),
    el("span", { class: "assignee line" }, card.assignee),
    el("span", { class: "id" }, id),
  );
  return node;
}

/** The id of the card that a card dropped at height `y` goes above; null for the end. */
function cardBelow(list, y) {
  for (const node of list.querySelectorAll(".card:not(.dragged)")) {
    const box = node.getBoundingClientRect();
    if (y < box.top + box.height / 2) {
      return node.dataset.id;
    }
  }
  return null;
}

function columnNode(column, ids, cards) {
  const list = el("ul", { class: "cards scroll" }, ...ids.map((id) => cardNode(id, cards[id])));
  const node = el(
    "section",
    {
      class: "column",
      "data-column": column,
      ondragover: (event) => {
        event.preventDefault();
        event.dataTransfer.dropEffect = "move";
        node.classList.add("target");
      },
      ondragleave: () => node.classList.remove("target"),
      ondrop: (event) => {
        event.preventDefault();
        const id = event.dataTransfer.getData("text/plain");
        if (id in cards) {
          moveCard(id, column, cardBelow(list, event.clientY));
        }
      },
    },
    el("span", { class: "name line" }, NAMES[column]),
    el("span", { class: "number" }, String(ids.length)),
    list,
  );
  const add = el(
    "button",
    {
      class: "add",
      type: "button",
      onclick: () => {
        edit(add, { class: "add", placeholder: "Title, then Enter" }, (text) => addCard(column, text));
      },
    },
    "+ Add card",
  );
  node.append(add);
  return node;
}

function render() {
  const cards = read("board:cards");
  const columns = read("board:columns");
  const scrolled = [...main.querySelectorAll(".cards")].map((list) => list.scrollTop);
  main.replaceChildren(
    ...Object.keys(NAMES).map((column) => columnNode(column, columns[column], cards)),
  );
  main.querySelectorAll(".cards").forEach((list, index) => { list.scrollTop = scrolled[index] ?? 0; });
  const urgent = Object.values(cards).filter((card) => card.urgent).length;
  summary.textContent = `${Object.keys(cards).length} cards · ${urgent} urgent`;
}

renderTopbar("board", "Tidal Board");
onChangeElsewhere(render);
render();
