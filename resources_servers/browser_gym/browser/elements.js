  // Part of reading.js, which has the helpers: the page with its elements named where they stand,
  // where a named element can be clicked, and where the frames of other sites are on the screen.

  const LONGEST_LINE = 1000;
  const LINE_END = 300; // a longer line goes on in a new one
  const MAX_OPTIONS = 30;

  // What is seen of the content of an element: the screen without what its ancestors cut off.
  const seenPart = element => {
    let box = viewport;
    for (const clip of clipsOf(element)) box = overlap(box, clip.box);
    const cuts = getComputedStyle(element).overflow !== "visible";
    return cuts && parentElement.call(element) ? overlap(box, rectOf(element)) : box;
  };

  // The lines of the page: `{text, elements, isSeen, sources}`: how many elements are in it, whether
  // one of them is on the screen, and what else its words came from.
  const readLines = limit => {
    const GAPS = ["", " ", "\t", "\n"];
    const lines = [];
    let gap = "\n", total = 0, unread = 0;
    const separate = by => { if (GAPS.indexOf(by) > GAPS.indexOf(gap)) gap = by; };
    const startIn = () => {
      if (gap === "\n" || lines.at(-1).text.length > LINE_END)
        lines.push({ text: "", elements: 0, isSeen: false, sources: [] });
      const line = lines.at(-1);
      if (line.text) line.text += gap;
      gap = "";
      return line;
    };
    const put = (string, source) => {
      const line = startIn();
      line.text += string;
      line.sources.push(source);
      total += string.length;
    };
    const putText = (text, keepsLines, source) => {
      (keepsLines ? text.split("\n") : [text]).forEach((part, number) => {
        if (number) separate("\n");
        const words = part.replace(/\s+/g, " ");
        if (words.startsWith(" ")) separate(" ");
        if (words.trim()) put(words.trim(), source);
        if (words.endsWith(" ")) separate(" ");
      });
    };
    // Puts `[e1 role "name", state]`; tells whether that says all there is in the element.
    const putElement = element => {
      const control = element.localName === "label" ? element.control : element;
      const isField = /^(input|select|textarea)$/.test(control.localName);
      const holdsMore = !isField && !!element.querySelector(INTERACTIVE);
      const text = isField ? "" : clean(plainText(element), 10 * MAX_NAME);
      const name = clean(holdsMore || text.length > MAX_NAME
        ? element.getAttribute("aria-label") ?? element.getAttribute("title") : nameOf(control), MAX_NAME);
      const long = control.isContentEditable
        || control.localName === "textarea" && /\n|.{80}/.test(control.value);
      const parts = stateOf(control).filter(state => !(long && state.startsWith("value ")));
      if (control.localName === "select") {
        const usable = [...control.options].filter(option => !option.matches(":disabled"));
        const labels = usable.slice(0, MAX_OPTIONS).map(option => quoted(option.label));
        const more = usable.length - labels.length;
        parts.push(`options ${labels.join(" ")}${more > 0 ? ` and ${more} more` : ""}`);
      }
      const box = visiblePart(element);
      if (control.readOnly && control.matches(":read-only")) parts.push("read-only");
      if (box && !reachablePoints(element, box).length) parts.push("covered");
      const head = [refOf(element), roleOf(control), ...(name ? [quoted(name)] : [])].join(" ");
      const line = startIn();
      line.text += `[${[head, ...parts].join(", ")}]`;
      line.elements += 1;
      line.isSeen ||= !!box;
      total += head.length;
      if (isField && long) {
        separate("\n");
        putText(control.value, true, element);
        separate("\n");
      }
      return isField || !holdsMore && (!text || name.includes(text));
    };
    const visit = (node, parentStyle) => {
      if (total > limit) return;
      if (node.nodeType === Node.TEXT_NODE) {
        if (parentStyle?.visibility === "visible")
          putText(node.data, parentStyle.whiteSpaceCollapse !== "collapse", node);
        return;
      }
      if (node.nodeType !== Node.ELEMENT_NODE) return;
      const style = getComputedStyle(node);
      // What it lies in is shown, so this is all that can hide it.
      if (style.display === "none" || parentStyle?.contentVisibility === "hidden") return;
      // Controls are often made invisible and lie over what is drawn for them.
      if (style.opacity === "0" && node.localName !== "input") return;
      if (node.localName === "br") return separate("\n");
      const edge = style.display === "inline" || style.display === "contents" ? ""
        : style.display === "table-cell" ? "\t" : style.display.startsWith("inline") ? " " : "\n";
      separate(edge);
      const visible = style.visibility === "visible";
      if (!(visible && isInteractive(node, style, parentStyle) && (separate(" "), putElement(node)))) {
        if (visible && isForeign(node)) {
          unread += 1;
          put(`[frame ${clean(node.src)}: see below]`, node);
        }
        if (visible && node.localName === "img" && node.alt) put(`[image ${quoted(node.alt)}]`, node);
        if (fieldText(node) === null) for (const child of childrenOf(node)) visit(child, style);
      } else separate(" ");
      separate(edge);
    };
    visit(document.body ?? document.documentElement);
    return { lines, unread, whole: total <= limit };
  };

  const isOnScreen = (line, seen) => line.isSeen || line.sources.some(source => {
    if (source.nodeType === Node.ELEMENT_NODE) return !!visiblePart(source);
    const range = source.ownerDocument.createRange();
    range.selectNode(source);
    const box = overlap(boxOf(range.getBoundingClientRect(), source.ownerDocument), viewport);
    if (!isSeen(box)) return false;
    const parent = parentElement.call(source) ?? source.getRootNode().host;
    if (!seen.has(parent)) seen.set(parent, seenPart(parent));
    return isSeen(overlap(box, seen.get(parent)));
  });

  // Of lines that are too many: those on the screen, then those that follow them.
  const chosenLines = (lines, max) => {
    const chosen = new Set();
    let left = max, last = -1;
    const take = index => {
      left -= lines[index].text.length + 1;
      if (left >= 0) chosen.add(index);
      return left >= 0;
    };
    const seen = new Map();
    for (let index = 0; index < lines.length && left > 0; index++)
      if (isOnScreen(lines[index], seen) && take(index)) last = index;
    for (let index = last + 1; index < lines.length && left > 0; index++)
      if (!chosen.has(index) && !take(index)) break;
    return chosen;
  };

  const leftOut = lines => {
    const elements = lines.reduce((sum, line) => sum + line.elements, 0);
    return `[… ${elements} more element(s) in ${lines.length} line(s): scroll there or give a query]`;
  };

  const observe = ({ max, query, readMax }) => {
    const { lines, unread, whole } = readLines(readMax);
    for (const line of lines)
      if (line.text.length > LONGEST_LINE) line.text = line.text.slice(0, LONGEST_LINE) + "…";
    const folded = text => clean(text, Infinity).toLowerCase();
    const found = query ? lines.filter(line => folded(line.text).includes(folded(query))) : lines;
    const size = found.reduce((sum, line) => sum + line.text.length + 1, 0);
    const chosen = size > max ? chosenLines(found, max) : null;
    const rows = [];
    let gap = [];
    const closeGap = () => {
      if (gap.length) rows.push(leftOut(gap));
      gap = [];
    };
    found.forEach((line, index) => {
      if (chosen && !chosen.has(index)) return gap.push(line);
      closeGap();
      rows.push(line.text);
    });
    closeGap();
    if (!found.length) rows.push(query ? `(no line has ${quoted(query)})` : "(the page shows nothing)");
    if (!whole) rows.push(`[only the first ${readMax} characters were read]`);
    return { text: rows.join("\n"), found: found.length > 0, unread, nextRef: options.nextRef };
  };

  // ---- Where a named element can be clicked.

  const SPOTS = [[.5, .5], [.5, .2], [.5, .8], [.2, .5], [.8, .5], [.05, .05], [.95, .05], [.05, .95], [.95, .95]];

  // Points where a click reaches an element, those that are not on an element inside it first.
  const reachablePoints = (element, box = visiblePart(element)) => {
    if (!box) return [];
    const at = ([a, b]) => [box.left + a * (box.right - box.left), box.top + b * (box.bottom - box.top)];
    if (isClicked(element, ...at(SPOTS[0])) && !element.firstElementChild) return [at(SPOTS[0])];
    const points = SPOTS.map(at).filter(([x, y]) => isClicked(element, x, y));
    const isOwn = ([x, y]) => {
      for (let hit = elementAt(x, y); hit && hit !== element && isWithin(hit, element); hit = parentOf(hit))
        if (hit.matches(INTERACTIVE)) return false;
      return true;
    };
    return [...points.filter(isOwn), ...points.filter(point => !isOwn(point))];
  };

  const describe = element => `${roleOf(element)} ${quoted(nameOf(element))}`;

  const elementOf = ref => {
    const element = refs.elements.get(ref)?.deref();
    return element && isWithin(element, document.documentElement) ? element : null;
  };

  const goneText = ref => `element ${quoted(ref)} is not on this page (any more): look at its elements again`;

  const locate = ({ ref, mustWork }) => {
    const element = elementOf(ref);
    if (!element) return { error: goneText(ref) };
    const field = fieldAt(element);
    if (mustWork && field.matches(":disabled")) return { error: `${describe(field)} is disabled` };
    let points = reachablePoints(element);
    if (!points.length) {
      element.scrollIntoView({ block: "center", inline: "center", behavior: "instant" });
      points = reachablePoints(element);
    }
    if (!points.length) {
      const box = visiblePart(element);
      const hit = box && elementAt(...centre(box));
      const why = !hit ? "is not visible" : isWithin(element, hit) ? "takes no clicks" : `is covered by ${describe(hit)}`;
      return { error: `${describe(field)} ${why}` };
    }
    const takesKeys = field.localName !== "select"
      && !(field.localName === "input" && /^(range|color|file|date|time|month|week|datetime-local)$/.test(field.type));
    return { points, takesKeys };
  };

  // Put the caret behind what is in the focused field; false if only keys can.
  const caretToEnd = () => {
    const element = focusedElement();
    if (element?.isContentEditable) {
      const selection = element.ownerDocument.getSelection();
      selection.selectAllChildren(fieldAt(element));
      selection.collapseToEnd();
      return { done: true };
    }
    if (!/^(input|textarea)$/.test(element?.localName ?? "")) return { done: true };
    try {
      element.setSelectionRange(element.value.length, element.value.length);
    } catch {
      return { done: false }; // an email or number field has no selection
    }
    return { done: true };
  };

  // ---- Frames of other sites, each of which is read by itself.

  // A window's place in the tree of frames: its number in its parent, and so on from the top.
  const pathOf = frame => {
    const path = [];
    for (; frame !== frame.parent; frame = frame.parent) {
      let number = 0;
      while (number < frame.parent.length && frame.parent[number] !== frame) number += 1;
      path.unshift(number);
    }
    return path;
  };

  // This frame's path, and the path, corner and visible part of each frame that cannot be seen into.
  const places = () => {
    if (window !== top && window.frameElement) return null; // the frame around it sees into it
    const holes = [];
    const search = root => {
      for (const element of root.querySelectorAll("*")) {
        if (element.shadowRoot) search(element.shadowRoot);
        if (!isFrame(element)) continue;
        if (innerDocument(element)) search(innerDocument(element));
        else if (isForeign(element) && isShown(element)
            && getComputedStyle(element).visibility === "visible") {
          const { left, top } = rectOf(element);
          const corner = { left: left + element.clientLeft, top: top + element.clientTop };
          const content = { ...corner, right: corner.left + element.clientWidth, bottom: corner.top + element.clientHeight };
          holes.push({ path: pathOf(element.contentWindow), ...corner, view: overlap(content, seenPart(element)) });
        }
      }
    };
    search(document);
    return { path: pathOf(window), holes };
  };

  // Those of some points at which a click gets into the frame with this path.
  const throughFrame = ({ points, path }) => {
    const frame = path.reduce((outer, number) => outer[number], top);
    const reached = points.filter(([x, y]) => elementAt(x, y)?.contentWindow === frame);
    if (reached.length) return { points: reached };
    const hit = elementAt(...points[0]);
    return { error: `the frame it is in is covered by ${hit ? describe(hit) : "something"}` };
  };
