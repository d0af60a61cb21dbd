package dynamo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/kinesin-io/kinesin/internal/backoff"
	"github.com/kinesin-io/kinesin/internal/clock"
)

// SetupOptions are the options of Setup.
type SetupOptions struct {
	// Changed is called after each change that Setup requests; may be nil.
	Changed func(Change)
	Clock   clock.Clock // the machine's
}

// Change is one change that Setup requested.
type Change struct {
	Table  string `json:"table"`
	Action string `json:"action"` // "create table", "add index dead", "turn on TTL on x", ...
}

// setupPauses are the pauses between looks at a table that is not ACTIVE yet, and setupTimeMax is how long
// Setup waits for one.
var setupPauses = backoff.Policy{Min: 10 * time.Millisecond, Max: time.Second}

const setupTimeMax = 10 * time.Minute

// ErrUnfixable refuses a table that differs in a way that Setup cannot or must not change; the text says how.
var ErrUnfixable = errors.New("table cannot be used")

// Setup creates what Check finds missing, and returns when every table and index is ACTIVE. It may be
// repeated, run by several processes at once, and run again after it stopped half-way. It never deletes
// anything: a table with another key, or an index that differs, is an ErrUnfixable.
func Setup(ctx context.Context, api AdminAPI, prefix string, o SetupOptions) error {
	if err := CheckPrefix(prefix); err != nil {
		return err
	}
	o.Clock = cmp.Or(o.Clock, clock.Real())
	s := setup{SetupOptions: o, api: api}
	for _, spec := range Tables(prefix) { // all, before waiting for the first
		if err := s.create(ctx, &spec); err != nil {
			return err
		}
	}
	for _, spec := range Tables(prefix) {
		if err := s.finish(ctx, &spec); err != nil {
			return err
		}
	}
	return nil
}

type setup struct {
	SetupOptions

	api AdminAPI
}

func (s *setup) changed(table, action string) {
	if s.Changed != nil {
		s.Changed(Change{Table: table, Action: action})
	}
}

// create requests a table that is missing.
func (s *setup) create(ctx context.Context, spec *TableSpec) error {
	table, err := describe(ctx, s.api, spec.Name)
	if err != nil || table != nil {
		return err
	}
	_, err = s.api.CreateTable(ctx, CreateTableInput(spec))
	var there *types.ResourceInUseException
	switch {
	case errors.As(err, &there): // another process was faster
		return nil
	case err != nil:
		return fmt.Errorf("create table %s: %w", spec.Name, err)
	}
	s.changed(spec.Name, "create table")
	return nil
}

// CreateTableInput returns the request that creates a table as described, with on-demand capacity.
func CreateTableInput(spec *TableSpec) *dynamodb.CreateTableInput {
	in := &dynamodb.CreateTableInput{
		TableName:   &spec.Name,
		BillingMode: types.BillingModePayPerRequest,
		KeySchema:   keySchema(spec.Key),

		AttributeDefinitions: definitions(spec),
	}
	for i := range spec.Indexes {
		x := &spec.Indexes[i]
		in.GlobalSecondaryIndexes = append(in.GlobalSecondaryIndexes, types.GlobalSecondaryIndex{
			IndexName: &x.Name, KeySchema: keySchema(x.Key), Projection: &types.Projection{ProjectionType: types.ProjectionType(x.Projection)},
		})
	}
	return in
}

func keySchema(parts []KeyPart) []types.KeySchemaElement {
	schema := make([]types.KeySchemaElement, len(parts))
	for i := range parts {
		schema[i] = types.KeySchemaElement{AttributeName: &parts[i].Attribute, KeyType: types.KeyType(parts[i].Role)}
	}
	return schema
}

