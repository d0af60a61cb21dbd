// What pages do beyond links and forms: times in the viewer's zone, keys, plots, and what is live. Without it
// every page works, and shows times in UTC.
'use strict';
(() => {
	const byId = (id) => document.getElementById(id);
	const stored = {
		get: (name) => { try { return localStorage.getItem(name); } catch { return null; } },
		set: (name, value) => { try { localStorage.setItem(name, value); } catch { /* private windows have none */ } },
	};

	// Times. Each shows how long ago it is, with the instant in its title, or what clocks show in one of two zones.
	const own = Intl.DateTimeFormat().resolvedOptions().timeZone || 'UTC';
	const format = (zone) => new Intl.DateTimeFormat('sv-SE', {
		timeZone: zone, year: 'numeric', month: '2-digit', day: '2-digit', hour: '2-digit', minute: '2-digit', second: '2-digit', fractionalSecondDigits: 3,
	});
	const inOwn = format(own), inUTC = format('UTC');
	const text = (f, date) => f.format(date).replace(',', '.');
	// Unit by unit: the seconds of it, and from how many seconds on it is used.
	const units = [[31536000, 'y', 63072000], [86400, 'd', 172800], [3600, 'h', 5400], [60, 'min', 60], [1, 's', 1]];
	const ago = (date) => {
		const seconds = (Date.now() - date) / 1e3, long = Math.abs(seconds);
		const [length, unit] = units.find(([, , from]) => long >= from) || [];
		if (!unit) return 'now';
		const span = `${Math.floor(long / length)} ${unit}`;
		return seconds > 0 ? `${span} ago` : `in ${span}`;
	};
	const modes = { ago: 'ago', own, UTC: 'UTC' };
	let mode = stored.get('kinesin-times');
	if (!(mode in modes)) mode = 'ago';
	let utc = mode === 'UTC';
	const showTimes = (within) => {
		for (const e of within.querySelectorAll('time[datetime]')) {
			const date = new Date(e.dateTime);
			if (Number.isNaN(date.getTime())) continue;
			const here = `${text(inOwn, date)} ${own}`, there = `${text(inUTC, date)} UTC`;
			const shown = { ago: ago(date), own: text(inOwn, date), UTC: there }[mode === 'ago' && e.classList.contains('clock') ? 'own' : mode];
			if (e.textContent !== shown) e.textContent = shown;
			e.classList.toggle('own', !utc);
			e.title = utc ? here : `${here}\n${there}`;
		}
	};
	setInterval(() => { if (mode === 'ago' && !document.hidden) showTimes(document); }, 5000);
	const zone = byId('zone');
	const nameZone = () => { zone.textContent = modes[mode]; document.documentElement.classList.toggle('clocks', mode !== 'ago'); };
	if (zone) {
		zone.hidden = false;
		nameZone();
		zone.addEventListener('click', () => {
			const all = Object.keys(modes);
			mode = all[(all.indexOf(mode) + 1) % all.length];
			utc = mode === 'UTC';
			stored.set('kinesin-times', mode);
			nameZone();
			showTimes(document);
			for (const plot of plots) { plot.draw(); plot.tellUntil(); }
		});
	}

	for (const e of document.querySelectorAll('[data-own-zone]')) e.value ||= own;

	// What scrolls sideways can be scrolled by keys. On a narrow screen the cells of a table show their heads.
	const reachable = () => {
		for (const table of document.querySelectorAll('.scroll table')) {
			const heads = [...table.querySelectorAll('thead th')].map((th) => th.textContent.trim());
			for (const row of table.tBodies[0]?.rows || []) [...row.cells].forEach((cell, i) => { cell.dataset.label = heads[i] || ''; });
		}
		for (const e of document.querySelectorAll('.scroll')) {
			if (e.scrollWidth > e.clientWidth) e.tabIndex = 0; else e.removeAttribute('tabindex');
		}
	};
	addEventListener('resize', reachable);

	// Live parts are streamed while the page is seen, and asked for again and again where that fails. A page
	// that is not seen costs nobody anything, and holds none of the few connections of a browser.
	const live = byId('live-state'), part = byId('live');
	const inUse = () => document.querySelector('#live details[open], #live :focus');
	let waiting = false, stream = null, missed = false;
	if (live) {
		setInterval(() => {
			if (document.hidden || waiting || stream && !missed || inUse()) return;
			missed = false;
			htmx.trigger(document.body, 'tick');
		}, Number(live.dataset.live));
	}
	const connect = () => htmx.trigger(part, 'htmx:afterProcessNode'); // as the extension begins a stream
	const disconnect = () => { if (stream) stream.close(); stream = null; };
	if (live && part && window.EventSource) { // htmx, which is not ready yet, begins the first stream
		part.setAttribute('sse-connect', part.getAttribute('hx-get'));
		part.setAttribute('sse-swap', 'live');
		part.setAttribute('hx-ext', 'sse');
		part.addEventListener('htmx:sseOpen', (e) => {
			if (stream !== e.detail.source) disconnect();
			stream = e.detail.source;
			if (document.hidden) disconnect(); else stale(false);
		});
		part.addEventListener('htmx:sseError', () => { stream = null; });
		part.addEventListener('htmx:sseBeforeMessage', (e) => { if (inUse()) { missed = true; e.preventDefault(); } });
		document.addEventListener('visibilitychange', () => { if (document.hidden) disconnect(); else if (!stream) connect(); });
	}
	const stale = (is) => {
		if (!live || live.hidden) return;
		live.classList.toggle('stale', is);
		live.textContent = is ? 'no answer; trying again' : 'live';
	};
	document.addEventListener('htmx:beforeRequest', () => { waiting = true; });
	document.addEventListener('htmx:afterRequest', (e) => { waiting = false; stale(!e.detail.successful); });
	document.addEventListener('htmx:load', (e) => { if (e.detail.elt !== document.body) showTimes(e.detail.elt); reachable(); });

	// Plots.
	const plots = [];
	const colours = () => {
		const style = getComputedStyle(document.documentElement);
		const of = (name) => style.getPropertyValue(name).trim();
		return { ink: of('--soft'), line: of('--line-soft'), accent: of('--accent'), good: '#2f9e5f', bad: '#d8463c', warn: '#d99a1c' };
	};
	const short = (n) => (n >= 1e6 ? `${+(n / 1e6).toFixed(1)}M` : n >= 1e3 ? `${+(n / 1e3).toFixed(1)}k` : `${+n.toFixed(2)}`);
	const lasting = (s) => { const [of, unit] = s >= 3600 ? [3600, 'h'] : s >= 60 ? [60, 'min'] : s >= 1 || !s ? [1, 's'] : [0.001, 'ms']; return `${+(s / of).toPrecision(3)} ${unit}`; };
	class Plot {
		constructor(box) {
			this.box = box;
			this.load();
			new ResizeObserver(() => this.fit()).observe(box);
			setInterval(() => { if (!document.hidden) this.load(); }, 15000);
		}
		async load() {
			try {
				const answer = await fetch(this.box.dataset.plot, { headers: { Accept: 'application/json' } });
				if (!answer.ok) return;
				this.data = await answer.json();
				this.draw();
				this.tellUntil();
			} catch { /* the next try follows */ }
		}
		// Counting has a bound: from then on there is at least what is drawn.
		tellUntil() {
			const say = this.box.parentElement.querySelector('[data-until]');
			if (!say || !this.data?.times) return;
			const until = this.data.until && new Date(this.data.until * 1e3);
			say.textContent = until ? `Counted in full until ${text(utc ? inUTC : inOwn, until).slice(0, 16)}; later bars are at least so high.` : 'All are counted.';
		}
		size() { return { width: Math.max(200, this.box.clientWidth - 16), height: 150 }; }
		fit() { if (this.plot) this.plot.setSize(this.size()); }
		draw() {
			if (!this.data) return;
			const rows = [this.data.times || [], ...this.data.values.map((v) => v || [])];
			if (this.plot && this.zone === utc) { this.plot.setData(rows); return; }
			if (this.plot) this.plot.destroy();
			this.zone = utc;
			const c = colours(), bars = this.box.dataset.bars, series = (this.box.dataset.series || 'accent good').split(' ');
			const late = series[1] === 'warn', figure = late ? lasting : short;
			const axis = { stroke: c.ink, grid: { stroke: c.line, width: 1 }, ticks: { stroke: c.line, width: 1 }, font: '12px system-ui, sans-serif' };
			this.plot = new uPlot({
				...this.size(),
				tzDate: (t) => (utc ? uPlot.tzDate(new Date(t * 1e3), 'UTC') : new Date(t * 1e3)),
				scales: { x: { range: (u, low, high) => { const span = Number(this.box.dataset.span); return span ? [Math.floor(Date.now() / 1e3) - span, Math.floor(Date.now() / 1e3)] : [low, high + (bars ? 1800 : 0)]; } }, y: { range: (u, low, high) => [0, high > 0 ? high * 1.1 : 1] } },
				axes: [{ ...axis, values: (u, times) => times.map((t) => new Intl.DateTimeFormat('sv-SE', { timeZone: utc ? 'UTC' : own, hour: '2-digit', minute: '2-digit' }).format(new Date(t * 1e3))) },
					{ ...axis, size: late ? 68 : 52, values: (u, all) => all.map(figure) }],
				series: [{ label: 'time', value: (u, t) => (t == null ? '–' : text(utc ? inUTC : inOwn, new Date(t * 1e3)).slice(0, 16)) }, ...this.data.names.map((label, i) => ({
					label, stroke: c[series[i]], width: 1.5, spanGaps: true, points: { show: !bars && rows[0].length < 3 },
					fill: bars && !i ? c.accent : undefined, paths: bars ? (i ? () => null : uPlot.paths.bars({ size: [0.7], align: 1 })) : undefined,
					value: (u, n, of, at) => (n == null ? '–' : `${this.data.until && this.data.times[at] + 1800 > this.data.until && !i ? '≥ ' : ''}${late ? lasting(n) : +n.toFixed(2)}`),
				}))],
				legend: { live: true },
				cursor: { drag: { x: false, y: false } },
			}, rows, this.box);
		}
	}
	const startPlots = () => {
		for (const box of document.querySelectorAll('[data-plot]')) plots.push(new Plot(box));
		matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => {
			for (const plot of plots) { plot.zone = undefined; plot.draw(); }
		});
	};

	// Rows and keys.
	const rows = () => [...document.querySelectorAll('table[data-rows] tbody tr')];
	let at = -1;
	const go = (by) => {
		const all = rows();
		if (!all.length) return;
		all[at]?.classList.remove('at');
		at = Math.min(all.length - 1, Math.max(0, at + by));
		all[at].classList.add('at');
		all[at].scrollIntoView({ block: 'nearest' });
		all[at].querySelector('a')?.focus({ preventScroll: true });
	};
	const help = byId('help');
	byId('keys')?.removeAttribute('hidden');
	byId('keys')?.addEventListener('click', () => help.showModal());
	document.addEventListener('keydown', (e) => {
		if (e.ctrlKey || e.metaKey || e.altKey || help?.open) return;
		if (e.target.matches('input:not([type=checkbox]), textarea, select')) {
			if (e.key === 'Escape') e.target.blur();
			return;
		}
		const search = document.querySelector('[data-search]');
		const row = rows()[at];
		const box = row?.querySelector('input[type=checkbox]');
		if (e.key === '/' && search) search.focus();
		else if (e.key === 'j') go(1);
		else if (e.key === 'k') go(-1);
		else if (e.key === 'x' && box) { box.checked = !box.checked; selected(); }
		else if (e.key === '?' && help) help.showModal();
		else return;
		e.preventDefault();
	});
	document.addEventListener('click', (e) => {
		const row = e.target.closest('tr[data-href]');
		if (!row || e.target.closest('a, button, input, select, label, summary, form') && !e.target.matches('td') || String(getSelection())) return;
		if (e.target.closest('td.tick')) return;
		location.href = row.dataset.href;
	});

	// Selected tasks.
	const boxes = () => [...document.querySelectorAll('input[type=checkbox][name=id]')];
	const selected = () => {
		const n = boxes().filter((b) => b.checked).length;
		if (byId('selected')) byId('selected').textContent = n ? `${n} selected` : '';
	};
	byId('tick-all')?.addEventListener('change', (e) => { for (const b of boxes()) b.checked = e.target.checked; selected(); });
	document.addEventListener('change', (e) => { if (e.target.matches('input[name=id]')) selected(); });

	showTimes(document);
	reachable();
	if (document.querySelector('[data-plot]')) startPlots();
})();
