// Charts of a release: the specification stands in the page, Vega-Lite draws it, and what is below the pointer is said with its error.
// No code is made from text (the policy of the page forbids it): Vega's expressions are interpreted. Without this script the page
// shows the chart that the service made.
(() => {
  const tip = document.createElement("div");
  tip.className = "tip";
  tip.hidden = true;
  tip.setAttribute("role", "status");
  document.body.append(tip);
  let view = null;

  const show = (_handler, event, _item, value) => {
    tip.hidden = !value;
    if (!value) return;
    tip.replaceChildren(...Object.entries(value).map(([name, text]) => {
      const line = document.createElement("p");
      const head = document.createElement("b");
      head.textContent = `${name}: `;
      line.append(head, String(text));
      return line;
    }));
    const left = Math.min(event.clientX + 14, window.innerWidth - tip.offsetWidth - 8);
    tip.style.left = `${Math.max(left, 8)}px`;
    tip.style.top = `${Math.min(event.clientY + 14, window.innerHeight - tip.offsetHeight - 8)}px`;
  };

  const mix = (first, second, share) => {
    const part = (colour, i) => parseInt(colour.slice(1 + 2 * i, 3 + 2 * i), 16);
    return `rgb(${[0, 1, 2].map((i) => Math.round((1 - share) * part(first, i) + share * part(second, i))).join(", ")})`;
  };

  // The width of the page, and the colours of the style sheet, whichever of its two schemes is on.
  const styled = (spec, width) => {
    const style = getComputedStyle(document.documentElement);
    const of = (name) => style.getPropertyValue(`--${name}`).trim();
    const words = { labelColor: of("ink"), titleColor: of("quiet"), labelFontSize: 12, titleFontSize: 12, titleFontWeight: "normal", labelLimit: 220 };
    const columns = new Set(spec.data.values.map((one) => one.across)).size;
    const layer = spec.layer.filter((one) => one.name !== "figures" || width / columns > 80);
    const ramp = [of("card"), mix(of("page"), of("bar"), 0.7)]; // figures in the colour of text are read on all of it
    return {
      ...spec,
      layer,
      width,
      autosize: { type: "fit-x", contains: "padding" },
      config: {
        background: "transparent",
        font: getComputedStyle(document.body).fontFamily,
        view: { stroke: null },
        axis: { ...words, gridColor: of("line"), domainColor: of("line"), tickColor: of("line") },
        legend: words,
        bar: { fill: of("bar") },
        rule: { stroke: of("ink") },
        tick: { stroke: of("ink"), color: of("ink") },
        rect: { stroke: of("page") },
        text: { fill: of("ink"), fontSize: 12 },
        range: { heatmap: ramp, ramp },
        axisX: { labelAngle: columns && width / columns < 80 ? -60 : 0 },
        axisQuantitative: { tickCount: width < 500 ? 4 : 8 },
      },
    };
  };

  const draw = async () => {
    const place = document.getElementById("chart");
    if (!place) return;
    if (view) view.finalize();
    tip.hidden = true;
    place.hidden = false;
    try {
      const spec = styled(JSON.parse(place.dataset.specification), Math.max(place.clientWidth - 4, 200));
      const compiled = vegaLite.compile(spec, { logger: vega.logger(vega.Error) }).spec;
      view = new vega.View(vega.parse(compiled, null, { ast: true }), {
        expr: vegaInterpreter.expressionInterpreter,
        loader: vega.loader({ http: false, file: false }),
        logLevel: vega.Error,
        renderer: "svg",
        tooltip: (...what) => show(...what),
      });
      await view.initialize(place).runAsync();
      document.getElementById("drawn").hidden = true;
    } catch (error) {
      place.hidden = true; // the chart of the service stays
      throw error;
    }
  };

  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  document.addEventListener("htmx:afterSettle", draw);
  let timer = 0;
  window.addEventListener("resize", () => { clearTimeout(timer); timer = setTimeout(draw, 200); });
  draw();
})();
