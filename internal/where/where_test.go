package where

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/internal/alloctest"
	"github.com/kinesin-io/kinesin/task"
)

const now = task.Instant(1_700_000_000_000_000)

func sample() task.Task {
	return task.Task{
		ID: task.ID{1, 2, 3, 4, 5, 6}, State: task.Dead, Collection: "customer 7", Key: "order-12", Due: now.Add(-2 * time.Hour), Created: now.Add(-3 * time.Hour),
		Ended: now.Add(-time.Hour), Attempt: 5, Tags: []task.Tag{{Name: "region", Value: "eu"}},
		Chain:   &task.Chain{FollowCount: 2},
		History: []task.Attempt{{Worker: "w1", Error: "no route"}, {Worker: "w2", Error: `dial: i/o "timeout"`}},
	}
}

func TestWhatMatches(t *testing.T) {
	for text, want := range map[string]bool{
		"":                            true,
		"state=dead":                  true,
		"state = success":             false,
		"state!=success":              true,
		"state in (success, dead)":    true,
		"not state in (success,dead)": false,
		`state=dead and error~"timeout" and due<-1h`: true,
		"due<-3h":                          false,
		"due>-3h and due<=-2h":             true,
		"due = 2023-11-14T20:13:20Z":       true,
		"due < 2023-11-14T21:13:20+01:00":  false,
		"due >= 2023-11-14T21:13:20+01:00": true,
		"ended<-30m":                       true,
		"ended>-0.5h":                      false,
		"created<-2h30m":                   true,
		"created<-1d":                      false,
		"due<+10m":                         true,
		"lambda=mail":                      true,
		"lambda in (a, b)":                 false,
		"lambda ~ ai":                      true,
		"priority=high":                    true,
		`collection="customer 7"`:          true,
		`collection='customer 7'`:          true,
		"collection=customer":              false,
		"collection~customer":              true,
		"key~order-":                       true,
		"key=order-12":                     true,
		"key~^order-":                      true,
		`key~"^rder-"`:                     false,
		"error~'^dial:'":                   true,
		"not key~^x and key~^":             true,
		`key=""`:                           false,
		"tag.region=eu":                    true,
		"tag.region!=us":                   true,
		`tag.none=""`:                      true,
		"tag.region~e":                     true,
		`error~"\"timeout\""`:              true,
		"error~route":                      false,
		"worker=w1":                        true,
		"worker!=w2":                       false,
		"worker=w3":                        false,
		"any~eu":                           true,
		"any~region":                       false,
		"any~timeout and any~order-12":     true,
		"any~'customer 7' and any=mail":    true,
		"any~^k3AQIDBAUG":                  true,
		"any~^k1AQIDBAUH":                  false,
		"not any~route":                    true,
		"attempts>=5":                      true,
		"attempts<5":                       false,
		"attempts in (1, 5)":               true,
		"attempts!=5":                      false,
		"followups>0":                      true,
		"followups=0":                      false,
		"state=success or lambda=mail":     true,
		"state=success or lambda=mail and priority=low":    false,
		"(state=success or lambda=mail) AND priority=high": true,
		"not not state=dead":                               true,
		"NOT (state=dead and attempts=1)":                  true,
	} {
		f, err := Parse(text, now)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		row := sample()
		if got := f.Matches("mail", "high", &row); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
		// A decision by fewer fields is never wrong.
		for known := range KnowAll + 1 {
			a := f.Decide(&Subject{Lambda: "mail", Priority: "high", Task: &row, Known: known})
			if a != Maybe && (a == Always) != want {
				t.Errorf("%q with %b known: %v", text, known, a)
			}
		}
		if from := f.DueFrom(); want && from > row.Due {
			t.Errorf("%q: from %d, but a task matches that is due at %d", text, from, row.Due)
		}
		if f.IsAll() != (text == "") {
			t.Errorf("%q: all: %v", text, f.IsAll())
		}
	}
}

// A task that has not ended was neither ended before nor after anything.
func TestATimeThatHasNotComeComparesWithNothing(t *testing.T) {
	row := task.Task{State: task.Scheduled, Due: now}
	for _, text := range []string{"ended<-1h", "ended>-1h", "ended!=2023-11-14T20:13:20Z"} {
		f, err := Parse(text, now)
		if err != nil || f.Matches("mail", "high", &row) {
			t.Errorf("%q matches, %v", text, err)
		}
	}
}

