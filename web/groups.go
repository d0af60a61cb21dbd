package web

import (
	"cmp"
	"maps"
	"slices"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
)

const (
	groupsShown   = 50
	chainPagesMax = 10
	// inChains selects the tasks that others may follow.
	inChains = "followups>0"
)

type groupsBody struct {
	Tasks  []*kinesinv1.Task // of each chain one
	Newest string            // the path of the list with the newest first, where that would read much
	Groups []*kinesinv1.Group
	More   bool
	Cost   bool // they were not read: this store bills reads
}

// showGroups lists chains and groups, the newest first.
func showGroups(c *call) error {
	b := &groupsBody{Cost: c.live.snapshot().fleet.Store.Metered && c.field("scan") == ""}
	if b.Cost {
		return c.show("Chains and groups", Prefix+"groups", groupsPage(b))
	}
	if err := c.addChains(b); err != nil {
		return err
	}
	var err error
	if b.Groups, b.More, err = c.Source.NewestGroups(c.r.Context(), groupsShown); err != nil {
		return err
	}
	return c.show("Chains and groups", Prefix+"groups", groupsPage(b))
}

// addChains adds chains, each by the first of its tasks that a list of them has. A page of that list may have few or none
// of them, where they are rare among other tasks.
func (c *call) addChains(b *groupsBody) error {
	tasks, seen, cursor := &tasksBody{Q: inChains, Where: inChains}, map[string]bool{}, []byte(nil)
	for range chainPagesMax {
		response, err := c.listTasks(tasks, cursor)
		if err != nil {
			return err
		}
		b.Newest = tasks.Newest
		for _, t := range response.GetTasks() {
			if root := t.GetChain().GetRoot(); !seen[root] {
				seen[root] = true
				b.Tasks = append(b.Tasks, t)
			}
		}
		if cursor = response.GetNext(); len(cursor) == 0 || len(b.Tasks) >= tasksShown {
			break
		}
	}
	return nil
}

// showGroup shows a group with its members.
func showGroup(c *call) error {
	r := &related{}
	if err := c.addGroup(r, c.r.PathValue("id"), 0); err != nil {
		return err
	}
	return c.show("Group", Prefix+"groups", g.Group{h.H1(text("Group")), h.P(h.Class("lead id"), text(r.Group.GetId())), relatedParts(r)})
}

func groupsPage(b *groupsBody) g.Node {
	title := h.H1(text("Chains and groups"))
	if b.Cost {
		return g.Group{title, scanPlan(&scanCost{
			Text: "This store bills reads. All groups that are kept are read, and tasks until " + number(tasksShown) + " of chains are found: about one read unit for each.",
			Go:   withQuery(Prefix+"groups", "scan", "yes"),
		})}
	}
	return g.Group{title, section("chains", "Chains", chainsList(b)), section("groups", "Groups", groupsList(b))}
}

// chainsList lists chains by the newest of their tasks that others may follow.
func chainsList(b *groupsBody) g.Node {
	if len(b.Tasks) == 0 {
		return empty(h.P(text("No task is kept that others may follow.")), h.P(text("Schedule one: "), code("kinesin schedule LAMBDA --then FILE")))
	}
	chars := shortIDChars(b.Tasks, func(t *kinesinv1.Task) string { return t.GetChain().GetRoot() })
	heads := g.Group{th("Chain"), th("State"), th("Lambda"), th("Key"), thNumber("Follow-ups")}
	return g.Group{
		list(heads, g.Map(b.Tasks, func(t *kinesinv1.Task) g.Node {
			root := t.GetChain().GetRoot()
			to := taskPath(root)
			when := g.Group{text("due "), moment(t.GetDue())}
			if t.GetEnded() != 0 {
				when = g.Group{text("ended "), moment(t.GetEnded())}
			}
			return row(
				to, tdShortID(to, root, chars),
				h.Td(state(t.GetState()), g.If(t.GetChain().GetPaused(), g.Group{text(" "), state("paused")}), below(when)),
				h.Td(lambdaLink(t.GetLambda())), td(orDash(t.GetKey() != "", short(t.GetKey()))), tdNumber(number(t.GetChain().GetFollowups())),
			)
		})),
		meta(
			text("The page of a task shows its whole chain. "), link(tasksPath(inChains, "", ""), "All tasks that others may follow"),
			g.If(b.Newest != "", g.Group{text(". Live ones come first: there are many tasks. "), link(b.Newest, "Newest first")}), text("."),
		),
	}
}

func groupsList(b *groupsBody) g.Node {
	if len(b.Groups) == 0 {
		return empty(h.P(text("No group that you may read.")), h.P(text("Make one: "), code("kinesin group create --then FILE")))
	}
	chars := shortIDChars(b.Groups, (*kinesinv1.Group).GetId)
	heads := g.Group{th("Group"), th("State"), thNumber("Members"), th("Ended so far"), th("Then"), th("By")}
	return g.Group{
		list(heads, g.Map(b.Groups, func(of *kinesinv1.Group) g.Node {
			to := pathTo("groups", of.GetId())
			ended := g.Map(slices.Sorted(maps.Keys(of.GetCounts())), func(name string) g.Node {
				return text(number(of.GetCounts()[name]) + " " + name)
			})
			return row(
				to, tdShortID(to, of.GetId(), chars),
				h.Td(
					state(of.GetState()), g.If(of.GetCancelled() != 0, g.Group{text(" "), state("cancelled")}),
					below(text("made "), moment(of.GetCreated())), g.If(of.GetCompleted() == 0, below(text("expires "), moment(of.GetExpires()))),
				),
				tdNumber(number(of.GetMembers())), h.Td(either(len(ended) > 0, joined(", ", ended), g.Group{text("–")})),
				h.Td(joined(", ", g.Map(of.GetFollowUps(), followUpLink)), g.If(of.GetProblem() != "", below(bad(short(of.GetProblem()))))), td(of.GetCreatedBy()),
			)
		})),
		g.If(b.More, meta(text("There are earlier groups."))),
	}
}

// followUpLink leads to a task that followed a group, or names the lambda of one that may.
func followUpLink(f *kinesinv1.GroupFollowUp) g.Node {
	return either(f.GetId() != "", link(taskPath(f.GetId()), f.GetLambda()), text(cmp.Or(f.GetLambda(), "–")))
}
