package node

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/catalog/lambdas"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/feature/audit"
	"github.com/kinesin-io/kinesin/internal/feature/quota"
	"github.com/kinesin-io/kinesin/sdk/admin"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/store/mem"
	"github.com/kinesin-io/kinesin/task"
)

func TestWhatIsLoggedOfRegistrations(t *testing.T) {
	var text strings.Builder
	n := &Node{metrics: NewMetrics(MetricsConfig{}), log: slog.New(slog.NewTextHandler(&text, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))}
	for _, c := range []struct {
		lambda, outcome string
		err             error
		want            string
	}{
		{"mail", lambdas.RegistrationCreated, nil, `level=INFO msg="lambda created as registered" lambda=mail outcome=created`},
		{"mail", lambdas.RegistrationChanged, nil, `level=INFO msg="lambda changed as registered" lambda=mail outcome=changed`},
		{"mail", lambdas.RegistrationDeleted, nil, `level=INFO msg="withdrawn lambda deleted" lambda=mail outcome=deleted`},
		{"mail", lambdas.RegistrationRecovered, nil, `level=INFO msg="lambda is as registered again" lambda=mail outcome=well`},
		{"mail", lambdas.RegistrationWaiting, errors.New("so"), `level=INFO msg="registration waits" lambda=mail outcome=waiting error=so`},
		{"mail", lambdas.RegistrationRefused, errors.New("so"), `level=WARN msg="registration not taken" lambda=mail outcome=refused error=so`},
		{"mail", lambdas.RegistrationKept, errors.New("so"), `level=WARN msg="withdrawn lambda kept" lambda=mail outcome=kept error=so`},
		{"", lambdas.RegistrationUnread, errors.New("so"), `level=WARN msg="registrations cannot be read" outcome=unread error=so`},
		{"", lambdas.RegistrationRecovered, nil, `level=INFO msg="registrations can be read again" outcome=well`},
	} {
		text.Reset()
		n.registered(t.Context(), c.lambda, c.outcome, c.err)
		if got := strings.TrimSpace(text.String()); got != c.want {
			t.Errorf("logged\n%s, want\n%s", got, c.want)
		}
	}
}

