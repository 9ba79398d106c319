(() => {
  const partners = {{ dark_partners|tojson }};
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const recolour = value => {
    if (typeof value === "string") return dark.matches && partners[value] || value;
    if (Array.isArray(value)) return value.map(recolour);
    if (value && typeof value === "object")
      return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, recolour(inner)]));
    return value;
  };
  const draw = () => {
    for (const plot of document.querySelectorAll(".plot")) {
      const spec = JSON.parse(plot.nextElementSibling.textContent);
      const options = { responsive: true, displayModeBar: false };
      Plotly.react(plot, recolour(spec.data), recolour(spec.layout), options);
    }
  };
  // A plot in closed details has no width until they open.
  for (const details of document.querySelectorAll("details"))
    details.addEventListener("toggle", () => {
      if (details.open) for (const plot of details.querySelectorAll(".plot")) Plotly.Plots.resize(plot);
    });
  draw();
  dark.addEventListener("change", draw);
})();
