// The slider over the budgets of the table: it ticks the row, says its errors and moves the mark of the chart.
const slider = document.getElementById("slider");
if (slider) {
  const range = slider.querySelector("input");
  const says = document.getElementById("slider-says");
  const mark = document.getElementById("mark");
  const radios = [...document.querySelectorAll("input[type=radio][name=epsilon]")];
  const show = () => {
    const row = radios[range.value].closest("tr");
    const text = (name) => row.querySelector(name).textContent.trim();
    says.textContent = `epsilon ${radios[range.value].value}: expected error ${text(".expected")}, certified ${text(".certified")} points`;
    range.setAttribute("aria-valuetext", says.textContent);
    for (const end of ["x1", "x2"]) mark.setAttribute(end, row.dataset.x);
  };
  range.addEventListener("input", () => { radios[range.value].checked = true; show(); });
  radios.forEach((radio, i) => radio.addEventListener("change", () => { range.value = i; show(); }));
  slider.hidden = false;
  show();
}
