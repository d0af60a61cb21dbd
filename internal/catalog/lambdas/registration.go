package lambdas

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/kinesin-io/kinesin/api/jsonform"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

const (
	// registrationFormat is the format of registrations. Format 1 was never released.
	registrationFormat = 2
	// RegisteredCronsMax bounds the crons of a registration, all of which each process reads every few seconds.
	RegisteredCronsMax = 100
)

// Registered reads registrations from the store.
type Registered interface {
	Control(ctx context.Context, kind, name string) (store.Control, error)
	ControlsOmitted(ctx context.Context, kind string) ([]store.Control, map[string]error, error)
}

// ReadRegistrations reads all registrations, by name.
func ReadRegistrations(ctx context.Context, from Registered) ([]catalog.Registration, error) {
	rows, omitted, err := from.ControlsOmitted(ctx, catalog.RegistrationKind)
	if err != nil {
		return nil, fmt.Errorf("read registrations: %w", err)
	}
	all := make([]catalog.Registration, 0, len(rows)+len(omitted))
	for _, row := range rows {
		all = append(all, registrationOf(row.Name, row, nil))
	}
	for name, err := range omitted {
		all = append(all, registrationOf(name, store.Control{}, err))
	}
	slices.SortFunc(all, func(a, b catalog.Registration) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// ReadRegistration reads the registration of a name; false when there is none.
func ReadRegistration(ctx context.Context, from Registered, name string) (r catalog.Registration, isThere bool, err error) {
	row, err := from.Control(ctx, catalog.RegistrationKind, name)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return r, false, nil
	case err != nil && !errors.Is(err, store.ErrVersion) && !errors.Is(err, store.ErrCorrupt):
		return r, false, err
	}
	return registrationOf(name, row, err), true, nil
}

// registrationOf returns the registration of a row, or, where the row cannot be read, one that says why.
func registrationOf(name string, row store.Control, err error) catalog.Registration {
	var r catalog.Registration
	if err == nil {
		r, err = ParseRegistration(row)
	}
	if err != nil {
		r = catalog.Registration{Lambda: task.Lambda{Name: name}, Err: err}
	}
	return r
}

// registration is a row of format 2: the settings of the lambda, and beside them what else it is to have, all as
// requests of the API have it in JSON. What is absent has its default.
type registration struct {
	Quotas    *[]json.RawMessage         `json:"quotas"`
	Crons     map[string]json.RawMessage `json:"crons"`
	Objective json.RawMessage            `json:"objective"`

	settings map[string]json.RawMessage
}

// ParseRegistration decodes a registration; errors are task.ErrInvalid or store.ErrCorrupt.
func ParseRegistration(row store.Control) (r catalog.Registration, err error) {
	var of struct{ Format uint }
	err = json.Unmarshal(row.Value, &of)
	if err == nil && of.Format != registrationFormat {
		return r, fmt.Errorf("%w registration %s: it has format %d, this program knows %d; update the servers, then the Terraform modules",
			task.ErrInvalid, row.Name, of.Format, registrationFormat)
	}
	var raw registration
	if err == nil {
		err = errors.Join(json.Unmarshal(row.Value, &raw), json.Unmarshal(row.Value, &raw.settings))
	}
	if err != nil {
		return r, fmt.Errorf("%w: registration %s: %w", store.ErrCorrupt, row.Name, err)
	}
	r, err = raw.read(row.Name)
	if err != nil && !errors.Is(err, task.ErrInvalid) {
		err = fmt.Errorf("%w registration %s: %w", task.ErrInvalid, row.Name, err)
	}
	return r, err
}

// read decodes and checks the definition of a lambda, and takes its digest.
func (raw *registration) read(name string) (r catalog.Registration, err error) {
	l, err := raw.lambda(name)
	if err != nil {
		return r, err
	}
	if r.Lambda, err = lambdaOf(l); err != nil {
		return r, err
	}
	given := r.Lambda
	r.Lambda = given.WithDefaults()
	if err := errors.Join(catalog.CheckSettings(r.Mode, given), r.Validate()); err != nil {
		return r, err
	}
	r.Shards = given.Shards
	if raw.Quotas != nil {
		if r.Quotas, err = quotasOf(*raw.Quotas, &r.Lambda); err != nil {
			return r, err
		}
	}
	if r.Crons, err = cronsOf(raw.Crons); err != nil {
		return r, err
	}
	if raw.Objective != nil {
		r.Objective = &kinesinv1.SetObjectiveRequest{}
		if err := decode(raw.Objective, r.Objective, "lambda", "managed_by"); err != nil {
			return r, fmt.Errorf("objective: %w", err)
		}
	}
	r.Sum, err = digestOf(l, &r)
	return r, err
}

// lambda reads the settings of the lambda.
func (raw *registration) lambda(name string) (*kinesinv1.Lambda, error) {
	for _, other := range []string{"format", "quotas", "crons", "objective"} {
		delete(raw.settings, other)
	}
	settings, err := json.Marshal(raw.settings)
	if err != nil {
		return nil, err
	}
	l := &kinesinv1.Lambda{Name: name}
	return l, decode(settings, l, "name", "target_headers", "target_secrets") // which no file of Terraform should have
}

// quotasOf reads the quotas of a lambda, without those that bound nothing. They are sorted, so that the order in which
// they are given means nothing.
func quotasOf(raw []json.RawMessage, l *task.Lambda) ([]catalog.Limit, error) {
	if n := len(raw); n > catalog.LimitsMax {
		return nil, fmt.Errorf("quotas: %d of them, over priorities and identities; want at most %d", n, catalog.LimitsMax)
	}
	all := make([]catalog.Limit, len(raw))
	var errs []error
	for i, one := range raw {
		var q kinesinv1.Quota
		if err := decode(one, &q, "lambda", "managed_by", "registered", "updated", "updated_by"); err != nil {
			return nil, fmt.Errorf("quotas[%d]: %w", i, err)
		}
		all[i] = catalog.Limit{
			Priority: q.GetPriority(), Identity: q.GetIdentity(), Rate: q.GetRate(), Burst: q.GetBurst(), Admit: q.GetAdmit(),
			Concurrency: q.GetConcurrency(), Recovery: q.GetRecovery(),
		}
		if q.GetPriority() != "" {
			class, err := l.Priority(q.GetPriority())
			all[i].Class = class
			errs = append(errs, err)
		}
		errs = append(errs, all[i].Validate())
		if l.Mode == task.Deliver && all[i].Concurrency > 0 {
			errs = append(errs, errors.New("quotas: concurrency is not for mode deliver, whose messages Kinesin does not follow; want a rate"))
		}
		if slices.ContainsFunc(all[:i], func(other catalog.Limit) bool {
			return other.Priority == all[i].Priority && other.Identity == all[i].Identity
		}) {
			errs = append(errs, fmt.Errorf("quotas: priority %.64q, identity %.64q is there twice", q.GetPriority(), q.GetIdentity()))
		}
	}
	slices.SortFunc(all, func(a, b catalog.Limit) int {
		return cmp.Or(strings.Compare(a.Identity, b.Identity), strings.Compare(a.Priority, b.Priority))
	})
	return slices.DeleteFunc(all, func(l catalog.Limit) bool { return l.IsNone() }), errors.Join(errs...)
}

// cronsOf reads the crons of a lambda, by name.
func cronsOf(raw map[string]json.RawMessage) (map[string]*kinesinv1.Cron, error) {
	if len(raw) > RegisteredCronsMax {
		return nil, fmt.Errorf("%d crons in one registration: want at most %d", len(raw), RegisteredCronsMax)
	}
	all := map[string]*kinesinv1.Cron{}
	for _, name := range slices.Sorted(maps.Keys(raw)) {
		c := &kinesinv1.Cron{Name: name}
		err := decode(raw[name], c, "name", "lambda", "managed_by", "version")
		if err := cmp.Or(task.CheckName("cron", name), err); err != nil {
			return nil, fmt.Errorf("cron %.64q: %w", name, err)
		}
		all[name] = c
	}
	return all, nil
}

// decode refuses what this version does not know: servers that know it would take the lambda for one that has it.
func decode(raw []byte, m proto.Message, except ...string) error {
	if _, err := jsonform.Decode(raw, m, except...); err != nil {
		return fmt.Errorf("%w; if the Terraform modules are newer than the servers, update the servers first", err)
	}
	return nil
}

// digestOf returns the first 8 bytes of the SHA-256, in hexadecimal digits, of what a registration gives: fields by their
// numbers, and quotas as they are stored, all without defaults. So it is the same in all versions, whatever fields and
// defaults there are later.
func digestOf(l *kinesinv1.Lambda, r *catalog.Registration) (string, error) {
	var errs []error
	wire := func(m proto.Message) []byte {
		encoded, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
		errs = append(errs, err)
		return encoded
	}
	crons := map[string][]byte{}
	for name, c := range r.Crons {
		crons[name] = wire(c)
	}
	text, err := json.Marshal([]any{wire(l), r.Quotas, crons, wire(r.Objective)})
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8]), errors.Join(append(errs, err)...)
}
