package sim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
)

// graphLambda is the one of all tasks of chains and groups.
const graphLambda = "graph"

// Graphs are the chains and groups of a plan.
type Graphs struct {
	Chains []ChainPlan
	Groups []GroupPlan `json:",omitempty"`
}

// ChainPlan is a chain and what an operator does to it.
type ChainPlan struct {
	At    time.Duration
	First Step
	Do    string        `json:",omitempty"` // cancel, pause (and resume) or redrive, After later; empty: nothing
	After time.Duration `json:",omitempty"`
	For   time.Duration `json:",omitempty"` // of a pause
}

// Step is a task of a chain.
type Step struct {
	Fatal   bool `json:",omitempty"` // unless the chain was redriven
	Takes   time.Duration
	In      time.Duration `json:",omitempty"`
	Then    []Step        `json:",omitempty"`
	Else    []Step        `json:",omitempty"`
	Finally []Step        `json:",omitempty"`
}

// GroupPlan is a group, of whose members some fail.
type GroupPlan struct {
	At      time.Duration
	Members []Step // without follow-ups
	Batch   int    // members in one call
}

// graphsOf draws the chains and groups of a plan, apart from everything else.
func graphsOf(seed uint64, span time.Duration) *Graphs {
	r := rand.New(rand.NewPCG(seed, 13))
	if r.IntN(4) > 0 {
		return nil
	}
	g := &Graphs{}
	for range 1 + r.IntN(3) {
		c := ChainPlan{At: time.Duration(r.Int64N(int64(span))), First: stepOf(r, 3)}
		if c.Do = []string{"", "", "cancel", "pause", "redrive"}[r.IntN(5)]; c.Do != "" {
			c.After, c.For = time.Duration(r.IntN(6000))*time.Millisecond, time.Duration(r.IntN(20_000))*time.Millisecond
		}
		g.Chains = append(g.Chains, c)
	}
	for range r.IntN(3) {
		one := GroupPlan{At: time.Duration(r.Int64N(int64(span))), Batch: 1 + r.IntN(6)}
		for range 1 + r.IntN(12) {
			one.Members = append(one.Members, stepOf(r, 0))
		}
		g.Groups = append(g.Groups, one)
	}
	g.widen(seed, span)
	return g
}

// Sizes beyond which what follows a task is put in several calls, and the members of a group are read so.
const (
	wideChain = 500
	wideGroup = 1000
)

// widen adds a chain and a group of several parts to some plans.
func (g *Graphs) widen(seed uint64, span time.Duration) {
	r := rand.New(rand.NewPCG(seed, 17))
	if r.IntN(16) > 0 {
		return
	}
	c := ChainPlan{At: time.Duration(r.Int64N(int64(span))), Do: []string{"", "redrive"}[r.IntN(2)], After: 5 * time.Second}
	c.First.Fatal = c.Do == "redrive"
	for range wideChain + 1 + r.IntN(100) {
		edge := &c.First.Then
		if c.First.Fatal {
			edge = &c.First.Else
		}
		*edge = append(*edge, Step{})
	}
	one := GroupPlan{At: time.Duration(r.Int64N(int64(span))), Batch: 400}
	for range wideGroup + 1 + r.IntN(300) {
		one.Members = append(one.Members, Step{Fatal: r.IntN(4) == 0})
	}
	g.Chains, g.Groups = append(g.Chains, c), append(g.Groups, one)
}

// isWide reports whether the plan has a chain and a group of several parts.
func (g *Graphs) isWide() bool {
	return g != nil && slices.ContainsFunc(g.Groups, func(p GroupPlan) bool { return len(p.Members) > wideGroup })
}

func stepOf(r *rand.Rand, deeper int) Step {
	s := Step{Fatal: r.IntN(4) == 0, Takes: time.Duration(r.IntN(1500)) * time.Millisecond}
	if r.IntN(3) == 0 {
		s.In = time.Duration(r.IntN(5000)) * time.Millisecond
	}
	for _, edge := range []*[]Step{&s.Then, &s.Else, &s.Finally} {
		if deeper > 0 && r.IntN(2) == 0 {
			*edge = append(*edge, stepOf(r, deeper-1))
		}
	}
	if deeper > 0 && r.IntN(3) == 0 {
		s.Then = append(s.Then, stepOf(r, deeper-1))
	}
	return s
}

// graphTask is what the payload of a task says.
type graphTask struct {
	Place string        `json:"p"` // such as chain-0/then-0/else-0, group-1/4, or group-1
	Takes time.Duration `json:"t"`
	Fatal bool          `json:"f,omitempty"`
	Chain int           `json:"c"` // -1: it is of a group
}

