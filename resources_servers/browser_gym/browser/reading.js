// Reads and fills in a page for `reading.py`, which calls this function in an isolated world: it sees the page's
// DOM but none of its script objects, so nothing that the page redefined is in its way, and the
// page sees nothing of it. What is kept in `globalThis` lasts until the document is left.
//
// A command answers {text} or {error}, both for the model. Points are CSS px of the top viewport: of
// a frame of another site, which is read by itself, `options.place` says where on it the frame is.
(command, options) => {
  const refs = (globalThis.browserGymRefs ??= { elements: new Map(), names: new WeakMap() });
  const MAX_NAME = 80;

  const clean = (text, max = MAX_NAME) => {
    const words = (text ?? "").trim().replace(/\s+/g, " ");
    return words.length > max ? words.slice(0, max) + "…" : words;
  };
  const quoted = text => JSON.stringify(clean(text));

  // ---- The tree as it is drawn: open shadow roots, slots and frames of the same origin.

  const isFrame = element => element.localName === "iframe" || element.localName === "frame";
  const innerDocument = element => isFrame(element) ? element.contentDocument : null;

  // A frame of another site, which is read by itself and told of behind the page.
  const isForeign = element => isFrame(element) && !innerDocument(element)
    && element.clientWidth > 0 && element.clientHeight > 0;

  const childrenOf = element => {
    if (element.shadowRoot) return element.shadowRoot.childNodes;
    const inner = innerDocument(element);
    if (inner) return [inner.body ?? inner.documentElement];
    if (element.localName === "slot" && element.assignedNodes().length)
      return element.assignedNodes();
    if (element.localName === "details" && !element.open)
      return element.querySelectorAll(":scope > summary:first-of-type");
    return childNodes.call(element);
  };

  // A form's fields hide its properties of the same names: go round those that lead through the tree.
  const property = (owner, name) => Object.getOwnPropertyDescriptor(owner.prototype, name).get;
  const parentElement = property(Node, "parentElement");
  const childNodes = property(Node, "childNodes");
  const labelsOf = element => element.localName === "form" ? [] : element.labels ?? [];

  const parentOf = element => {
    const root = Node.prototype.getRootNode.call(element);
    return element.assignedSlot ?? parentElement.call(element)
      ?? (root.nodeType === Node.DOCUMENT_FRAGMENT_NODE ? root.host : root.defaultView?.frameElement)
      ?? null;
  };

  const isShown = element =>
    getComputedStyle(element).display === "contents" || element.checkVisibility();

  const isWithin = (node, ancestor) => {
    for (let at = node; at; at = parentOf(at)) if (at === ancestor) return true;
    return false;
  };

  // ---- Geometry in the top viewport.

  const place = options.place
    ?? { left: 0, top: 0, view: { left: 0, top: 0, right: innerWidth, bottom: innerHeight } };
  const boxOf = (rect, ownerDocument) => {
    let { left, top, right, bottom } = rect;
    for (let frame; (frame = ownerDocument.defaultView?.frameElement);) {
      const outer = frame.getBoundingClientRect();
      const [dx, dy] = [outer.left + frame.clientLeft, outer.top + frame.clientTop];
      [left, right, top, bottom] = [left + dx, right + dx, top + dy, bottom + dy];
      ownerDocument = frame.ownerDocument;
    }
    return {
      left: left + place.left, top: top + place.top, right: right + place.left, bottom: bottom + place.top,
    };
  };
  const rectOf = element => boxOf(element.getBoundingClientRect(), element.ownerDocument);
  const viewport = place.view;
  const centre = box => [(box.left + box.right) / 2, (box.top + box.bottom) / 2];
  const isInside = (x, y, box) => x >= box.left && x < box.right && y >= box.top && y < box.bottom;
  const overlap = (a, b) => ({
    left: Math.max(a.left, b.left), top: Math.max(a.top, b.top),
    right: Math.min(a.right, b.right), bottom: Math.min(a.bottom, b.bottom),
  });
  const shownPoint = (x, y) => `(${Math.round(x * 10) / 10}, ${Math.round(y * 10) / 10})`;

  // What cuts an element off, innermost first: `{box, scrolls}`. Of what lies round the top layer
  // (the list of an open select, a popover, a modal dialog, full screen), only the frame does.
  const clipsOf = element => {
    const clips = [];
    for (let at = element, inner = null, fixed = false; at; inner = at, at = parentOf(at)) {
      if (inner && inner.localName !== "button" && at.matches("select:open"))
        at = at.ownerDocument.documentElement;
      const style = getComputedStyle(at);
      const root = at === at.ownerDocument.documentElement || at === at.ownerDocument.body;
      if (at !== element && innerDocument(at)) {
        clips.push({ box: rectOf(at), scrolls: true });
        fixed = false;
      } else if (at !== element && !root && !fixed && style.display !== "contents"
          && style.overflow !== "visible") {
        clips.push({ box: rectOf(at), scrolls: /auto|scroll/.test(style.overflow) });
      }
      if (at.matches(":popover-open, :modal, :fullscreen")) at = at.ownerDocument.documentElement;
      fixed ||= style.position === "fixed";
    }
    return clips;
  };

  const elementAt = (x, y) => {
    [x, y] = [x - place.left, y - place.top];
    for (let root = document, element = null; ;) {
      const next = root.elementFromPoint(x, y);
      if (!next || next === element) return element;
      element = next;
      const inner = innerDocument(element);
      if (inner) {
        const frame = element.getBoundingClientRect();
        [x, y] = [x - frame.left - element.clientLeft, y - frame.top - element.clientTop];
      }
      root = inner ?? element.shadowRoot;
      if (!root) return element;
    }
  };

  // Whether a click at a point would reach an element, or the control of its label.
  const isReached = (element, x, y) => {
    const hit = elementAt(x, y);
    return !!hit && (isWithin(hit, element) || isWithin(element, hit)
      || hit.closest("label")?.control === element);
  };

  // Whether clicks go past an element, as they do where it is inert, to what lies there.
  const letsClicksPass = element => {
    if (getComputedStyle(element).pointerEvents === "none") return true;
    for (let at = element; at; at = parentOf(at)) if (at.matches("[inert]")) return true;
    return false;
  };

  // The same for an element that is to be clicked itself, not the text in it.
  const isClicked = (element, x, y) => {
    if (!isReached(element, x, y)) return false;
    const hit = elementAt(x, y);
    return isWithin(hit, element) || hit.closest("label")?.control === element || !letsClicksPass(element);
  };

  // How far to scroll a box so that a point comes to its middle, in the direction that it is out of.
  const by = (x, y, box) => {
    const [midX, midY] = centre(box);
    const parts = [];
    if (x < box.left || x >= box.right) parts.push(`dx ${Math.round(x - midX)}`);
    if (y < box.top || y >= box.bottom) parts.push(`dy ${Math.round(y - midY)}`);
    return parts.join(", ");
  };

  const whereIs = (element, box) => {
    let [x, y] = centre(box);
    for (const clip of clipsOf(element)) {
      if (isInside(x, y, clip.box)) continue;
      if (!clip.scrolls) return "hidden by what it lies in";
      const [overX, overY] = centre(clip.box);
      if (isInside(overX, overY, viewport))
        return `off screen, scroll at ${shownPoint(overX, overY)} by ${by(x, y, clip.box)}`;
      [x, y] = [overX, overY]; // what scrolls must come on the screen first
    }
    if (!isInside(x, y, viewport)) return `off screen, scroll by ${by(x, y, viewport)}`;
    return `at ${shownPoint(x, y)}` + (isReached(element, x, y) ? "" : ", covered");
  };

  // ---- Text.

  // What is drawn for an element whose child nodes are not: fields, and things without text.
  const fieldText = element => {
    switch (element.localName) {
      case "input":
        if (/^(hidden|checkbox|radio|range|color|file|image)$/.test(element.type)) return "";
        if (element.type === "password") return "•".repeat(element.value.length);
        if (element.type === "submit") return element.value || "Submit";
        if (element.type === "reset") return element.value || "Reset";
        return element.value || element.placeholder;
      case "textarea":
        return element.value || element.placeholder;
      case "select": {
        const list = element.multiple || element.size > 1;
        const options = list ? element.options : element.selectedOptions;
        return [...options].map(option => option.label).join(", ");
      }
      case "canvas": case "video": case "audio": case "meter": case "progress":
        return "";
    }
    return null;
  };

  const isTypedInto = element => element.localName === "textarea"
    || element.localName === "input" && !/^(button|submit|reset)$/.test(element.type);

  // The visible text up to about `limit` characters, and of each piece where it came from:
  // `{start, node, offset}` for a word, `{start, element}` for a field. Without `typed` it is without
  // what somebody may have typed into the page.
  const visibleText = (limit, typed = true) => {
    const GAPS = ["", " ", "\t", "\n"];
    const pieces = [];
    let text = "", gap = "", unread = 0;
    const separate = by => { if (GAPS.indexOf(by) > GAPS.indexOf(gap)) gap = by; };
    const add = (string, source) => {
      if (text) text += gap;
      gap = "";
      pieces.push({ start: text.length, ...source });
      text += string;
    };
    const addWords = (node, style) => {
      const keepLines = style.whiteSpaceCollapse !== "collapse";
      const blank = string => separate(keepLines && string.includes("\n") ? "\n" : " ");
      let end = 0;
      for (const word of node.data.matchAll(/\S+/g)) {
        if (word.index > end) blank(node.data.slice(end, word.index));
        add(word[0], { node, offset: word.index });
        end = word.index + word[0].length;
        if (text.length > limit) return;
      }
      if (end < node.data.length) blank(node.data.slice(end));
    };
    const visit = (node, parentStyle) => {
      if (text.length > limit) return;
      if (node.nodeType === Node.TEXT_NODE) {
        if (parentStyle?.visibility === "visible") addWords(node, parentStyle);
        return;
      }
      if (node.nodeType !== Node.ELEMENT_NODE || !isShown(node)) return;
      const style = getComputedStyle(node);
      if (style.opacity === "0") return;
      if (node.localName === "br") return separate("\n");
      const edge = style.display === "inline" || style.display === "contents" ? ""
        : style.display === "table-cell" ? "\t" : style.display.startsWith("inline") ? " " : "\n";
      separate(edge);
      const field = fieldText(node);
      if (field === null) {
        if (isForeign(node)) unread += 1;
        for (const child of childrenOf(node)) visit(child, style);
      } else if (field && style.visibility === "visible" && (typed || !isTypedInto(node))) {
        separate(" ");
        add(field, { element: node });
        separate(" ");
      }
      separate(edge);
    };
    visit(document.body ?? document.documentElement);
    return { text, pieces, unread };
  };

  const pageText = ({ max }) => {
    const { text, unread } = visibleText(max);
    const notes = [];
    if (text.length > max)
      notes.push(`[cut after ${max} characters: look for the rest with find]`);
    const shown = [text.slice(0, max) || "(the page shows no text)", ...notes].join("\n");
    return { text: shown, found: !!text, unread };
  };

  const find = ({ query, max, readMax }) => {
    const words = query.trim().split(/\s+/).filter(word => word);
    if (!words.length) return { error: "give some text to find" };
    const pattern = words.map(word => word.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&")).join("\\s+");
    const { text, pieces } = visibleText(readMax);
    const pieceAt = index => pieces[pieces.findLastIndex(piece => piece.start <= index)];
    const lines = [];
    let count = 0;
    for (const { index, 0: found } of text.matchAll(new RegExp(pattern, "giu"))) {
      count += 1;
      if (count > max) continue;
      const first = pieceAt(index), last = pieceAt(index + found.length - 1);
      let element = first.element, box;
      if (element) {
        box = rectOf(element);
      } else {
        element = first.node.parentElement ?? first.node.getRootNode().host;
        const range = first.node.ownerDocument.createRange();
        range.setStart(first.node, first.offset + index - first.start);
        // A range cannot reach into another tree, nor into a field.
        if (last.node?.getRootNode() === first.node.getRootNode())
          range.setEnd(last.node, last.offset + index + found.length - last.start);
        else range.setEnd(first.node, first.node.length);
        const rects = [...range.getClientRects()].filter(rect => rect.width && rect.height);
        box = boxOf(rects[0] ?? range.getBoundingClientRect(), first.node.ownerDocument);
      }
      const before = text.slice(Math.max(0, index - 30), index).split("\n").at(-1);
      const after = text.slice(index + found.length, index + found.length + 30).split("\n")[0];
      lines.push(`${quoted(before + found + after)} ${whereIs(element, box)}`);
    }
    const head = count ? `${count} match(es)` + (count > max ? `, the first ${max}:` : ":")
      : `no visible text matches ${quoted(query)}`;
    const rest = text.length > readMax ? [`[only the first ${readMax} characters were read]`] : [];
    return { text: [head, ...lines, ...rest].join("\n"), found: count > 0 };
  };

  // ---- Elements.

  const ROLES = "button|link|checkbox|radio|switch|tab|menuitem|menuitemcheckbox|menuitemradio|option"
    + "|combobox|textbox|searchbox|slider|spinbutton|treeitem|gridcell";
  const INTERACTIVE = "a[href],area[href],button,input:not([type=hidden]),select,textarea,summary,option,"
    + "[contenteditable]:not([contenteditable=false]),[onclick],[draggable=true],"
    + "[tabindex]:not([tabindex='-1'])," + ROLES.split("|").map(role => `[role=${role}]`).join(",");

  // Styles that the caller has are given, as each costs a look-up.
  const isInteractive = (element, style = getComputedStyle(element), outerStyle = null) => {
    if (element.matches(INTERACTIVE)) return true;
    // The label stands for a control that is not drawn itself.
    if (element.localName === "label" && element.control)
      return !element.control.checkVisibility() || element.control.offsetWidth < 2;
    // Pages with handlers set by script show them by the pointer only.
    if (style.cursor !== "pointer") return false;
    const parent = parentOf(element);
    return !!parent && (outerStyle ?? getComputedStyle(parent)).cursor !== "pointer";
  };

  const roleOf = element => {
    // The page's own words, of which the first that may be a role counts.
    const role = /^\s*([\w-]{1,40})(?!\S)/.exec(element.getAttribute("role") ?? "")?.[1];
    if (role) return role;
    switch (element.localName) {
      case "a": case "area": return "link";
      case "select": return element.multiple || element.size > 1 ? "listbox" : "combobox";
      case "textarea": return "textbox";
      case "summary": return "button";
      case "input":
        if (/^(button|submit|reset|image)$/.test(element.type)) return "button";
        return /^(text|search|email|url|tel)$/.test(element.type) ? "textbox" : element.type;
    }
    return element.isContentEditable ? "textbox" : element.localName;
  };

  const plainText = node => node.nodeType === Node.TEXT_NODE ? node.data
    : /^(select|textarea|script|style)$/.test(node.localName ?? "") ? ""
    : [...childrenOf(node)].map(plainText).join(" ");

  const nameOf = element => {
    const root = element.getRootNode();
    const named = (element.getAttribute("aria-labelledby") ?? "").split(/\s+/)
      .map(id => (id && root.getElementById?.(id)?.textContent) || "").join(" ");
    const ofButton = element.localName === "input" && roleOf(element) === "button";
    const isField = /^(input|select|textarea)$/.test(element.localName) || element.isContentEditable;
    const texts = [
      () => named, () => element.getAttribute("aria-label"),
      () => [...labelsOf(element)].map(plainText).join(" "),
      () => ofButton ? fieldText(element) || element.alt : "",
      () => isField ? "" : plainText(element),
      () => element.querySelector("img[alt]")?.alt, () => element.querySelector("title")?.textContent,
      () => element.getAttribute("alt"), () => element.getAttribute("title"),
      () => element.getAttribute("placeholder"), () => isField ? element.getAttribute("name") : "",
    ];
    for (const text of texts) if (clean(text())) return text();
    return "";
  };

  const stateOf = element => {
    const states = [];
    const checkable = element.localName === "input" && /^(checkbox|radio)$/.test(element.type);
    if (checkable) states.push(element.indeterminate ? "mixed" : element.checked ? "checked" : "not checked");
    else if (element.hasAttribute("aria-checked"))
      states.push({ true: "checked", mixed: "mixed" }[element.getAttribute("aria-checked")] ?? "not checked");
    else if (element.localName === "select")
      states.push(`value ${quoted([...element.selectedOptions].map(option => option.label).join(", "))}`);
    else if (element.isContentEditable) states.push(`value ${quoted(element.innerText)}`);
    else if (/^(input|textarea)$/.test(element.localName) && roleOf(element) !== "button")
      states.push(`value ${quoted(element.type === "password" ? fieldText(element) : element.value)}`);
    if (element.localName === "option" && element.selected || element.getAttribute("aria-selected") === "true")
      states.push("selected");
    if (element.matches(":disabled,[aria-disabled=true]")) states.push("disabled");
    if (element.getAttribute("aria-pressed") === "true") states.push("pressed");
    if (!/^(false)?$/.test(element.getAttribute("aria-current") ?? "")) states.push("current");
    if (element.hasAttribute("aria-expanded"))
      states.push(element.getAttribute("aria-expanded") === "true" ? "expanded" : "collapsed");
    return states;
  };

  const refOf = element => {
    if (!refs.names.has(element)) {
      let ref;
      // One that was given by a call whose answer nobody waited for is not given again.
      do ref = `${options.prefix}e${options.nextRef++}`; while (refs.elements.has(ref));
      refs.names.set(element, ref);
      refs.elements.set(ref, new WeakRef(element));
    }
    return refs.names.get(element);
  };

  const isSeen = box => box.right - box.left >= 1 && box.bottom - box.top >= 1;

  // The largest part of an element that is on the screen, or null.
  const visiblePart = element => {
    const area = rect => rect.width * rect.height;
    const rects = [...element.getClientRects()].sort((a, b) => area(b) - area(a));
    if (!rects.length) return null;
    let box = overlap(boxOf(rects[0], element.ownerDocument), viewport);
    if (!isSeen(box)) return null;
    for (const clip of clipsOf(element)) box = overlap(box, clip.box);
    return isSeen(box) ? box : null;
  };

  const listElements = ({ max }) => {
    const lines = [];
    let count = 0;
    const visit = element => {
      if (element.nodeType !== Node.ELEMENT_NODE || !isShown(element)) return;
      if (getComputedStyle(element).visibility === "visible" && isInteractive(element)) {
        const box = visiblePart(element);
        if (box && isClicked(element, ...centre(box)) && ++count <= max) {
          const control = element.localName === "label" ? element.control : element;
          const rect = element.getBoundingClientRect();
          lines.push([
            `${refOf(element)} ${roleOf(control)} ${quoted(nameOf(control))}`, ...stateOf(control),
            `at ${shownPoint(...centre(box))}`, `${Math.round(rect.width)}x${Math.round(rect.height)} px`,
          ].join(", "));
        }
      }
      for (const child of childrenOf(element)) visit(child);
    };
    visit(document.body ?? document.documentElement);
    if (!count) lines.push("no interactive element is on the screen");
    if (count > max) lines.push(`[${count - max} more are left out]`);
    return { text: lines.join("\n"), found: count > 0, nextRef: options.nextRef };
  };

  // ---- Values.

  const FORMATS = {
    date: "YYYY-MM-DD", time: "HH:MM, 24 hours", month: "YYYY-MM", week: "YYYY-Www",
    "datetime-local": "YYYY-MM-DDTHH:MM", color: "#rrggbb", number: "a number",
  };

  // A text as an input of this type would hold it, or null if it would not.
  const accepted = (type, text) => {
    if (type === "color") return /^#[0-9a-f]{6}$/i.test(text) ? text.toLowerCase() : null;
    const probe = document.createElement("input");
    probe.type = type;
    probe.value = text;
    return probe.value || !text ? probe.value : null;
  };

  const fireChange = (element, text) => {
    element.dispatchEvent(text === undefined ? new Event("input", { bubbles: true, composed: true })
      : new InputEvent("input",
        { bubbles: true, composed: true, inputType: "insertReplacementText", data: text }));
    element.dispatchEvent(new Event("change", { bubbles: true }));
  };

  // In this world `value` is the browser's own, whatever a framework put over it on the page's side.
  const fill = (element, text) => {
    element.focus();
    if (element.value === text) return;
    element.value = text;
    fireChange(element, text);
  };

  const setInput = (element, value) => {
    const type = element.type;
    if (/^(hidden|button|submit|reset|image)$/.test(type))
      throw `${type} inputs have no value to set: click it instead`;
    if (Array.isArray(value)) throw "give one value, not a list";
    if (type === "checkbox" || type === "radio") {
      if (typeof value !== "boolean") throw "give true or false";
      if (type === "radio" && !value) throw "a radio button is left by choosing another one of its group";
      element.focus();
      if (element.checked !== value) element.click(); // sends input and change
      if (element.checked !== value) throw "the page did not let it be changed";
      return;
    }
    if (typeof value === "boolean") throw `give ${FORMATS[type] ?? "text"}, not true or false`;
    let text = String(value);
    if (type === "range") {
      const [min, max] = [Number(element.min || 0), Number(element.max || 100)];
      if (!text.trim() || !(Number(text) >= min && Number(text) <= max))
        throw `give a number from ${min} to ${max}` + (element.step ? ` in steps of ${element.step}` : "");
    } else if (FORMATS[type]) {
      text = accepted(type, text);
      if (text === null) throw `give ${FORMATS[type]}`;
    }
    if (element.maxLength >= 0 && text.length > element.maxLength && !FORMATS[type])
      throw `at most ${element.maxLength} characters are allowed`;
    fill(element, text);
  };

  const setSelect = (select, value) => {
    const wanted = (Array.isArray(value) ? value : [value]).map(String);
    if (!select.multiple && wanted.length !== 1) throw "give one option, not a list";
    const options = [...select.options].filter(option => !option.matches(":disabled"));
    const folded = text => clean(text).toLowerCase();
    const pick = text => options.find(option => option.value === text)
      ?? options.find(option => clean(option.label) === clean(text))
      ?? options.find(option => folded(option.label) === folded(text));
    const chosen = wanted.map(pick);
    const missing = chosen.indexOf(undefined);
    if (missing >= 0) {
      const names = options.slice(0, 50).map(option => quoted(option.label)).join(", ");
      throw `there is no option ${quoted(wanted[missing])}: choose from ${names}`
        + (options.length > 50 ? ` and ${options.length - 50} more` : "");
    }
    const picture = () => [...select.options].map(option => option.selected).join();
    const before = picture();
    select.focus();
    if (select.multiple) for (const option of select.options) option.selected = chosen.includes(option);
    else select.selectedIndex = chosen[0].index;
    if (picture() !== before) fireChange(select);
  };

  const setEditable = (element, value) => {
    if (typeof value !== "string" && typeof value !== "number") throw "give text";
    const page = element.ownerDocument;
    element.focus();
    if (element.innerText === String(value)) return;
    page.getSelection().selectAllChildren(element);
    // Old, but the one way in which editors notice a change as if it had been typed.
    page.execCommand(value === "" ? "delete" : "insertText", false, String(value));
  };

  const fieldAt = element => {
    const select = element.closest("select");
    if (select || /^(input|textarea)$/.test(element.localName)) return select ?? element;
    if (!element.isContentEditable) return element.closest("label")?.control ?? element;
    while (element.parentElement?.isContentEditable) element = element.parentElement;
    return element;
  };

  const setValue = ({ x, y, ref, value, files }) => {
    const target = ref ? elementOf(ref) : elementAt(x, y);
    if (ref && !target) return { error: goneText(ref) };
    if (!target) return { error: `there is nothing at ${shownPoint(x, y)}` };
    const element = fieldAt(target);
    const what = `${roleOf(element)} ${quoted(nameOf(element))}`;
    const isField = /^(input|select|textarea)$/.test(element.localName) || element.isContentEditable;
    try {
      if (element.matches(":disabled")) throw "it is disabled";
      if (element.localName === "input" && element.type === "file") {
        refs.upload = element; // only the browser can put files there
        return { upload: { multiple: element.multiple }, what };
      }
      if (!isField && files.length && [value].flat().every(name => files.includes(name))) {
        const [dropX, dropY] = ref ? centre(rectOf(element)) : [x, y];
        return { drop: { x: dropX, y: dropY }, what };
      }
      if (element.readOnly && element.matches(":read-only")) throw "it is read-only";
      if (element.localName === "input") setInput(element, value);
      else if (element.localName === "select") setSelect(element, value);
      else if (element.localName === "textarea") {
        if (typeof value !== "string" && typeof value !== "number") throw "give text";
        if (element.maxLength >= 0 && String(value).length > element.maxLength)
          throw `at most ${element.maxLength} characters are allowed`;
        fill(element, String(value));
      } else if (element.isContentEditable) setEditable(element, value);
      else throw "this is no field whose value can be set: click it instead";
    } catch (reason) {
      if (typeof reason !== "string") throw reason;
      return { error: `${what}: ${reason}` };
    }
    return { text: `${what} is now ${stateOf(element)[0]}` };
  };

  const focusedElement = () => {
    let element = document.activeElement;
    for (let inner; (inner = element && (innerDocument(element) ?? element.shadowRoot)?.activeElement);)
      element = inner;
    return element;
  };

  // Fill the focused date, time or color input if the text is a whole value of it.
  const fillFocused = ({ text }) => {
    const element = focusedElement();
    const fits = element?.localName === "input" && element.type !== "number" && FORMATS[element.type]
      && !element.readOnly && !element.disabled && accepted(element.type, text);
    if (fits) fill(element, accepted(element.type, text));
    return { filled: !!fits };
  };

  // ---- What is graded at the end: the visible text, and what CSS selectors match, shown or not, in
  // the page, its open shadow roots and its frames of the same origin.

  const matching = (root, selector) =>
    (root.nodeType === Node.DOCUMENT_NODE ? Document : DocumentFragment)
      .prototype.querySelectorAll.call(root, selector);

  const rootsIn = root => [root, ...[...matching(root, "*")]
    .map(element => element.shadowRoot ?? innerDocument(element)).filter(inner => inner)
    .flatMap(rootsIn)];

  // The text in an element, shown or not; words are apart only where they are drawn apart.
  const allText = node => {
    if (node.nodeType === Node.TEXT_NODE) return node.data;
    if (node.nodeType !== Node.ELEMENT_NODE || /^(select|textarea|script|style)$/.test(node.localName))
      return "";
    const inner = [...childrenOf(node)].map(allText).join("");
    const isInline = /^(inline|contents)$/.test(getComputedStyle(node).display);
    return isInline && node.localName !== "br" ? inner : ` ${inner} `;
  };

  const finalPage = ({ text, selectors, max, most, maxEach }) => {
    const roots = selectors.length ? rootsIn(document) : [];
    const found = selectors.map(selector => {
      const elements = roots.flatMap(root => [...matching(root, selector)]);
      const texts = elements.slice(0, most)
        .map(element => clean(fieldText(element) ?? allText(element), maxEach));
      return { count: elements.length, texts };
    });
    return { text: text ? visibleText(max, false).text.slice(0, max) : null, found };
  };

  const badSelector = ({ selectors }) => {
    for (const selector of selectors) {
      try {
        matching(new DocumentFragment(), selector);
      } catch (error) {
        return { selector, reason: error.message };
      }
    }
    return null;
  };

  /* elements.js */

  return {
    pageText, find, listElements, setValue, fillFocused, observe, locate, caretToEnd, places, throughFrame,
    finalPage, badSelector,
  }[command](options);
}
