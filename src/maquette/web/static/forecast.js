// The price and the error while somebody types, from the page that the button leads to. Nothing is asked or paid by it.
const PAUSE = 500;
const form = document.getElementById("ask");
const box = form.elements.q;
let timer = 0;
let latest = 0;

async function look() {
  const number = ++latest;
  const result = document.getElementById("result");
  const text = box.value.trim();
  let next = null;
  if (text) {
    const reply = await fetch(`${form.action}?${new URLSearchParams({ q: text })}`);
    if (reply.ok && !reply.redirected) next = new DOMParser().parseFromString(await reply.text(), "text/html").getElementById("result");
  }
  if (number !== latest) return; // somebody typed on
  result.replaceChildren(...(next ? document.importNode(next, true).childNodes : []));
}

box.addEventListener("input", () => {
  clearTimeout(timer);
  latest += 1; // what was shown is of another condition
  document.getElementById("result").replaceChildren();
  timer = setTimeout(look, PAUSE);
});
