package web

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"github.com/kinesin-io/kinesin/api"
)

// A page is a function of its data that returns nodes. Values enter a page by text and as values of attributes,
// which escape them; nothing here writes markup that is not made of nodes.

// text returns a text, whoever wrote it. Characters that no screen shows are spelled out.
func text(s string) g.Node { return g.Text(api.Visible(s)) }

func textf(format string, args ...any) g.Node { return text(fmt.Sprintf(format, args...)) }

// titled and labelled return the attributes of an element that people read.
func titled(s string) g.Node   { return h.Title(api.Visible(s)) }
func labelled(s string) g.Node { return h.Aria("label", api.Visible(s)) }

// either returns yes if a condition holds, and no otherwise.
func either[T any](holds bool, yes, no T) T {
	if holds {
		return yes
	}
	return no
}

// orDash returns a text, or a dash if what it would say is not known.
func orDash(known bool, s string) string { return either(known, s, "–") }

// named spells out the values that are not empty, each behind a separator and its name.
func named(separator string, pairs ...string) (all string) {
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			all += separator + pairs[i] + pairs[i+1]
		}
	}
	return all
}

// joined returns nodes with a separator between them.
func joined(separator string, all g.Group) (nodes g.Group) {
	for i, n := range all {
		nodes = append(nodes, g.If(i > 0, text(separator)), n)
	}
	return nodes
}

func code(s string) g.Node       { return h.Code(text(s)) }
func wrapped(s string) g.Node    { return h.Code(h.Class("wrap"), text(s)) }
func strong(s string) g.Node     { return h.Strong(text(s)) }
func bad(s string) g.Node        { return h.Strong(h.Class("bad"), text(s)) }
func none(s string) g.Node       { return h.P(h.Class("none"), text(s)) }
func failure(s string) g.Node    { return h.Pre(h.Class("error"), text(s)) }
func meta(all ...g.Node) g.Node  { return h.P(h.Class("meta"), g.Group(all)) }
func note(all ...g.Node) g.Node  { return h.Span(h.Class("meta"), g.Group(all)) }
func below(all ...g.Node) g.Node { return h.Div(h.Class("meta"), g.Group(all)) }

// empty returns what is shown in place of a list that has no rows.
func empty(all ...g.Node) g.Node { return h.Div(h.Class("empty"), g.Group(all)) }

// wrong says what is wrong with what was typed, if something is.
func wrong(problem string, attributes ...g.Node) g.Node {
	return g.If(problem != "", h.P(h.Class("wrong"), h.Role("alert"), g.Group(attributes), text(problem)))
}

func badge(tone, s string, attributes ...g.Node) g.Node {
	return h.Span(h.Class("badge "+tone), g.Group(attributes), text(s))
}

func state(name string) g.Node { return badge(tone(name), name) }

func link(to, name string, attributes ...g.Node) g.Node {
	return h.A(h.Href(to), g.Group(attributes), text(name))
}

func lambdaLink(name string) g.Node { return link(lambdaPath(name), name) }

// quickLinks lists what one click shows.
func quickLinks(label string, links g.Group) g.Node {
	return h.Ul(h.Class("quick"), labelled(label), g.Map(links, func(l g.Node) g.Node { return h.Li(l) }))
}

// current marks a link that leads to what is shown already.
func current(is bool) g.Node { return g.If(is, h.Aria("current", "true")) }

const timeFormat = "2006-01-02 15:04:05.000"

// moment shows an instant in microseconds; the script of the page shows how long ago it is.
func moment(micros int64, attributes ...g.Node) g.Node {
	if micros == 0 {
		return h.Span(h.Class("none"), text("–"))
	}
	return at(time.UnixMicro(micros), attributes...)
}

// asClock has a time shown as clocks do, in the zone of the viewer, where how far it is away says too little.
func asClock() g.Node { return h.Class("clock") }

// at shows a time.
func at(t time.Time, attributes ...g.Node) g.Node {
	t = t.UTC()
	return h.Time(h.DateTime(t.Format("2006-01-02T15:04:05.000Z")), g.Group(attributes), text(t.Format(timeFormat)+" UTC"))
}

// calendar lists instants in microseconds.
func calendar(micros []int64) g.Node {
	return h.Ol(h.Class("calendar"), g.Map(micros, func(m int64) g.Node { return h.Li(moment(m, asClock())) }))
}