// definitions returns the types of all attributes in keys, each once.
func definitions(spec *TableSpec) []types.AttributeDefinition {
	parts := spec.Key
	for _, x := range spec.Indexes {
		parts = append(slices.Clip(parts), x.Key...)
	}
	defined := make([]types.AttributeDefinition, len(parts))
	for i := range parts {
		defined[i] = types.AttributeDefinition{AttributeName: &parts[i].Attribute, AttributeType: types.ScalarAttributeType(parts[i].Type)}
	}
	return defined
}

// finish waits for a table, and adds the indexes and the TTL that it lacks.
func (s *setup) finish(ctx context.Context, spec *TableSpec) error {
	began := clock.Steady(s.Clock)
	for looks := 1; clock.Steady(s.Clock).Sub(began) < setupTimeMax; looks++ {
		left, err := checkTable(ctx, s.api, spec)
		if err != nil || len(left) == 0 {
			return err
		}
		if err := s.fix(ctx, spec, left); err != nil {
			return err
		}
		if err := setupPauses.Sleep(ctx, s.Clock, looks); err != nil {
			return fmt.Errorf("wait for table %s: %w", spec.Name, err)
		}
	}
	return fmt.Errorf("table %s is not ready after %v: run setup again when it is", spec.Name, setupTimeMax)
}

// fix requests one change: DynamoDB refuses a second one while the first is in progress.
func (s *setup) fix(ctx context.Context, spec *TableSpec, left []Difference) error {
	for _, d := range left {
		switch {
		case d.Name == oldIndex:
			return fmt.Errorf("%w: %s", ErrUnfixable, d)
		case !d.Fixable:
			return fmt.Errorf("%w: %s; use another prefix, or move this table out of the way", ErrUnfixable, d)
		}
	}
	d := left[0]
	switch {
	case d.Aspect == AspectIndex && d.Have == Missing:
		return s.addIndex(ctx, spec, d.Name)
	case d.Aspect == AspectTTL:
		return s.turnOnTTL(ctx, spec)
	}
	return nil // it is being created
}

func (s *setup) addIndex(ctx context.Context, spec *TableSpec, name string) error {
	for i := range spec.Indexes {
		x := &spec.Indexes[i]
		if x.Name != name {
			continue
		}
		_, err := s.api.UpdateTable(ctx, &dynamodb.UpdateTableInput{
			TableName:            &spec.Name,
			AttributeDefinitions: definitions(&TableSpec{Key: spec.Key, Indexes: spec.Indexes[i : i+1]}),
			GlobalSecondaryIndexUpdates: []types.GlobalSecondaryIndexUpdate{{Create: &types.CreateGlobalSecondaryIndexAction{
				IndexName: &x.Name, KeySchema: keySchema(x.Key), Projection: &types.Projection{ProjectionType: types.ProjectionType(x.Projection)},
			}}},
		})
		if err := unlessBusy(err); err != nil {
			return fmt.Errorf("add index %s to table %s: %w", name, spec.Name, err)
		}
		s.changed(spec.Name, "add index "+name)
	}
	return nil
}

func (s *setup) turnOnTTL(ctx context.Context, spec *TableSpec) error {
	_, err := s.api.UpdateTimeToLive(ctx, &dynamodb.UpdateTimeToLiveInput{
		TableName:               &spec.Name,
		TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: &spec.TTL, Enabled: aws.Bool(true)},
	})
	if err := unlessBusy(err); err != nil {
		// Another process may have turned it on since the look at the table; DynamoDB has no code for that.
		if on, readErr := timeToLive(ctx, s.api, spec.Name); readErr == nil && on == spec.TTL {
			return nil
		}
		return fmt.Errorf("turn on TTL of table %s: %w", spec.Name, err)
	}
	s.changed(spec.Name, "turn on TTL on "+spec.TTL)
	return nil
}

// unlessBusy returns err unless it says that a change is in progress, which finish waits for.
func unlessBusy(err error) error {
	var busy *types.ResourceInUseException
	var limit *types.LimitExceededException
	if errors.As(err, &busy) || errors.As(err, &limit) {
		return nil
	}
	return err
}
