// Search costs nothing until a reader turns to it, however long the journal is: its index and its worker
// load then. From a disk a browser starts no worker and fetches no index; there the same script runs in a
// hidden frame (as npm's iframe-worker does it, but without a script that the page's policy refuses), and
// the theme loads search_index.js instead. The theme also takes each feed for a translation of the site
// and asks for its map: that is not sent at all.
(() => {
  const query = new URLSearchParams(location.search);
  const turned = new Promise(resolve => {
    if (query.has("q") || query.has("h")) resolve();
    for (const event of ["focusin", "change"])
      document.addEventListener(event, ({ target }) => {
        if (target.id === "__search" || target.closest("[role=search]")) resolve();
      });
  });

  const { open, send } = XMLHttpRequest.prototype;
  const addresses = new WeakMap();
  XMLHttpRequest.prototype.open = function (method, address, ...rest) {
    addresses.set(this, String(address));
    return open.call(this, method, address, ...rest);
  };
  XMLHttpRequest.prototype.send = function (body) {
    const address = addresses.get(this);
    if (address.endsWith("/search/search_index.json")) turned.then(() => send.call(this, body));
    else if (!address.endsWith("/sitemap.xml")) send.call(this, body);
  };

  const RealWorker = window.Worker;
  window.Worker = class extends EventTarget {
    constructor(address) {
      super();
      this.address = address;
    }

    postMessage(message) {
      this.started ??= location.protocol === "file:" ? this.frame() : this.worker();
      this.started.then(post => post(message));
    }

    answer(data) {
      this.dispatchEvent(new MessageEvent("message", { data }));
    }

    async worker() {
      const worker = new RealWorker(this.address);
      worker.addEventListener("message", ({ data }) => this.answer(data));
      return message => worker.postMessage(message);
    }

    async frame() {
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      const inside = frame.contentWindow;
      inside.postMessage = data => this.answer(data);
      const script = inside.document.createElement("script");
      script.src = new URL(this.address, location);
      await new Promise((resolve, reject) => {
        script.onload = resolve;
        script.onerror = reject;
        inside.document.body.append(script);
      });
      return data => inside.dispatchEvent(new inside.MessageEvent("message", { data }));
    }
  };
})();
