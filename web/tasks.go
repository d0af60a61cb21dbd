package web

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/where"
)

type tasksBody struct {
	Q, Order string
	Where    string // the filter that Q stands for
	Problem  string // of the filter
	Tasks    []*kinesinv1.Task
	Waits    []string // why each of Tasks waits; empty: it does not, or nothing is known
	Next     string   // the path of the next page
	First    string   // the path of the first page; empty: this is it
	Quick    []quick
	Actions  []setAction
	Metered  bool
	// Schedules says that the viewer may schedule tasks.
	Schedules bool
	Now       time.Time
	Cost      *scanCost // it was not read, as it costs so much
	Newest    string    // the path of the list with the newest first, where that would read much
}

// quick is a filter that one click sets.
type quick struct {
	Name, Where string
	On          bool
}

var quicks = []quick{ //nolint:gochecknoglobals // a table
	{Name: "All"},
	{Name: "Waiting", Where: waitsFilter},
	{Name: "Running", Where: "state in (" + strings.Join(runningStates, ", ") + ")"},
	{Name: "Overdue", Where: "due<-1s and " + waitsFilter},
	{Name: "Dead", Where: "state=dead"},
	{Name: "Failed for good", Where: "state=fatal_failure"},
	{Name: "Succeeded", Where: "state=success"},
}

// setAction is what can be done to tasks.
type setAction struct {
	Value, Name string
	verb        access.Verb
	Stops       bool // it stops work
	does        string
}

var setActions = []setAction{ //nolint:gochecknoglobals // a table
	{"cancel", "Cancel", access.Cancel, true, "Tasks that wait never start. Running ones are asked to stop. Those that have ended stay as they are."},
	{"run-now", "Run now", access.Schedule, false, "Tasks that no worker runs become due now, also those that wait for a retry."},
	{"move", "Move to a time from now", access.Schedule, false, "Tasks that no worker runs become due at that time."},
	{"spread", "Spread over a time from now", access.Schedule, false, "Tasks that no worker runs become due at even intervals, from now on."},
	{"redrive", "Redrive", access.Operate, false, "Tasks that ended without success start anew under the same ids. Their attempts count anew."},
}

// actionsOffered are those that the viewer may take on something.
func (c *call) actionsOffered() (offered []setAction) {
	for _, a := range setActions {
		if c.mayAny(a.verb) {
			offered = append(offered, a)
		}
	}
	return offered
}

// showTasks lists tasks of a filter, which the URL keeps.
func showTasks(c *call) error {
	b := &tasksBody{Q: c.field("q"), Order: c.field("order"), Now: c.now(), Actions: c.actionsOffered(), Metered: c.live.snapshot().fleet.Store.Metered, Schedules: c.mayAny(access.Schedule)}
	if id, is := c.publicID(b.Q); is {
		return c.goTo(taskPath(id), "")
	}
	b.Where = c.whereOf(b.Q)
	for _, q := range quicks {
		q.On = q.Where == b.Q
		b.Quick = append(b.Quick, q)
	}
	cursor, err := base64.RawURLEncoding.DecodeString(c.field("cursor"))
	if err != nil {
		return invalid("the cursor in this URL is damaged: go to the first page")
	}
	if c.scans(b.Where, b.Order) {
		kind := "tasks"
		if b.Order == orderNewest {
			kind = orderNewest
		}
		if b.Cost = c.costOf(kind); b.Cost != nil {
			b.Cost.Go = withQuery(Prefix+"tasks", "q", b.Q, "order", b.Order, "cursor", c.field("cursor"), "scan", "yes")
			return c.show("Tasks", Prefix+"tasks", tasksPage(b))
		}
	}
	response, err := c.listTasks(b, cursor)
	if err != nil {
		if p := problemOf(err); p.Status == http.StatusBadRequest || b.Order == orderNewest && errors.Is(err, api.ErrUnsupported) {
			b.Problem = p.Text
			return c.showStatus(p.Status, "Tasks", Prefix+"tasks", tasksPage(b))
		}
		return err
	}
	for _, t := range response.GetTasks() {
		w := c.waitOf(t, slices.Contains(runningStates, t.GetState()), slices.Contains(endStates, t.GetState()))
		b.Tasks, b.Waits = append(b.Tasks, t), append(b.Waits, waitText(w))
	}
	if next := response.GetNext(); len(next) > 0 {
		b.Next = tasksPath(b.Q, b.Order, base64.RawURLEncoding.EncodeToString(next))
	}
	if len(cursor) > 0 {
		b.First = tasksPath(b.Q, b.Order, "")
	}
	return c.show("Tasks", Prefix+"tasks", tasksPage(b))
}

