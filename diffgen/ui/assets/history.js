// Run and tab stand in the address, and each change of them is a step of the browser's history.
(() => {
  const TOGETHER = 200; // ms: run and tab that change at once are one step
  const ON_ITS_WAY = 3000; // ms until what the browser went to is there
  const tabOf = () => document.querySelector('#dg-tabs [role=tab][aria-selected=true]')?.dataset.tabId;
  const runOf = () => document.querySelector('#dg-run input').value;
  let tab, waits, going = 0, entered = false;

  function write(how) {
    const at = new URL(location);
    if (runOf()) at.searchParams.set('run', runOf()); else at.searchParams.delete('run');
    if (tabOf()) at.hash = tabOf();
    if (at.href === location.href) going = 0;
    else if (Date.now() > going) history[how](null, '', at);
  }

  function note() {
    clearTimeout(waits);
    waits = setTimeout(write, TOGETHER, 'pushState');
  }

  // until then the address says what is wanted, unless the user has entered a tab meanwhile
  const enters = ({target}) => { entered ||= target.closest('#dg-tabs [role=tab]') !== null; };
  document.addEventListener('click', enters);
  window.addEventListener('dg-arrived', async ({detail}) => {
    document.removeEventListener('click', enters);
    if (detail && !entered) {
      document.querySelector(`#dg-tabs [role=tab][aria-selected][data-tab-id=${detail}]`).click();
      await new Promise((on) => setTimeout(on));
    }
    tab = tabOf();
    write('replaceState');
    window.addEventListener('dg-run', note);
    // The buttons are watched: that a tab is selected Gradio says only when it has come to it.
    const watched = {subtree: true, childList: true, attributes: true, attributeFilter: ['aria-selected']};
    new MutationObserver(() => {
      if (tabOf() === tab) return;
      tab = tabOf();
      note();
    }).observe(document.querySelector('#dg-tabs'), watched);
  });
  window.addEventListener('popstate', () => {
    const at = new URL(location);
    going = Date.now() + ON_ITS_WAY;
    trigger('select', {run: at.searchParams.get('run') ?? '', tab: at.hash.slice(1)});
  });
})();
