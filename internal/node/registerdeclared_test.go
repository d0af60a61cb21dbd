package node

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/catalog/lambdas"
	"github.com/kinesin-io/kinesin/sdk/admin"
	"github.com/kinesin-io/kinesin/store"
)

// registered is a rig in which a test writes registrations as Terraform does.
type registered struct {
	*rig
	t *testing.T
}

func inRegistered(t *testing.T, test func(r registered)) {
	t.Helper()
	inRig(t, drivers{}, 2, func(c *Config) { c.Shared = true }, func(r *rig) { test(registered{r, t}) })
}

// put replaces the registration of mail; an empty value takes it away.
func (r registered) put(value string) {
	r.t.Helper()
	row := store.Control{Kind: catalog.RegistrationKind, Name: "mail", Version: 1, Value: []byte(value)}
	rows := r.nodes[0].node.store
	_ = rows.DeleteControl(r.ctx, row)
	if value != "" {
		if err := rows.PutControl(r.ctx, row); err != nil {
			r.t.Fatal(err)
		}
	}
	time.Sleep(15 * time.Second)
}

func (r registered) wantCrons(what string, want ...string) {
	r.t.Helper()
	all, err := r.admin().Crons.List(r.ctx, "")
	if err != nil {
		r.t.Fatal(err)
	}
	var got []string
	for i := range all {
		got = append(got, fmt.Sprint(all[i].Name, " of ", all[i].Lambda, " ", all[i].Schedule, " revision ", all[i].Revision, " ", all[i].Registered))
	}
	if !slices.Equal(got, want) {
		r.t.Errorf("%s: %q, want %q", what, got, want)
	}
}

func (r registered) wantObjective(what, want string) {
	r.t.Helper()
	response, err := r.nodes[0].node.objectiveService().GetObjectives(r.ctx, &kinesinv1.GetObjectivesRequest{Lambda: "mail"})
	if err != nil {
		r.t.Fatal(err)
	}
	got := ""
	for _, s := range response.GetObjectives() {
		o := s.GetObjective()
		got += fmt.Sprint(o.GetObjective(), " ", o.GetWithin(), " ", o.GetWindow(), " ", o.GetUpdatedBy(), " ", o.GetRegistered())
	}
	if got != want {
		r.t.Errorf("%s: %q, want %q", what, got, want)
	}
}

// refused returns why the registration of mail is.
func (r registered) refused() string {
	r.t.Helper()
	l, err := r.admin().Lambdas.Get(r.ctx, "mail")
	if err != nil {
		r.t.Fatal(err)
	}
	return l.RegistrationRefused
}

func TestRegistrationsDeclareCronsAndObjectives(t *testing.T) {
	inRegistered(t, func(r registered) {
		r.put(`{"format":2,"crons":{"nightly":{"schedule":"30 2 * * *","zone":"Europe/Berlin","payload_text":"{{nominal}}"},"often":{"schedule":"@every 90s"}},` +
			`"objective":{"within":"5s","objective":99,"window":"7d"}}`)
		const nightly, often = "nightly of mail 30 2 * * * revision 1 true", "often of mail @every 90s revision 1 true"
		r.wantCrons("registered", nightly, often)
		r.wantObjective("registered", "99 5000000 604800000000 (registration) true")
		if one, err := r.admin().Crons.Get(r.ctx, "nightly"); err != nil || one.CreatedBy != "(registration)" || string(one.Payload) != "{{nominal}}" || one.Zone != "Europe/Berlin" {
			t.Errorf("%+v, %v", one, err)
		}

		one, _ := r.admin().Crons.Get(r.ctx, "nightly")
		one.Schedule = "0 0 * * *"
		for what, err := range map[string]error{
			"update":           second(r.admin().Crons.Update(r.ctx, one)),
			"delete":           r.admin().Crons.Delete(r.ctx, "nightly"),
			"create":           third(r.admin().Crons.Create(r.ctx, admin.Cron{Name: "nightly", Lambda: "mail", Schedule: "@daily"})),
			"set objective":    second(r.nodes[1].node.objectiveService().SetObjective(r.ctx, &kinesinv1.SetObjectiveRequest{Lambda: "mail", Within: 1000, Objective: 9})),
			"delete objective": second(r.nodes[1].node.objectiveService().DeleteObjective(r.ctx, &kinesinv1.DeleteObjectiveRequest{Lambda: "mail"})),
		} {
			if err == nil || !strings.Contains(err.Error(), "is registered with") || !strings.Contains(err.Error(), "Terraform") {
				t.Errorf("%s of what is registered: %v", what, err)
			}
		}
		if _, err := r.admin().Crons.Pause(r.ctx, "often", "an outage", admin.CronPauseOptions{}); err != nil {
			t.Errorf("pause: %v", err)
		}

		r.put(`{"format":2,"crons":{"nightly":{"schedule":"0 3 * * *","zone":"Europe/Berlin"},"often":{"schedule":"@every 90s"}},"max_attempts":3}`)
		r.wantCrons("changed", "nightly of mail 0 3 * * * revision 2 true", "often of mail @every 90s revision 2 true")
		r.wantObjective("without", "")
		if one, err := r.admin().Crons.Get(r.ctx, "often"); err != nil || one.Pause == nil {
			t.Errorf("another registration ended a pause: %+v, %v", one, err)
		}
		r.put(`{"format":2,"max_attempts":3}`)
		r.wantCrons("none")
		r.put(`{"format":2,"crons":{"often":{"schedule":"@every 90s"}}}`)
		r.wantCrons("again", often)
	})
}

