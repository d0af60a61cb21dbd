package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/jsonform"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/wirecopy"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
	"github.com/kinesin-io/kinesin/task"
)

// plan says what is to be done, and refuses it all if a part is refused.
func (p *applying) plan(ctx context.Context, prune bool) error {
	p.known, p.coming = map[string][]string{}, map[string]bool{}
	for i := range p.declared.lambdas {
		if err := p.planLambda(ctx, &p.declared.lambdas[i]); err != nil {
			return err
		}
	}
	var rest []*change
	for _, plan := range []func() ([]*change, error){
		func() ([]*change, error) { return planKind(ctx, p, p.declared.quotas, p.quotas()) },
		func() ([]*change, error) { return planKind(ctx, p, p.declared.objectives, p.objectives()) },
		func() ([]*change, error) { return planKind(ctx, p, p.declared.crons, p.crons()) },
	} {
		left, err := plan()
		if err != nil {
			return err
		}
		rest = append(rest, left...)
	}
	for _, one := range rest {
		if one.Action = applyDelete; !prune {
			one.Action, one.do = applyKeep, nil
		}
	}
	p.changes = append(p.changes, rest...)
	return nil
}

// needs refuses what is declared for a lambda that is neither there nor in the file, or for a priority that
// it does not have.
func (p *applying) needs(ctx context.Context, line int, what, lambda, priority string) error {
	priorities, known := p.known[lambda]
	if !known {
		there, err := p.admin.Lambdas.Get(ctx, lambda)
		if err != nil {
			return fmt.Errorf("line %d: %s: %w", line, what, err)
		}
		priorities = there.Priorities
		p.known[lambda] = priorities
	}
	if priority != "" && !slices.Contains(priorities, priority) {
		return lineError(line, "%s: invalid priority %.80q: lambda %s has %s", what, priority, lambda, strings.Join(priorities, ", "))
	}
	return nil
}

func (p *applying) planLambda(ctx context.Context, l *declared[admin.Lambda]) error {
	one := &change{Action: applyUnchanged, Kind: kindLambda, Name: l.is.Name, Line: l.line}
	p.changes = append(p.changes, one)
	now, err := p.admin.Lambdas.Get(ctx, l.is.Name)
	if errors.Is(err, sdk.ErrUnknownLambda) || errors.Is(err, sdk.ErrNotFound) {
		one.Action = applyCreate
		p.coming[l.is.Name], p.known[l.is.Name] = true, l.is.Priorities
		if len(l.is.Priorities) == 0 {
			p.known[l.is.Name] = task.PrioritiesDefault()
		}
		one.do = func(ctx context.Context) error {
			_, _, err := p.admin.Lambdas.Create(ctx, l.is)
			return err
		}
		return nil
	}
	if err != nil {
		return err
	}
	p.known[l.is.Name], now.Name = now.Priorities, l.is.Name
	if weights := l.is.PriorityWeights; len(weights) > 0 { // the server shows that of each priority
		for _, name := range now.Priorities {
			if _, named := weights[name]; !named {
				weights[name] = 1
			}
		}
	}
	if b := &l.is.Breaker; *b != (admin.Breaker{}) { // what it leaves out stays
		b.Failures, b.Window = cmp.Or(b.Failures, now.Breaker.Failures), cmp.Or(b.Window, now.Breaker.Window)
	}
	if now.KeyRetention == now.Retention && slices.Contains(l.nulls, "key_retention") {
		now.KeyRetention = 0 // as it is when it is not set
	}
	want, defaults := wirecopy.To[kinesinv1.Lambda](&l.is).ProtoReflect(), lambdaDefaults().ProtoReflect()
	for _, name := range l.nulls {
		if f := want.Descriptor().Fields().ByName(protoreflect.Name(name)); defaults.Has(f) {
			want.Set(f, defaults.Get(f))
		}
	}
	one.Changes = differing(want.Interface(), wirecopy.To[kinesinv1.Lambda](&now), slices.Collect(maps.Keys(l.lines)))
	wanted, o := l.is, admin.LambdaUpdateOptions{}
	for _, c := range one.Changes {
		switch isNull := slices.Contains(l.nulls, c.Setting); {
		case slices.Contains(lambdaFixed, c.Setting):
			return lineError(l.line, "lambda %s has %s %s, and that cannot change: want another name", l.is.Name, c.Setting, c.From)
		case isNull && c.Setting == "shards":
			return lineError(l.lines[c.Setting], "%s: null is no value; leave the field out", c.Setting)
		case isNull:
			o.Reset = append(o.Reset, c.Setting)
		}
	}
	if len(one.Changes) > 0 {
		one.Action, wanted.Mode, wanted.FIFO, wanted.Priorities = applyUpdate, "", false, nil
		one.do = func(ctx context.Context) error {
			_, err := p.admin.Lambdas.Update(ctx, wanted, o)
			return err
		}
	}
	return nil
}

