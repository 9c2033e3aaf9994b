// Draws what a model did on the screenshot it saw, in px of the shown picture.

import { el } from "./dom.js";

const SVG = "http://www.w3.org/2000/svg";
const RING = 13;
const ARROW = 90;
const BESIDE = 18;
const ROW = 28;

/** Draw marks over an image that is loaded; `region` is what of the viewport it shows. */
export function drawMarks(layer, image, marks, region) {
  const [left, top, right, bottom] = region ?? [0, 0, image.naturalWidth, image.naturalHeight];
  const width = image.clientWidth;
  const height = image.clientHeight;
  const place = ([x, y]) => [
    ((x - left) / (right - left)) * width,
    ((y - top) / (bottom - top)) * height,
  ];
  const svg = node("svg", { viewBox: `0 0 ${width} ${height}`, width, height });
  const labels = el("div", { class: "labels" });
  const rows = new Map(); // how many words are at a place already
  marks.forEach((mark, index) => {
    const number = marks.length > 1 ? `${index + 1} ` : "";
    const at = shape(svg, mark, place);
    const row = rows.get(String(at)) ?? 0;
    rows.set(String(at), row + 1);
    labels.append(label(number + mark.text, at, width, height, row));
  });
  layer.replaceChildren(svg, labels);
}

/** Draw a mark and return where its words belong, null if it has no place. */
function shape(svg, mark, place) {
  switch (mark.kind) {
    case "press":
    case "point": {
      const [x, y] = place(mark.at);
      svg.append(...outlined("circle", { cx: x, cy: y, r: RING }));
      if (mark.kind === "press") svg.append(node("circle", { class: "dot", cx: x, cy: y, r: 4 }));
      return [x, y];
    }
    case "path": {
      const points = mark.points.map(place);
      svg.append(...outlined("polyline", { points: points.join(" ") }));
      svg.append(node("circle", { class: "dot", cx: points[0][0], cy: points[0][1], r: 6 }));
      if (points.length > 1) svg.append(...head(points.at(-2), points.at(-1)));
      return points.at(-1);
    }
    case "scroll": {
      const [x, y] = place(mark.at);
      const length = Math.hypot(...mark.by) || 1;
      const end = [x + (mark.by[0] / length) * ARROW, y + (mark.by[1] / length) * ARROW];
      svg.append(...outlined("polyline", { points: `${x},${y} ${end}` }), ...head([x, y], end));
      return [x, y];
    }
    case "region": {
      const [[x0, y0], [x1, y1]] = mark.points.map(place);
      svg.append(...outlined("rect", { x: x0, y: y0, width: x1 - x0, height: y1 - y0 }));
      return [x0, y0];
    }
    default:
      return mark.at ? place(mark.at) : null;
  }
}

/** Words beside a place, towards the middle of the picture; each `row` further away. */
function label(words, at, width, height, row) {
  const element = el("span", { class: "label" }, words);
  const x = Math.min(Math.max(at?.[0] ?? 0, 0), width);
  const y = Math.min(Math.max(at?.[1] ?? height, 0), height);
  if (x < width / 2) element.style.left = `${x + BESIDE}px`;
  else element.style.right = `${width - x + BESIDE}px`;
  if (y < height / 2) element.style.top = `${y + 6 + row * ROW}px`;
  else element.style.bottom = `${height - y + 6 + row * ROW}px`;
  return element;
}

function head(from, to) {
  const angle = Math.atan2(to[1] - from[1], to[0] - from[0]);
  const side = (turn) => [to[0] - 14 * Math.cos(angle + turn), to[1] - 14 * Math.sin(angle + turn)];
  return outlined("polyline", { points: `${side(0.5)} ${to} ${side(-0.5)}` });
}

/** The same shape twice, the wider one below, so that it is seen on any page. */
function outlined(tag, attributes) {
  return [node(tag, { class: "outline", ...attributes }), node(tag, { class: "line", ...attributes })];
}

function node(tag, attributes) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
}
