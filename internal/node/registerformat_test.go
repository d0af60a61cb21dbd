package node

import (
	"slices"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/internal/quota"
	"github.com/kinesin-io/kinesin/sdk/admin"
)

// An upgrade of the module alone, which writes the same in a newer format, changes nothing: what calls changed since stays,
// and no row is written again. The next change of a setting is applied as ever.
func TestTheSameRegistrationInANewerFormat(t *testing.T) {
	inRegistered(t, func(r registered) {
		const crons, objective = `"crons":{"often":{"schedule":"@every 90s"}}`, `"objective":99`
		r.put(`{"format":1,"max_attempts":3,"timeout_us":60000000,"quotas":{"rate":100,"by_priority":{"low":{"rate":20}}},` + crons + `,"objective":{"within_us":5000000,` + objective + `}}`)
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
		const two = `,"timeout":"60s","quotas":[{"rate":100},{"priority":"low","rate":20}],` + crons + `,"objective":{"within":"5s",` + objective + `}}`
		r.put(`{"format":2,"max_attempts":3` + two)
		now, err := r.admin().Lambdas.Get(r.ctx, "mail")
		if after := rows(); err != nil || now.MaxAttempts != 9 || now.RegistrationRefused != "" || !slices.Equal(after, before) {
			t.Errorf("the same registration made %+v, and rows of versions %v of %v, %v", now, after, before, err)
		}
		r.wantCrons("the same", "often of mail @every 90s revision 1 true")

		r.put(`{"format":2,"max_attempts":4` + two)
		if now, err = r.admin().Lambdas.Get(r.ctx, "mail"); err != nil || now.MaxAttempts != 4 {
			t.Errorf("another registration made %+v, %v", now, err)
		}
		quotas, err := r.admin().Quotas.List(r.ctx, "mail")
		if err != nil || len(quotas) != 2 || quotas[0].Rate != 100 {
			t.Errorf("quotas of another registration: %+v, %v", quotas, err)
		}
	})
}