// listTasks reads a page. Without an order it has the newest first, if few tasks have to be read to find
// them, and else live ones first, which the page then says.
func (c *call) listTasks(b *tasksBody, cursor []byte) (*kinesinv1.ListResponse, error) {
	r := &kinesinv1.ListRequest{Where: b.Where, Order: b.Order, Limit: tasksShown, Cursor: cursor}
	if b.Order == orderLive {
		r.Order = ""
	}
	if b.Order != "" {
		if strings.HasPrefix(b.Order, "-") {
			r.MaxExamined = newestAskedMax
		}
		return c.Tasks.List(c.r.Context(), r)
	}
	if !b.Metered {
		r.Order, r.MaxExamined = orderNewest, newestRowsMax
		response, err := c.Tasks.List(c.r.Context(), r)
		if !errors.Is(err, api.ErrUnsupported) && !errors.Is(err, api.ErrFull) {
			b.Order = orderNewest
			return response, err
		}
		r.Order, r.MaxExamined = "", 0
	}
	b.Order, b.Newest = orderLive, tasksPath(b.Q, orderNewest, "")
	return c.Tasks.List(c.r.Context(), r)
}

// idForm is what ids look like, whoever made them: "k" or "q" and the number of a form are in front. shortForm is what the
// beginnings of ids look like.
var (
	idForm    = regexp.MustCompile(`^[kq][0-9][0-9A-Za-z_-]{20,}$`)
	shortForm = regexp.MustCompile(`^k[0-9][0-9A-Za-z_-]{8,}$`)
)

// publicID returns the id of the task of which somebody pasted the id, or its beginning, where a filter goes.
func (c *call) publicID(text string) (string, bool) {
	if idForm.MatchString(text) || !shortForm.MatchString(text) {
		return text, idForm.MatchString(text)
	}
	response, err := c.Tasks.Get(c.r.Context(), &kinesinv1.GetRequest{Ids: []string{text}})
	if err != nil {
		return "", false // several tasks may be meant: they are listed
	}
	t, err := only(response)
	return t.GetId(), err == nil
}

// whereOf returns the filter that a text stands for: the text itself, or, of words that are no comparison, what has each
// of them anywhere.
func (c *call) whereOf(text string) string {
	if _, err := where.Parse(text, c.Clock.Now()); err == nil || strings.ContainsAny(text, "=<>~!()") {
		return text
	}
	words := strings.Fields(text)
	for i, word := range words {
		words[i] = "any~" + quote(either(shortForm.MatchString(word), "^", "")+word)
	}
	return strings.Join(words, " and ")
}

// showKey leads to the newest task with a key.
func showKey(c *call) error {
	response, err := c.Tasks.Get(c.r.Context(), &kinesinv1.GetRequest{Keys: []*kinesinv1.TaskKey{{Lambda: c.field("lambda"), Key: c.r.FormValue("key")}}})
	if err != nil {
		return err
	}
	t, err := only(response)
	if err != nil {
		return err
	}
	return c.goTo(taskPath(t.GetId()), "")
}

// review is what an action on several tasks will do, before it does it.
type review struct {
	Action   setAction
	Does     string
	Q        string
	All      bool // of the filter, else of IDs
	IDs      []string
	Over     string
	Pace     string
	Job      *kinesinv1.Job // the dry run; nil: of IDs
	Request  string
	Problem  string
	NeedsFor bool // a duration
}

