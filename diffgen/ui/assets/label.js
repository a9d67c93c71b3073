// Labels by keyboard: shows one picture, posts what is said of it, shows the next.
(() => {
  const AGAIN = 1000; // ms until a page that does not answer is asked again
  const AWAY = [502, 503, 504]; // what a proxy says where nothing behind it answers
  let sheet = null, at = 0, waiting = Promise.resolve(), unsent = 0, quiet;
  const within = (name) => element.querySelector(name);
  const address = () => `labels/${encodeURIComponent(sheet.run)}`;

  function start() {
    const root = within('[data-sheet]');
    const drawn = root ? JSON.parse(root.dataset.sheet) : null;
    if (drawn && sheet && same(drawn, sheet)) {
      // what the server knows counts, also where a label was taken away in another window, but for votes that it did
      // not know yet when it drew this: those on their way, and all where its votes are older than its last answer
      const known = drawn.version >= sheet.version;
      for (const id of sheet.ids)
        if (!sheet.sending[id]) sheet.said[id] = known ? drawn.said[id] : sheet.said[id] ?? drawn.said[id];
      sheet.version = Math.max(sheet.version, drawn.version);
      show();
      return;
    }
    sheet = drawn && {...drawn, sending: {}}; // picture -> votes of it on their way
    if (!sheet) return;
    at = Math.max(0, sheet.ids.findIndex((id) => !sheet.said[id]));
    show();
  }

  const same = (one, other) =>
    one.run === other.run && one.person === other.person && one.drawn === other.drawn;

  function show() {
    const id = sheet.ids[at], said = sheet.said[id] || '';
    const done = sheet.ids.filter((each) => sheet.said[each]).length;
    const picture = within('.dg-label-picture');
    picture.src = `${address()}/${id}.png`;
    picture.alt = `picture ${at + 1} of ${sheet.ids.length}`;
    within('.dg-label-at').textContent =
      `picture ${at + 1} of ${sheet.ids.length}` + (said ? `, labelled ${said}` : '');
    within('.dg-label-done').textContent = `${done} labelled`;
    within('.dg-fill').style.width = `${100 * done / sheet.ids.length}%`;
    element.querySelectorAll('[data-label]').forEach((key) =>
      key.setAttribute('aria-pressed', String(said !== '' && key.dataset.label === said)));
    within('.dg-no-label').disabled = !said;
    if (at + 1 < sheet.ids.length) new Image().src = `${address()}/${sheet.ids[at + 1]}.png`;
  }

  function go(to) {
    at = Math.min(sheet.ids.length - 1, Math.max(0, to));
    show();
  }

  function tell(text) {
    const problem = within('.dg-label-problem');
    if (problem) problem.textContent = text;
  }

  // For as long as nobody answers; a vote that arrives twice says the same.
  async function sent(to, asked) {
    for (let waits = false; ; waits = true) {
      try {
        const answer = await fetch(to, asked);
        if (AWAY.includes(answer.status)) throw new Error(answer.statusText);
        if (waits) tell('');
        return answer;
      } catch (error) {
        tell(`The page does not answer; labels that wait: ${unsent}.`);
        await new Promise((on) => setTimeout(on, AGAIN));
      }
    }
  }

  // The page may show what was drawn before a vote after what was drawn since; so it is drawn once more when all is quiet.
  function counted(own) {
    const draw = () => trigger('input', {done: own.ids.filter((each) => own.said[each]).length});
    draw();
    clearTimeout(quiet);
    quiet = setTimeout(draw, AGAIN);
  }

  function say(label) {
    // a vote may wait, and meanwhile another run or person be chosen: it belongs to those of now
    const own = sheet, id = own.ids[at], before = own.said[id];
    const to = `${address()}/${encodeURIComponent(own.person)}`;
    own.said[id] = label;
    own.sending[id] = (own.sending[id] ?? 0) + 1;
    const body = JSON.stringify({id, label});
    const asked = {method: 'POST', headers: {'Content-Type': 'application/json'}, body};
    unsent += 1;
    waiting = waiting.then(() => sent(to, asked)).then(
      async (answer) => {
        if (!answer.ok) throw new Error(`it answered ${answer.status}`);
        own.version = Math.max(own.version, (await answer.json()).version);
        if (own === sheet) within('.dg-label-problem').textContent = '';
        counted(own);
      }).catch((error) => {
        if (own.said[id] !== label) return; // what was said of it since is on its way
        own.said[id] = before;
        tell(`A label of ${own.person} was not kept (${error.message}); say it again.`);
        if (own === sheet) go(own.ids.indexOf(id));
      }).finally(() => { unsent -= 1; own.sending[id] -= 1; });
    if (label) go(at + 1); else show();
  }

  element.addEventListener('click', (event) => {
    if (!sheet) return;
    const key = event.target.closest('[data-label],[data-go]');
    if (!key) return;
    if (key.dataset.go) go(at + Number(key.dataset.go)); else say(key.dataset.label);
    within('.dg-label').focus({preventScroll: true});
  });
  element.addEventListener('change', (event) => {
    if (!sheet || !event.target.matches('.dg-by-name')) return;
    event.stopPropagation();
    const name = event.target.value.trim(), names = [...event.target.list.options].map((each) => each.value);
    if (!name) return;
    if (!names.includes(name)) {
      within('.dg-label-problem').textContent = `No class is called ${name}; choose one of the list.`;
      return;
    }
    event.target.value = '';
    within('.dg-label-problem').textContent = '';
    say(name);
  });
  document.addEventListener('keydown', (event) => {
    if (!sheet || !element.offsetParent || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.repeat && !event.key.startsWith('Arrow')) return; // a key that is held down says one thing
    if (event.target.closest('input, textarea, select, [role=tablist], [role=listbox]')) return;
    if (event.key === 'ArrowLeft' || event.key === 'Backspace') go(at - 1);
    else if (event.key === 'ArrowRight') go(at + 1);
    else if (event.key === 'Delete') say('');
    else {
      const key = [...element.querySelectorAll('[data-key]')].find((each) => each.dataset.key === event.key.toLowerCase());
      if (!key) return;
      say(key.dataset.label);
    }
    event.preventDefault();
  });
  // the browser asks before it drops votes that have not arrived yet
  window.addEventListener('beforeunload', (event) => { if (unsent) event.preventDefault(); });
  start();
  watch('value', start);
})();