// section returns a part of a page under a heading.
func section(id, title string, all ...g.Node) g.Node {
	return h.Section(h.Aria("labelledby", id+"-title"), h.H2(h.ID(id+"-title"), text(title)), g.Group(all))
}

func columns(all ...g.Node) g.Node { return h.Div(h.Class("columns"), g.Group(all)) }

// facts returns a list of names with their values, each a fact.
func facts(all ...g.Node) g.Node { return h.Dl(h.Class("facts"), g.Group(all)) }

func fact(name string, value ...g.Node) g.Node { return h.Div(h.Dt(text(name)), h.Dd(g.Group(value))) }

// shown shows the fields of m that need no words but their names, without those named in but.
func shown(m proto.Message, but ...string) g.Node {
	return g.Map(api.Shown(m), func(f [2]string) g.Node {
		return g.If(!slices.Contains(but, f[0]), fact(strings.ToUpper(f[0][:1])+f[0][1:], text(f[1])))
	})
}

// tile shows a figure under its name, and below it what there is to say about the figure.
func tile(name string, figure, about g.Node) g.Node { return tileOf("tile", name, figure, about) }

func tileOf(class, name string, figure, about g.Node) g.Node {
	return h.Div(h.Class(class), h.H2(text(name)), h.P(h.Class("figure"), figure), meta(about))
}

// perSecond returns a rate, of outcomes of a name unless that is empty.
func perSecond(rate float64, outcome string) g.Node {
	return g.Group{text(rateText(rate)), h.Small(text("/s" + outcome))}
}

// table returns a table, which scrolls sideways where the window is narrow.
func table(heads, rows g.Group) g.Node { return tableOf(nil, heads, rows) }

// list returns a table whose rows one walks through by keys.
func list(heads, rows g.Group) g.Node { return listOf("rows", heads, rows) }

func listOf(class string, heads, rows g.Group) g.Node {
	return tableOf(g.Group{h.Class(class), g.Attr("data-rows")}, heads, rows)
}

func tableOf(attributes, heads, rows g.Group) g.Node {
	return h.Div(h.Class("scroll"), h.Table(attributes, h.THead(h.Tr(heads)), h.TBody(rows)))
}

func th(name string) g.Node       { return h.Th(h.Scope("col"), text(name)) }
func thNumber(name string) g.Node { return h.Th(h.Scope("col"), h.Class("n"), text(name)) }

// thUnseen returns the head of a column whose cells say by themselves what they are.
func thUnseen(name string) g.Node { return h.Th(h.Scope("col"), h.Span(h.Class("hide"), text(name))) }

// row returns a row that leads to a page.
func row(to string, cells ...g.Node) g.Node { return h.Tr(h.Data("href", to), g.Group(cells)) }

func td(s string) g.Node          { return h.Td(text(s)) }
func tdNumber(s string) g.Node    { return h.Td(h.Class("n"), text(s)) }
func tdText(all ...g.Node) g.Node { return h.Td(h.Class("text"), g.Group(all)) }
func tdLine(s string) g.Node      { return h.Td(h.Class("line"), g.If(s != "", titled(s)), text(short(s))) }

// tdShortID returns a cell with as many characters of an id as tell it from the others in its list.
func tdShortID(to, id string, chars int) g.Node {
	return h.Td(h.Class("id"), link(to, api.ShortID(id, chars), titled(id)))
}

// shortIDChars returns how many characters of the ids of a list to show.
func shortIDChars[T any](all []T, id func(T) string) int {
	ids := make([]string, len(all))
	for i, of := range all {
		ids[i] = id(of)
	}
	return api.ShortIDChars(ids)
}

// tick returns a cell that selects its row.
func tick(name, value string) g.Node {
	return h.Td(h.Class("tick"), h.Input(h.Type("checkbox"), h.Name(name), h.Value(value), labelled("Select "+value)))
}

// nextPage leads on if there is more.
func nextPage(path, name string) g.Node {
	return either(path != "", link(path, name, h.Rel("next")), note(text("This is the end.")))
}

// whole is the width of a bar.
const whole = 1000

// bar draws a bar of some parts.
func bar(parts ...g.Node) g.Node {
	box := g.Attr("viewBox", "0 0 "+strconv.Itoa(whole)+" 40")
	return h.SVG(h.Class("span"), box, g.Attr("preserveAspectRatio", "none"), h.Aria("hidden", "true"), g.Group(parts))
}