// actOnTasks shows what an action on several tasks will do, and does it when that is confirmed.
func actOnTasks(c *call) error {
	v := &review{Q: c.field("q"), All: c.field("all") != "" || c.field("scope") == "all", IDs: c.r.Form["id"], Over: c.field("over"), Pace: c.field("pace"), Request: c.field("request")}
	for _, a := range c.actionsOffered() {
		if a.Value == c.field("action") {
			v.Action = a
		}
	}
	switch {
	case v.Action.Value == "":
		return invalid("action %q: it is not one that you may take", c.field("action"))
	case !v.All && len(v.IDs) == 0:
		return invalid("no task is selected: tick some, or choose all that match")
	case !v.All && len(v.IDs) > api.IDsMax:
		return invalid("%d tasks are selected: want at most %d, or all that match", len(v.IDs), api.IDsMax)
	}
	v.Does = v.Action.does
	v.NeedsFor = v.Action.Value == "move" || v.Action.Value == "spread"
	if v.NeedsFor && v.Over == "" {
		v.Over = "10m"
	}
	if v.Request == "" {
		v.Request = newRequest()
	}
	if c.field("confirmed") == "" {
		return c.review(v)
	}
	if v.Action.Stops {
		if err := c.because(); err != nil {
			return err
		}
	}
	if v.All {
		return c.startJob(v)
	}
	return c.actOnIDs(v)
}

func (c *call) review(v *review) error {
	if v.All {
		request, err := c.jobRequest(v)
		if err == nil {
			request.DryRun = true
			var response *kinesinv1.CreateJobResponse
			response, err = c.Jobs.CreateJob(c.r.Context(), request)
			v.Job = response.GetJob()
		}
		if err != nil {
			return err
		}
	}
	return c.show(v.Action.Name, Prefix+"tasks", reviewPage(v))
}

// jobRequest returns the job of an action on all tasks of a filter.
func (c *call) jobRequest(v *review) (*kinesinv1.CreateJobRequest, error) {
	pace, err := parsePace(v.Pace)
	if err != nil {
		return nil, err
	}
	r := &kinesinv1.CreateJobRequest{Action: v.Action.Value, Where: v.Q, All: v.Q == "" || c.field("really-all") != "", Pace: pace, RequestId: requestID(v.Request)}
	if !v.NeedsFor && v.Action.Value != "run-now" {
		return r, nil
	}
	r.Action = "reschedule"
	var over time.Duration
	if v.NeedsFor {
		if over, err = parseDuration(v.Over); err != nil {
			return nil, err
		}
	}
	if v.Action.Value == "spread" {
		r.Spread = over.Microseconds()
		return r, nil
	}
	r.Due = c.now().Add(over).UnixMicro()
	return r, nil
}

func (c *call) startJob(v *review) error {
	request, err := c.jobRequest(v)
	if err != nil {
		return err
	}
	response, err := c.Jobs.CreateJob(c.r.Context(), request)
	if err != nil {
		return err
	}
	return c.goTo(jobPath(response.GetJob().GetId()), "job")
}

// outcome is what an action did to one task.
type outcome struct{ ID, Text, Problem string }

type outcomesBody struct {
	Name     string
	Outcomes []outcome
	Done     int
	Refused  int
	Q        string
}

