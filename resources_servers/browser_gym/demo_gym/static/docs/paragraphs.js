// A document's text is stored as a list of paragraphs, with bold text between ** and **. Here it
// becomes the editor's elements, and the elements become text again.

import { el } from "../ui.js";

/** The elements to edit: one `div` for each paragraph. */
export function toElements(paragraphs) {
  return paragraphs.map((paragraph) => {
    const parts = paragraph.split("**");
    const nodes = parts.map((part, index) => (index % 2 === 1 ? el("b", {}, part) : part));
    return el("div", {}, ...(paragraph === "" ? [el("br")] : nodes.filter((node) => node !== "")));
  });
}

/** The paragraphs that `root`, the edited element, now holds. */
export function fromElements(root) {
  const paragraphs = [];
  let runs = null; // of the paragraph being read: [{ text, bold }]

  function close() {
    if (runs !== null) {
      paragraphs.push(runs.map((run) => (run.bold ? `**${run.text}**` : run.text)).join(""));
    }
    runs = null;
  }

  function addText(text, bold) {
    runs ??= [];
    const last = runs.at(-1);
    if (last?.bold === bold) {
      last.text += text;
    } else if (text !== "") {
      runs.push({ text, bold });
    }
  }

  function read(node, bold) {
    if (node.nodeType === Node.TEXT_NODE) {
      node.data.replaceAll("\u00a0", " ").split("\n").forEach((line, index) => {
        if (index > 0) {
          runs ??= [];
          close();
        }
        addText(line, bold);
      });
    } else if (node.nodeName === "BR") {
      runs ??= [];
      close();
    } else if (node.nodeName === "DIV" || node.nodeName === "P") {
      close();
      node.childNodes.forEach((child) => read(child, bold));
      close();
    } else {
      const isBold = bold || node.nodeName === "B" || node.nodeName === "STRONG";
      node.childNodes.forEach((child) => read(child, isBold));
    }
  }

  root.childNodes.forEach((node) => read(node, false));
  close();
  return paragraphs;
}
