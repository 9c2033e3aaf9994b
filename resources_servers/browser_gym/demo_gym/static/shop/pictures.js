// A simple drawing of each product, on a 96 x 96 grid.

const DARK = "#3a4458";
const WOOD = "#b98552";
const STEEL = "#9fb0c3";

const DRAWINGS = {
  "P-01": `<path d="M26 30h36v34a8 8 0 0 1-8 8H34a8 8 0 0 1-8-8z" fill="#3f6fb5"/><path d="M62 38h6a8 8 0 0 1 8 8v4a8 8 0 0 1-8 8h-6" fill="none" stroke="#3f6fb5" stroke-width="6"/><rect x="24" y="26" width="40" height="6" rx="3" fill="${DARK}"/>`,
  "P-02": `<path d="M32 40h32l8 32H26z" fill="${STEEL}"/><path d="M30 46 14 34" stroke="${STEEL}" stroke-width="6" stroke-linecap="round"/><path d="M66 42q18 2 10 24" fill="none" stroke="${DARK}" stroke-width="6" stroke-linecap="round"/><rect x="36" y="32" width="24" height="8" rx="4" fill="${DARK}"/><circle cx="48" cy="28" r="4" fill="${WOOD}"/>`,
  "P-03": `<rect x="26" y="28" width="44" height="50" rx="14" fill="#6d8a5a"/><rect x="32" y="50" width="32" height="20" rx="6" fill="#557046"/><path d="M38 28v-4a10 10 0 0 1 20 0v4" fill="none" stroke="${DARK}" stroke-width="5"/><rect x="44" y="48" width="8" height="8" rx="2" fill="${WOOD}"/>`,
  "P-04": `<rect x="28" y="20" width="42" height="58" rx="5" fill="#d2694b"/><rect x="34" y="20" width="4" height="58" fill="#a94d34"/><rect x="46" y="32" width="18" height="12" rx="3" fill="#fff"/>`,
  "P-05": `<path d="M40 22 68 34 58 50 34 38z" fill="#d6a441"/><path d="M46 44 36 70" stroke="${DARK}" stroke-width="5"/><rect x="22" y="70" width="34" height="7" rx="3.5" fill="${DARK}"/><circle cx="60" cy="48" r="6" fill="#fff2c2"/>`,
  "P-06": `<rect x="18" y="34" width="60" height="9" rx="4" fill="${WOOD}"/><path d="M28 43 24 76M68 43l4 33" stroke="#8f6238" stroke-width="6" stroke-linecap="round"/><rect x="30" y="58" width="36" height="5" fill="#8f6238"/>`,
  "P-07": `<rect x="36" y="30" width="24" height="50" rx="9" fill="#4c9aa8"/><rect x="40" y="18" width="16" height="12" rx="4" fill="${DARK}"/><rect x="41" y="40" width="5" height="28" rx="2.5" fill="#8cc6cf"/>`,
  "P-08": `<g transform="rotate(18 48 48)"><rect x="28" y="22" width="9" height="44" rx="3" fill="#c24f7e"/><path d="M28 66h9l-4.500 12z" fill="${DARK}"/><rect x="43" y="22" width="9" height="44" rx="3" fill="#3f6fb5"/><path d="M43 66h9l-4.500 12z" fill="${DARK}"/><rect x="58" y="22" width="9" height="44" rx="3" fill="#d6a441"/><path d="M58 66h9l-4.500 12z" fill="${DARK}"/></g>`,
  "P-09": `<path d="M48 12v10" stroke="${DARK}" stroke-width="3"/><ellipse cx="48" cy="50" rx="26" ry="27" fill="#fff4d6"/><path d="M24 40h48M22 50h52M24 60h48" stroke="#e7cf92" stroke-width="3"/><rect x="40" y="20" width="16" height="5" rx="2" fill="${DARK}"/><rect x="40" y="75" width="16" height="5" rx="2" fill="${DARK}"/>`,
  "P-10": `<g transform="rotate(-35 48 48)"><path d="M14 42h44v14H30Q16 54 14 42z" fill="${STEEL}"/><rect x="58" y="41" width="28" height="11" rx="5" fill="${DARK}"/></g>`,
  "P-11": `<path d="M24 26q24 6 48 0 6 22 0 46-24-6-48 0-6-24 0-46z" fill="#a9b68f"/><path d="M36 34l24 30M60 34 36 64" stroke="#8b9a70" stroke-width="4"/>`,
  "P-12": `<path d="M52 24 74 40 62 54 46 40z" fill="#e07a5f"/><path d="M50 44Q28 46 32 66" fill="none" stroke="${DARK}" stroke-width="5"/><rect x="22" y="64" width="22" height="14" rx="4" fill="${DARK}"/><circle cx="66" cy="50" r="6" fill="#fff2c2"/>`,
  "P-13": `<path d="M48 22 84 74H12z" fill="#e08a3c"/><path d="M48 22 84 74H66z" fill="#bd6d27"/><path d="M48 44 60 74H36z" fill="${DARK}"/>`,
  "P-14": `<rect x="14" y="34" width="68" height="36" rx="6" fill="#6b7488"/><rect x="22" y="42" width="30" height="20" rx="2" fill="#fff"/><rect x="60" y="44" width="12" height="16" rx="6" fill="${DARK}"/>`,
  "P-15": `<path d="M48 46Q30 40 30 20q18 4 18 26Q50 28 68 24q-2 20-20 22" fill="#5f9961"/><path d="M32 48h32l-5 28H37z" fill="#d98c6a"/><rect x="29" y="46" width="38" height="8" rx="4" fill="#c07453"/>`,
  "P-16": `<rect x="24" y="52" width="48" height="22" rx="6" fill="#4f7f73"/><path d="M30 52l-6-8M66 52l6-8M38 44h20" stroke="${DARK}" stroke-width="5" stroke-linecap="round"/><path d="M48 22q12 12 0 20-12-8 0-20z" fill="#f0a23c"/><circle cx="48" cy="63" r="5" fill="#fff"/>`,
  "P-17": `<rect x="42" y="30" width="12" height="46" rx="6" fill="#c39a4b"/><path d="M32 22h32l6 26H26z" fill="#fff4d6" stroke="#e7cf92" stroke-width="3"/><circle cx="48" cy="68" r="4" fill="${DARK}"/>`,
  "P-18": `<rect x="16" y="32" width="50" height="34" rx="10" fill="${WOOD}"/><rect x="62" y="43" width="22" height="12" rx="6" fill="${WOOD}"/><circle cx="78" cy="49" r="3" fill="#fff"/><path d="M26 42h26M26 50h30M26 58h22" stroke="#a06f40" stroke-width="3" stroke-linecap="round"/>`,
};

const BACKGROUNDS = {
  Kitchen: "#e8eef8",
  Lighting: "#f3e6d8",
  Outdoor: "#e4efe2",
  Stationery: "#f8e7e4",
  Home: "#efeaf6",
};

/** An `svg` element with the drawing of a product, filling its box. */
export function picture(product) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", "0 0 96 96");
  svg.style.background = BACKGROUNDS[product.group];
  svg.innerHTML = DRAWINGS[product.id];
  return svg;
}