// actOnIDs changes tasks that were selected, and shows what became of each.
func (c *call) actOnIDs(v *review) error {
	b := &outcomesBody{Name: v.Action.Name, Q: v.Q}
	note := func(id, text string, p *kinesinv1.Problem) {
		if b.Done++; p != nil {
			b.Done, b.Refused = b.Done-1, b.Refused+1
		}
		b.Outcomes = append(b.Outcomes, outcome{id, text, p.GetText()})
	}
	ctx := c.r.Context()
	changed := func(response *kinesinv1.ChangeResponse, err error) error {
		for i, r := range response.GetResults() {
			note(v.IDs[i], r.GetState(), r.GetProblem())
		}
		return err
	}
	var err error
	switch v.Action.Value {
	case "cancel":
		var response *kinesinv1.CancelResponse
		response, err = c.Tasks.Cancel(ctx, &kinesinv1.CancelRequest{Ids: v.IDs})
		for i, r := range response.GetResults() {
			note(v.IDs[i], r.GetOutcome(), r.GetProblem())
		}
	case "redrive":
		err = changed(c.Tasks.Redrive(ctx, &kinesinv1.RedriveRequest{Ids: v.IDs, RequestId: requestID(v.Request)}))
	case "run-now":
		err = changed(c.Tasks.Reschedule(ctx, &kinesinv1.RescheduleRequest{Ids: v.IDs}))
	default:
		var over time.Duration
		if over, err = parseDuration(v.Over); err != nil {
			return err
		}
		if v.Action.Value == "move" {
			err = changed(c.Tasks.Reschedule(ctx, &kinesinv1.RescheduleRequest{Ids: v.IDs, Delay: max(1, over.Microseconds())}))
			break
		}
		for i, id := range v.IDs { // at even intervals
			delay := over * time.Duration(i) / time.Duration(len(v.IDs))
			response, oneErr := c.Tasks.Reschedule(ctx, &kinesinv1.RescheduleRequest{Ids: []string{id}, Delay: max(1, delay.Microseconds())})
			if oneErr != nil {
				note(id, "", api.ProblemOf(oneErr))
				continue
			}
			for _, r := range response.GetResults() {
				note(id, r.GetState(), r.GetProblem())
			}
		}
	}
	if err != nil {
		return err
	}
	return c.show(b.Name, Prefix+"tasks", outcomesPage(b))
}

const (
	// tasksShown is how many tasks a page lists.
	tasksShown = 50
	// newestRowsMax bounds the rows that the page of tasks reads to find the newest, and newestAskedMax where
	// it is asked for them.
	newestRowsMax  = 20_000
	newestAskedMax = 2_000_000
	// deadReadMax is how many dead tasks are read to group them.
	deadReadMax = 5000
)

// The orders of the page of tasks; empty: the newest first, or live ones first where that would read much.
const (
	orderNewest = "-created"
	orderLive   = "live"
)

// scanCost is what a page would read of a store that bills reads, before it does.
type scanCost struct {
	Text string
	Go   string // the path that reads it
}

// costOf returns what it costs to read the tasks of some kind, for people; nil: it may be read at once, since
// reads cost nothing or the viewer has agreed.
func (c *call) costOf(kind string) *scanCost {
	snap := c.live.snapshot()
	if !snap.fleet.Store.Metered || c.field("scan") != "" {
		return nil
	}
	if kind == "dead" {
		return &scanCost{Text: fmt.Sprintf("This store bills reads. Up to %s dead tasks are read to group them, for about as many read units. They are found among all tasks that have ended and are still kept: where few of those are dead it reads more. A filter that names lambdas reads only theirs.", number(deadReadMax))}
	}
	if kind == orderNewest {
		return &scanCost{Text: "This store bills reads, and has no index of when tasks were created. To find the newest, all tasks that match are read, live ones and those that have ended and are kept, 2,000,000 at most: about one read unit for each row. Name lambdas, and priorities or states, to read only those."}
	}
	live := int64(0)
	for _, s := range snap.stats {
		if c.sees(s.GetLambda()) {
			live += liveOf(s)
		}
	}
	return &scanCost{Text: fmt.Sprintf("This store bills reads, and this filter names no lambda. It is compared with row after row, of about %s live tasks and those that have ended and are kept, until %d match: about one read unit for each row. Name lambdas, and priorities or states, to read only those.", number(live), tasksShown)}
}

// scans reports whether a list compares rows of all lambdas with a filter, or sorts them, rather than reading
// the first ones that there are.
func (c *call) scans(q, order string) bool {
	const noLambda = "\x00" // which no lambda is called
	f, err := where.Parse(q, c.Clock.Now())
	if err != nil {
		return false // the list says so
	}
	return order == orderNewest || (q != "" || order == "-ended") && f.CanBeOf(noLambda)
}
