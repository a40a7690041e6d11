"use strict";
// The pages work without this script. It shows changes in the open page, and adds keys.

const base = document.body.dataset;
const typing = () => /^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement?.nodeName ?? "");

// Drafts survive a page that is left or loaded again.

for (const area of document.querySelectorAll("form textarea")) {
	const key = "draft " + new URL(area.form.action).pathname;
	if (new URLSearchParams(location.search).has("sent")) {
		sessionStorage.removeItem(key);
		history.replaceState(null, "", location.pathname + location.hash);
	} else if (area.value === "") {
		area.value = sessionStorage.getItem(key) ?? "";
	}
	area.addEventListener("input", () => sessionStorage.setItem(key, area.value));
}

// Changes: an event says that something has changed, and the page is fetched again.

// isBusy reports whether a person is using a part of the page, which then stays as it is.
function isBusy(part) {
	const forms = part.nodeName === "FORM" ? [part] : [...part.querySelectorAll("form")];
	return forms.some(form => form.contains(document.activeElement) && typing() || [...form.elements].some(e =>
		e.type === "checkbox" ? e.checked !== e.defaultChecked : e.nodeName === "TEXTAREA" && e.value !== e.defaultValue));
}

// morph makes an element like another one, and leaves what is alike in place.
function morph(old, now, arrivals) {
	if (old.isEqualNode(now)) {
		return;
	}
	for (const { name } of [...old.attributes]) {
		if (!now.hasAttribute(name) && name !== "open" && name !== "tabindex") {
			old.removeAttribute(name);
		}
	}
	for (const { name, value } of now.attributes) {
		if (old.getAttribute(name) !== value && !name.startsWith("on")) {
			old.setAttribute(name, value);
		}
	}
	const byID = new Map([...old.children].filter(child => child.id).map(child => [child.id, child]));
	let at = old.firstChild;
	for (const child of [...now.childNodes]) {
		let same = child.id ? byID.get(child.id) : at;
		if (!child.id && same && (same.nodeType !== child.nodeType || same.nodeName !== child.nodeName || same.id)) {
			same = null;
		}
		if (!same) {
			const added = document.importNode(child, true);
			old.insertBefore(added, at);
			if (added.matches?.("[data-item]")) {
				arrivals.push(added);
			}
			continue;
		}
		if (same === at) {
			at = at.nextSibling;
		} else {
			old.insertBefore(same, at);
		}
		if (same.nodeType !== Node.ELEMENT_NODE) {
			same.data = child.data;
		} else if (!(same.nodeName === "FORM" && isBusy(same))) {
			morph(same, child, arrivals);
		}
	}
	while (at) {
		const gone = at;
		at = at.nextSibling;
		if (gone.nodeType !== Node.ELEMENT_NODE || !isBusy(gone)) {
			gone.remove();
		}
	}
}

// merge takes the changed parts of a page over, without moving what the reader looks at.
function merge(page) {
	const items = [...document.querySelectorAll("main [id]")];
	const anchor = items.find(e => e.matches("[data-item], section") && e.getBoundingClientRect().bottom > 0 && e.getBoundingClientRect().top >= -20) ?? items[0];
	const before = anchor?.getBoundingClientRect().top;
	const focused = document.activeElement;
	const arrivals = [];
	for (const part of document.querySelectorAll("[data-live]")) {
		const now = page.getElementById(part.id);
		if (now && !(part.id === "reply" && isBusy(part))) {
			morph(part, now, arrivals);
		}
	}
	document.title = page.title;
	if (anchor?.isConnected && scrollY > 0) {
		scrollBy({ top: anchor.getBoundingClientRect().top - before, behavior: "instant" });
	}
	if (focused && !focused.isConnected) {
		document.getElementById("main").focus({ preventScroll: true });
	}
	announce(arrivals.filter(item => item.closest("[data-arrivals]")));
}

function announce(arrivals) {
	for (const item of arrivals) {
		item.classList.add("arrived");
	}
	if (arrivals.length > 0) {
		const titles = arrivals.map(item => item.querySelector("h2, h3")?.textContent.trim());
		document.getElementById("announce").textContent = "New: " + titles.join(", ");
	}
}

let waiting = countIn(document.title);
let loading = false;
let again = false;

function countIn(title) {
	return Number(/^\((\d+)\)/.exec(title)?.[1] ?? 0);
}

function refresh() {
	if (loading) {
		again = true;
		return;
	}
	loading = true;
	const request = new XMLHttpRequest();
	request.open("GET", location.pathname + location.search);
	request.responseType = "document";
	request.onload = () => {
		if (request.status === 200 && request.responseXML?.getElementById("main")) {
			merge(request.responseXML);
			notify();
		}
	};
	request.onloadend = () => setTimeout(() => {
		loading = false;
		if (again) {
			again = false;
			refresh();
		}
	}, 300); // many changes at once are shown together
	request.send();
}

function notify() {
	const now = countIn(document.title);
	if (now > waiting && "Notification" in window && Notification.permission === "granted" && document.hidden) {
		new Notification(document.title, { tag: "oacp", body: document.querySelector("#waiting h3")?.textContent ?? "" });
	}
	waiting = now;
}

if (base.events) {
	const connection = document.getElementById("connection");
	const events = new EventSource(base.events);
	let lost = false;
	events.onopen = () => {
		connection.textContent = "";
		if (lost) {
			refresh();
		}
		lost = false;
	};
	events.onerror = () => {
		lost = true;
		connection.textContent = events.readyState === EventSource.CLOSED ? "Log in again to see changes." : "Not connected: changes are not shown.";
	};
	events.addEventListener("change", refresh);
	addEventListener("pagehide", () => events.close());
	const ask = document.getElementById("ask-notify");
	ask.hidden = !("Notification" in window) || Notification.permission !== "default";
	ask.addEventListener("click", async () => {
		await Notification.requestPermission();
		ask.hidden = true;
	});
}

// A page without a server finds words in its own list.

document.querySelector("[data-filter]")?.addEventListener("input", event => {
	const words = event.target.value.toLowerCase().split(/\s+/);
	for (const item of document.getElementById(event.target.dataset.filter).children) {
		item.hidden = !words.every(word => item.textContent.toLowerCase().includes(word));
	}
});

// Keys.

function step(by) {
	const items = [...document.querySelectorAll("[data-item]")];
	const at = items.findIndex(item => item.contains(document.activeElement));
	const next = items[at < 0 && by < 0 ? items.length - 1 : Math.max(0, Math.min(items.length - 1, at + by))];
	const target = next?.querySelector("[data-open]") ?? next;
	target?.focus();
	next?.scrollIntoView({ block: "nearest" });
}

function reply() {
	const item = document.activeElement?.closest("[data-item]");
	const link = item?.querySelector("[data-reply], .state a[href$='#reply']");
	const text = document.getElementById("text");
	if (link) {
		link.click();
	} else if (text) {
		text.focus();
	} else {
		document.querySelector("[data-reply]")?.click();
	}
}

const dialog = document.getElementById("keys");
const keys = {
	j: () => step(1), k: () => step(-1), r: reply, "/": () => document.getElementById("search")?.focus(),
	"?": () => dialog?.showModal(),
};
addEventListener("keydown", event => {
	if (event.key === "Escape" && typing()) {
		document.activeElement.blur();
	}
	const act = keys[event.key];
	if (act && !event.ctrlKey && !event.metaKey && !event.altKey && !typing() && !dialog?.open) {
		event.preventDefault();
		act();
	}
});
const help = document.getElementById("ask-keys");
if (help) {
	help.hidden = false;
	help.addEventListener("click", () => dialog.showModal());
}
