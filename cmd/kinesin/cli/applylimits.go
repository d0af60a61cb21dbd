package cli

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"github.com/kinesin-io/kinesin/sdk/admin"
	"github.com/kinesin-io/kinesin/task"
)

type declaredQuota struct {
	line  int
	quota *admin.Quota
	flags *pflag.FlagSet // over quota
}

type declaredObjective struct {
	line      int
	objective *admin.Objective
	flags     *pflag.FlagSet // over objective
}

// flagsOver returns the settings of something as flags.
func flagsOver[T any](of *T, add func(*pflag.FlagSet, *T)) *pflag.FlagSet {
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	add(f, of)
	return f
}

// quotaName names a quota among those of all lambdas.
func quotaName(q *admin.Quota) string {
	name := q.Lambda
	if q.Priority != "" {
		name += " priority " + q.Priority
	}
	if q.Identity != "" {
		name += " identity " + q.Identity
	}
	return name
}

// textFields are fields with a text.
func textFields(into map[string]*string) map[string]func(*yaml.Node) error {
	fields := map[string]func(*yaml.Node) error{}
	for name, text := range into {
		fields[name] = func(n *yaml.Node) (err error) {
			*text, err = scalar(n)
			return err
		}
	}
	return fields
}

func (d *declarations) addQuota(n *yaml.Node) (string, error) {
	q := declaredQuota{line: n.Line, quota: &admin.Quota{}}
	q.flags = flagsOver(q.quota, quotaFlags)
	named := textFields(map[string]*string{"lambda": &q.quota.Lambda, "priority": &q.quota.Priority, "identity": &q.quota.Identity})
	err := eachField(n, named, func(_ string, key, value *yaml.Node) error {
		return setField(q.flags, key, value, fieldNames(named)...)
	})
	if err != nil {
		return "", err
	}
	if err := task.CheckName("lambda", q.quota.Lambda); err != nil {
		return "", lineError(q.line, "%v", err)
	}
	none := func(limit float64) float64 { return max(limit, 0) } // "none" is what is left out
	q.quota.Rate, q.quota.Admit = none(q.quota.Rate), none(q.quota.Admit)
	q.quota.Concurrency, q.quota.Recovery = max(q.quota.Concurrency, 0), max(q.quota.Recovery, 0)
	name := quotaName(q.quota)
	if err := checkQuota(q.quota, ""); err != nil {
		return "", lineError(q.line, "quota %s: %v", name, err)
	}
	if q.quota.Burst > 0 && q.quota.Rate == 0 {
		return "", lineError(q.line, "quota %s: burst goes with a rate", name)
	}
	d.quotas = append(d.quotas, q)
	return name, nil
}

func (d *declarations) addObjective(n *yaml.Node) (string, error) {
	o := declaredObjective{line: n.Line, objective: &admin.Objective{Window: sloWindowDefault}}
	o.flags = flagsOver(o.objective, objectiveFlags)
	named := textFields(map[string]*string{"lambda": &o.objective.Lambda})
	err := eachField(n, named, func(_ string, key, value *yaml.Node) error {
		return setField(o.flags, key, value, fieldNames(named)...)
	})
	if err != nil {
		return "", err
	}
	if err := task.CheckName("lambda", o.objective.Lambda); err != nil {
		return "", lineError(o.line, "%v", err)
	}
	if err := checkObjective(o.objective, ""); err != nil {
		return "", lineError(o.line, "objective of %s: %v", o.objective.Lambda, err)
	}
	d.objectives = append(d.objectives, o)
	return o.objective.Lambda, nil
}