// graphs is what became of chains and groups.
type graphs struct {
	w    *world
	plan *Graphs

	mu       sync.Mutex                 // guards all below
	runs     map[string]map[string]bool // the tasks that ran, by their place
	chains   []chainRun
	groups   []string // ids; empty: nobody was told that it is sealed
	ends     []*sdk.GroupEnd
	redriven map[int]bool
}

type chainRun struct {
	id   sdk.ID
	over bool // nothing is done to it any more
}

func (w *world) openGraphs(c *client) *graphs {
	g := &graphs{w: w, plan: w.plan.Graphs, runs: map[string]map[string]bool{}, redriven: map[int]bool{}}
	if g.plan == nil {
		return g
	}
	g.chains, g.groups, g.ends = make([]chainRun, len(g.plan.Chains)), make([]string, len(g.plan.Groups)), make([]*sdk.GroupEnd, len(g.plan.Groups))
	_ = g.try(func() error {
		_, _, err := admin.New(c.sdk).Lambdas.Create(w.ctx, admin.Lambda{Name: graphLambda, Timeout: time.Hour, Shards: w.plan.Shards, MaxAttempts: 1000, PoisonBound: 1000, BackoffMin: time.Second, BackoffMax: 2 * time.Second})
		return err
	})
	return g
}

// try makes a call until it succeeds, or is refused for good.
func (g *graphs) try(call func() error) error {
	for {
		err := call()
		g.w.trace.note("operator", "graph: %v", err)
		if err == nil || g.w.ctx.Err() != nil || errors.Is(err, sdk.ErrInvalid) || errors.Is(err, sdk.ErrTooLate) || errors.Is(err, sdk.ErrNotFound) {
			return err
		}
		time.Sleep(time.Second)
	}
}

// begin has the load of the plan come in the background.
func (g *graphs) begin(load *sync.WaitGroup) {
	if g.plan == nil {
		return
	}
	c := g.w.client(7)
	for i := range g.plan.Chains {
		load.Go(func() { g.chain(c, i) })
	}
	for i := range g.plan.Groups {
		load.Go(func() { g.group(c, i) })
	}
}

func (g *graphs) item(s *Step, place string, chain int) sdk.Item {
	payload, err := json.Marshal(graphTask{place, s.Takes, s.Fatal, chain})
	if err != nil {
		panic(err)
	}
	item := sdk.Item{Lambda: graphLambda, Payload: payload, In: s.In}
	for edge, all := range map[string][]Step{"then": s.Then, "else": s.Else, "finally": s.Finally} {
		var items []sdk.Item
		for i := range all {
			items = append(items, g.item(&all[i], fmt.Sprintf("%s/%s-%d", place, edge, i), chain))
		}
		switch edge {
		case "then":
			item.Then = items
		case "else":
			item.Else = items
		case "finally":
			item.Finally = items
		}
	}
	return item
}

// chain schedules a chain, and does to it what the plan says. One whose call was not answered may be there or
// not, and is left alone.
func (g *graphs) chain(c *client, i int) {
	p := &g.plan.Chains[i]
	time.Sleep(p.At)
	r, err := c.sdk.Schedule(g.w.ctx, g.item(&p.First, fmt.Sprintf("chain-%d", i), i))
	g.w.trace.note(c.name, "chain %d: %s %v", i, r.ID, err)
	if err != nil {
		return
	}
	g.mu.Lock()
	g.chains[i].id = r.ID
	g.mu.Unlock()
	defer func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.chains[i].over = true
	}()
	time.Sleep(p.After)
	change := func(what string, call func(context.Context, sdk.ID) (admin.ChainChange, error)) {
		if g.try(func() error { _, err := call(g.w.ctx, r.ID); return err }) == nil {
			g.w.saw("chain " + what)
		}
	}
	switch p.Do {
	case "cancel":
		change("cancelled", admin.New(c.sdk).Chains.Cancel)
	case "pause":
		change("paused", admin.New(c.sdk).Chains.Pause)
		time.Sleep(p.For)
		change("resumed", admin.New(c.sdk).Chains.Resume)
	case "redrive":
		g.mu.Lock()
		g.redriven[i] = true
		g.mu.Unlock()
		change("redriven", admin.New(c.sdk).Chains.Redrive)
	}
}

