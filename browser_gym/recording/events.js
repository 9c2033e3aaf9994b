// Reports a person's input, as it reaches a page. Runs in every frame before the page's own scripts.
(name) => {
  const report = window[name];
  delete window[name];
  if (!report) return;
  const MODIFIERS = ["Control", "Shift", "Alt", "Meta"];
  const NO_KEY = new Set(["Process", "Dead", "Unidentified", "AltGraph", "CapsLock", ...MODIFIERS]);
  const MOVE_EVERY_MS = 30;
  const LINE_PX = 40;
  const started = performance.timeOrigin;
  let pressed = false;  // a button is down, and nobody has told that it is up again
  let moved = 0;
  let keyed = false;  // the next text that is inserted comes from a key

  // The text that is selected, in a field or on the page; a copy takes it.
  const selected = () => {
    let field = document.activeElement;
    while (field?.shadowRoot?.activeElement) field = field.shadowRoot.activeElement;
    const {selectionStart: from, selectionEnd: to, value} = field ?? {};
    return typeof from === "number" ? String(value).slice(from, to) : String(getSelection());
  };
  const isPassword = (event) => event.composedPath()[0]?.type === "password";

  const tell = (kind, event, more = {}) =>
    report({
      kind,
      at: started + event.timeStamp,
      x: event.clientX ?? 0,
      y: event.clientY ?? 0,
      modifiers: MODIFIERS.filter((key) => event.getModifierState?.(key)),
      ...more,
    }).catch(() => {});
  const on = (type, handle) =>
    addEventListener(type, (event) => event.isTrusted && handle(event), {capture: true, passive: true});

  const up = (event) => {
    if (pressed) tell("up", event);
    pressed = false;
  };
  const move = (event) => {
    if (!pressed || event.timeStamp - moved < MOVE_EVERY_MS) return;
    moved = event.timeStamp;
    tell("move", event);
  };
  on("mousedown", (event) => {
    pressed = true;
    tell("down", event, {button: event.button, count: event.detail});
  });
  on("mouseup", up);
  // A scrollbar, or the world outside of the window, takes the release for itself.
  on("mousemove", (event) => (event.buttons ? move(event) : up(event)));
  on("dragover", move);
  on("drop", up);
  on("dragend", up);
  on("wheel", (event) => {
    const unit = [1, LINE_PX, innerHeight][event.deltaMode];
    tell("wheel", event, {dx: event.deltaX * unit, dy: event.deltaY * unit});
  });

  on("keydown", (event) => {
    if (event.isComposing || NO_KEY.has(event.key)) return;
    keyed = event.key.length === 1;
    tell("key", event, {
      key: event.key,
      third_level: event.getModifierState("AltGraph"),
      password: isPassword(event),
    });
  });
  on("keyup", () => (keyed = false));
  on("compositionend", (event) => event.data && tell("text", event, {text: event.data}));
  on("beforeinput", (event) => {
    if (event.inputType !== "insertText" || !event.data) return;
    if (!keyed) tell("text", event, {text: event.data});  // from an emoji picker, for example
    keyed = false;
  });
  on("copy", (event) => tell("copied", event, {text: selected()}));
  on("cut", (event) => tell("copied", event, {text: selected()}));
  on("paste", (event) =>
    tell("pasted", event, {
      text: event.clipboardData?.getData("text/plain") ?? "",
      password: isPassword(event),
    }));

  if (window === top) {
    on("visibilitychange", (event) => document.visibilityState === "visible" && tell("shown", event));
  }
};