func second[T any](_ T, err error) error { return err }

func third[T, U any](_ T, _ U, err error) error { return err }

// A registration of which a part cannot be made is refused as a whole, before anything is changed.
func TestRegistrationsWithCronsThatAreRefused(t *testing.T) {
	inRegistered(t, func(r registered) {
		for _, name := range []string{"mail", "other"} {
			if _, _, err := r.admin().Lambdas.Create(r.ctx, admin.Lambda{Name: name}); err != nil {
				t.Fatal(err)
			}
		}
		for _, c := range []admin.Cron{{Name: "theirs", Lambda: "other"}, {Name: "set", Lambda: "mail", ManagedBy: "billing"}, {Name: "hand", Lambda: "mail"}} {
			c.Schedule = "@daily"
			if _, _, err := r.admin().Crons.Create(r.ctx, c); err != nil {
				t.Fatal(err)
			}
		}
		for value, want := range map[string]string{
			`"crons":{"x":{"schedule":"0 0 30 2 *"}}`:                   "cron x: ",
			`"crons":{"x":{"schedule":"@daily","zone":"Europe/Berln"}}`: "Europe/Berlin",
			`"crons":{"x":{"schedule":"@daily","overlap":"both"}}`:      "want allow, skip, queue, cancel or replace",
			`"crons":{"x":{"schedule":"@daily","priority":"urgent"}}`:   "urgent",
			`"crons":{"a b":{"schedule":"@daily"}}`:                     "cron",
			`"crons":{"x":{"schedule":"@daily","jitter":"1us"}}`:        "jitter",
			`"crons":{"theirs":{"schedule":"@daily"}}`:                  "it exists, of lambda other",
			`"crons":{"set":{"schedule":"@daily"}}`:                     "managed by set billing",
			`"crons":{"x":{"schedule":"@daily","every":1}}`:             "every",
			`"objective":{"within":"0s","objective":99}`:                "within",
			`"objective":{"within":"1ms","objective":100}`:              "100 would leave no budget",
			`"crons":{"x":{"schedule":"@daily","start":"tomorrow"}}`:    "tomorrow",
			`"crons":{` + manyCrons(lambdas.RegisteredCronsMax+1) + `}`: "want at most 100",
			`"objective":{"within":"1ms","objective":99,"window":"1m"}`: "whole hours",
		} {
			r.put(`{"format":2,"max_attempts":7,` + value + `}`)
			if got := r.refused(); !strings.Contains(got, want) {
				t.Errorf("%.60s: refused with %q, want %q", value, got, want)
			}
		}
		if l, err := r.admin().Lambdas.Get(r.ctx, "mail"); err != nil || l.MaxAttempts == 7 {
			t.Errorf("a refused registration changed the lambda: %+v, %v", l, err)
		}
		const set, theirs = "set of mail @daily revision 1 false", "theirs of other @daily revision 1 false"
		r.wantCrons("refused", "hand of mail @daily revision 1 false", set, theirs)
		r.put(`{"format":2,"crons":{"hand":{"schedule":"@daily"}}}`) // one of a call becomes its own
		r.wantCrons("taken", "hand of mail @daily revision 1 true", set, theirs)
		if why := r.refused(); why != "" {
			t.Error(why)
		}
	})
}

func manyCrons(n int) string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf(`"c%d":{"schedule":"@daily"}`, i)
	}
	return strings.Join(all, ",")
}

// A withdrawn lambda loses the crons of its registration first: the next occurrence of one would keep it for
// good. One that a call made keeps it, and the refusal says so.
func TestAWithdrawnLambdaLosesItsCrons(t *testing.T) {
	inRegistered(t, func(r registered) {
		// the next occurrence of a revision that was replaced would keep it, too
		r.put(`{"format":2,"crons":{"often":{"schedule":"0 0 1 * *"},"rare":{"schedule":"@yearly"}}}`)
		const declared = `{"format":2,"crons":{"often":{"schedule":"@daily"}},"objective":{"within":"5s","objective":99}}`
		r.put(declared)
		if _, _, err := r.admin().Crons.Create(r.ctx, admin.Cron{Name: "hand", Lambda: "mail", Schedule: "@hourly"}); err != nil {
			t.Fatal(err)
		}
		r.put("")
		r.wantCrons("a moment later", "hand of mail @hourly revision 1 false", "often of mail @daily revision 2 true")
		time.Sleep(2 * time.Minute)
		r.wantCrons("withdrawn", "hand of mail @hourly revision 1 false")
		r.wantObjective("withdrawn", "")
		if _, err := r.admin().Lambdas.Delete(r.ctx, "mail", admin.LambdaDeleteOptions{}); err == nil || !strings.Contains(err.Error(), "its crons hand go on scheduling") {
			t.Errorf("delete: %v", err)
		}
		r.put(declared) // it comes back as it was
		r.wantCrons("back", "hand of mail @hourly revision 1 false", "often of mail @daily revision 1 true")
		r.wantObjective("back", "99 5000000 2592000000000 (registration) true")
		if err := r.admin().Crons.Delete(r.ctx, "hand"); err != nil {
			t.Fatal(err)
		}
		r.put("")
		time.Sleep(5 * time.Minute)
		r.wantCrons("gone")
		if l, err := r.admin().Lambdas.Get(r.ctx, "mail"); err == nil {
			t.Errorf("the lambda is still there: %+v", l)
		}
	})
}
