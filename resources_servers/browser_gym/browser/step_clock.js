// The clock of a document under `clock: step`: `page_clock.py` puts it into every document before
// the page's own scripts, and moves it. Between two moves it is the same time for the page, but for
// a few microseconds per look, so that a loop that waits for the time to change comes to an end.
//
// Kept still: Date, Intl, Temporal, performance.now, timers of 1 ms and more, animation frames, idle
// callbacks, time limits of requests, the time stamps of events. Finished at once: short animations
// and transitions of CSS. Not kept still: endless ones, media, workers, the network.
(() => {
  const mark = Symbol.for("browser-gym.clock");
  if (mark in window) return;  // a window can outlive its first, empty document
  const FRAME_MS = 1000 / 60, LOOK_MS = 0.005, SHORTEST_INTERVAL_MS = 4;
  const LONGEST_ANIMATION_MS = 1500;

  const NativeDate = Date;
  const native = {
    now: performance.now.bind(performance),
    requestAnimationFrame: window.requestAnimationFrame.bind(window),
    setTimeout: window.setTimeout.bind(window),
    reportError: window.reportError.bind(window),
  };
  // A document that may not run scripts, such as a sandboxed frame, calls nothing back.
  const {matches: inert} = matchMedia("(scripting: none)");
  let origin = NativeDate.now();  // Unix time, in ms, at which `now` was 0
  let now = 0;
  let lastId = 2 ** 30;  // the browser's own ids, of timers left to it, stay far below
  const timers = new Map();  // id -> {at, every, call}
  let frames = new Map(), lastFrame = 0;
  let requests = 0, requestsTold = 0;

  const look = () => (now += LOOK_MS);
  const wall = () => Math.floor(origin + look());

  // ---- What the page calls. A proxy of a native function is native to look at.

  const replace = (owner, name, apply) => {
    const original = owner[name];
    if (typeof original === "function")
      owner[name] = new Proxy(original, {
        apply: (target, self, values) => apply(values, () => Reflect.apply(target, self, values)),
      });
  };
  const add = (delay, every, call) => {
    timers.set(++lastId, {at: now + delay, every, call});
    return lastId;
  };
  const caller = ([handler, , ...values]) =>
    typeof handler === "function" ? () => handler.apply(window, values) : () => (0, eval)(handler);
  const clear = ([id], otherwise) => timers.delete(Number(id)) ? undefined : otherwise();

  // A delay of 0 means the next task, not a time; so does one that is too long, by the standard.
  replace(window, "setTimeout", (values, otherwise) =>
    values[1] >= 1 && values[1] < 2 ** 31
      ? add(Number(values[1]), 0, caller(values)) : otherwise());
  replace(window, "setInterval", (values, otherwise) => {
    if (!values.length) return otherwise();
    const every = Math.max(Number(values[1]) || 0, SHORTEST_INTERVAL_MS);
    return add(every, every, caller(values));
  });
  replace(window, "clearTimeout", clear);
  replace(window, "clearInterval", clear);
  replace(window, "requestAnimationFrame", ([callback], otherwise) => {
    if (typeof callback !== "function") return otherwise();
    frames.set(++lastId, callback);
    return lastId;
  });
  replace(window, "cancelAnimationFrame", ([id], otherwise) =>
    frames.delete(id) ? undefined : otherwise());
  replace(window, "requestIdleCallback", ([callback], otherwise) =>
    typeof callback === "function"
      ? add(1, 0, () => callback({didTimeout: false, timeRemaining: () => 50}))
      : otherwise());
  replace(window, "cancelIdleCallback", clear);
  replace(AbortSignal, "timeout", ([ms], otherwise) => {
    if (!(ms >= 0)) return otherwise();
    const control = new AbortController();
    add(Number(ms), 0, () => control.abort(new DOMException("signal timed out", "TimeoutError")));
    return control.signal;
  });

  replace(window, "fetch", ([target], otherwise) => {
    if (!/^(data|blob):/i.test(target?.url ?? target)) requests++;
    return otherwise();
  });
  replace(XMLHttpRequest.prototype, "send", (_, otherwise) => (requests++, otherwise()));

  replace(NativeDate, "now", wall);
  window.Date = new Proxy(NativeDate, {
    apply: () => new NativeDate(wall()).toString(),
    construct: (target, values, newTarget) =>
      Reflect.construct(target, values.length ? values : [wall()], newTarget),
  });
  NativeDate.prototype.constructor = window.Date;

  const getter = (owner, name, get) => {
    const property = Object.getOwnPropertyDescriptor(owner, name);
    Object.defineProperty(owner, name, {...property, get: new Proxy(property.get, {
      apply: (target, self, values) => get(self, () => Reflect.apply(target, self, values)),
    })});
  };
  replace(Performance.prototype, "now", look);
  getter(Performance.prototype, "timeOrigin", () => origin);
  const stamps = new WeakMap();
  getter(Event.prototype, "timeStamp", (event, otherwise) => {
    if (!(event instanceof Event)) return otherwise();
    if (!stamps.has(event)) stamps.set(event, look());
    return stamps.get(event);
  });
  const format = Intl.DateTimeFormat.prototype;
  getter(format, "format", (_, otherwise) => {
    const formatted = otherwise();
    return date => formatted(date === undefined ? wall() : date);
  });
  const parts = format.formatToParts;
  format.formatToParts = new Proxy(parts, {
    apply: (target, self, [date]) => Reflect.apply(target, self, [date === undefined ? wall() : date]),
  });
  if (window.Temporal) {
    const instant = () => Temporal.Instant.fromEpochMilliseconds(wall());
    const zoned = zone => instant().toZonedDateTimeISO(zone ?? Temporal.Now.timeZoneId());
    replace(Temporal.Now, "instant", instant);
    replace(Temporal.Now, "zonedDateTimeISO", ([zone]) => zoned(zone));
    replace(Temporal.Now, "plainDateTimeISO", ([zone]) => zoned(zone).toPlainDateTime());
    replace(Temporal.Now, "plainDateISO", ([zone]) => zoned(zone).toPlainDate());
    replace(Temporal.Now, "plainTimeISO", ([zone]) => zoned(zone).toPlainTime());
  }

  // ---- What moves it.

  const channel = new MessageChannel();
  const waiting = [];
  channel.port1.onmessage = () => waiting.shift()();
  // Lets what a callback set off (messages, promises, answers that came) happen before the next one.
  const turn = () => new Promise(resolve => {
    waiting.push(resolve);
    channel.port2.postMessage(null);
  });

  const guarded = (call, ...values) => {
    try {
      call(...values);
    } catch (error) {
      native.reportError(error);
    }
  };
  const drawFrame = () => {
    const callbacks = frames;
    frames = new Map();
    lastFrame = Math.round(now / FRAME_MS);
    const time = now;
    for (const callback of callbacks.values()) guarded(callback, time);
  };
  // The next thing due up to `limit`: a timer, or the frame that is drawn next.
  const next = limit => {
    let id = null, at = Infinity;
    for (const [timer, due] of timers) if (due.at < at) [id, at] = [timer, due.at];
    const frameAt = Math.max(lastFrame + 1, Math.ceil(now / FRAME_MS)) * FRAME_MS;
    if (frames.size && frameAt < at) return frameAt <= limit && {at: frameAt, run: drawFrame};
    return at <= limit && {at, run: () => {
      const {every, call} = timers.get(id);
      if (every) timers.get(id).at = at + every;
      else timers.delete(id);
      guarded(call);
    }};
  };
  const finishAnimations = () => {
    for (const animation of document.getAnimations()) {
      const end = animation.effect?.getComputedTiming().endTime;
      if (animation.playState === "running" && end < LONGEST_ANIMATION_MS) animation.finish();
    }
  };

  window[mark] = {
    native,
    // Says what time it is: Unix time in ms.
    start(time) {
      origin = time - now;
    },
    // Runs what is due up to a Unix time in ms. Stops as soon as the page has sent a request, since
    // no time passes while the answer is waited for; and after `budget` ms, leaving out what is due.
    // With `afterFrames`, once two were drawn: what an action or an answer set off by itself, such
    // as a request, comes before what timers do.
    // Returns the time it is then, and whether a request was sent since the last run.
    async run(time, budget, afterFrames) {
      if (inert) return [time, false];
      for (let frame = 0; afterFrames && frame < 2; frame++)
        await Promise.race([
          new Promise(native.requestAnimationFrame), new Promise(done => native.setTimeout(done, 50)),
        ]);
      const began = native.now(), limit = time - origin;
      const sent = () => requests !== requestsTold;
      let event = null;
      while (!sent() && native.now() - began < budget && (event = next(limit))) {
        now = Math.max(now, event.at);
        event.run();
        await turn();
      }
      guarded(finishAnimations);
      const stopped = sent();
      if (!stopped) now = Math.max(now, limit);
      requestsTold = requests;
      return [origin + now, stopped];
    },
  };
})();
