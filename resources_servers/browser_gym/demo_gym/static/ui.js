// What every app's page is built with: elements, the top bar, avatars, short messages.

const APPS = [
  ["crm", "CRM"],
  ["board", "Board"],
  ["shop", "Shop"],
  ["docs", "Docs"],
  ["settings", "Settings"],
];

const AVATAR_COLORS = ["#5b6ee1", "#0f9d8c", "#d0623f", "#8f56c9", "#2f7fd1", "#b3812b", "#c24f7e"];

/** Make an element: `el("button", { class: "button", onclick: save }, "Save")`. */
export function el(tag, properties = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.startsWith("on")) {
      node.addEventListener(name.slice(2), value);
    } else if (name in node && name !== "style") {
      node[name] = value;
    } else if (name === "class") {
      node.className = value;
    } else {
      node.setAttribute(name, value);
    }
  }
  node.append(...children);
  return node;
}

/** A round picture with someone's initials; the colour follows from the name. */
export function avatar(name) {
  const initials = name.split(" ").map((part) => part[0]).slice(0, 2).join("");
  const sum = [...name].reduce((total, letter) => total + letter.codePointAt(0), 0);
  const color = AVATAR_COLORS[sum % AVATAR_COLORS.length];
  return el("span", { class: "avatar", style: `background:${color}` }, initials);
}

/** Put the top bar of `app` on the page. */
export function renderTopbar(app, brand) {
  document.body.dataset.app = app;
  const links = APPS.map(([id, name]) =>
    el("a", { href: `/${id}/`, class: id === app ? "current" : "" }, name),
  );
  const user = el("span", { class: "user" }, avatar("Alex Moreau"));
  const bar = el(
    "header",
    { class: "topbar" },
    el("span", { class: "mark" }),
    el("span", { class: "brand line" }, brand),
    el("nav", {}, ...links),
    user,
  );
  document.body.prepend(bar);
}

/** Show a short message in the top bar until the next one or the next click. */
export function toast(text) {
  document.querySelector(".toast")?.remove();
  const message = el("div", { class: "toast", role: "status" }, text);
  document.body.append(message);
  setTimeout(() => {
    document.addEventListener("pointerdown", () => message.remove(), { once: true });
  });
}

/** A labelled field around `control`; `style` gives its place and width. */
export function field(caption, control, style) {
  return el("label", { class: "field", style }, el("span", { class: "caption" }, caption), control);
}
