package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
	"github.com/kinesin-io/kinesin/task"
)

// plan says what is to be done, and refuses it all if a part is refused.
func (p *applying) plan(ctx context.Context, prune bool) error {
	p.known, p.coming = map[string][]string{}, map[string]bool{}
	for i := range p.declared.lambdas {
		l := &p.declared.lambdas[i]
		if err := p.planLambda(ctx, l); err != nil {
			return err
		}
	}
	var rest []*change
	for _, plan := range []func(ctx context.Context) ([]*change, error){p.planQuotas, p.planObjectives, p.planCrons} {
		left, err := plan(ctx)
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
		there, err := admin.New(p.client).Lambdas.Get(ctx, lambda)
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

// mayManage refuses to change what somebody else keeps as code. release is how its set lets it go.
func (p *applying) mayManage(line int, what string, registered bool, managedBy, release string) error {
	switch {
	case registered:
		return lineError(line, "%s is registered with its lambda: take it out of the module call in Terraform, or out of this file", what)
	case managedBy != "" && managedBy != p.declared.name:
		return lineError(line, "%s is managed by set %s, and this one is %s: take it out of the other file, and then of its set with `%s`",
			what, managedBy, p.declared.name, release)
	}
	return nil
}

// planCrons returns, as the others do, how to delete those of the set that the file does not have.
func (p *applying) planCrons(ctx context.Context) ([]*change, error) {
	all, err := admin.New(p.client).Crons.List(ctx, "")
	if err != nil {
		return nil, err
	}
	there := make(map[string]*admin.Cron, len(all))
	for i := range all {
		there[all[i].Name] = &all[i]
	}
	for i := range p.declared.crons {
		c := &p.declared.crons[i]
		if err := p.needs(ctx, c.line, "cron "+c.cron.Name, c.cron.Lambda, c.cron.Priority); err != nil {
			return nil, err
		}
		if err := p.planCron(ctx, c, there[c.cron.Name]); err != nil {
			return nil, err
		}
		delete(there, c.cron.Name)
	}
	var rest []*change
	for _, name := range slices.Sorted(maps.Keys(there)) {
		if there[name].ManagedBy == p.declared.name {
			rest = append(rest, &change{Kind: kindCron, Name: name, do: func(ctx context.Context) error { return admin.New(p.client).Crons.Delete(ctx, name) }})
		}
	}
	return rest, nil
}

func (p *applying) planLambda(ctx context.Context, l *declaredLambda) error {
	one := &change{Action: applyUnchanged, Kind: kindLambda, Name: l.info.Name, Line: l.line}
	p.changes = append(p.changes, one)
	now, err := admin.New(p.client).Lambdas.Get(ctx, l.info.Name)
	if errors.Is(err, sdk.ErrUnknownLambda) || errors.Is(err, sdk.ErrNotFound) {
		one.Action = applyCreate
		p.coming[l.info.Name], p.known[l.info.Name] = true, l.info.Priorities
		if len(l.info.Priorities) == 0 {
			p.known[l.info.Name] = task.PrioritiesDefault()
		}
		one.do = func(ctx context.Context) error {
			_, _, err := admin.New(p.client).Lambdas.Create(ctx, *l.info)
			return err
		}
		return nil
	}
	if err != nil {
		return err
	}
	p.known[l.info.Name] = now.Priorities
	if weights := l.info.PriorityWeights; len(weights) > 0 { // the server shows that of each priority
		for _, name := range now.Priorities {
			if _, named := weights[name]; !named {
				weights[name] = 1
			}
		}
	}
	have := admin.Lambda{}
	flags := lambdaSettings(&have)
	have = now
	one.Changes = slices.DeleteFunc(differing(l.flags, flags, l.flags.Changed), func(c settingChange) bool { return c.isUnset(&now) })
	for _, c := range one.Changes {
		if c.Setting == "mode" || c.Setting == "priorities" {
			return lineError(l.line, "lambda %s has %s %s, and that cannot change: want another name", l.info.Name, c.Setting, c.From)
		}
	}
	if len(one.Changes) > 0 {
		one.Action = applyUpdate
		wanted := *l.info
		wanted.Mode, wanted.Priorities = "", nil
		one.do = func(ctx context.Context) error {
			_, err := admin.New(p.client).Lambdas.Update(ctx, wanted)
			return err
		}
	}
	return nil
}

// planCron compares a cron with the one of its name that is there; nil: there is none.
func (p *applying) planCron(ctx context.Context, c *declaredCron, there *admin.Cron) error {
	one := &change{Action: applyCreate, Kind: kindCron, Name: c.cron.Name, Line: c.line}
	p.changes = append(p.changes, one)
	defer func() {
		if text := warningText(c.cron); text != "" && one.Action != applyUnchanged {
			p.note("cron %s: %s", c.cron.Name, text)
		}
	}()
	if there == nil {
		one.do = func(ctx context.Context) error {
			_, _, err := admin.New(p.client).Crons.Create(ctx, *c.cron)
			return err
		}
		return p.checkCron(ctx, c.line, c.cron)
	}
	if err := p.mayManage(c.line, "cron "+c.cron.Name, there.Registered, there.ManagedBy, "kinesin cron set "+c.cron.Name+" --managed-by none"); err != nil {
		return err
	}
	if there.Lambda != c.cron.Lambda {
		return lineError(c.line, "cron %s is of lambda %s, and that cannot change to %s: want another name, or delete it before", c.cron.Name, there.Lambda, c.cron.Lambda)
	}
	now, err := admin.New(p.client).Crons.Get(ctx, c.cron.Name) // with its payload
	if err != nil {
		return err
	}
	have := admin.Cron{}
	flags := cronSettingsOf(&have)
	have = now
	have.Start, have.End = have.Start.UTC(), have.End.UTC()
	if one.compare(c.flags, flags, now.ManagedBy, p.declared.name); one.Action == applyUpdate {
		wanted := *c.cron
		wanted.Version = now.Version
		one.do = func(ctx context.Context) error {
			_, err := admin.New(p.client).Crons.Update(ctx, wanted)
			return err
		}
		return p.checkCron(ctx, c.line, &wanted)
	}
	return nil
}

// checkCron refuses a cron that the server would refuse. One of a lambda that is yet to be created it cannot
// judge.
func (p *applying) checkCron(ctx context.Context, line int, c *admin.Cron) error {
	if p.coming[c.Lambda] {
		return nil
	}
	if err := admin.New(p.client).Crons.Check(ctx, *c); err != nil {
		return fmt.Errorf("line %d: cron %s: %w", line, c.Name, err)
	}
	return nil
}

// compare says what changes of something that is there and of a set, or of none, to be as wanted and of this
// set.
func (c *change) compare(wanted, have *pflag.FlagSet, managedBy, set string) {
	c.Changes = differing(wanted, have, func(string) bool { return true })
	if managedBy != set {
		c.Changes = append(c.Changes, settingChange{"managed_by", managedBy, set})
	}
	if c.Action = applyUnchanged; len(c.Changes) > 0 {
		c.Action = applyUpdate
	}
}
