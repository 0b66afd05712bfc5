"""The web client in a page that is hidden, that lost its decoder, or that is of another origin than the client's file."""

from __future__ import annotations

from tests.support.browser_page import BrowserPage

#: In the page: what a browser does when its user looks at another tab, and when it takes back a decoder.
BROWSER = """
  window.hide = (hidden) => {
    Object.defineProperty(document, "hidden", { configurable: true, get: () => hidden });
    document.dispatchEvent(new Event("visibilitychange"));
  };
  window.decoders = [];
  window.VideoDecoder = class extends VideoDecoder {
    constructor(init) {
      super(init);
      decoders.push(() => {
        this.close();
        init.error(new DOMException("Codec reclaimed due to inactivity.", "QuotaExceededError"));
      });
    }
  };
"""


def test_a_hidden_page_gets_no_pictures_and_a_decoder_that_was_taken_back_is_opened_again(place: BrowserPage) -> None:
    told = place.ask(f"""
      {BROWSER}
      await begin({{ video: ["vp8", "jpeg"], pauseHidden: true, workers: {{ pictures: false }} }});
      const seen = [];
      client.attach(canvas("one"), {{ onPresented: (picture) => seen.push(picture) }});
      const further = (count) => {{ const then = seen.length; return until(() => seen.length >= then + count); }};
      const figures = () => client.statistics().tracks.main_video;
      await further(10);
      hide(true);
      const before = await until(async () => {{
        const then = figures();
        await new Promise((resolve) => setTimeout(resolve, 300));
        return figures().received === then.received && then;
      }});
      await new Promise((resolve) => setTimeout(resolve, 1500));
      const last = seen.length - 1;
      hide(false);
      await further(1);
      const {{ missing, freezes }} = figures(); // at once: on a busy machine later pictures are late, or left out
      const unseen = seen[last + 1].seq - seen[last].seq;
      await further(9);
      for (let i = 0; i < 3; i++) {{
        decoders.at(-1)();
        await further(5);
      }}
      return {{ missed: missing - before.missing, unseen, froze: freezes - before.freezes, codec: figures().codec,
        opened: decoders.length > 3, stepsDown: client.statistics().stepsDown, diagnostics }};
    """)
    unseen = told.pop("unseen")
    assert unseen > 30, "the model made pictures meanwhile"
    assert told.pop("missed") < unseen / 2, "none of them is missing"
    assert told == {"codec": "vp8", "froze": 0, "opened": True, "stepsDown": 0, "diagnostics": []}


def test_a_page_of_another_origin_imports_the_client_and_its_worker(place: BrowserPage) -> None:
    told = place.ask("""
      const page = new URL("page/", painter).href;
      const { connect } = await import(`${page}client.js`);
      const source = `import "${page}decoder-worker.js"`;
      const module = new Blob([source], { type: "text/javascript" });
      const pictures = () => new Worker(URL.createObjectURL(module), { type: "module" });
      const shown = async (workers) => {
        window.client = connect(painter, { memory: null, workers });
        window.diagnostics = [];
        client.on("diagnostic", ({ code }) => diagnostics.push(code));
        const seen = [];
        client.attach(element("canvas", {}), { onPresented: (picture) => seen.push(picture) });
        await until(() => seen.length > 3);
        await client.close();
        return diagnostics;
      };
      return [await shown({}), await shown({ pictures })];
    """)
    assert told == [["no_worker"], []]
    place.said.clear()  # a browser may tell that a worker of another origin is not allowed
