package web

import (
	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"github.com/kinesin-io/kinesin/internal/access"
)

// page is what every page has.
type page struct {
	Title     string
	Nav       string // the path of its section
	Who       string
	SignedIn  bool // by a form, and so may sign out
	SeesFleet bool // the menu offers Workers
	SeesAudit bool // the menu offers Audit
	ReadOnly  bool
	Version   string
	Done      string // what an action did
}

// htmxConfig turns off what would need inline styles or scripts, and what would keep pages.
const htmxConfig = `{"includeIndicatorStyles":false,"allowEval":false,"allowScriptTags":false,"selfRequestsOnly":true,"historyCacheSize":0,` +
	`"scrollBehavior":"auto"}`

// document returns an HTML document with a body.
func document(title string, body g.Node) g.Node {
	named := func(name, content string) g.Node { return h.Meta(h.Name(name), h.Content(content)) }
	style := func(name string) g.Node { return h.Link(h.Rel("stylesheet"), h.Href(assetPath(name))) }
	script := func(name string) g.Node { return h.Script(h.Src(assetPath(name)), h.Defer()) }
	return h.Doctype(h.HTML(
		h.Lang("en"),
		h.Head(
			h.Meta(h.Charset("utf-8")), h.TitleEl(text(title+" · Kinesin")),
			named("viewport", "width=device-width, initial-scale=1"), named("color-scheme", "light dark"), named("htmx-config", htmxConfig),
			h.Link(h.Rel("icon"), h.Href(assetPath("icon.svg")), h.Type("image/svg+xml")),
			style("vendor/uPlot.min.css"), style("app.css"),
			script("vendor/htmx.min.js"), script("vendor/sse.min.js"), script("vendor/uPlot.iife.min.js"), script("app.js"),
		),
		body,
	))
}

func logo(width string) g.Node {
	return h.Img(h.Src(assetPath("icon.svg")), h.Alt(""), h.Width(width), h.Height(width))
}

// barePage returns a page without a menu.
func barePage(title string, main g.Node) g.Node {
	return document(title, h.Body(h.Class("bare"), h.Main(h.ID("main"), main)))
}

// fullPage returns a page with all that surrounds its main part.
func fullPage(p *page, main g.Node) g.Node {
	return document(p.Title, h.Body(
		h.A(h.Class("skip"), h.Href("#main"), text("Skip to content")),
		h.Header(
			h.Class("bar"),
			h.A(h.Class("brand"), h.Href(Prefix), logo("20"), text("Kinesin")),
			menu(p),
			h.Div(
				h.Class("who"), g.If(p.ReadOnly, badge("calm", "read-only")),
				button("UTC", h.Type("button"), h.Class("quiet"), h.ID("zone"), g.Attr("hidden"), titled("Show how long ago times are, or times in your zone, or in UTC")),
				button("?", h.Type("button"), h.Class("quiet"), h.ID("keys"), g.Attr("hidden"), labelled("Keyboard shortcuts")),
				viewer(p),
			),
		),
		h.Main(h.ID("main"), h.TabIndex("-1"), g.If(p.Done != "", h.P(h.Class("done"), h.Role("status"), text(p.Done))), main),
		h.Footer(text("Kinesin "+p.Version)),
		keysHelp(),
	))
}

func menu(p *page) g.Node {
	item := func(path, name string) g.Node {
		return h.Li(link(Prefix+path, name, g.If(p.Nav == Prefix+path, h.Aria("current", "page"))))
	}
	return h.Nav(labelled("Sections"), h.Ul(
		item("", "Now"), item("tasks", "Tasks"), item("lambdas", "Lambdas"), item("dead", "Dead letters"), item("crons", "Crons"),
		item("groups", "Chains"),
		g.If(p.SeesFleet, item("workers", "Workers")), item("jobs", "Jobs"), g.If(p.SeesAudit, item("audit", "Audit")),
	))
}

// viewer says who looks, unless nobody has to say so.
func viewer(p *page) g.Node {
	name := h.Span(h.Class("name"), text(p.Who))
	if p.SignedIn {
		return post(h.Action(Prefix+"signout"), name, button("Sign out", h.Class("quiet")))
	}
	return g.If(p.Who != access.AnonymousName, name)
}

func keysHelp() g.Node {
	key := func(does string, keys ...string) g.Node {
		return h.Div(h.Dt(joined(" ", g.Map(keys, func(k string) g.Node { return h.Kbd(text(k)) }))), h.Dd(text(does)))
	}
	return h.Dialog(
		h.ID("help"), h.Aria("labelledby", "help-title"), h.H2(h.ID("help-title"), text("Keyboard")),
		h.Dl(
			h.Class("keys"), key("Go to the filter", "/"), key("Next and previous row", "j", "k"), key("Open the row", "Enter"),
			key("Select the row", "x"), key("This list", "?"),
		),
		h.Form(h.Method("dialog"), button("Close")),
	)
}

// problemPage says what went wrong.
func problemPage(p problem, back string) g.Node {
	return g.Group{
		h.H1(text(p.Title)),
		h.Div(
			h.Class("empty"), h.Role("alert"), h.P(text(p.Text)), g.If(p.Advice != "", h.P(text(p.Advice))),
			h.P(g.If(back != "", g.Group{link(back, "Back to the page"), text(" · ")}), link(Prefix, "Back to Now")),
		),
	}
}

// signInPage asks who somebody is.
func signInPage(next, refused, provider string) g.Node {
	return h.Div(
		h.Class("signin"), logo("40"), h.H1(text("Sign in to Kinesin")), wrong(refused),
		g.If(provider != "", g.Group{
			h.P(link(withQuery(Prefix+"signin/provider", "next", next), "Sign in with "+provider, h.Class("button primary"), h.ID("provider"))),
			meta(text("Or by a token:")),
		}),
		post(
			h.Action(Prefix+"signin"), hidden("next", next),
			field("token", "Token", h.Type("password"), h.AutoComplete("current-password"), h.Required(), g.If(provider == "", h.AutoFocus()), asTyped()),
			button("Sign in", g.If(provider == "", h.Class("primary"))),
		),
		meta(text("Use a token of the server's token file, of its policy, or of "), code("kinesin token create"),
			text(". The console may do what the token may.")),
	)
}

// againPage leads to a path of this site once more, from a page of the site itself.
func againPage(path string) g.Node {
	return h.Doctype(h.HTML(
		h.Lang("en"),
		h.Head(h.Meta(h.Charset("utf-8")), h.TitleEl(text("Kinesin")), h.Meta(g.Attr("http-equiv", "refresh"), h.Content("0; url="+path))),
		h.Body(h.H1(text("Kinesin")), h.P(link(path, "Go on"))),
	))
}
