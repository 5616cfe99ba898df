// The bar around a notebook: where the session is, what is kept when it moves, what a move has cost.
// It has no rights of its own: it reads one address, and whatever the notebook does to it costs nobody anything.
"use strict";

const EVERY_MS = 1000;
const UNSEEN_EVERY_MS = 5000;
const LEVELS = {
  park: "Everything is kept: while the owner uses the GPU, the notebook waits in memory and goes on by itself.",
  whole: "Everything in memory is kept, running cells and terminals too. This page goes on by itself.",
  variables:
    "Variables, functions and files are kept, under the same kernels. Running cells, terminals, open files and " +
    "connections are not. This page goes on by itself.",
  files: "Saved notebooks and files are kept. Variables are not: run the cells again after a move.",
};
const MARKS = { running: "●", moving: "➜", leaving: "▲", waiting: "○", over: "□" };

const at = (id) => document.getElementById(id);
let key = ""; // the session's token
let leavesAt = null;
let spoken = "";
let failures = 0;

function open() {
  key = location.hash.slice(1) || sessionStorage.getItem("key") || "";
  if (key) {
    sessionStorage.setItem("key", key); // of this tab alone, so that reloading it works
    history.replaceState(null, "", location.pathname);
  }
  const path = key ? `/lab?token=${encodeURIComponent(key)}` : "/lab";
  at("lab").src = path;
}

function stateOf(told) {
  if (told.ended_at) return "over";
  if (told.here && told.leaving_in_s !== null) return "leaving";
  if (told.here && told.ready) return "running";
  return told.moves > 0 || told.node ? "moving" : "waiting";
}

function words(told, state) {
  switch (state) {
    case "over":
      return ["Ended", told.where];
    case "leaving":
      return ["Leaving", `${told.leaving_why || "The owner wants the machine back"}. ${kept(told)} It has to be gone in`];
    case "running":
      return ["Running", `on ${told.node}${told.node_lab ? ` of ${told.node_lab}` : ""}${after(told)}${idle(told)}`];
    case "moving":
      return ["Moving", `${told.here ? `JupyterLab begins on ${told.node}.` : sentence(told.where)} What you do now waits and is answered there.`];
    default:
      return ["Starting", told.here ? `JupyterLab begins on ${told.node}.` : sentence(told.where)];
  }
}

function sentence(text) {
  return text ? `${text[0].toUpperCase()}${text.slice(1)}.` : "";
}

function kept(told) {
  const lost = (told.unsaved || []).length;
  if (told.level === "files") return "Files are kept, variables are not.";
  if (told.level === "variables") return lost ? `Variables come along, ${lost} of them do not.` : "Variables come along.";
  return "Everything comes along.";
}

function after(told) {
  if (!told.restored) return "";
  const lacks = told.missing.length;
  if (told.restored === "files") return ". Its variables are gone: the machine it was on could keep files only";
  return lacks ? `. ${counted(lacks, "thing")} did not come along` : ". Everything that was promised came along";
}

function idle(told) {
  if (told.ends_in_s === null || told.ends_in_s > 600) return "";
  return `. Nobody works in it: it ends in ${clock(told.ends_in_s)}, its files and variables are kept`;
}

function counted(number, word) {
  return `${number} ${word}${number === 1 ? "" : "s"}`;
}

function clock(seconds) {
  const left = Math.max(0, Math.ceil(seconds));
  return `${Math.floor(left / 60)}:${String(left % 60).padStart(2, "0")}`;
}

function show(told) {
  const state = stateOf(told);
  const [word, says] = words(told, state);
  const bar = at("bar");
  document.title = `${told.name}: ${word}`;
  bar.dataset.state = state;
  put("mark", MARKS[state]);
  put("name", told.name);
  put("state", word);
  put("says", says);
  leavesAt = state === "leaving" ? performance.now() + told.leaving_in_s * 1000 : null;
  put("level", LEVELS[told.level] || "");
  put("why-not", told.level_why_not ? `Why no better: ${told.level_why_not}.` : "");
  put("saved", savedWords(told));
  list("unsaved", told.unsaved || []);
  const unseen = told.missing.length > 0 && sessionStorage.getItem("seen") !== `${told.moves}`;
  list("missing", unseen ? told.missing : []);
  bar.dataset.lacks = unseen ? "yes" : "no";
  at("seen").onclick = () => {
    sessionStorage.setItem("seen", `${told.moves}`);
    show(told);
  };
  if (unseen && sessionStorage.getItem("opened") !== `${told.moves}`) {
    sessionStorage.setItem("opened", `${told.moves}`);
    unfold(true); // once a move: nobody should learn of it from a NameError
  }
  say(`${word}. ${says}`);
}

function savedWords(told) {
  if (told.saved_ago_s === null) return "Variables have not been saved on this machine yet.";
  const minutes = Math.round(told.saved_ago_s / 60);
  const size = told.saved_bytes ? ` (${(told.saved_bytes / 1e6).toFixed(1)} MB)` : "";
  return `Variables were saved ${minutes < 1 ? "less than a minute" : counted(minutes, "minute")} ago${size}.`;
}

function list(id, entries) {
  at(id).hidden = entries.length === 0;
  const rows = entries.map((entry) => {
    const row = document.createElement("li");
    const name = document.createElement("code");
    name.textContent = entry.name;
    row.append(name, `: ${entry.why}`);
    return row;
  });
  const before = at(`${id}-list`);
  const text = rows.map((row) => row.textContent).join("\n");
  if (before.dataset.text === text) return; // a selection in it stays
  before.dataset.text = text;
  before.replaceChildren(...rows);
}

function put(id, text) {
  if (at(id).textContent !== text) at(id).textContent = text;
}

function say(text) {
  const state = at("bar").dataset.state;
  if (state !== spoken) put("spoken", text);
  spoken = state;
}

function unfold(shown) {
  at("details").hidden = !shown;
  at("more").setAttribute("aria-expanded", String(shown));
}

function tick() {
  const clockFace = at("countdown");
  clockFace.hidden = leavesAt === null;
  if (leavesAt !== null) clockFace.textContent = clock((leavesAt - performance.now()) / 1000);
}

async function look() {
  try {
    const headers = { authorization: `token ${key}` };
    const answer = await fetch("state.json", { cache: "no-store", headers });
    if (answer.status === 401) throw new Error("open the address that gpunion notebook prints");
    if (!answer.ok) throw new Error(`status ${answer.status}`);
    const told = await answer.json();
    if (told.trouble) throw new Error(told.trouble);
    show(told);
    failures = 0;
  } catch (trouble) {
    failures += 1;
    if (failures > 2) {
      at("bar").dataset.state = "waiting";
      put("mark", MARKS.waiting);
      put("state", "Not live");
      put("says", `Its state is not known just now (${trouble.message}). Is gpunion notebook still running?`);
      leavesAt = null;
    }
  }
  setTimeout(look, document.hidden ? UNSEEN_EVERY_MS : EVERY_MS);
}

at("more").addEventListener("click", () => unfold(at("details").hidden));
setInterval(tick, 250);
open();
look();
