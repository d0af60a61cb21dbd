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

// What is so, or became, of a table or queue.
const (
	SetupCreated   = "created"
	SetupChanged   = "changed"
	SetupUnchanged = "unchanged"
	SetupMissing   = "missing" // and would be created, or is Terraform's to make
	SetupDiffers   = "differs" // and would be changed, or cannot be, or is Terraform's
)

// actionCreate is dynamo's word for a table that it made.
const actionCreate = "create table"

// SetupItem is one table or queue.
type SetupItem struct {
	Kind        string   `json:"kind"` // "table" or "queue"
	Name        string   `json:"name"`
	Outcome     string   `json:"outcome"`               // one of Setup…
	Differences []string `json:"differences,omitempty"` // from what it has to be, as they were found
	Spec        any      `json:"spec"`                  // what it has to be
	// Lambda is that whose queue it is if Terraform makes it: then setup only looks, and what is missing or
	// differs stays so.
	Lambda string `json:"terraform_lambda,omitempty"`
}

// SetupReport is what a setup did, or would do.
type SetupReport struct {
	Prefix string      `json:"aws_prefix"`
	Where  string      `json:"where"`
	DryRun bool        `json:"dry_run"`
	Items  []SetupItem `json:"items"`
}

// SetupAWS makes the tables and queues of an installation: those that every one needs, and those of the
// lambdas there are, but for registered ones, whose queues are Terraform's. It may be repeated, and never
// deletes anything; a dry run only looks. What cannot be put right is ErrSetup, before anything is changed.
// Other errors are those of AWS, with the report of what was done so far.
func SetupAWS(ctx context.Context, prefix string, dryRun bool, log *slog.Logger) (SetupReport, error) {
	if err := dynamo.CheckPrefix(prefix); err != nil {
		return SetupReport{}, fmt.Errorf("%w: AWS %w", ErrConfig, err)
	}
	clients, err := awsclient.New(ctx, clock.Real())
	if err != nil {
		return SetupReport{}, err
	}
	defer clients.Close()
	s := setup{Clients: clients, prefix: prefix, dryRun: dryRun, log: log}
	s.report = SetupReport{Prefix: prefix, Where: clients.Endpoints(), DryRun: dryRun}
	err = s.run(ctx)
	return s.report, awsclient.Explain(err)
}

// setup is one SetupAWS on its way.
type setup struct {
	*awsclient.Clients
	prefix string
	dryRun bool
	log    *slog.Logger
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
	ours, theirs := s.queuesOf(lambdas)
	return s.queues(ctx, ours, theirs)
}

// queuesOf are the queues of an installation, those of Terraform apart.
func (s *setup) queuesOf(lambdas []*catalog.Entry) (ours []sqsclient.QueueSpec, theirs []terraformQueue) {
	ours = sqsbuffer.Queues(s.prefix)
	for _, l := range lambdas {
		specs := sqs.Queues(s.prefix, l.Lambda)
		if l.Registration == "" {
			ours = append(ours, specs...)
			continue
		}
		for i := range specs {
			theirs = append(theirs, terraformQueue{specs[i], l.Name})
		}
	}
	return ours, theirs
}

// terraformQueue is a queue of a registered lambda.
type terraformQueue struct {
	sqsclient.QueueSpec
	lambda string
}

// tables says whether there are tables to read lambdas from.
func (s *setup) tables(ctx context.Context) (usable bool, err error) {
	found, err := dynamo.Check(ctx, s.DynamoDB, s.prefix)
	if err != nil {
		return false, err
	}
	unfixable := slices.ContainsFunc(found, func(d dynamo.Difference) bool { return !d.Fixable })
	changed := map[string]string{}
	if !s.dryRun && !unfixable {
		err = dynamo.Setup(ctx, s.DynamoDB, s.prefix, dynamo.SetupOptions{Clock: clock.Real(), Changed: func(c dynamo.Change) {
			if changed[c.Table] != SetupCreated {
				changed[c.Table] = SetupChanged
			}
			if c.Action == actionCreate {
				changed[c.Table] = SetupCreated
			}
		}})
	}
	for _, spec := range dynamo.Tables(s.prefix) {
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
		return false, fmt.Errorf("%w: a table is there that cannot be used and is left as it is, and so is everything else: "+
			"choose another prefix, or move that table out of the way", ErrSetup)
	}
	return err == nil && (!s.dryRun || len(found) == 0), err
}

// lambdas reads which there are.
func (s *setup) lambdas(ctx context.Context) ([]*catalog.Entry, error) {
	driver := dynamo.New(s.DynamoDB, dynamo.Config{Prefix: s.prefix, Clock: clock.Real(), Logger: s.log})
	c := catalog.New(store.New(driver, store.Config{Clock: clock.Real(), Logger: s.log}), clock.Real(), s.log)
	err := c.Refresh(ctx)
	return c.All(), errors.Join(err, driver.Close())
}

// queues makes and aligns queues, and looks at those that are Terraform's.
func (s *setup) queues(ctx context.Context, specs []sqsclient.QueueSpec, theirs []terraformQueue) error {
	found, err := sqsclient.Check(ctx, s.SQS, specs)
	if err != nil {
		return err
	}
	var made []string
	var aligned []sqsclient.Difference
	if !s.dryRun {
		if made, err = sqsclient.Create(ctx, s.SQS, specs); err == nil {
			aligned, err = sqsclient.Align(ctx, s.SQS, specs)
		}
	}
	for _, spec := range specs {
		item := queueItem(spec, found)
		item.settle(made, aligned, !s.dryRun && err == nil)
		s.report.Items = append(s.report.Items, item)
	}
	if err != nil {
		return err
	}
	return s.look(ctx, theirs)
}

func (s *setup) look(ctx context.Context, theirs []terraformQueue) error {
	for _, q := range theirs {
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

// queueItem is a queue as it was found.
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

// settle makes of a queue as it was found what it became. What was wrong and was not put right here, though
// all is done, another setup was faster with.
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

// SpecText is what a table or queue has to be, in one line.
func (i *SetupItem) SpecText() string {
	text, err := json.Marshal(i.Spec)
	if err != nil {
		return err.Error()
	}
	return string(text)
}
