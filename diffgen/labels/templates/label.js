"use strict";
(() => {
  const sheet = JSON.parse(document.getElementById("sheet").textContent);
  const byId = (id) => document.getElementById(id);
  const labels = new Array(sheet.ids.length).fill(null); // a class, -1 for invalid, null for none yet
  const history = []; // [position, label before]
  let position = 0;
  let saved = true;
  let who = ""; // labels now; each person labels alone, and sees nobody else's

  // What was labelled survives closing the page. Some browsers give pages from disk no storage: saving still works.
  const memory = (() => {
    try { return window.localStorage; } catch { return null; }
  })();
  const others = new Map(); // where there is no storage: of those who labelled since the page was opened
  const key = () => `diffgen-labels-${sheet.name}-${who}`;
  function remember() {
    others.set(key(), JSON.stringify(labels));
    if (memory) memory.setItem(key(), JSON.stringify(labels));
  }
  function recall() {
    const stored = JSON.parse((memory && memory.getItem(key())) || others.get(key()) || "null");
    if (Array.isArray(stored) && stored.length === labels.length) stored.forEach((label, i) => { labels[i] = label; });
  }

  function nameOf(label) { return label === -1 ? sheet.invalid.word : sheet.classes[label]; }
  function done() { return labels.filter((label) => label !== null).length; }

  function show() {
    byId("picture").src = "data:image/png;base64," + sheet.pictures[position];
    const label = labels[position];
    byId("current").textContent = !who ? "write your name first" :
      `picture ${position + 1}` + (label === null ? "" : `, labelled ${nameOf(label)}`);
    document.querySelectorAll("#choices button").forEach((button) => {
      button.classList.toggle("chosen", label !== null && Number(button.dataset.label) === label);
    });
    byId("bar").value = done();
    byId("progress").textContent = `${done()} of ${labels.length}`;
  }

  // Whoever has no name is asked for it: what they say would be seen by the next one without.
  function named() {
    if (!who) byId("annotator").focus();
    return Boolean(who);
  }

  function begin(name) {
    who = name;
    labels.fill(null);
    history.length = 0;
    if (who) recall();
    position = Math.max(labels.indexOf(null), 0);
    show();
  }

  function choose(label) {
    if (!named()) return;
    history.push([position, labels[position]]);
    labels[position] = label;
    saved = false;
    remember();
    const later = labels.indexOf(null, position);
    const next = later >= 0 ? later : labels.indexOf(null);
    position = next >= 0 ? next : Math.min(position + 1, labels.length - 1);
    show();
  }

  function undo() {
    const last = history.pop();
    if (!last) return;
    [position, labels[last[0]]] = last;
    saved = false;
    remember();
    show();
  }

  function move(step) {
    position = Math.min(Math.max(position + step, 0), labels.length - 1);
    show();
  }

  function cell(text) { return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text; }

  function save() {
    if (!named()) return;
    const rows = sheet.ids.map((id, i) => `${id},${labels[i] === null ? "" : cell(nameOf(labels[i]))}`);
    const blob = new Blob([["id,label", ...rows].join("\n") + "\n"], { type: "text/csv" });
    const name = who.replace(/[^\p{L}\p{N}-]+/gu, "_");
    const link = document.createElement("a");
    link.href = URL.createObjectURL(blob);
    link.download = `labels-${name}.csv`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
    saved = true;
  }

  document.addEventListener("keydown", (event) => {
    if (event.target instanceof HTMLInputElement || event.altKey) return;
    const command = event.ctrlKey || event.metaKey;
    if (event.key === "Backspace" || (command && event.key === "z")) undo();
    else if (command && event.key === "s") save();
    else if (command) return;
    else if (event.key === "ArrowLeft") move(-1);
    else if (event.key === "ArrowRight") move(1);
    else if (event.key.toLowerCase() === sheet.invalid.key) choose(-1);
    else if (event.key.length === 1 && sheet.keys.includes(event.key.toLowerCase()))
      choose(sheet.keys.indexOf(event.key.toLowerCase()));
    else return;
    event.preventDefault();
  });
  byId("annotator").addEventListener("change", (event) => {
    const name = event.target.value.trim();
    if (name !== who) begin(name);
    if (who) event.target.blur(); // the next key is a label
  });
  byId("choices").addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (button) choose(Number(button.dataset.label));
  });
  const byName = byId("by-name");
  if (byName) byName.addEventListener("submit", (event) => {
    event.preventDefault();
    const label = sheet.classes.indexOf(byId("name").value.trim());
    if (label >= 0) { choose(label); byId("name").value = ""; }
  });
  byId("undo").addEventListener("click", undo);
  byId("previous").addEventListener("click", () => move(-1));
  byId("next").addEventListener("click", () => move(1));
  byId("save").addEventListener("click", save);
  window.addEventListener("beforeunload", (event) => { if (!saved) event.preventDefault(); });

  begin(byId("annotator").value.trim());
})();
