// A document editor. Nothing is stored until it is saved, by button or by Ctrl+S.

import { nextId, read, update } from "../store.js";
import { el, renderTopbar, toast } from "../ui.js";
import { fromElements, toElements } from "./paragraphs.js";

const list = document.querySelector(".list");
const title = document.querySelector(".editor .title");
const text = document.querySelector(".text");
const state = document.querySelector(".state");
const boldButton = document.querySelector(".bold");
const drafts = new Map(); // documents with changes that are not saved: id → { title, paragraphs }
let openId = Object.keys(read("docs:documents"))[0];

function current() {
  return { title: title.value.trim() || "Untitled", paragraphs: fromElements(text) };
}

function renderList() {
  const items = Object.entries(read("docs:documents")).map(([id, doc]) =>
    el(
      "li",
      { class: id === openId ? "document open" : "document", "data-id": id, onclick: () => open(id) },
      el("span", { class: "name line" }, doc.title),
      el("span", { class: "preview line" }, (doc.paragraphs[0] ?? "").replaceAll("**", "")),
    ),
  );
  list.replaceChildren(...items);
}

function renderState() {
  const unsaved = drafts.has(openId);
  state.textContent = unsaved ? "Unsaved changes" : "All changes saved";
  state.classList.toggle("unsaved", unsaved);
}

function renderBold() {
  boldButton.classList.toggle("on", document.queryCommandState("bold"));
}

function open(id) {
  openId = id;
  const doc = drafts.get(id) ?? read("docs:documents")[id];
  title.value = doc.title;
  text.replaceChildren(...toElements(doc.paragraphs));
  text.scrollTop = 0;
  renderList();
  renderState();
}

function changed() {
  drafts.set(openId, current());
  renderState();
}

function save() {
  update("docs:documents", (documents) => { documents[openId] = current(); });
  drafts.delete(openId);
  renderList();
  renderState();
  toast("Document saved");
}

function create() {
  const id = nextId("D-", read("docs:documents"), 2);
  update("docs:documents", (documents) => {
    documents[id] = { title: "Untitled", paragraphs: [""] };
  });
  open(id);
  title.focus();
  title.select();
}

function edit(command) {
  document.execCommand(command);
  renderBold();
}

function onKey(event) {
  if (!(event.ctrlKey || event.metaKey)) {
    return;
  }
  const key = event.key.toLowerCase();
  if (key === "s") {
    event.preventDefault();
    save();
  } else if (key === "b" && event.target === text) {
    event.preventDefault();
    edit("bold");
  }
}

/** Let a button work on the text without taking the focus and the selection from it. */
function onTool(selector, command) {
  const button = document.querySelector(selector);
  button.addEventListener("mousedown", (event) => event.preventDefault());
  button.addEventListener("click", () => edit(command));
}

renderTopbar("docs", "Inkwell Docs");
document.execCommand("defaultParagraphSeparator", false, "div");
document.execCommand("styleWithCSS", false, "false");
onTool(".bold", "bold");
onTool(".undo", "undo");
onTool(".redo", "redo");
title.addEventListener("input", changed);
title.addEventListener("keydown", (event) => {
  if (event.key === "Enter") {
    text.focus();
    event.preventDefault();
  }
});
text.addEventListener("input", changed);
text.addEventListener("paste", (event) => {
  event.preventDefault();
  document.execCommand("insertText", false, event.clipboardData.getData("text/plain"));
});
document.addEventListener("keydown", onKey);
document.addEventListener("selectionchange", renderBold);
document.querySelector(".save").addEventListener("click", save);
document.querySelector(".new").addEventListener("click", create);
open(openId);