func barPart(class string, x, y, width, height int64) g.Node {
	of := func(name string, n int64) g.Node { return g.Attr(name, strconv.FormatInt(n, 10)) }
	return g.El("rect", h.Class(class), of("x", x), of("y", y), of("width", width), of("height", height))
}

// post returns a form that changes something. It goes to the URL of its page unless it has an h.Action.
func post(all ...g.Node) g.Node { return h.Form(h.Method("post"), g.Group(all)) }

// filter returns a form that narrows what a page shows.
func filter(path string, all ...g.Node) g.Node {
	return h.Form(h.Class("filter"), h.Method("get"), h.Action(path), h.Role("search"), g.Group(all))
}

// search returns the field of a filter for what to look for; a key leads to it.
func search(label, value string, attributes ...g.Node) g.Group {
	return field("q", label, h.Value(value), g.Attr("data-search"), unaided(), g.Group(attributes))
}

// hidden returns fields that are sent as they are, of names and values.
func hidden(pairs ...string) (all g.Group) {
	for i := 0; i+1 < len(pairs); i += 2 {
		all = append(all, h.Input(h.Type("hidden"), h.Name(pairs[i]), h.Value(pairs[i+1])))
	}
	return all
}

// field returns a field with its label; its name is its id too.
func field(id, label string, attributes ...g.Node) g.Group {
	return fieldAs(id, id, label, attributes...)
}

func fieldAs(id, name, label string, attributes ...g.Node) g.Group {
	return g.Group{h.Label(h.For(id), text(label)), h.Input(h.ID(id), h.Name(name), g.Group(attributes))}
}

// hinted returns a field with a hint behind it.
func hinted(id, label, hint string, attributes ...g.Node) g.Group {
	return g.Group{
		field(id, label, g.Group(attributes), describedBy(id+"-hint")), text(" "), h.Span(h.Class("meta"), h.ID(id+"-hint"), text(hint)),
	}
}

// hintBelow returns a hint in a line of its own, for fields with describedBy.
func hintBelow(id string, all ...g.Node) g.Node { return h.P(h.Class("meta"), h.ID(id), g.Group(all)) }

func describedBy(id string) g.Node { return h.Aria("describedby", id) }

// reasonField asks why somebody stops work.
func reasonField(label string, attributes ...g.Node) g.Group {
	return hinted("reason", label, "the audit log keeps it", reasonMax(), g.Group(attributes))
}

// ownZone asks for a time zone; the script of the page fills in that of the viewer.
func ownZone(value string) g.Group {
	return fieldAs("zone-name", "zone", "Zone", h.Value(value), g.Attr("data-own-zone"), size(20), asTyped(), h.Placeholder("UTC"))
}

// payloadField asks for a text of several lines. A browser drops the line end that is in front of the text.
func payloadField(label string, rows int, value string, attributes ...g.Node) g.Group {
	return g.Group{
		h.Label(h.For("payload"), text(label)),
		h.Textarea(h.ID("payload"), h.Name("payload"), h.Rows(strconv.Itoa(rows)), asTyped(), g.Group(attributes), g.Text("\n"+value)),
	}
}

// choice returns a list to choose from with its label; its name is its id too.
func choice(id, label string, all ...g.Node) g.Group {
	return g.Group{h.Label(h.For(id), text(label)), h.Select(h.ID(id), h.Name(id), g.Group(all))}
}

// option returns what can be chosen under another name than the value that is sent.
func option(value, name string, chosen bool) g.Node {
	return h.Option(h.Value(value), g.If(chosen, h.Selected()), text(name))
}

// plainOptions returns values that can be chosen.
func plainOptions(all []string, chosen string) g.Group {
	return g.Map(all, func(value string) g.Node { return h.Option(g.If(value == chosen, h.Selected()), text(value)) })
}

// agree asks for a tick where something is easily done that is not meant.
func agree(name, to string, attributes ...g.Node) g.Node {
	return h.Label(h.Input(h.Type("checkbox"), h.Name(name), h.Value("yes"), g.Group(attributes)), text(" "+to))
}

func size(chars int) g.Node { return g.Attr("size", strconv.Itoa(chars)) }
func numeric() g.Node       { return g.Attr("inputmode", "numeric") }
func decimal() g.Node       { return g.Attr("inputmode", "decimal") }
func reasonMax() g.Node     { return h.MaxLength(strconv.Itoa(reasonBytesMax)) }

// asTyped keeps browsers from looking for mistakes in what is no prose.
func asTyped() g.Node { return g.Attr("spellcheck", "false") }