func (p *applying) planQuotas(ctx context.Context) ([]*change, error) {
	all, err := admin.New(p.client).Quotas.List(ctx, "")
	if err != nil {
		return nil, err
	}
	there := make(map[string]*admin.Quota, len(all))
	for i := range all {
		there[quotaName(&all[i])] = &all[i]
	}
	for i := range p.declared.quotas {
		q := &p.declared.quotas[i]
		name := quotaName(q.quota)
		if err := p.needs(ctx, q.line, "quota "+name, q.quota.Lambda, q.quota.Priority); err != nil {
			return nil, err
		}
		if err := p.planQuota(q, name, there[name]); err != nil {
			return nil, err
		}
		delete(there, name)
	}
	var rest []*change
	for _, name := range slices.Sorted(maps.Keys(there)) {
		have := there[name]
		if have.ManagedBy == p.declared.name {
			none := admin.Quota{Lambda: have.Lambda, Priority: have.Priority, Identity: have.Identity}
			rest = append(rest, &change{Kind: kindQuota, Name: name, do: p.setQuota(none)})
		}
	}
	return rest, nil
}

func (p *applying) planQuota(q *declaredQuota, name string, there *admin.Quota) error {
	one := &change{Action: applyCreate, Kind: kindQuota, Name: name, Line: q.line}
	p.changes = append(p.changes, one)
	if there != nil {
		release := "kinesin quota set " + name + " --managed-by none"
		for _, of := range []string{" priority ", " identity "} {
			release = strings.Replace(release, of, " --"+of[1:], 1)
		}
		if err := p.mayManage(q.line, "quota "+name, there.Registered, there.ManagedBy, release); err != nil {
			return err
		}
		one.compare(q.flags, flagsOver(there, quotaFlags), there.ManagedBy, p.declared.name)
		if one.Action == applyUnchanged {
			return nil
		}
	}
	wanted := *q.quota
	wanted.ManagedBy = p.declared.name
	one.do = p.setQuota(wanted)
	return nil
}

// setQuota sets the limits that a quota has, and takes the others away.
func (p *applying) setQuota(q admin.Quota) func(ctx context.Context) error {
	orNone(&q.Rate)
	orNone(&q.Admit)
	orNone(&q.Burst)
	orNone(&q.Concurrency)
	orNone(&q.Recovery)
	return func(ctx context.Context) error {
		_, err := admin.New(p.client).Quotas.Set(ctx, q)
		return err
	}
}

func orNone[T int | float64](limit *T) {
	if *limit == 0 {
		*limit = -1
	}
}

func (p *applying) planObjectives(ctx context.Context) ([]*change, error) {
	all, err := admin.New(p.client).Objectives.List(ctx, "")
	if err != nil {
		return nil, err
	}
	there := make(map[string]*admin.Objective, len(all))
	for i := range all {
		there[all[i].Lambda] = &all[i].Objective
	}
	for i := range p.declared.objectives {
		o := &p.declared.objectives[i]
		name := o.objective.Lambda
		if err := p.needs(ctx, o.line, "objective of "+name, name, ""); err != nil {
			return nil, err
		}
		if err := p.planObjective(o, there[name]); err != nil {
			return nil, err
		}
		delete(there, name)
	}
	var rest []*change
	for _, name := range slices.Sorted(maps.Keys(there)) {
		if there[name].ManagedBy == p.declared.name {
			rest = append(rest, &change{Kind: kindObjective, Name: name, do: func(ctx context.Context) error { return admin.New(p.client).Objectives.Delete(ctx, name) }})
		}
	}
	return rest, nil
}

func (p *applying) planObjective(o *declaredObjective, there *admin.Objective) error {
	name := o.objective.Lambda
	one := &change{Action: applyCreate, Kind: kindObjective, Name: name, Line: o.line}
	p.changes = append(p.changes, one)
	if there != nil {
		if err := p.mayManage(o.line, "objective of "+name, there.Registered, there.ManagedBy, "kinesin objective delete "+name); err != nil {
			return err
		}
		one.compare(o.flags, flagsOver(there, objectiveFlags), there.ManagedBy, p.declared.name)
		if one.Action == applyUnchanged {
			return nil
		}
	}
	wanted := *o.objective
	wanted.ManagedBy = p.declared.name
	one.do = func(ctx context.Context) error {
		_, err := admin.New(p.client).Objectives.Set(ctx, wanted)
		return err
	}
	return nil
}
