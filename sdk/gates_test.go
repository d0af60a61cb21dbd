package sdk_test

import (
	"errors"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/sdktest"
)

func TestGatesOfTheClient(t *testing.T) {
	t.Parallel()
	k := sdktest.New(t)
	c := k.Client()
	for _, name := range []string{"mail", "pay"} {
		if _, _, err := c.CreateLambda(t.Context(), sdk.LambdaInfo{Name: name}); err != nil {
			t.Fatal(err)
		}
	}
	ids, err := c.ScheduleMany(t.Context(), []sdk.Item{{Lambda: "mail", Tags: map[string]string{"a": "1"}, In: time.Minute}, {Lambda: "mail"}})
	if err != nil {
		t.Fatal(err)
	}
	want := sdk.Gate{Action: sdk.GatePause, Lambda: "mail", Tag: "a=1", Reason: "db", Until: k.Now().Add(time.Hour)}
	would, err := c.DryRunGate(t.Context(), want)
	if err != nil || would.Counts != (sdk.GateCounts{NextHour: 1, Exact: true}) || would.ID != "" {
		t.Errorf("dry run: %+v %v", would, err)
	}
	g, err := c.SetGate(t.Context(), want)
	if err != nil || g.ID != "1" || g.State != "active" || g.Action != sdk.GatePause || g.Tag != "a=1" || !g.Until.Equal(want.Until) || !g.Created.Equal(k.Now()) || g.Owner == "" {
		t.Errorf("set: %+v %v", g, err)
	}
	if _, err := c.SetGate(t.Context(), sdk.Gate{Action: sdk.GateDrop, Lambda: "mail", Priority: "low", Reason: "bad"}); err != nil {
		t.Fatal(err)
	}
	info, err := c.Get(t.Context(), ids[0].ID)
	if err != nil || info.WaitsFor.Reason != "gate" || info.WaitsFor.Gate != "1" || !info.WaitsFor.Until.Equal(want.Until) || info.WaitsFor.Text == "" {
		t.Errorf("waits for %+v, %v", info.WaitsFor, err)
	}
	if other, err := c.Get(t.Context(), ids[1].ID); err != nil || other.WaitsFor.Reason != "no worker" || other.WaitsFor.Gate != "" {
		t.Errorf("another task waits for %+v, %v", other.WaitsFor, err)
	}
	if g, err = c.ResumeGate(t.Context(), "1", 7); err != nil || g.State != "resuming" || g.Pace != 7 {
		t.Errorf("at a pace: %+v %v", g, err)
	}
	if g, err = c.ResumeGate(t.Context(), "1", 0); err != nil || g.State != "ended" || g.EndedBy == "" || !g.Ended.Equal(k.Now()) {
		t.Errorf("at once: %+v %v", g, err)
	}
	if g, err = c.GetGate(t.Context(), "2"); err != nil || g.Reason != "bad" || !g.Counts.Exact {
		t.Errorf("get: %+v %v", g, err)
	}
	for _, list := range []struct {
		lambda string
		ended  bool
		ids    string
	}{{"", false, "2"}, {"mail", true, "21"}, {"pay", true, ""}} {
		all, err := c.Gates(t.Context(), list.lambda, list.ended)
		got := ""
		for i := range all {
			got += all[i].ID
		}
		if err != nil || got != list.ids {
			t.Errorf("%+v: %s, %v", list, got, err)
		}
	}
	if _, err := c.GetGate(t.Context(), "7"); !errors.Is(err, sdk.ErrNotFound) {
		t.Errorf("no such gate: %v", err)
	}
	if _, err := c.SetGate(t.Context(), sdk.Gate{Action: sdk.GatePause, Lambda: "mail"}); !errors.Is(err, sdk.ErrInvalid) {
		t.Errorf("without a reason: %v", err)
	}
	if _, err := c.SetGate(t.Context(), sdk.Gate{Action: sdk.GatePause, Lambda: "nail", Reason: "x"}); !errors.Is(err, sdk.ErrUnknownLambda) {
		t.Errorf("of an unknown lambda: %v", err)
	}
}