// unaided also keeps them from proposing what was typed before.
func unaided() g.Group { return g.Group{asTyped(), h.AutoComplete("off")} }

func button(name string, attributes ...g.Node) g.Node {
	return h.Button(g.Group(attributes), text(name))
}

func primary(name string, attributes ...g.Node) g.Node {
	return button(name, h.Class("primary"), g.Group(attributes))
}

func danger(name string, attributes ...g.Node) g.Node {
	return button(name, h.Class("danger"), g.Group(attributes))
}

// forAction returns attributes of a button of a form that is sent for several actions.
func forAction(action string) g.Node { return g.Group{h.Name("action"), h.Value(action)} }

func buttonLink(to, name string) g.Node { return link(to, name, h.Class("button")) }
func buttons(all ...g.Node) g.Node      { return h.P(h.Class("buttons"), g.Group(all)) }
func actions(all ...g.Node) g.Node      { return h.Div(h.Class("actions"), g.Group(all)) }

// action returns a form that opens when it is asked for.
func action(name string, form ...g.Node) g.Node { return details("action", name, post(form...)) }

// wideAction returns one that has room for long fields.
func wideAction(name string, form ...g.Node) g.Node {
	return details("action wide", name, post(form...))
}

func details(class, name string, all ...g.Node) g.Node {
	return h.Details(h.Class(class), h.Summary(text(name)), g.Group(all))
}

// shownOnDemand returns what is long and seldom read.
func shownOnDemand(all ...g.Node) g.Node { return h.Details(h.Summary(text("Show")), g.Group(all)) }

// redriveAll leads to the review of a redrive of all tasks of a filter.
func redriveAll(where string) g.Node {
	return post(h.Action(Prefix+"tasks"), hidden("q", where, "all", "all", "action", "redrive"), button("Redrive…"))
}

// livePart returns the part of a page that is replaced whenever the page ticks.
func livePart(path string, part g.Node) g.Node {
	return h.Div(
		h.ID("live"), g.Attr("hx-get", path+"?part=live"), g.Attr("hx-trigger", "tick from:body"), g.Attr("hx-swap", "innerHTML"), part,
	)
}

// liveTitle returns the heading of a page that ticks, and says so.
func liveTitle(name string) g.Node {
	return h.Div(h.Class("title"), h.H1(text(name)), h.Span(h.Class("meta live"), ticking(), text("live")))
}

// ticks makes a page tick without a word.
func ticks() g.Node { return h.Span(ticking(), g.Attr("hidden")) }

func ticking() g.Node { return g.Group{h.ID("live-state"), h.Data("live", "2000")} }

// contentShown shows a payload or a result.
func contentShown(c *content) g.Node {
	if c.Size == 0 {
		return none("Empty.")
	}
	return g.Group{
		meta(text(c.Kind + ", " + bytesText(c.Size) + either(c.More, "; the first part is shown", ""))),
		h.Pre(h.Class("content"), h.TabIndex("0"), h.Role("group"), labelled(c.Kind), text(c.Text)),
	}
}

// scanPlan asks before rows are read that cost money.
func scanPlan(c *scanCost) g.Node {
	return section("cost", "This reads many rows", h.Class("plan"), h.P(text(c.Text)), buttons(buttonLink(c.Go, "Read them")))
}

// filterHint says how filters are written.
func filterHint(metered bool) g.Node {
	codes := func(all ...string) g.Node { return joined(" ", g.Map(all, code)) }
	return details(
		"hint", "Fields and operators",
		h.P(
			text("Fields: "),
			codes("lambda", "state", "priority", "collection", "key", "tag.NAME", "error", "worker", "due", "ended", "created", "attempts", "any"),
			text(". Compare with "), codes("=", "!=", "~"), text(" (contains) "), codes("in (…)", "<", ">"), text("; join with "),
			codes("and", "or", "not"), text(". "), code("due<-1h"), text(" was due more than an hour ago. A tag such as customer: "),
			code("tag.customer=acme"), text(". Words that are no comparison are looked for in ids, lambdas, collections, keys, values of tags and last errors, as "),
			code(`any~"words"`), text(" does. The id of a task, or its beginning, opens it."),
		),
		g.If(metered, h.P(text("This store bills reads. A filter that names lambdas, priorities or states reads only those; "+
			"one that does not, and “Newest end first”, read about one unit for each row."))),
	)
}
