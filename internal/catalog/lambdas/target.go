package lambdas

import (
	"slices"
	"strings"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/refusal"
	"github.com/kinesin-io/kinesin/task"
)

// targetOf returns the target of a lambda as a caller describes it; nil if it has none.
func targetOf(v *kinesinv1.Lambda) (*task.Target, error) {
	wire := v.GetTarget()
	if wire == nil {
		if len(v.GetTargetHeaders()) > 0 || len(v.GetTargetSecrets()) > 0 {
			return nil, refusal.Invalid("target headers or secrets without a target: want its url too")
		}
		return nil, nil //nolint:nilnil // it has none
	}
	if wire.GetSlots() > task.TargetSlotsMax {
		return nil, refusal.Invalid("target slots %d: want 1 to %d", wire.GetSlots(), task.TargetSlotsMax)
	}
	t := &task.Target{URL: wire.GetUrl(), Method: wire.GetMethod(), Slots: uint16(wire.GetSlots()), Async: wire.GetAsync()}
	for i, header := range v.GetTargetHeaders() {
		name, value, is := strings.Cut(header, ":")
		if !is {
			return nil, refusal.Invalid("target header %d: want \"name: value\"", i+1) // it may be a secret
		}
		if _, twice := t.Headers[name]; twice {
			return nil, refusal.Invalid("target header %.128q is there twice", name)
		}
		if t.Headers == nil {
			t.Headers = map[string]string{}
		}
		t.Headers[name] = strings.TrimSpace(value)
	}
	for _, text := range v.GetTargetSecrets() {
		secret, err := task.ParseTargetSecret(text)
		if err != nil {
			return nil, err
		}
		t.Secrets = append(t.Secrets, secret)
	}
	return t, nil
}

// showTarget adds the target of a lambda to what callers see of it.
func showTarget(v *kinesinv1.Lambda, t *task.Target) {
	if t == nil {
		return
	}
	v.Target = &kinesinv1.Target{Url: t.URL, Method: t.Method, Slots: uint32(t.Slots), Async: t.Async}
	v.TargetHeaderNames, v.TargetSecretCount = t.HeaderNames(), uint32(len(t.Secrets))
}

// keepSecrets gives a changed target the headers and secrets of before that the change does not name. They were given
// for one host: somebody who may not know them could otherwise send them to a host of his own.
func keepSecrets(next, before *task.Target, fields []string) error {
	if next == nil || before == nil {
		return nil
	}
	keepsHeaders := !slices.Contains(fields, "target_headers") && len(before.Headers) > 0
	keepsSecrets := !slices.Contains(fields, "target_secrets") && len(before.Secrets) > 0
	if (keepsHeaders || keepsSecrets) && !next.KeepsTo(before) {
		return refusal.Invalid("target: its headers and secrets are for another host: give them again, or reset target_headers and target_secrets")
	}
	if keepsHeaders {
		next.Headers = before.Headers
	}
	if keepsSecrets {
		next.Secrets = before.Secrets
	}
	return nil
}
