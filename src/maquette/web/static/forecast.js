// While somebody types, htmx brings the price and the error of what is in the box. What was shown before is of another condition, with a
// button that would pay for that one, and goes at once.
document.querySelector("#ask input[name=q]").addEventListener("input", () => document.getElementById("result").replaceChildren());
