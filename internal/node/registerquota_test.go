package node

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/feature/audit"
	"github.com/kinesin-io/kinesin/internal/quota"
	"github.com/kinesin-io/kinesin/sdk/admin"
	"github.com/kinesin-io/kinesin/store"
)

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
