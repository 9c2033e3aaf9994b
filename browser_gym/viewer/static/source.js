// Where rollouts come from: the server beside the page, or the page itself.

const KEPT = 20;

class Served {
  #generation;

  async index() {
    const index = await fetchJson("index");
    this.#generation = index.generation;
    return index;
  }

  async read(row) {
    const address = `rollouts/${this.#generation}/${row}`;
    const trajectory = await fetchJson(address);
    return { trajectory, image: (number) => `${address}/images/${number}` };
  }
}

class Embedded {
  #urls = new Map();

  async index() {
    return unpacked("index");
  }

  async read(row) {
    const { trajectory, images } = await unpacked(`rollout-${row}`);
    return { trajectory, image: (number) => this.#image(images[number]) };
  }

  #image(number) {
    if (number === null) return null;
    if (!this.#urls.has(number)) {
      const block = document.getElementById(`image-${number}`);
      const blob = new Blob([bytes(block.textContent)], { type: block.type });
      this.#urls.set(number, URL.createObjectURL(blob));
    }
    return this.#urls.get(number);
  }
}

class Source {
  #from;
  #kept = new Map();

  constructor(from) {
    this.#from = from;
  }

  index() {
    return this.#from.index();
  }

  /** A rollout by its place in the index: what is known of it, and its images' addresses. */
  rollout(row) {
    const known = this.#kept.get(row) ?? this.#from.read(row);
    this.#kept.delete(row);
    this.#kept.set(row, known);
    known.catch(() => this.#kept.delete(row));
    if (this.#kept.size > KEPT) this.#kept.delete(this.#kept.keys().next().value);
    return known;
  }
}

export function openSource() {
  return new Source(document.getElementById("index") ? new Embedded() : new Served());
}

async function fetchJson(path) {
  const answer = await fetch(path);
  if (!answer.ok) throw new Error(await answer.text());
  return answer.json();
}

async function unpacked(id) {
  const packed = new Blob([bytes(document.getElementById(id).textContent)]);
  const stream = packed.stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).json();
}

function bytes(base64) {
  return Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
}
