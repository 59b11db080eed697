// Filters the matrix by verdict, tag and GPU. The table says all without it; this only hides rows and
// columns, and keeps the choice in the address, so that a filtered view can be linked.
(() => {
  const form = document.getElementById("wl-filter");
  const table = document.querySelector(".wl-matrix");
  if (!form || !table) return;
  const names = ["verdict", "tag", "gpu"];
  const said = form.querySelector("output");
  const gpus = [...table.tHead.rows[0].cells].map((cell) => cell.dataset.gpu);
  const entries = [];
  for (const row of table.tBodies[0].rows) {
    if ("entry" in row.dataset) entries.push({ row, tags: row.dataset.tags.split(" "), claims: [] });
    else entries.at(-1).claims.push(row);
  }
  const claims = entries.reduce((sum, each) => sum + each.claims.length, 0);

  // A row fits if one of the cells that are looked at has the verdict that is asked for.
  const fits = (row, verdict, column) => {
    const cells = column > 0 ? [row.cells[column]] : [...row.cells].slice(1);
    return cells.some((cell) => {
      const found = cell.dataset.verdict;
      return found !== undefined && (!verdict || found.split(" ").includes(verdict));
    });
  };

  const filter = () => {
    const { verdict, tag, gpu } = Object.fromEntries(names.map((name) => [name, form.elements[name].value]));
    const column = gpu ? gpus.indexOf(gpu) : 0;
    let shownEntries = 0;
    let shownClaims = 0;
    for (const { row, tags, claims: own } of entries) {
      const wanted = !tag || tags.includes(tag);
      let some = 0;
      for (const claim of own) {
        claim.hidden = !(wanted && ((!verdict && !gpu) || fits(claim, verdict, column)));
        if (!claim.hidden) some += 1;
      }
      const entry = (!verdict && !gpu) || (own.length ? some > 0 : fits(row, verdict, column));
      row.hidden = !(wanted && entry);
      if (!row.hidden) shownEntries += 1;
      shownClaims += some;
    }
    for (const row of table.rows) {
      for (let index = 1; index < row.cells.length; index += 1) {
        row.cells[index].hidden = column > 0 && index !== column;
      }
    }
    const count = `${shownEntries} of ${entries.length} entries and ${shownClaims} of ${claims} claims`;
    if (said.value !== count) said.value = count;
  };

  const write = () => {
    const address = new URL(location.href);
    for (const name of names) {
      const value = form.elements[name].value;
      if (value) address.searchParams.set(name, value);
      else address.searchParams.delete(name);
    }
    try {
      history.replaceState(history.state, "", address);
    } catch {
      // A browser that keeps the address of a file as it is: the filter works all the same.
    }
  };

  const read = () => {
    const given = new URLSearchParams(location.search);
    for (const name of names) {
      const select = form.elements[name];
      const value = given.get(name) || "";
      select.value = [...select.options].some((option) => option.value === value) ? value : "";
    }
    filter();
  };

  form.addEventListener("change", () => {
    filter();
    write();
  });
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(() => {
    filter();
    write();
  }));
  window.addEventListener("popstate", read);
  form.classList.add("wl-ready");
  read();
})();
