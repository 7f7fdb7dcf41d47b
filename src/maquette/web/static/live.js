// The page of a running job follows its events; without this script, "look again" does the same.
const job = document.getElementById("job");
const events = new EventSource(job.dataset.events);
events.addEventListener("progress", (event) => {
  const now = JSON.parse(event.data);
  document.getElementById("stage").textContent = now.stage;
  document.getElementById("share").value = now.share;
});
events.addEventListener("end", () => { events.close(); location.reload(); });
