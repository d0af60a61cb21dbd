package web

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/access"
)

const (
	deadAtOnce = 1000
	// groupsMax is how many groups a page shows, the largest first.
	groupsMax     = 100
	rejectedShown = 50
	// deliverAskedMax is how many lambdas are asked for their dead-letter queues, each of which is a request.
	deliverAskedMax = 20
	// byWorkerVersion groups dead tasks by the versions of the workers that had their attempts.
	byWorkerVersion = "version"
)

type deadBody struct {
	Q        string
	Metered  bool
	Problem  string
	Groups   []*deadGroup
	Versions []*deadVersion
	By       string    // byWorkerVersion, or else by error
	Since    string    // one of deadTimes
	Cost     *scanCost // it was not read, as it costs so much
	Others   int       // groups that are not shown
	Read     int
	More     bool // there are more dead tasks than were read
	Redrive  bool

	Inbound      bool // there may be an inbound queue, and the viewer may see what was rejected
	Rejected     []*kinesinv1.Rejected
	MoreRejected bool // there are more
	Queues       []deadQueue
	MoreQueues   bool // there are more deliver lambdas
}

// deadVersion is the dead tasks of which a worker of one version had an attempt.
type deadVersion struct {
	Version string // empty: not said
	Where   string
	Count   int
	Lambdas []string
	Last    int64
	Redrive bool // on all of Lambdas
}

// deadGroup is the dead tasks of a lambda with one error.
type deadGroup struct {
	Lambda, Error, Where string
	Count                int
	First, Last          int64 // ends
	Redrive              bool
	Versions             []string
	Sample               string // id
}

type deadQueue struct {
	Lambda string
	Count  int64
	Queues []*kinesinv1.DeadLetterQueue
	May    bool
}

// deadTime is how long ago tasks died at most.
type deadTime struct{ Value, Name string }

var deadTimes = []deadTime{{"", "at any time"}, {"1h", "in the last hour"}, {"12h", "in the last 12 hours"}, {"1d", "in the last day"}, {"1w", "in the last week"}} //nolint:gochecknoglobals // a table

// showDead groups dead tasks by their error.
func showDead(c *call) error {
	if since := c.field("since"); !slices.ContainsFunc(deadTimes, func(t deadTime) bool { return t.Value == since }) {
		return invalid("since %q: want 1h, 12h, 1d, 1w or none", since)
	}
	b := &deadBody{Q: c.field("q"), By: c.field("by"), Since: c.field("since"), Metered: c.live.snapshot().fleet.Store.Metered, Redrive: c.mayAny(access.Operate)}
	if b.Cost = c.costOf("dead"); b.Cost != nil {
		b.Cost.Go = withQuery(Prefix+"dead", "q", b.Q, "by", b.By, "since", b.Since, "scan", "yes")
	} else if err := c.groupDead(b); err != nil {
		if p := problemOf(err); p.Status != 400 {
			return err
		}
		b.Problem = problemOf(err).Text
	}
	if c.caller.Grants.AllowAll(access.Operate) {
		response, err := c.Inbound.ListRejected(c.r.Context(), &kinesinv1.ListRejectedRequest{Limit: rejectedShown})
		if err != nil {
			return err
		}
		b.Rejected, b.MoreRejected = response.GetRejected(), response.GetMore()
		b.Inbound = len(b.Rejected) > 0 || !alone(&c.live.snapshot().fleet)
	}
	if err := c.addQueues(b); err != nil {
		return err
	}
	return c.show("Dead letters", Prefix+"dead", deadPage(b))
}

func (c *call) groupDead(b *deadBody) error {
	where := "state=dead"
	if b.Since != "" {
		where += " and ended>-" + b.Since
	}
	if b.Q != "" {
		// By itself first, so that a refusal is of what was typed, and parentheses in it are its own.
		if _, err := c.Tasks.List(c.r.Context(), &kinesinv1.ListRequest{Where: b.Q, Limit: 1}); err != nil {
			return err
		}
		where += " and (" + b.Q + ")"
	}
	groups, versions := map[[2]string]*deadGroup{}, map[string]*deadVersion{}
	var cursor []byte
	for b.Read < deadReadMax {
		response, err := c.Tasks.List(c.r.Context(), &kinesinv1.ListRequest{Where: where, Limit: deadAtOnce, Cursor: cursor})
		if err != nil {
			return err
		}
		for _, t := range response.GetTasks() {
			text := lastError(t)
			key := [2]string{t.GetLambda(), text}
			g := groups[key]
			if g == nil {
				g = &deadGroup{Lambda: t.GetLambda(), Error: text, First: t.GetEnded(), Sample: t.GetId(), Redrive: c.mayOperate(t.GetLambda())}
				g.Where = where + " and lambda=" + quote(g.Lambda) + " and error=" + quote(text)
				groups[key] = g
			}
			g.Count++
			for _, version := range versionsOf(t) {
				if !slices.Contains(g.Versions, version) {
					g.Versions = append(g.Versions, version)
				}
				c.addVersion(versions, version, where, t)
			}
			g.First, g.Last = min(g.First, t.GetEnded()), max(g.Last, t.GetEnded())
			b.Read++
		}
		if cursor = response.GetNext(); len(cursor) == 0 {
			break
		}
	}
	b.More = len(cursor) > 0
	for _, g := range groups {
		b.Groups = append(b.Groups, g)
	}
	b.Versions = slices.SortedFunc(maps.Values(versions), func(x, y *deadVersion) int {
		return cmp.Or(cmp.Compare(y.Count, x.Count), strings.Compare(x.Version, y.Version))
	})
	b.Versions = b.Versions[:min(len(b.Versions), groupsMax)]
	slices.SortFunc(b.Groups, func(x, y *deadGroup) int {
		return cmp.Or(cmp.Compare(y.Count, x.Count), strings.Compare(x.Lambda, y.Lambda), strings.Compare(x.Error, y.Error))
	})
	if n := len(b.Groups); n > groupsMax {
		b.Groups, b.Others = b.Groups[:groupsMax], n-groupsMax
	}
	return nil
}

