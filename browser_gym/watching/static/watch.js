// Asks what the sessions do, once a second while somebody looks. What pages and models say goes into
// the page as text only.

const PAUSE_MS = 1000;
const cards = new Map();
let chosen = null;

function byId(id) {
  return document.getElementById(id);
}

function say(element, words) {
  if (element.textContent !== words) element.textContent = words;
}

function ago(seconds) {
  if (seconds < 120) return `${Math.round(seconds)} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  return `${Math.round(seconds / 3600)} h`;
}

function named(session) {
  return session.task_id || session.env_id;
}

/** Shows a session's picture, loaded anew only if it did something since. */
function show(image, session) {
  image.hidden = !session.picture;
  if (!session.picture) return;
  const asked = new URLSearchParams({ env_id: session.env_id, step: session.steps });
  const source = `picture?${asked}`;
  if (image.getAttribute("src") !== source) image.setAttribute("src", source);
}

function newCard(id) {
  const card = document.createElement("li");
  const button = document.createElement("button");
  button.type = "button";
  button.className = "card";
  button.addEventListener("click", () => open(id));
  const image = document.createElement("img");
  image.alt = "";
  const lines = ["task", "state", "action", "dim"].map((name) => {
    const line = document.createElement("span");
    line.className = name;
    return line;
  });
  button.append(image, ...lines);
  card.append(button);
  return { card, image, lines };
}

function update({ image, lines }, session) {
  show(image, session);
  const [task, state, action, page] = lines;
  say(task, named(session));
  say(state, `${session.state} for ${ago(session.since_request_s)}, step ${session.steps}, open for ${ago(session.age_s)}`);
  say(action, session.doing.join(", ") || "no action yet");
  say(page, session.url);
}

function render(look) {
  say(byId("summary"), look.summary);
  byId("none").hidden = look.sessions.length > 0;
  const list = byId("sessions");
  const running = new Set(look.sessions.map((session) => session.env_id));
  for (const [id, { card }] of cards) {
    if (!running.has(id)) {
      card.remove();
      cards.delete(id);
    }
  }
  for (const session of look.sessions) {
    if (!cards.has(session.env_id)) {
      cards.set(session.env_id, newCard(session.env_id));
      list.append(cards.get(session.env_id).card);
    }
    const parts = cards.get(session.env_id);
    parts.session = session;
    update(parts, session);
  }
  if (chosen) detail();
}

function open(id) {
  chosen = id;
  detail();
  byId("one").showModal();
}

function detail() {
  const session = cards.get(chosen)?.session;
  if (!session) {
    say(byId("one-title"), "The session has ended");
    return;
  }
  say(byId("one-title"), named(session));
  show(byId("one-picture"), session);
  const facts = [
    ["state", `${session.state} for ${ago(session.since_request_s)}`],
    ["step", `${session.steps}`],
    ["age", ago(session.age_s)],
    ["actions", session.doing.join(", ")],
    ["title", session.title],
    ["address", session.url],
    ["tabs", `${session.tabs}`],
    ["viewport", `${session.viewport_width} × ${session.viewport_height}`],
    ["episode", session.episode_id],
    ["session", session.env_id],
  ];
  const parts = facts.filter(([, value]) => value).flatMap(([name, value]) => {
    const pair = [document.createElement("dt"), document.createElement("dd")];
    pair[0].textContent = name;
    pair[1].textContent = value;
    return pair;
  });
  byId("one-facts").replaceChildren(...parts);
}

function complain(words) {
  const error = byId("error");
  error.hidden = !words;
  say(error, words);
}

async function look() {
  try {
    const answer = await fetch("look");
    if (!answer.ok) throw new Error(await answer.text());
    render(await answer.json());
    complain("");
  } catch (error) {
    const gone = error instanceof TypeError;
    complain(gone ? "browser-gym watch does not answer any more" : error.message);
  }
}

function visible() {
  if (!document.hidden) return Promise.resolve();
  return new Promise((resolve) => {
    document.addEventListener("visibilitychange", resolve, { once: true });
  });
}

byId("one").addEventListener("close", () => {
  chosen = null;
});

for (;;) {
  await visible();
  await look();
  await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
}
