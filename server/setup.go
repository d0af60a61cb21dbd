package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/kinesin-io/kinesin/inbound/buffer/sqsbuffer"
	"github.com/kinesin-io/kinesin/internal/awsclient"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/sqsclient"
	"github.com/kinesin-io/kinesin/queue/sqs"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/store/dynamo"
)

// Outcomes of a setup for a table or queue.
const (
	SetupCreated   = "created"
	SetupChanged   = "changed"
	SetupUnchanged = "unchanged"
	SetupMissing   = "missing" // a dry run, or Terraform creates it
	SetupDiffers   = "differs" // a dry run, or it cannot be changed, or Terraform owns it
)

// actionCreate is dynamo's name for the creation of a table.
const actionCreate = "create table"

// SetupItem is one table or queue.
type SetupItem struct {
	Kind        string   `json:"kind"` // "table" or "queue"
	Name        string   `json:"name"`
	Outcome     string   `json:"outcome"`               // one of Setup…
	Differences []string `json:"differences,omitempty"` // from Spec, as found
	Spec        any      `json:"spec"`                  // what is required
	// Lambda is the lambda of a queue that Terraform owns: setup only checks it.
	Lambda string `json:"terraform_lambda,omitempty"`
}

// SetupReport is what a setup did, or what a dry run would do.
type SetupReport struct {
	Prefix string      `json:"aws_prefix"`
	Where  string      `json:"where"`
	DryRun bool        `json:"dry_run"`
	Items  []SetupItem `json:"items"`
}

// SetupConfig says what SetupAWS sets up.
type SetupConfig struct {
	// Prefix starts the names of all tables and queues.
	Prefix string
	// DryRun says that nothing is to be changed.
	DryRun bool
	// NoQueuePolicies says that queues without a policy are to get none.
	NoQueuePolicies bool
	Log             *slog.Logger
}

// SetupAWS creates the tables and queues of an installation: those that each one needs, and those of its
// lambdas except registered ones, whose queues Terraform owns. It may be repeated, and never deletes
// anything; a dry run only checks. It reports ErrSetup for whatever it cannot fix, before it changes
// anything. Other errors are those of AWS, with the report of what was done so far.
func SetupAWS(ctx context.Context, c SetupConfig) (SetupReport, error) {
	if err := dynamo.CheckPrefix(c.Prefix); err != nil {
		return SetupReport{}, fmt.Errorf("%w: AWS %w", ErrConfig, err)
	}
	clients, err := awsclient.New(ctx, clock.Real())
	if err != nil {
		return SetupReport{}, err
	}
	defer clients.Close()
	s := setup{Clients: clients, SetupConfig: c}
	s.report = SetupReport{Prefix: c.Prefix, Where: clients.Endpoints(), DryRun: c.DryRun}
	err = s.run(ctx)
	return s.report, awsclient.Explain(err)
}

// setup is one run of SetupAWS.
type setup struct {
	*awsclient.Clients
	SetupConfig

	report SetupReport
}

func (s *setup) run(ctx context.Context) error {
	usable, err := s.tables(ctx)
	if err != nil {
		return err
	}
	if err := s.CheckClock(); err != nil {
		return err
	}
	var lambdas []*catalog.Entry
	if usable {
		if lambdas, err = s.lambdas(ctx); err != nil {
			return err
		}
	}
	own, registered := s.queuesOf(lambdas)
	return s.queues(ctx, own, registered)
}

// queuesOf returns the queues of an installation, and apart those that Terraform owns.
func (s *setup) queuesOf(lambdas []*catalog.Entry) (own []sqsclient.QueueSpec, registered []terraformQueue) {
	own = sqsbuffer.Queues(s.Prefix)
	for _, l := range lambdas {
		specs := sqs.Queues(s.Prefix, l.Lambda)
		if l.Registration == "" {
			own = append(own, specs...)
			continue
		}
		for i := range specs {
			registered = append(registered, terraformQueue{specs[i], l.Name})
		}
	}
	return own, registered
}

// terraformQueue is a queue of a registered lambda.
type terraformQueue struct {
	sqsclient.QueueSpec
	lambda string
}