// group makes a group, adds its members and seals it.
func (g *graphs) group(c *client, i int) {
	p := &g.plan.Groups[i]
	time.Sleep(p.At)
	place := fmt.Sprintf("group-%d", i)
	then := g.item(&Step{}, place, -1)
	var made sdk.GroupInfo
	err := g.try(func() (err error) {
		made, err = c.sdk.CreateGroup(g.w.ctx, sdk.GroupSpec{Then: []sdk.Item{then}})
		return err
	})
	for at := 0; at < len(p.Members) && err == nil; at += p.Batch {
		var items []sdk.Item
		for m := at; m < min(at+p.Batch, len(p.Members)); m++ {
			items = append(items, g.item(&p.Members[m], fmt.Sprintf("%s/%d", place, m), -1))
		}
		err = g.try(func() error { _, err := c.sdk.AddMembers(g.w.ctx, made.ID, at, items); return err })
	}
	if err == nil {
		err = g.try(func() error { _, err := c.sdk.SealGroup(g.w.ctx, made.ID, len(p.Members)); return err })
	}
	if err != nil {
		if g.w.ctx.Err() == nil && g.w.plan.stepsBack()+g.w.plan.stepsForward() == 0 { // else its request may look old
			g.w.breach("I26: %s was refused: %v", place, err)
		}
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.groups[i] = made.ID
}

// handleGraph runs a task of a chain or a group, or what follows a group.
func (k *worker) handleGraph(ctx context.Context, t *sdk.Task[[]byte]) error {
	if k.isDead() || k.step(context.Background(), 0) != nil {
		return errDead
	}
	var n graphTask
	if err := json.Unmarshal(t.Payload, &n); err != nil {
		return sdk.Fatal(err)
	}
	g := k.w.graphs
	g.mu.Lock()
	if g.runs[n.Place] == nil {
		g.runs[n.Place] = map[string]bool{}
	}
	g.runs[n.Place][taskOf(t.ID)] = true
	if t.Group != nil {
		for i := range g.ends {
			if n.Place == fmt.Sprintf("group-%d", i) {
				g.ends[i] = t.Group
			}
		}
	}
	fatal := n.Fatal && (n.Chain < 0 || !g.redriven[n.Chain])
	g.mu.Unlock()
	k.w.trace.note(k.name, "graph %s, task %s attempt %d", n.Place, taskOf(t.ID), t.Attempt)
	if clock.Sleep(ctx, k.clock, n.Takes) != nil {
		return context.Cause(ctx)
	}
	if fatal {
		return sdk.Fatal(errAgain)
	}
	return nil
}

// pending is how many chains and groups are not over.
func (g *graphs) pending(c *client) (live int) {
	if g.plan == nil {
		return 0
	}
	chains, groups := g.known()
	for i := range chains {
		if chains[i].id == "" {
			continue
		}
		info, err := c.sdk.GetChain(g.w.ctx, chains[i].id)
		if err != nil || !chains[i].over || isOpen(&info.Root) {
			live++
		}
	}
	for _, id := range groups {
		if id == "" {
			continue
		}
		info, err := c.sdk.GetGroup(g.w.ctx, id)
		if err != nil || info.State != "done" || info.FollowUp == "" && info.Problem == "" {
			live++
			continue
		}
		if f, err := c.sdk.Get(g.w.ctx, info.FollowUp); err != nil || !f.State.IsEnd() {
			live++
		}
	}
	return live
}

func (g *graphs) known() ([]chainRun, []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([]chainRun(nil), g.chains...), append([]string(nil), g.groups...)
}

// isOpen reports whether a task of a chain has not ended, or one that follows it is not there.
func isOpen(t *sdk.ChainTask) bool {
	if t.State == "planned" || t.State == "skipped" {
		return false
	}
	if !t.State.IsEnd() {
		return true // or it is missing
	}
	for i := range t.Followups {
		if isOpen(&t.Followups[i]) {
			return true
		}
	}
	return false
}

// judge is what holds of chains and groups once all tasks have ended.
func (g *graphs) judge() {
	if g.plan == nil || g.w.plan.stepsBack()+g.w.plan.stepsForward() > 0 {
		return // clocks that jump take rows away
	}
	c := g.w.client(8)
	chains, groups := g.known()
	for i := range chains {
		if chains[i].id == "" {
			continue
		}
		var info sdk.ChainInfo
		if err := g.try(func() (err error) { info, err = c.sdk.GetChain(g.w.ctx, chains[i].id); return err }); err != nil {
			g.w.breach("I25: chain %d: %v", i, err)
			continue
		}
		place := fmt.Sprintf("chain-%d", i)
		g.judgeStep(c, &g.plan.Chains[i], &g.plan.Chains[i].First, &info.Root, place)
		g.judgeShown(&info.Root, place)
	}
	for i, id := range groups {
		if id != "" {
			g.judgeGroup(c, i, id)
		}
	}
}

// judgeShown is invariant I25, too: each task of a chain that ran is shown, also of an end from before a redrive.
func (g *graphs) judgeShown(root *sdk.ChainTask, place string) {
	shown := map[string]bool{}
	var note func(t *sdk.ChainTask)
	note = func(t *sdk.ChainTask) {
		shown[taskOf(t.ID)] = true
		if t.BeforeRedrive {
			g.w.saw("task from before a redrive")
		}
		for i := range t.Followups {
			note(&t.Followups[i])
		}
	}
	note(root)
	g.mu.Lock()
	defer g.mu.Unlock()
	for at, ids := range g.runs {
		if at != place && !strings.HasPrefix(at, place+"/") {
			continue
		}
		for id := range ids {
			if !shown[id] {
				g.w.breach("I25: task %s of %s ran, and is not shown", id, at)
			}
		}
	}
}

// judgeStep is invariant I25: what follows a task by the way in which it ended is there, once, and has ended;
// nothing else is.
func (g *graphs) judgeStep(c *client, p *ChainPlan, s *Step, t *sdk.ChainTask, place string) {
	g.mu.Lock()
	ran := len(g.runs[place])
	g.mu.Unlock()
	most := 1
	if p.Do == "redrive" {
		most = 2
	}
	wrong := func(what string) { g.w.breach("I25: %s is %s, and ran as %d tasks: %s", place, t.State, ran, what) }
	switch {
	case !t.State.IsEnd():
		wrong("it follows, and has not ended")
		return
	case ran > most:
		wrong("it was created twice")
	case t.State == "success" && ran == 0:
		wrong("nobody saw it")
	case p.Do == "" && s.Fatal != (t.State == "fatal_failure"):
		wrong("it ended in another way than its handler")
	}
	g.w.saw("step of a chain ended as " + string(t.State))
	succeeded := t.State == "success"
	if succeeded && p.Do == "cancel" {
		var info sdk.TaskInfo
		_ = g.try(func() (err error) { info, err = c.sdk.Get(g.w.ctx, t.ID); return err })
		succeeded = !info.CancelRequested
	}
	nth := map[string]int{}
	for i := range t.Followups {
		next := &t.Followups[i]
		if next.BeforeRedrive && !t.BeforeRedrive {
			if p.Do != "redrive" {
				wrong("something is from before a redrive, and there was none")
			}
			continue
		}
		n := nth[next.Edge]
		nth[next.Edge]++
		steps := map[string][]Step{"then": s.Then, "else": s.Else, "finally": s.Finally}[next.Edge]
		if n >= len(steps) {
			wrong("something follows by " + next.Edge + " that was not asked for")
			continue
		}
		below := fmt.Sprintf("%s/%s-%d", place, next.Edge, n)
		if next.Edge == "finally" || succeeded == (next.Edge == "then") {
			g.judgeStep(c, p, &steps[n], next, below)
			continue
		}
		g.mu.Lock()
		ran := len(g.runs[below])
		g.mu.Unlock()
		if next.State != "skipped" || ran > most-1 {
			g.w.breach("I25: %s does not follow, and is %s and ran as %d tasks", below, next.State, ran)
		}
	}
	for edge, want := range map[string]int{"then": len(s.Then), "else": len(s.Else), "finally": len(s.Finally)} {
		if nth[edge] != want {
			wrong(fmt.Sprintf("%d follow by %s, want %d", nth[edge], edge, want))
		}
	}
}

// judgeGroup is invariant I26: what follows a group is created once, and told how each member ended.
func (g *graphs) judgeGroup(c *client, i int, id string) {
	ended, members := map[sdk.State]int{}, 0
	for m, err := range c.sdk.GroupMembers(g.w.ctx, id) {
		if err != nil {
			g.w.trace.note(c.name, "members of group %d: %v", i, err)
			return
		}
		ended[m.Task.State]++
		members++
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	place := fmt.Sprintf("group-%d", i)
	end, ran := g.ends[i], len(g.runs[place])
	if end == nil || ran != 1 || members != len(g.plan.Groups[i].Members) || end.Members != members || fmt.Sprint(end.Ended) != fmt.Sprint(ended) {
		g.w.breach("I26: %s of %d members, %d now, which ended %v: what follows ran as %d tasks, and was told %+v", place, len(g.plan.Groups[i].Members), members, ended, ran, end)
	}
	for m := range g.plan.Groups[i].Members {
		if n := len(g.runs[fmt.Sprintf("%s/%d", place, m)]); n != 1 {
			g.w.breach("I26: member %d of %s ran as %d tasks", m, place, n)
		}
	}
	g.w.fired["group done"]++
}