func TestWhatIsRefusedSaysWhere(t *testing.T) {
	for text, says := range map[string]string{
		"state":                 "at character 6: it ends here; want an operator of state: = != in",
		"state=":                "it ends here; want a state: one of [scheduled",
		"state=lost":            `at character 7: found "lost"; want a state: one of`,
		"state~dead":            `found "~"; want an operator of state`,
		"states=dead":           `at character 1: unknown field "states"; want one of lambda, state, collection, priority, key, tag.NAME, error, worker, due, ended, created, attempts, followups, any`,
		"=dead":                 `found "="; want a field (lambda`,
		`"state"=dead`:          `found "state"; want a field`,
		"state=dead lambda=x":   `at character 12: found "lambda"; want and, or, or the end`,
		"state=dead and":        "at character 15: it ends here; want a field",
		"(state=dead":           "it ends here; want and, or, or )",
		"state=dead)":           `at character 11: found ")"`,
		"due<yesterday":         `at character 5: found "yesterday"; want due as a time such as`,
		"due~1h":                `want an operator of due: = != < <= > >=`,
		"due<99999999999d":      "want due as a time",
		"attempts=many":         "want attempts as a number such as 3",
		"attempts=-1":           "want attempts as a number",
		`error~"timeout`:        "at character 7: a string begins here, and its closing \" is missing",
		`ü="x" and lambda=x`:    "at character 1: unknown field",
		`key="ü" and bad=x`:     "at character 13: unknown field",
		"lambda in x":           `found "x"; want ( and the values`,
		"lambda in ()":          `found ")"; want lambda as a word`,
		"lambda in (a b)":       `found "b"; want , or )`,
		"lambda < x":            `found "<"; want an operator of lambda: = != ~ in`,
		"lambda == x":           `at character 9: found "="`,
		"tag.=x":                "want tag.NAME",
		"not":                   "it ends here; want a field",
		strings.Repeat("(", 50): "nested deeper than 32 levels",
		"lambda=x" + strings.Repeat(" or lambda=x", 64):  "more than 64 comparisons",
		"lambda in (x" + strings.Repeat(",x", 100) + ")": "more than 100 values",
		strings.Repeat("x", 5000):                        "5000 bytes, want at most 4096",
		"lambda=\xff":                                    "not UTF-8",
	} {
		_, err := Parse(text, now)
		if !errors.Is(err, ErrSyntax) || !strings.Contains(err.Error(), says) {
			t.Errorf("%.60q: %v, want %q", text, err, says)
		}
	}
}

func TestWhatCanMatchIsPlanned(t *testing.T) {
	f, err := Parse("lambda in (a, b) and not priority=low and state in (dead, enqueued) and due>=-1h and (due<0 or created>-1h)", now)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		lambda, priority string
		state            task.State
		want             bool
	}{
		{"a", "high", task.Dead, true},
		{"b", "high", task.Enqueued, true},
		{"c", "high", task.Dead, false},
		{"a", "low", task.Dead, false},
		{"a", "high", task.Success, false},
	} {
		if got := f.CanBe(c.lambda, c.priority, c.state); got != c.want {
			t.Errorf("%v: %v", c, got)
		}
	}
	if !f.CanBeOf("b") || f.CanBeOf("c") {
		t.Error("lambdas")
	}
	if f.DueFrom() != now.Add(-time.Hour) {
		t.Errorf("from %d", f.DueFrom())
	}
	for text, want := range map[string]task.Instant{
		"due>-1h or due>-2h": now.Add(-2 * time.Hour), "due>-1h or lambda=x": 0, "not due<-1h": 0, "due<-1h": 0, "": 0,
	} {
		if f, _ := Parse(text, now); f.DueFrom() != want {
			t.Errorf("%q: from %d, want %d", text, f.DueFrom(), want)
		}
	}
}