// lambdaDefaults returns the settings of a lambda that have a default which the server shows.
func lambdaDefaults() *kinesinv1.Lambda {
	d := task.Lambda{}.WithDefaults()
	return wirecopy.To[kinesinv1.Lambda](&admin.Lambda{MaxAttempts: int(d.MaxAttempts), Timeout: d.Timeout, BackoffMin: d.BackoffMin, BackoffMax: d.BackoffMax, Retention: d.Retention})
}

// ownership says for which lambda a setting is, and who keeps it.
type ownership struct {
	lambda, priority, managedBy string
	registered                  bool
}

// kindOf is how settings of a kind are planned.
type kindOf[T any] struct {
	kind   string
	what   string // before its name in errors
	list   func(ctx context.Context, lambda string) ([]T, error)
	name   func(*T) string
	owner  func(*T) ownership
	wire   func(*T) proto.Message
	fields []string // that a file may say

	release func(*T) string                           // the command by which its set lets it go
	now     func(ctx context.Context, there *T) error // reads what a list leaves out; nil: nothing
	check   func(ctx context.Context, line int, wanted, there *T) error
	set     func(ctx context.Context, wanted, there *T) error
	drop    func(ctx context.Context, one T) error
}

// planKind plans what is declared of a kind, and returns how to delete those of the set that the file does not have.
func planKind[T any](ctx context.Context, p *applying, all []declared[T], k kindOf[T]) (rest []*change, err error) {
	list, err := k.list(ctx, "")
	if err != nil {
		return nil, err
	}
	there := make(map[string]*T, len(list))
	for i := range list {
		there[k.name(&list[i])] = &list[i]
	}
	for i := range all {
		d := &all[i]
		name, owner := k.name(&d.is), k.owner(&d.is)
		if err := p.needs(ctx, d.line, k.what+name, owner.lambda, owner.priority); err != nil {
			return nil, err
		}
		if err := planOne(ctx, p, d, there[name], k); err != nil {
			return nil, err
		}
		delete(there, name)
	}
	for _, name := range slices.Sorted(maps.Keys(there)) {
		if one := *there[name]; k.owner(&one).managedBy == p.declared.name {
			rest = append(rest, &change{Kind: k.kind, Name: name, do: func(ctx context.Context) error { return k.drop(ctx, one) }})
		}
	}
	return rest, nil
}

// planOne compares a setting with that which is there; nil: there is none.
func planOne[T any](ctx context.Context, p *applying, d *declared[T], there *T, k kindOf[T]) error {
	one := &change{Action: applyCreate, Kind: k.kind, Name: k.name(&d.is), Line: d.line}
	p.changes = append(p.changes, one)
	if there != nil {
		owner := k.owner(there)
		switch {
		case owner.registered:
			return lineError(d.line, "%s is registered with its lambda: take it out of the module call in Terraform, or out of this file", k.what+one.Name)
		case owner.managedBy != "" && owner.managedBy != p.declared.name:
			return lineError(d.line, "%s is managed by set %s, and this one is %s: take it out of the other file, and then of its set with `%s`",
				k.what+one.Name, owner.managedBy, p.declared.name, k.release(there))
		}
		if k.now != nil {
			if err := k.now(ctx, there); err != nil {
				return err
			}
		}
		one.Changes = differing(k.wire(&d.is), k.wire(there), k.fields)
		if owner.managedBy != p.declared.name {
			one.Changes = append(one.Changes, settingChange{"managed_by", owner.managedBy, p.declared.name})
		}
		if one.Action = applyUpdate; len(one.Changes) == 0 {
			one.Action = applyUnchanged
			return nil
		}
	}
	if k.check != nil {
		if err := k.check(ctx, d.line, &d.is, there); err != nil {
			return err
		}
	}
	one.do = func(ctx context.Context) error { return k.set(ctx, &d.is, there) }
	return nil
}

