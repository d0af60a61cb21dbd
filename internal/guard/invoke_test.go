package guard_test

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/api/kinesinv1/kinesinv1connect"
	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/feature/audit"
	"github.com/kinesin-io/kinesin/internal/guard"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/store/mem"
)

// lambdas has one lambda, mail.
type lambdas struct {
	kinesinv1connect.UnimplementedLambdaServiceHandler
}

func (lambdas) CreateLambda(_ context.Context, r *kinesinv1.CreateLambdaRequest) (*kinesinv1.CreateLambdaResponse, error) {
	return &kinesinv1.CreateLambdaResponse{Lambda: r.GetLambda(), Duplicate: r.GetLambda().GetName() == "mail"}, nil
}

func (lambdas) GetLambda(_ context.Context, r *kinesinv1.GetLambdaRequest) (*kinesinv1.GetLambdaResponse, error) {
	return &kinesinv1.GetLambdaResponse{Lambda: &kinesinv1.Lambda{Name: r.GetName(), MaxAttempts: 10}}, nil
}

func (lambdas) UpdateLambda(_ context.Context, r *kinesinv1.UpdateLambdaRequest) (*kinesinv1.UpdateLambdaResponse, error) {
	if r.GetLambda().GetName() != "mail" {
		return nil, api.ErrUnknownLambda
	}
	return &kinesinv1.UpdateLambdaResponse{Lambda: r.GetLambda()}, nil
}

// gates takes every gate.
type gates struct {
	kinesinv1connect.UnimplementedGateServiceHandler
}

func (gates) SetGate(_ context.Context, r *kinesinv1.SetGateRequest) (*kinesinv1.SetGateResponse, error) {
	return &kinesinv1.SetGateResponse{Gate: r.GetGate()}, nil
}

// A change is recorded with what was there before and is after it, and a refusal and a failure as what they are.
// What changes nothing is not recorded.
func TestWhatIsRecordedOfAChange(t *testing.T) {
	v := clock.NewVirtual(1, 1)
	var got []string
	log := audit.New(audit.Config{
		Rows: store.New(mem.New(), store.Config{Clock: v.Process(0)}), Clock: v.Process(0), Log: slog.New(slog.DiscardHandler),
		Written: func(r audit.Record) {
			got = append(got, strings.Join([]string{r.Action, r.Target, r.Outcome, r.Before, "->", r.After}, " "))
		},
	})
	grants, err := access.ParseGrants([]string{"admin:mail", "admin:sms", "operate:mail"})
	if err != nil {
		t.Fatal(err)
	}
	ctx := access.With(t.Context(), access.Caller{Identity: access.Identity{Name: "bob", Grants: grants}})
	g := &guard.Guard{Audit: log}
	behind, gate := g.Lambdas(lambdas{}), g.Gates(gates{}, nil)
	for _, name := range []string{"mail", "sms", "push"} {
		_, _ = behind.CreateLambda(ctx, &kinesinv1.CreateLambdaRequest{Lambda: &kinesinv1.Lambda{Name: name}})
		_, _ = behind.UpdateLambda(ctx, &kinesinv1.UpdateLambdaRequest{Lambda: &kinesinv1.Lambda{Name: name, MaxAttempts: 3}})
		for _, dry := range []bool{true, false} {
			_, _ = gate.SetGate(ctx, &kinesinv1.SetGateRequest{Gate: &kinesinv1.Gate{Lambda: name}, DryRun: dry})
		}
	}
	log.Flush(ctx)
	slices.Sort(got)
	want := []string{
		`gate.set mail ok  -> {"lambda":"mail"}`,
		`gate.set push denied  -> `,
		`gate.set sms denied  -> `,
		`lambda.create push denied  -> `,
		`lambda.create sms ok  -> {"name":"sms"}`,
		`lambda.update mail ok {"name":"mail","max_attempts":10} -> {"name":"mail","max_attempts":3}`,
		`lambda.update push denied  -> `,
		`lambda.update sms failed: unknown lambda {"name":"sms","max_attempts":10} -> `,
	}
	if !slices.Equal(got, want) {
		t.Errorf("recorded\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
