// A button beside every text that is made to be copied. Without this script it is selected by hand.
document.addEventListener("click", async (event) => {
  const button = event.target.closest("button[data-copies]");
  if (!button) return;
  await navigator.clipboard.writeText(button.parentElement.querySelector("pre").textContent);
  button.textContent = "Copied";
  setTimeout(() => { button.textContent = "Copy"; }, 1500);
});
const show = () => document.querySelectorAll("button[data-copies]").forEach((button) => { button.hidden = false; });
document.addEventListener("htmx:afterSettle", show);
show();