func (p *applying) quotas() kindOf[admin.Quota] {
	set := func(ctx context.Context, q admin.Quota) error { // with the limits that it has, and without the others
		change, o := wirecopy.To[kinesinv1.SetQuotaRequest](&q).ProtoReflect(), admin.QuotaSetOptions{}
		for _, name := range api.Changeable(change.Interface()) {
			if !change.Has(change.Descriptor().Fields().ByName(protoreflect.Name(name))) {
				o.Reset = append(o.Reset, name)
			}
		}
		_, err := p.admin.Quotas.Set(ctx, q, o)
		return err
	}
	return kindOf[admin.Quota]{
		kind: kindQuota, what: "quota ", list: p.admin.Quotas.List, name: quotaName, fields: jsonform.Names(&kinesinv1.Quota{}, limitExcept...),
		owner: func(q *admin.Quota) ownership { return ownership{q.Lambda, q.Priority, q.ManagedBy, q.Registered} },
		wire:  func(q *admin.Quota) proto.Message { return wirecopy.To[kinesinv1.Quota](q) },
		release: func(q *admin.Quota) string {
			flags := strings.NewReplacer(" priority ", " --priority ", " identity ", " --identity ").Replace(quotaName(q))
			return "kinesin quota set " + flags + " --reset managed_by"
		},
		set: func(ctx context.Context, wanted, _ *admin.Quota) error {
			q := *wanted
			q.ManagedBy = p.declared.name
			return set(ctx, q)
		},
		drop: func(ctx context.Context, q admin.Quota) error {
			return set(ctx, admin.Quota{Lambda: q.Lambda, Priority: q.Priority, Identity: q.Identity})
		},
	}
}

func (p *applying) objectives() kindOf[admin.Objective] {
	return kindOf[admin.Objective]{
		kind: kindObjective, what: "objective of ", fields: jsonform.Names(&kinesinv1.Objective{}, limitExcept...),
		list: func(ctx context.Context, lambda string) (all []admin.Objective, err error) {
			found, err := p.admin.Objectives.List(ctx, lambda)
			for i := range found {
				all = append(all, found[i].Objective)
			}
			return all, err
		},
		name:  func(o *admin.Objective) string { return o.Lambda },
		owner: func(o *admin.Objective) ownership { return ownership{o.Lambda, "", o.ManagedBy, o.Registered} },
		wire: func(o *admin.Objective) proto.Message {
			w := wirecopy.To[kinesinv1.Objective](o)
			w.Objective = o.Percent
			return w
		},
		release: func(o *admin.Objective) string { return "kinesin objective delete " + o.Lambda },
		set: func(ctx context.Context, wanted, _ *admin.Objective) error {
			o := *wanted
			o.ManagedBy = p.declared.name
			_, err := p.admin.Objectives.Set(ctx, o)
			return err
		},
		drop: func(ctx context.Context, o admin.Objective) error { return p.admin.Objectives.Delete(ctx, o.Lambda) },
	}
}

func (p *applying) crons() kindOf[admin.Cron] {
	return kindOf[admin.Cron]{
		kind: kindCron, what: "cron ", list: p.admin.Crons.List, fields: jsonform.Names(&kinesinv1.Cron{}, cronExcept...),
		name:    func(c *admin.Cron) string { return c.Name },
		owner:   func(c *admin.Cron) ownership { return ownership{c.Lambda, c.Priority, c.ManagedBy, c.Registered} },
		wire:    func(c *admin.Cron) proto.Message { return wirecopy.To[kinesinv1.Cron](c) },
		release: func(c *admin.Cron) string { return "kinesin cron set " + c.Name + " --reset managed_by" },
		now: func(ctx context.Context, there *admin.Cron) (err error) { // its payload
			*there, err = p.admin.Crons.Get(ctx, there.Name)
			return err
		},
		check: p.checkCron,
		set: func(ctx context.Context, wanted, there *admin.Cron) (err error) {
			if there == nil {
				_, _, err = p.admin.Crons.Create(ctx, *wanted)
				return err
			}
			changed := *wanted
			changed.Version = there.Version
			_, err = p.admin.Crons.Update(ctx, changed)
			return err
		},
		drop: func(ctx context.Context, c admin.Cron) error { return p.admin.Crons.Delete(ctx, c.Name) },
	}
}

// checkCron refuses a cron that the server would refuse. One of a lambda that is yet to be created it cannot judge.
func (p *applying) checkCron(ctx context.Context, line int, wanted, there *admin.Cron) error {
	c := *wanted
	if there != nil {
		if c.Version = there.Version; there.Lambda != c.Lambda {
			return lineError(line, "cron %s is of lambda %s, and that cannot change to %s: want another name, or delete it before", c.Name, there.Lambda, c.Lambda)
		}
	}
	if !p.coming[c.Lambda] {
		if err := p.admin.Crons.Check(ctx, c); err != nil {
			return fmt.Errorf("line %d: cron %s: %w", line, c.Name, err)
		}
	}
	if text := warningText(&c); text != "" {
		p.note("cron %s: %s", c.Name, text)
	}
	return nil
}
