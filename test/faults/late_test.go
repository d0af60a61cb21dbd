package faults_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/api/kinesinv1/kinesinv1connect"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
	"github.com/kinesin-io/kinesin/test/harness"
	"github.com/kinesin-io/kinesin/test/job"
)

// A worker that knows nothing of leases, and says what it did when that is over: the server refuses its
// success, its failure and its heartbeat, and nothing of the task changes.
func TestLateReportsAreRefused(t *testing.T) {
	t.Parallel()
	s := newSite(t, queued, admin.Lambda{})
	ctx, cancel := context.WithTimeout(t.Context(), harness.SettleMax)
	defer cancel()
	late := kinesinv1connect.NewWorkerServiceClient(&http.Client{Transport: api.NewCallTransport()}, s.Servers[0].URL, api.ClientOptions()...)
	lease, err := late.Register(ctx, &kinesinv1.RegisterRequest{
		Name: "late", Lease: harness.LeaseMin.Microseconds(), Groups: []*kinesinv1.SlotGroup{{Lambdas: []string{"work"}, Slots: 1}},
	})
	if err != nil {
		t.Fatal(err)
	}
	task := s.One(job.Job{Millis: 3000})
	claim, err := late.Claim(ctx, &kinesinv1.ClaimRequest{Worker: lease.Worker, Lambdas: []string{"work"}, Limit: 1, Wait: 5_000_000})
	if err != nil || len(claim.Tasks) != 1 {
		t.Fatal(claim, err)
	}
	claimed := time.Now()
	s.Worker(harness.WorkerOptions{})
	start := s.History.StartOf(task, 0, soon)
	harness.Within(t, "silent_claim_taken_over_after", time.UnixMicro(start.At).Sub(claimed), harness.LeaseMin+time.Second+slack)

	for _, outcome := range []string{"success", "fatal_failure", "retriable_failure", "released"} {
		acks, err := late.SetResults(ctx, &kinesinv1.SetResultsRequest{Worker: lease.Worker, Results: []*kinesinv1.Result{{
			Task: claim.Tasks[0].Task, Attempt: claim.Tasks[0].Attempt, Outcome: outcome, Started: claimed.UnixMicro(),
		}}})
		if err != nil || len(acks.Acks) != 1 || acks.Acks[0].Problem.GetReason() != kinesinv1.Reason_REASON_FENCED {
			t.Errorf("late %s: %v, %v; want it fenced", outcome, acks, err)
		}
	}
	_, err = late.Heartbeat(ctx, &kinesinv1.HeartbeatRequest{Worker: lease.Worker, Running: []*kinesinv1.Held{{
		Task: claim.Tasks[0].Task, Attempt: claim.Tasks[0].Attempt,
	}}})
	if err = api.FromWire(err); !errors.Is(err, api.ErrLeaseLost) {
		t.Errorf("late heartbeat: %v, want the lease lost", err)
	}
	info := s.Settle(harness.SettleMax, []sdk.ID{task})[0]
	if info.State != sdk.StateSuccess || info.Attempt != 2 || info.WorkerLost != 1 || info.Failures != 0 {
		t.Errorf("%s at attempt %d, %d workers lost, %d failures", info.State, info.Attempt, info.WorkerLost, info.Failures)
	}
}
