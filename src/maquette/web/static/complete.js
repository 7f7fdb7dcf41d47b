// Completion in a text box: columns and conditions of the page itself, nothing is asked of the service.
// The box is a combobox: arrows choose, Enter or Tab takes, Escape closes. Without this script the browser completes whole conditions.
const MOST = 10;

function complete(box) {
  const words = [...box.list.options].map((option) => option.value);
  box.removeAttribute("list");
  const list = document.createElement("ul");
  list.id = `${box.name}-list`;
  list.className = "completion";
  list.setAttribute("role", "listbox");
  list.setAttribute("aria-label", "Completions");
  list.hidden = true;
  box.closest("label").after(list);
  for (const [name, value] of [["role", "combobox"], ["aria-autocomplete", "list"], ["aria-expanded", "false"], ["aria-controls", list.id]]) box.setAttribute(name, value);
  let chosen = -1;

  // What is being typed: all that follows the last AND, OR, NOT, WHERE or parenthesis before the cursor.
  const start = () => {
    const before = box.value.slice(0, box.selectionStart);
    const ends = [...before.matchAll(/(?:\b(?:and|or|not|where)\s+|\()\s*/gi)].map((one) => one.index + one[0].length);
    return ends.length ? ends.at(-1) : 0;
  };
  const close = () => {
    list.hidden = true;
    chosen = -1;
    box.setAttribute("aria-expanded", "false");
    box.removeAttribute("aria-activedescendant");
  };
  const mark = (i) => {
    chosen = i;
    [...list.children].forEach((item, k) => item.setAttribute("aria-selected", String(k === i)));
    if (i >= 0) {
      box.setAttribute("aria-activedescendant", list.children[i].id);
      list.children[i].scrollIntoView({ block: "nearest" });
    } else box.removeAttribute("aria-activedescendant");
  };
  const take = (text) => {
    const from = start();
    const rest = box.value.slice(box.selectionStart);
    box.value = box.value.slice(0, from) + text + rest;
    box.setSelectionRange(from + text.length, from + text.length);
    close();
    box.focus();
    box.dispatchEvent(new Event("change", { bubbles: true }));
  };
  const open = () => {
    const typed = box.value.slice(start(), box.selectionStart).trimStart().toLowerCase();
    const fit = words.filter((word) => word.toLowerCase().startsWith(typed) && word.toLowerCase() !== typed).slice(0, MOST);
    list.replaceChildren(...fit.map((word, i) => {
      const item = document.createElement("li");
      item.id = `${list.id}-${i}`;
      item.setAttribute("role", "option");
      item.setAttribute("aria-selected", "false");
      item.textContent = word;
      item.addEventListener("mousedown", (event) => { event.preventDefault(); take(word); });
      return item;
    }));
    list.hidden = fit.length === 0;
    box.setAttribute("aria-expanded", String(fit.length > 0));
    mark(-1);
  };

  box.addEventListener("input", open);
  box.addEventListener("blur", close);
  box.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown" && list.hidden) { open(); event.preventDefault(); return; }
    if (list.hidden) return;
    const count = list.children.length;
    if (event.key === "ArrowDown") mark((chosen + 1) % count);
    else if (event.key === "ArrowUp") mark((chosen + count - 1) % count);
    else if (event.key === "Escape") close();
    else if ((event.key === "Enter" || event.key === "Tab") && chosen >= 0) take(list.children[chosen].textContent);
    else return;
    event.preventDefault();
  });
}

document.querySelectorAll("input[list]").forEach(complete);
