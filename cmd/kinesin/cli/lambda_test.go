package cli

import (
	"bytes"
	"strings"
	"testing"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/server"
)

func TestHowALambdaIsRegistered(t *testing.T) {
	t.Parallel()
	for want, l := range map[string]*kinesinv1.Lambda{
		"":                            {Name: "mail"},
		"registered     by Terraform": {Name: "mail", Registered: true},
		"registered     withdrawn: deleted when its tasks have ended; restore the module call, or kinesin lambda delete mail --drop": {Name: "mail", Registered: true, Withdrawn: true},
		"registered     by Terraform, refused: it is torn":                                                                           {Name: "mail", Registered: true, RegistrationRefused: "it is torn"},
		"registered     not yet, refused: it is torn":                                                                                {Name: "mail", RegistrationRefused: "it is torn"},
	} {
		var text bytes.Buffer
		if err := (&app{Process: Process{Stdout: &text}}).printLambda(l); err != nil {
			t.Fatal(err)
		}
		var got string
		for line := range strings.Lines(text.String()) {
			if strings.HasPrefix(line, "registered") {
				got += strings.TrimSpace(line)
			}
		}
		if got != want {
			t.Errorf("%+v: %q, want %q", l, got, want)
		}
	}
}

func TestTheListOfLambdasHasNoSettingsOfModeDeliver(t *testing.T) {
	t.Parallel()
	var text bytes.Buffer
	a := &app{Process: Process{Stdout: &text}}
	err := a.lambdas().printAll(a, nil, []*kinesinv1.Lambda{
		{Name: "out", Mode: "deliver", Priorities: []string{"one"}, Shards: 1, Retention: 3600e6},
		{Name: "mail", Mode: "managed", Priorities: []string{"one"}, Shards: 2, MaxAttempts: 3, Timeout: 60e6, BackoffMin: 1e6, BackoffMax: 60e6, Retention: 3600e6},
	})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(text.String()) {
		got = append(got, strings.Join(strings.Fields(line), " "))
	}
	want := []string{"NAME MODE PRIORITIES SHARDS MAX ATTEMPTS TIMEOUT BACKOFF RETENTION", "out deliver one 1 - - - 1h", "mail managed one 2 3 1m 1s..1m 1h"}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestWhatSetupSaysOfAQueue(t *testing.T) {
	t.Parallel()
	for want, c := range map[string]struct {
		item   server.SetupItem
		dryRun bool
	}{
		"missing: would be created":       {server.SetupItem{Outcome: server.SetupMissing}, true},
		"created":                         {server.SetupItem{Outcome: server.SetupCreated}, false},
		"unchanged: managed by Terraform": {server.SetupItem{Outcome: server.SetupUnchanged, Lambda: "mail"}, true},
		"differs: managed by Terraform":   {server.SetupItem{Outcome: server.SetupDiffers, Lambda: "mail"}, false},
		"missing: managed by Terraform; apply the module call of lambda mail, or restore the call and apply": {server.SetupItem{Outcome: server.SetupMissing, Lambda: "mail"}, true},
	} {
		if got := setupText(&c.item, c.dryRun); got != want {
			t.Errorf("%+v: %q, want %q", c.item, got, want)
		}
	}
}

func TestWhatHasEndedDoesNotRunAlone(t *testing.T) {
	for want, task := range map[string]*kinesinv1.Task{
		"enqueued, suspected of killing its worker: runs alone": {State: "enqueued", Suspect: true},
		"dead, suspected of killing its worker":                 {State: "dead", Suspect: true, Ended: 1},
	} {
		if got := taskStateText(task); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