func TestWhatMayMatchEverything(t *testing.T) {
	for text, want := range map[string]struct{ live, ended bool }{
		"":                                 {false, false},
		"lambda=x":                         {true, true},
		"lambda!=x":                        {true, true},
		`lambda!=""`:                       {false, false}, // no lambda has such a name
		`lambda!="no name"`:                {false, false},
		"lambda~x":                         {true, true},
		`lambda~""`:                        {false, false},
		`key~""`:                           {false, false},
		`key!=""`:                          {true, true},
		`key=""`:                           {true, true},
		"priority in (a, b)":               {true, true},
		"tag.a=1 or tag.b=2":               {true, true},
		"tag.a=1 or tag.a!=1":              {false, false},
		"not (lambda=x and lambda!=x)":     {false, false},
		"not (key~a and key~b)":            {true, true},
		"key~a or key~b or not key~ab":     {false, false},
		"lambda=x or lambda!=y":            {true, true},
		"lambda=x or lambda!=x or key=1":   {false, false},
		"lambda=x or (attempts>=0)":        {false, false},
		"lambda=x and attempts>=0":         {true, true},
		"attempts>=0":                      {false, false},
		"attempts>0 or attempts=0":         {false, false},
		"attempts>=1":                      {true, true},
		"attempts<3":                       {true, true},
		"state=dead or state!=dead":        {false, false},
		"state=dead":                       {true, true},
		"state!=dead":                      {false, true}, // no live task is dead
		"state=scheduled":                  {true, true},
		"state!=scheduled":                 {true, false},
		"due<+1h":                          {true, true},
		"due<-1h or due>-2h":               {false, false},
		"due>1970-01-01T00:00:00Z":         {false, false},
		"due<9999-01-01T00:00:00Z":         {false, false},
		"due!=2027-01-31T09:00:00.000001Z": {false, false}, // due times are whole milliseconds
		"created<+1h":                      {false, false},
		"created<-1h":                      {true, true},
		"ended<-1h":                        {true, true},
		"ended<+1h":                        {true, false},
		"ended<-1h or not ended<-1h":       {false, false},
		"error~timeout":                    {true, true},
		"not key~^k":                       {true, true},
		"key~^k or not key~k":              {true, true},
		"key~^k or not key~^k":             {false, false},
		"key~^":                            {false, false},
		"worker!=w1":                       {true, true},
	} {
		f, err := Parse(text, now)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if live, ended := f.LeavesOut(false, now), f.LeavesOut(true, now); live != want.live || ended != want.ended {
			t.Errorf("%q leaves out live tasks: %v, ended ones: %v; want %v", text, live, ended, want)
		}
	}
}

// Not all combinations of many fields are tried, and the answer is the safe one.
func TestAnEntangledFilterMayMatchEverything(t *testing.T) {
	for signs, want := range map[[2]string]bool{{"=", "="}: true, {"=", "!="}: false} {
		var parts []string
		for i := range 32 {
			parts = append(parts, fmt.Sprintf("tag.t%d%s1", i, signs[i%2]))
		}
		f, err := Parse(strings.Join(parts, " or "), now)
		if got := f.LeavesOut(false, now); err != nil || got != want {
			t.Errorf("%v: %v, %v", signs, got, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, text := range []string{
		`state=dead and error~"timeout" and due<-1h`, "not (lambda in (a,b) or attempts>=3)", `tag.x!='y\'z'`, "due<2027-01-31T09:00:00Z", "((",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var filter *Filter
		var err error
		alloctest.AtMost(t, uint64(64<<10+256*len(text)), func() { filter, err = Parse(text, now) })
		if err != nil {
			if !errors.Is(err, ErrSyntax) {
				t.Fatal(err)
			}
			return
		}
		filter.LeavesOut(len(text)%2 == 0, now)
		row := sample()
		whole := filter.Decide(&Subject{Lambda: "mail", Priority: "high", Task: &row, Known: KnowAll})
		if whole == Maybe {
			t.Fatal("undecided although all is known")
		}
		for known := range KnowAll {
			if a := filter.Decide(&Subject{Lambda: "mail", Priority: "high", Task: &row, Known: known}); a != Maybe && a != whole {
				t.Fatalf("%b: %v, but in whole %v", known, a, whole)
			}
		}
		if whole == Always && filter.DueFrom() > row.Due {
			t.Fatal("it matches outside its bounds")
		}
	})
}