// tables creates and aligns the tables, and reports whether lambdas can be read from them.
func (s *setup) tables(ctx context.Context) (usable bool, err error) {
	found, err := dynamo.Check(ctx, s.DynamoDB, s.Prefix)
	if err != nil {
		return false, err
	}
	unfixable := slices.ContainsFunc(found, func(d dynamo.Difference) bool { return !d.Fixable })
	changed := map[string]string{}
	if !s.DryRun && !unfixable {
		err = dynamo.Setup(ctx, s.DynamoDB, s.Prefix, dynamo.SetupOptions{Clock: clock.Real(), Changed: func(c dynamo.Change) {
			if changed[c.Table] != SetupCreated {
				changed[c.Table] = SetupChanged
			}
			if c.Action == actionCreate {
				changed[c.Table] = SetupCreated
			}
		}})
	}
	for _, spec := range dynamo.Tables(s.Prefix) {
		item := SetupItem{Kind: "table", Name: spec.Name, Outcome: SetupUnchanged, Spec: spec}
		for i := range found {
			if d := &found[i]; d.Table == spec.Name {
				item.Differences = append(item.Differences, d.String())
				if item.Outcome = SetupDiffers; d.Aspect == dynamo.AspectTable && d.Have == dynamo.Missing {
					item.Outcome = SetupMissing
				}
			}
		}
		if done := changed[spec.Name]; done != "" {
			item.Outcome = done
		}
		s.report.Items = append(s.report.Items, item)
	}
	if unfixable {
		return false, fmt.Errorf("%w: an existing table cannot be used and cannot be changed, so nothing was changed: "+
			"choose another prefix, or remove that table", ErrSetup)
	}
	return err == nil && (!s.DryRun || len(found) == 0), err
}

// lambdas reads the lambdas.
func (s *setup) lambdas(ctx context.Context) ([]*catalog.Entry, error) {
	driver := dynamo.New(s.DynamoDB, dynamo.Config{Prefix: s.Prefix, Clock: clock.Real(), Logger: s.Log})
	c := catalog.New(store.New(driver, store.Config{Clock: clock.Real(), Logger: s.Log}), clock.Real(), s.Log, catalog.Limits{})
	err := c.Refresh(ctx)
	return c.All(), errors.Join(err, driver.Close())
}

// queues creates and aligns queues, and checks those that Terraform owns.
func (s *setup) queues(ctx context.Context, specs []sqsclient.QueueSpec, registered []terraformQueue) error {
	found, err := sqsclient.Check(ctx, s.SQS, specs)
	if err != nil {
		return err
	}
	if !s.NoQueuePolicies {
		open, err := sqsclient.Unprotected(ctx, s.SQS, specs)
		if err != nil {
			return err
		}
		found = append(found, open...)
	}
	var made []string
	var aligned []sqsclient.Difference
	if !s.DryRun {
		made, aligned, err = s.change(ctx, specs)
	}
	for _, spec := range specs {
		item := queueItem(spec, found)
		item.settle(made, aligned, !s.DryRun && err == nil)
		s.report.Items = append(s.report.Items, item)
	}
	if err != nil {
		return err
	}
	return s.look(ctx, registered)
}

// change creates and aligns queues, and returns which.
func (s *setup) change(ctx context.Context, specs []sqsclient.QueueSpec) (made []string, aligned []sqsclient.Difference, err error) {
	if made, err = sqsclient.Create(ctx, s.SQS, specs); err != nil {
		return made, nil, err
	}
	if aligned, err = sqsclient.Align(ctx, s.SQS, specs); err != nil || s.NoQueuePolicies {
		return made, aligned, err
	}
	protected, err := sqsclient.Protect(ctx, s.SQS, specs)
	return made, append(aligned, protected...), err
}

func (s *setup) look(ctx context.Context, registered []terraformQueue) error {
	for _, q := range registered {
		found, err := sqsclient.Check(ctx, s.SQS, []sqsclient.QueueSpec{q.QueueSpec})
		if err != nil {
			return err
		}
		item := queueItem(q.QueueSpec, found)
		item.Lambda = q.lambda
		s.report.Items = append(s.report.Items, item)
	}
	return nil
}

// queueItem returns the item of a queue as it was found.
func queueItem(spec sqsclient.QueueSpec, found []sqsclient.Difference) SetupItem {
	item := SetupItem{Kind: "queue", Name: spec.Name, Outcome: SetupUnchanged, Spec: spec}
	for i := range found {
		if d := &found[i]; d.Queue == spec.Name {
			item.Differences = append(item.Differences, d.String())
			if item.Outcome = SetupDiffers; d.Attribute == "" {
				item.Outcome = SetupMissing
			}
		}
	}
	return item
}

// settle sets the outcome of a queue. A difference that this setup did not fix, though it succeeded, was
// fixed by another one.
func (i *SetupItem) settle(made []string, aligned []sqsclient.Difference, done bool) {
	switch {
	case slices.Contains(made, i.Name):
		i.Outcome = SetupCreated
	case slices.ContainsFunc(aligned, func(d sqsclient.Difference) bool { return d.Queue == i.Name }):
		i.Outcome = SetupChanged
	case done:
		i.Outcome, i.Differences = SetupUnchanged, nil
	}
}

// SpecText returns Spec in one line.
func (i *SetupItem) SpecText() string {
	text, err := json.Marshal(i.Spec)
	if err != nil {
		return err.Error()
	}
	return string(text)
}
