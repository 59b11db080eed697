// What a page looks like to a reader, asked in the page itself; survey.py says what of it is wrong.
() => {
  const content = document.querySelector(".md-content") || document.body;
  const within = (selector) => [...content.querySelectorAll(selector)];
  const shown = (element) => element.checkVisibility({ visibilityProperty: true });
  const spell = (element) => {
    const words = (element.textContent || "").trim().replace(/\s+/g, " ").slice(0, 40);
    const classes = (element.getAttribute("class") || "").trim().split(/\s+/).filter(Boolean);
    return [element.localName, ...classes].join(".") + (words ? ` '${words}'` : "");
  };
  const styled = (element, name) => getComputedStyle(element)[name];
  const scrolls = (element) => /auto|scroll/.test(styled(element, "overflowX"));

  const boxed = (element) => {
    for (let each = element; each && each !== content; each = each.parentElement) {
      if (scrolls(each) || each.localName === "svg") return true;
    }
    return false;
  };
  const out = [];
  const walker = document.createTreeWalker(content, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    if (!node.data.trim() || !shown(node.parentElement)) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    const box = range.getBoundingClientRect();
    const outside = box.right > innerWidth + 1 || box.left < -1;
    if (outside && box.width > 1 && !boxed(node.parentElement)) out.push(spell(node.parentElement));
  }

  const named = (element) =>
    (element.getAttribute("aria-label") || "").trim() ||
    (element.getAttribute("alt") || "").trim() ||
    [...element.children].some((each) => each.localName === "title" && each.textContent.trim()) ||
    (element.getAttribute("aria-labelledby") || "")
      .split(/\s+/)
      .some((id) => id && document.getElementById(id)?.textContent.trim());
  const hidden = (element) => element.closest("[aria-hidden=true], [role=presentation]");
  const mute = [
    ...[...document.images].filter((each) => !each.hasAttribute("alt")),
    ...within("img, svg, canvas, video, object, [role=img]").filter((each) => {
      const inner = each.parentElement.closest("svg, a[title], button[title], [aria-label]");
      return !hidden(each) && !named(each) && !inner;
    }),
    ...within("svg").filter((each) => {
      const inner = each.parentElement.closest("svg, a, button, summary");
      return !hidden(each) && !inner && each.getAttribute("role") !== "img";
    }),
  ];

  const counted = {};
  for (const each of document.querySelectorAll("[id]")) counted[each.id] = (counted[each.id] || 0) + 1;

  const boxes = within("*").filter((each) => {
    if (!shown(each) || each.closest("svg")) return false;
    const across = scrolls(each) && each.scrollWidth > each.clientWidth + 1;
    const down = /auto|scroll/.test(styled(each, "overflowY")) && each.scrollHeight > each.clientHeight + 1;
    return (across || down) && each.getAttribute("tabindex") !== "0";
  });

  const wide = document.scrollingElement.scrollWidth;
  const widest = [...document.body.querySelectorAll("*")]
    .filter((each) => shown(each) && each.getBoundingClientRect().right + scrollX > wide - 2)
    .pop();

  return {
    ran: typeof window.pwned !== "undefined",
    shift: window.warplogShift || 0,
    width: wide,
    widest: wide > innerWidth && widest ? spell(widest) : "",
    window: innerWidth,
    scheme: document.body.getAttribute("data-md-color-scheme"),
    out: [...new Set(out)],
    mute: [...new Set(mute)].map(spell),
    twice: Object.keys(counted).filter((id) => counted[id] > 1),
    boxes: boxes.map(spell),
  };
}
