package cli_test

import (
	"strings"
	"testing"
)

// Tasks that a gate has held, and redriven tasks, go on at the quota of recovery, unless another pace is
// given.
func TestAQuotaOfRecoveryIsThePaceOfWhatGoesOn(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.must("lambda", "create", "mail")
	s.must("lambda", "create", "sms")
	if got := s.must("quota", "set", "mail", "--recovery", "50"); got != "mail: 50/s resumed or redriven" {
		t.Error(got)
	}
	if all := s.objects("quota", "list"); len(all) != 1 || all[0]["recovery"] != 50.0 {
		t.Errorf("%v", all)
	}
	pause := func(lambda string) string {
		return s.must("gate", "pause", lambda, "--reason", "db maintenance")
	}
	first, second, other := pause("mail"), pause("mail"), pause("sms")
	s.do("gate", "resume", first).check(t, "resume", 0, "it resumes at 50 tasks per second, the recovery quota of lambda mail; --pace 1000000 lets all go at once")
	if g := s.object("gate", "resume", second, "--pace", "7"); g["pace"] != 7.0 || g["note"] != nil {
		t.Errorf("with a pace of its own: %v", g)
	}
	if g := s.object("gate", "resume", other); g["state"] != "ended" || g["note"] != nil {
		t.Errorf("another lambda: %v", g)
	}
	redrive := func(args ...string) any {
		return s.object(append([]string{"redrive", "--where", "state=dead", "--detach"}, args...)...)["pace"]
	}
	if got := redrive("--lambda", "mail"); got != 50.0 {
		t.Errorf("a redrive of the lambda has pace %v", got)
	}
	if got := redrive(); got != 50.0 {
		t.Errorf("a redrive of all lambdas has pace %v, want the lowest of theirs", got)
	}
	if got := redrive("--lambda", "sms"); got != 0. {
		t.Errorf("a redrive of another lambda has pace %v", got)
	}
	if got := redrive("--lambda", "mail", "--pace", "9"); got != 9.0 {
		t.Errorf("a redrive with a pace of its own has pace %v", got)
	}
	if o := s.object("cancel", "--where", "state=scheduled", "--lambda", "mail", "--detach"); o["pace"] != 0. {
		t.Errorf("a cancel has pace %v", o["pace"])
	}
	if got := s.must("quota", "set", "mail", "--reset", "recovery"); got != "mail: no limit" {
		t.Error(got)
	}
	if g := s.object("gate", "resume", first); g["state"] != "ended" {
		t.Errorf("without the quota: %v", g)
	}
}

func TestQuotasThatAreRefused(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.must("lambda", "create", "mail")
	for _, c := range []struct {
		args string
		code int
		says string
	}{
		{"--rate 5", 2, "LAMBDA is missing"},
		{"mail", 2, "nothing to set"},
		{"mail --rate 0", 2, "kinesin gate pause stops starts, and --reset rate takes the limit away"},
		{"mail --admit 0", 2, "kinesin gate pause keeps what is scheduled from starting, and --reset admit takes the limit away"},
		{"mail --recovery 0", 2, "kinesin gate pause stops starts, and --reset recovery takes the limit away"},
		{"mail --recovery 0.5", 2, "not a"},
		{"mail --recovery 5 --priority low", 2, "--recovery is per lambda"},
		{"mail --recovery 5 --identity crm", 2, "--recovery is per lambda"},
		{"mail --rate -5", 2, "want 0.001 to 1000000 per second"},
		{"mail --rate fast", 2, `"fast" is not a rate`},
		{"mail --rate 5 --burst 0", 2, "want 1 to 100000"},
		{"mail --rate 5 --identity crm", 2, "--identity is for --admit"},
		{"mail --rate 5 --admit 5 --identity crm", 2, "--identity does not go with --rate"},
		{"mail --admit 5 --priority low", 2, "--priority does not go with --admit"},
		{"mail --priority urgent --rate 5", 1, "lambda mail has high, normal, low"},
		{"nail --rate 5", 1, "nail"},
		{"mail --concurrency 0", 2, "kinesin gate pause stops starts, and --reset concurrency takes the limit away"},
		{"mail --concurrency -1", 2, "want 1 to 100000 tasks"},
		{"mail --concurrency 100001", 2, "want 1 to 100000 tasks"},
		{"mail --concurrency 2.5", 2, `"2.5" is not a count`},
		{"mail --concurrency 5 --admit 1 --identity crm", 2, "--identity does not go with --concurrency"},
	} {
		s.do(append([]string{"quota", "set"}, strings.Fields(c.args)...)...).check(t, c.args, c.code, c.says)
	}
}

// A refusal by a quota fails a single command with its reason, and makes a batch wait.
func TestScheduleMeetsAQuota(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.must("lambda", "create", "mail")
	s.must("quota", "set", "mail", "--admit", "0.001")
	s.must("schedule", "mail", "--in", "1h")
	o := s.do("schedule", "mail", "--in", "1h")
	o.check(t, "schedule", 1, "the admission quota of lambda mail is used up; try again in 16m")
	s.must("quota", "set", "mail", "--admit", "40")
	lines := strings.Repeat(`{"lambda":"mail","delay":"1h"}`+"\n", 60)
	if o := s.doWith(lines, "schedule", "--batch", "-"); o.code != 0 || len(strings.Fields(o.stdout)) != 60 {
		t.Errorf("%+v", o)
	}
}