// TestWithdrawn uses a lambda of each kind: only one that had a registration can have lost it.
func TestWithdrawn(t *testing.T) {
	ctx, k := t.Context(), clock.NewVirtual(1_700_000_000_000_000, 1).Process(0)
	rows := store.New(mem.New(), store.Config{Clock: k})
	n := &Node{store: rows, catalog: catalog.New(rows, k, slog.New(slog.DiscardHandler), catalog.Limits{})}
	for _, name := range []string{"stays", "goes"} {
		row := store.Control{Kind: catalog.RegistrationKind, Name: name, Version: 1, Value: []byte(`{"format":2}`)}
		want, err := lambdas.ParseRegistration(row)
		if err == nil {
			_, _, err = n.catalog.Register(ctx, want)
		}
		if err == nil && name == "stays" {
			err = rows.PutControl(ctx, row)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := n.catalog.Create(ctx, task.Lambda{Name: "called"}); err != nil {
		t.Fatal(err)
	}
	if got, err := n.Withdrawn(ctx); err != nil || !maps.Equal(got, map[string]bool{"goes": true}) {
		t.Errorf("%v, %v", got, err)
	}
}

func TestTheGaugeOfRegistrations(t *testing.T) {
	m := NewMetrics(MetricsConfig{})
	gauge := func(state string) float64 {
		var v dto.Metric
		if err := m.registrationStates.WithLabelValues(state).Write(&v); err != nil {
			t.Fatal(err)
		}
		return v.GetGauge().GetValue()
	}
	for _, states := range []map[string]int{nil, {lambdas.RegistrationApplied: 3, lambdas.RegistrationRefused: 2}, {lambdas.RegistrationKept: 1}} {
		m.setRegistrations(states)
		for _, state := range lambdas.RegistrationStates() {
			if got := gauge(state); got != float64(states[state]) {
				t.Errorf("%s is %v, want %d", state, got, states[state])
			}
		}
	}
}

// A registration that says the same in other words, as after an upgrade of the module alone, changes nothing: what calls
// changed since stays, and no row is written again. The next change of a setting is applied as ever.
func TestTheSameRegistrationInOtherWords(t *testing.T) {
	inRegistered(t, func(r registered) {
		const crons, objective = `"crons":{"often":{"schedule":"@every 90s"}}`, `"objective":99`
		r.put(`{"quotas":[{"priority":"low","rate":20},{"rate":100}],"timeout":"1m","format":2,` + crons + `,"objective":{` + objective + `,"within":"5000ms"},"max_attempts":3}`)
		if _, err := r.admin().Quotas.Set(r.ctx, admin.Quota{Lambda: "mail", Rate: 50}, admin.QuotaSetOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := r.admin().Lambdas.Update(r.ctx, admin.Lambda{Name: "mail", MaxAttempts: 9}, admin.LambdaUpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(15 * time.Second)
		rows := func() (versions []uint64) {
			for _, kind := range []string{"lambda", quota.Kind, "objective"} {
				row, err := r.nodes[0].node.store.Control(r.ctx, kind, "mail")
				if err != nil {
					t.Fatal(kind, err)
				}
				versions = append(versions, row.Version)
			}
			return versions
		}
		before := rows()
		const rest = `,"timeout":"60s","quotas":[{"rate":100},{"priority":"low","rate":20}],` + crons + `,"objective":{"within":"5s",` + objective + `}}`
		r.put(`{"format":2,"max_attempts":3` + rest)
		now, err := r.admin().Lambdas.Get(r.ctx, "mail")
		if after := rows(); err != nil || now.MaxAttempts != 9 || now.RegistrationRefused != "" || !slices.Equal(after, before) {
			t.Errorf("the same registration made %+v, and rows of versions %v of %v, %v", now, after, before, err)
		}
		r.wantCrons("the same", "often of mail @every 90s revision 1 true")

		r.put(`{"format":2,"max_attempts":4` + rest)
		if now, err = r.admin().Lambdas.Get(r.ctx, "mail"); err != nil || now.MaxAttempts != 4 {
			t.Errorf("another registration made %+v, %v", now, err)
		}
		quotas, err := r.admin().Quotas.List(r.ctx, "mail")
		if err != nil || len(quotas) != 2 || quotas[0].Rate != 100 {
			t.Errorf("quotas of another registration: %+v, %v", quotas, err)
		}
	})
}

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

// A registration with a target that servers do not call is refused, and says so where the lambda is shown.
func TestRegistrationsWithTargetsThatAreRefused(t *testing.T) {
	check := func(t *task.Target) error {
		if t.URL == "https://10.1.2.3/" {
			return fmt.Errorf("%w target: not this one", task.ErrInvalid)
		}
		return nil
	}
	inRig(t, drivers{}, 2, func(c *Config) { c.Shared, c.CheckTarget = true, check }, func(of *rig) {
		r := registered{of, t}
		r.put(`{"format":2,"target":{"url":"https://mail.example.com/"}}`)
		r.put(`{"format":2,"target":{"url":"https://10.1.2.3/"}}`)
		l, err := r.admin().Lambdas.Get(r.ctx, "mail")
		if err != nil || l.Target.URL != "https://mail.example.com/" || !strings.Contains(l.RegistrationRefused, "not this one") {
			t.Errorf("%+v, %v", l, err)
		}
	})
}

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

// The quotas of a registration become those of its lambda, on all servers; a call may change them, and that
// holds until the registration changes.
func TestRegistrationsSetQuotas(t *testing.T) {
	inRig(t, drivers{}, 2, func(c *Config) { c.Shared, c.Audit = true, &AuditConfig{} }, func(r *rig) {
		rows := r.nodes[0].node.store
		put := func(value string) {
			t.Helper()
			_ = rows.DeleteControl(r.ctx, store.Control{Kind: catalog.RegistrationKind, Name: "mail", Version: 1})
			if err := rows.PutControl(r.ctx, store.Control{Kind: catalog.RegistrationKind, Name: "mail", Version: 1, Value: []byte(value)}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(15 * time.Second)
		}
		wants := func(what string, want ...string) {
			t.Helper()
			all, err := r.admin().Quotas.List(r.ctx, "mail")
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, q := range all {
				got = append(got, fmt.Sprint(q.Priority, q.Identity, " ", q.Rate, " ", q.Burst, " ", q.Admit, " ", q.Concurrency, " ", q.UpdatedBy))
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s: %q, want %q", what, got, want)
			}
		}
		set := func(q admin.Quota, reset ...string) {
			t.Helper()
			q.Lambda = "mail"
			if _, err := r.admin().Quotas.Set(r.ctx, q, admin.QuotaSetOptions{Reset: reset}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(15 * time.Second)
		}
		put(`{"format":2,"quotas":[{"rate":100},{"priority":"low","rate":20,"burst":5},{"priority":"high","concurrency":3},{"identity":"crm","admit":7}]}`)
		const high, low, crm = "high 0 0 0 3 (registration)", "low 20 5 0 0 (registration)", "crm 0 0 7 0 (registration)"
		wants("registered", " 100 0 0 0 (registration)", high, low, crm)
		records, _, err := r.nodes[0].node.Audit().List(r.ctx, 0, math.MaxInt64, "", 100)
		if err != nil || !slices.ContainsFunc(records, func(a audit.Record) bool {
			return a.Action == "lambda.create" && a.Target == "mail" && a.From == "registration" && a.Outcome == audit.OK && strings.Contains(a.After, `"max_attempts"`)
		}) {
			t.Errorf("no record of the new lambda: %v, %v", records, err)
		}
		row, err := rows.Control(r.ctx, quota.Kind, "mail")
		if err == nil {
			err = rows.DeleteControl(r.ctx, row)
		}
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(15 * time.Second)
		wants("after a crash before they were stored", " 100 0 0 0 (registration)", high, low, crm)
		l := r.nodes[1].node.catalog.All()[0]
		if rates := r.nodes[1].node.quotas.book.Starts(l.Ref); len(rates) != 3 || rates[0].Rate != 100 || rates[1].Concurrency != 3 || rates[2].Class != 2 {
			t.Errorf("in force on the other server: %+v", rates)
		}
		set(admin.Quota{Rate: 50})
		wants("changed by a call", " 50 0 0 0 anonymous", high, low, crm)
		set(admin.Quota{}, "rate")
		set(admin.Quota{Priority: "low"}, "rate")
		set(admin.Quota{Priority: "high"}, "concurrency")
		set(admin.Quota{Identity: "crm"}, "admit")
		wants("taken away by calls")
		put(`{"format":2,"quotas":[{"rate":100}],"max_attempts":5}`)
		wants("another registration", " 100 0 0 0 (registration)")
		put(`{"format":2}`)
		wants("a registration without quotas takes away those of the one before")
		set(admin.Quota{Rate: 30})
		put(`{"format":2,"max_attempts":4}`)
		wants("a registration without quotas leaves those of calls alone", " 30 0 0 0 anonymous")
		put(`{"format":2,"quotas":[]}`)
		wants("a registration of no quotas")
	})
}
