package gate_test

import (
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/inbound/inboundtest"
	"github.com/kinesin-io/kinesin/internal/hold"
)

// probing stores the gate of a circuit breaker of mail that lets probes through.
func (f *fixture) probing() {
	f.T.Helper()
	l, err := f.Catalog.Lambda("mail")
	if err != nil {
		f.T.Fatal(err)
	}
	g := &hold.Gate{
		ID: "1", Action: hold.Pause, Lambda: "mail", Ref: l.Ref, Reason: "most failed", Owner: hold.BreakerOwner, Created: f.Clock.Now(),
		Resumed: f.Clock.Now(), Pace: 2, Breaker: &hold.Breaker{Opened: f.Clock.Now(), Times: 1},
	}
	if err := f.stored().Put(f.Ctx, g); err != nil {
		f.T.Fatal(err)
	}
	if err := f.book.Refresh(f.Ctx); err != nil {
		f.T.Fatal(err)
	}
}

// It also holds what comes due meanwhile, so that nobody but the breaker ends it.
func TestAGateThatProbesDoesNotEndByItself(t *testing.T) {
	run(t, func(f *fixture) {
		f.probing()
		f.tidying()
		f.sleep(10 * time.Minute)
		response, err := f.GetGate(f.Ctx, &kinesinv1.GetGateRequest{Id: "1"})
		if err != nil || response.Gate.State != "probing" || response.Gate.Pace != 2 || response.Gate.Owner != hold.BreakerOwner {
			t.Errorf("%+v, %v", response.GetGate(), err)
		}
	})
}

// Somebody resumes it by hand, be it at the pace that it has: from then on it is a gate like others.
func TestAGateOfABreakerIsTakenOverByHand(t *testing.T) {
	run(t, func(f *fixture) {
		f.probing()
		f.sleep(time.Minute)
		for range 2 { // again, it stays as it is
			response, err := f.ResumeGate(f.Ctx, &kinesinv1.ResumeGateRequest{Id: "1", Pace: 2})
			if err != nil || response.Gate.State != "resuming" || response.Gate.EndedBy != "ops" {
				t.Fatalf("%+v, %v", response.GetGate(), err)
			}
			g, err := f.stored().Find(f.Ctx, "1")
			if err != nil || g.Breaker != nil || g.Resumed != inboundtest.Start.Add(time.Minute) {
				t.Errorf("%+v, %v", g, err)
			}
			f.sleep(time.Second)
		}
		f.tidying()
		f.sleep(2 * time.Minute)
		if response, err := f.GetGate(f.Ctx, &kinesinv1.GetGateRequest{Id: "1"}); err != nil || response.Gate.State != "ended" {
			t.Errorf("%+v, %v: it holds nothing", response.GetGate(), err)
		}
	})
}
