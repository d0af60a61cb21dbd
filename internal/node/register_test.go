package node

import (
	"errors"
	"log/slog"
	"maps"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"

	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/catalog/lambdas"
	"github.com/kinesin-io/kinesin/internal/clock"
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
	n := &Node{store: rows, catalog: catalog.New(rows, k, slog.New(slog.DiscardHandler))}
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
