package admin_test

import (
	"errors"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
	"github.com/kinesin-io/kinesin/sdk/sdktest"
)

func TestGatesOfTheClient(t *testing.T) {
	t.Parallel()
	k := sdktest.New(t)
	c, a := k.Client(), k.Admin()
	for _, name := range []string{"mail", "pay"} {
		if _, _, err := a.Lambdas.Create(t.Context(), admin.Lambda{Name: name}); err != nil {
			t.Fatal(err)
		}
	}
	ids, err := c.ScheduleMany(t.Context(), []sdk.Item{{Lambda: "mail", Tags: map[string]string{"a": "1"}, In: time.Minute}, {Lambda: "mail"}})
	if err != nil {
		t.Fatal(err)
	}
	want := admin.Gate{Action: admin.GatePause, Lambda: "mail", Tag: "a=1", Reason: "db", Until: k.Now().Add(time.Hour)}
	would, err := a.Gates.DryRun(t.Context(), want)
	if err != nil || would.Counts != (admin.GateCounts{NextHour: 1, Exact: true}) || would.ID != "" {
		t.Errorf("dry run: %+v %v", would, err)
	}
	g, err := a.Gates.Create(t.Context(), want)
	if err != nil || g.ID != "1" || g.State != "active" || g.Action != admin.GatePause || g.Tag != "a=1" || !g.Until.Equal(want.Until) || !g.Created.Equal(k.Now()) || g.Owner == "" {
		t.Errorf("set: %+v %v", g, err)
	}
	if _, err := a.Gates.Create(t.Context(), admin.Gate{Action: admin.GateDrop, Lambda: "mail", Priority: "low", Reason: "bad"}); err != nil {
		t.Fatal(err)
	}
	info, err := c.Get(t.Context(), ids[0].ID)
	if err != nil || info.WaitsFor.Reason != "gate" || info.WaitsFor.Gate != "1" || !info.WaitsFor.Until.Equal(want.Until) || info.WaitsFor.Text == "" {
		t.Errorf("waits for %+v, %v", info.WaitsFor, err)
	}
	if other, err := c.Get(t.Context(), ids[1].ID); err != nil || other.WaitsFor.Reason != "no worker" || other.WaitsFor.Gate != "" {
		t.Errorf("another task waits for %+v, %v", other.WaitsFor, err)
	}
	if g, err = a.Gates.Resume(t.Context(), "1", admin.GateResumeOptions{Pace: 7}); err != nil || g.State != "resuming" || g.Pace != 7 {
		t.Errorf("at a pace: %+v %v", g, err)
	}
	if g, err = a.Gates.Resume(t.Context(), "1", admin.GateResumeOptions{}); err != nil || g.State != "ended" || g.EndedBy == "" || !g.Ended.Equal(k.Now()) {
		t.Errorf("at once: %+v %v", g, err)
	}
	if g, err = a.Gates.Get(t.Context(), "2"); err != nil || g.Reason != "bad" || !g.Counts.Exact {
		t.Errorf("get: %+v %v", g, err)
	}
	for _, list := range []struct {
		lambda string
		ended  bool
		ids    string
	}{{"", false, "2"}, {"mail", true, "21"}, {"pay", true, ""}} {
		all, err := a.Gates.List(t.Context(), list.lambda, admin.GateListOptions{Ended: list.ended})
		got := ""
		for i := range all {
			got += all[i].ID
		}
		if err != nil || got != list.ids {
			t.Errorf("%+v: %s, %v", list, got, err)
		}
	}
	if _, err := a.Gates.Get(t.Context(), "7"); !errors.Is(err, sdk.ErrNotFound) {
		t.Errorf("no such gate: %v", err)
	}
	if _, err := a.Gates.Create(t.Context(), admin.Gate{Action: admin.GatePause, Lambda: "mail"}); !errors.Is(err, sdk.ErrInvalid) {
		t.Errorf("without a reason: %v", err)
	}
	if _, err := a.Gates.Create(t.Context(), admin.Gate{Action: admin.GatePause, Lambda: "nail", Reason: "x"}); !errors.Is(err, sdk.ErrUnknownLambda) {
		t.Errorf("of an unknown lambda: %v", err)
	}
}
