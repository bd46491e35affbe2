// A page that is opened from the disk may start no worker, so the search runs in a hidden frame there. The frame has the
// three things of a worker that the search uses: importScripts, postMessage and messages. The search knows such a frame
// by the name IFrameWorker. Over HTTP nothing changes.
if (location.protocol === "file:") {
  window.IFrameWorker = window.Worker = class extends EventTarget {
    #waiting = [];
    #frame = document.createElement("iframe");

    constructor(source) {
      super();
      const url = new URL(source, location);
      this.#frame.hidden = true;
      document.body.append(this.#frame);
      const scope = this.#frame.contentWindow;
      const load = (each) =>
        new Promise((resolve, reject) => {
          const script = scope.document.createElement("script");
          script.addEventListener("load", resolve);
          script.addEventListener("error", reject);
          script.src = new URL(each, url);
          scope.document.body.append(script);
        });
      // One after the other: later ones use what earlier ones have defined.
      scope.importScripts = (...sources) =>
        sources.reduce((before, each) => before.then(() => load(each)), Promise.resolve());
      scope.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      load(url).then(() => {
        const waiting = this.#waiting;
        this.#waiting = undefined;
        waiting.forEach((data) => this.postMessage(data));
      });
    }

    postMessage(data) {
      if (this.#waiting) {
        this.#waiting.push(data);
      } else {
        const scope = this.#frame.contentWindow;
        scope.dispatchEvent(new scope.MessageEvent("message", { data }));
      }
    }

    terminate() {
      this.#frame.remove();
    }
  };
}
