package web

import (
	"cmp"
	"math"
	"slices"
	"strconv"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
)

// objective is how an objective of a lambda is met, as people read it.
type objective struct {
	*kinesinv1.ObjectiveStatus

	Left   string // of the budget
	Budget string // the same as a sentence
	Tone   string
	Burns  []burn
}

type burn struct {
	Over    int64
	Rate    string
	Fast    bool // it uses the budget up before the window is over
	Started int64
}

// objectives returns the objectives that the viewer may read, by lambda; of one lambda, or of all if it is
// empty.
func (c *call) objectives(lambda string) (map[string]*objective, error) {
	response, err := c.Objectives.GetObjectives(c.r.Context(), &kinesinv1.GetObjectivesRequest{Lambda: lambda})
	all := map[string]*objective{}
	for _, s := range response.GetObjectives() {
		all[s.GetObjective().GetLambda()] = objectiveOf(s)
	}
	return all, err
}

func objectiveOf(s *kinesinv1.ObjectiveStatus) *objective {
	const low = 0.25
	o := &objective{ObjectiveStatus: s, Left: percentText(100 * s.GetBudgetLeft()), Tone: "good"}
	o.Budget = o.Left + " of the error budget left"
	switch left := s.GetBudgetLeft(); {
	case left <= 0:
		o.Tone, o.Left, o.Budget = "bad", "none", "the error budget is used up"
		if left < 0 {
			times := rateText(1 - left)
			o.Left, o.Budget = "used "+times+"×", "the error budget is used "+times+" times over"
		}
	case left < low:
		o.Tone = "warn"
	}
	for _, b := range s.GetBurns() {
		o.Burns = append(o.Burns, burn{b.GetOver(), rateText(b.GetRate()), b.GetRate() > 1, b.GetStarted()})
	}
	return o
}

// burnFast is a burn rate that uses up 2 % of the budget of 30 days in an hour.
const burnFast = 14.4

// burning says that a budget is used up, or soon is; empty: it is not.
func burning(s *kinesinv1.ObjectiveStatus) string {
	o := s.GetObjective()
	in := percentText(s.GetAttained()) + " of its starts were within " + microsText(o.GetWithin()) + " of their due time."
	switch {
	case s.GetBudgetLeft() <= 0:
		return o.GetLambda() + " has used up its error budget: " + in
	case len(s.GetBurns()) > 0 && s.GetBurns()[0].GetRate() >= burnFast:
		return o.GetLambda() + " burns its error budget " + rateText(s.GetBurns()[0].GetRate()) + " times as fast as it lasts: " + in
	}
	return ""
}

// percentText shows percent with as many digits as tell it from 100.
func percentText(percent float64) string {
	sign := ""
	if percent < 0 {
		sign, percent = "−", -percent
	}
	digits := 1
	if left := 100 - percent; left > 0 && left < 1 {
		digits = min(4, 1-int(math.Floor(math.Log10(left))))
	}
	return sign + strconv.FormatFloat(percent, 'f', digits, 64) + " %"
}

// setObjective sets or deletes the objective of a lambda.
func (c *call) setObjective(name, path string) error {
	if c.field("action") == "objective-delete" {
		if _, err := c.Objectives.DeleteObjective(c.r.Context(), &kinesinv1.DeleteObjectiveRequest{Lambda: name}); err != nil {
			return err
		}
		return c.goTo(path, "objective-deleted")
	}
	within, err := parseDuration(c.field("within"))
	if err != nil {
		return err
	}
	window, err := parseDuration(cmp.Or(c.field("window"), "30d"))
	if err != nil {
		return err
	}
	percent, err := strconv.ParseFloat(c.field("objective"), 64)
	if err != nil {
		return invalid("objective %q: want a number of percent, such as 99.9", c.field("objective"))
	}
	request := &kinesinv1.SetObjectiveRequest{Lambda: name, Within: within.Microseconds(), Objective: percent, Window: window.Microseconds()}
	if _, err := c.Objectives.SetObjective(c.r.Context(), request); err != nil {
		return err
	}
	return c.goTo(path, "objective")
}

// limitKeysRead is how many overdue tasks of a lambda are read to tell which limit keys are held back.
const limitKeysRead = 500

// heldKey is a limit key with due tasks that wait for it.
type heldKey struct {
	Key    string
	Count  int
	Oldest int64 // due
	Sample string
}

// heldKeys returns the limit keys that are held back, among the first overdue tasks of a lambda; more: there
// are others.
func (c *call) heldKeys(l *kinesinv1.Lambda) (keys []*heldKey, more bool, err error) {
	if l.GetLimitKeyConcurrency() == 0 && l.GetLimitKeyRate() == 0 || c.live.snapshot().fleet.Store.Metered && c.field("scan") == "" {
		return nil, false, nil
	}
	where := "lambda=" + quote(l.GetName()) + " and due<0s and " + waitsFilter
	response, err := c.Tasks.List(c.r.Context(), &kinesinv1.ListRequest{Where: where, Order: "due", Limit: limitKeysRead})
	byKey := map[string]*heldKey{}
	for _, t := range response.GetTasks() {
		if t.GetLimitKey() == "" || t.GetWaitsFor().GetReason() != "key" {
			continue
		}
		k := byKey[t.GetLimitKey()]
		if k == nil {
			k = &heldKey{Key: t.GetLimitKey(), Oldest: t.GetDue(), Sample: t.GetId()}
			byKey[k.Key], keys = k, append(keys, k)
		}
		k.Count++
		k.Oldest = min(k.Oldest, t.GetDue())
	}
	slices.SortStableFunc(keys, func(x, y *heldKey) int { return cmp.Compare(y.Count, x.Count) })
	const shown = 20
	return keys[:min(len(keys), shown)], len(response.GetNext()) > 0 || len(keys) > shown, err
}