// versionsOf returns the versions of the workers that had attempts of a task, each once, the newest last; one
// that did not say its version is empty.
func versionsOf(t *kinesinv1.Task) (all []string) {
	for _, a := range t.GetAttempts() {
		if !slices.Contains(all, a.GetVersion()) {
			all = append(all, a.GetVersion())
		}
	}
	return all
}

func (c *call) addVersion(versions map[string]*deadVersion, version, where string, t *kinesinv1.Task) {
	v := versions[version]
	if v == nil {
		v = &deadVersion{Version: version, Where: where + ` and worker~` + quote("@"+version+"-"), Redrive: true}
		if version == "" {
			v.Where = where + ` and not worker~"@"`
		}
		versions[version] = v
	}
	v.Count++
	v.Last = max(v.Last, t.GetEnded())
	if !slices.Contains(v.Lambdas, t.GetLambda()) {
		v.Lambdas = append(v.Lambdas, t.GetLambda())
		v.Redrive = v.Redrive && c.mayOperate(t.GetLambda())
	}
}

// addQueues adds the dead-letter queues of deliver lambdas.
func (c *call) addQueues(b *deadBody) error {
	response, err := c.Lambdas.ListLambdas(c.r.Context(), &kinesinv1.ListLambdasRequest{})
	if err != nil {
		return err
	}
	asked := 0
	for _, l := range response.GetLambdas() {
		if l.GetMode() != "deliver" || !c.sees(l.GetName()) {
			continue
		}
		if asked++; asked > deliverAskedMax {
			b.MoreQueues = true
			return nil
		}
		count, err := c.DeadLetters.CountDeadLetters(c.r.Context(), &kinesinv1.CountDeadLettersRequest{Lambda: l.GetName()})
		if err != nil {
			continue // it has no dead-letter queue, or SQS does not answer
		}
		b.Queues = append(b.Queues, deadQueue{l.GetName(), count.GetCount(), count.GetQueues(), c.mayOperate(l.GetName())})
	}
	return nil
}

// actOnDead redrives dead-letter queues, and retries or deletes what was rejected.
func actOnDead(c *call) error {
	names := c.r.Form["name"]
	var problem *kinesinv1.Problem
	switch c.field("action") {
	case "redrive-queue":
		pace, err := parsePace(c.field("pace"))
		if err != nil {
			return err
		}
		if _, err := c.DeadLetters.ChangeDeadLetters(c.r.Context(), &kinesinv1.ChangeDeadLettersRequest{Action: "redrive", Lambda: c.field("lambda"), Pace: pace}); err != nil {
			return err
		}
	case "retry":
		response, err := c.Inbound.RetryRejected(c.r.Context(), &kinesinv1.RetryRejectedRequest{Names: names})
		if err != nil {
			return err
		}
		for _, r := range response.GetResults() {
			problem = cmp.Or(problem, r.GetProblem())
		}
	case "delete":
		if err := c.because(); err != nil {
			return err
		}
		response, err := c.Inbound.DeleteRejected(c.r.Context(), &kinesinv1.DeleteRejectedRequest{Names: names})
		if err != nil {
			return err
		}
		for _, r := range response.GetResults() {
			problem = cmp.Or(problem, r.GetProblem())
		}
	default:
		return invalid("action %q: want redrive-queue, retry or delete", c.field("action"))
	}
	if err := api.ErrorOf(problem); err != nil {
		return err
	}
	return c.goTo(Prefix+"dead", "changed")
}

type rejectedBody struct {
	*kinesinv1.Rejected

	Content *content
	May     bool // retry and delete it
}

// showRejected shows a message that was set aside, with its contents, which the audit log notes.
func showRejected(c *call) error {
	response, err := c.Inbound.GetRejected(c.r.Context(), &kinesinv1.GetRejectedRequest{Name: c.r.PathValue("name")})
	if err != nil {
		return err
	}
	r := response.GetRejected()
	data := r.GetBody()
	if r.GetItem() != nil {
		data = r.GetItem().GetPayload()
	}
	return c.show("Rejected message", Prefix+"dead", rejectedPage(&rejectedBody{r, contentOf(data), !c.ReadOnly && c.caller.Grants.AllowAll(access.Operate)}))
}
