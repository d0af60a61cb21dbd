package dynamo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// AdminAPI is the part of DynamoDB that Setup and Check call; *dynamodb.Client implements it. Check only
// describes.
type AdminAPI interface {
	DescribeTable(context.Context, *dynamodb.DescribeTableInput, ...func(*dynamodb.Options)) (*dynamodb.DescribeTableOutput, error)
	DescribeTimeToLive(context.Context, *dynamodb.DescribeTimeToLiveInput, ...func(*dynamodb.Options)) (*dynamodb.DescribeTimeToLiveOutput, error)
	CreateTable(context.Context, *dynamodb.CreateTableInput, ...func(*dynamodb.Options)) (*dynamodb.CreateTableOutput, error)
	UpdateTable(context.Context, *dynamodb.UpdateTableInput, ...func(*dynamodb.Options)) (*dynamodb.UpdateTableOutput, error)
	UpdateTimeToLive(context.Context, *dynamodb.UpdateTimeToLiveInput, ...func(*dynamodb.Options)) (*dynamodb.UpdateTimeToLiveOutput, error)
}

// Aspect names the part of a table that differs from its TableSpec.
type Aspect string

// The aspects that Check compares.
const (
	AspectTable Aspect = "table" // missing, or not ACTIVE
	AspectKey   Aspect = "key"   // cannot be changed; the table has to be created again
	AspectIndex Aspect = "index" // missing, different, not ACTIVE, or of an older layout
	AspectTTL   Aspect = "ttl"
)

// Missing is the Difference.Have of something that does not exist.
const Missing = "missing"

// Difference is one way in which a table differs from its TableSpec.
type Difference struct {
	Table  string `json:"table"`
	Aspect Aspect `json:"aspect"`
	Name   string `json:"name,omitempty"` // of the index
	Want   string `json:"want"`
	Have   string `json:"have"` // Missing, or the actual value
	// Fixable is set when Setup removes the difference; otherwise a person has to.
	Fixable bool `json:"fixable"`
}

// String returns one line for people.
func (d Difference) String() string {
	what := string(d.Aspect)
	if d.Name != "" {
		what += " " + d.Name
	}
	return fmt.Sprintf("table %s: %s is %s, want %s", d.Table, what, d.Have, d.Want)
}

// Check compares the tables of a prefix with Tables and returns the differences; none when the tables can be
// used. It changes nothing. An error means that it could not compare: the prefix is malformed, or DynamoDB
// refused or did not answer.
func Check(ctx context.Context, api AdminAPI, prefix string) ([]Difference, error) {
	if err := CheckPrefix(prefix); err != nil {
		return nil, err
	}
	var all []Difference
	for _, spec := range Tables(prefix) {
		found, err := checkTable(ctx, api, &spec)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

func checkTable(ctx context.Context, api AdminAPI, spec *TableSpec) ([]Difference, error) {
	table, err := describe(ctx, api, spec.Name)
	if err != nil {
		return nil, err
	}
	if table == nil {
		return []Difference{{Table: spec.Name, Aspect: AspectTable, Want: string(types.TableStatusActive), Have: Missing, Fixable: true}}, nil
	}
	found := compare(spec, table)
	if spec.TTL == "" {
		return found, nil
	}
	ttl, err := timeToLive(ctx, api, spec.Name)
	if err == nil && ttl != spec.TTL {
		found = append(found, Difference{Table: spec.Name, Aspect: AspectTTL, Want: spec.TTL, Have: orMissing(ttl), Fixable: ttl == ""})
	}
	return found, err
}

// describe returns nil for a table that does not exist.
func describe(ctx context.Context, api AdminAPI, table string) (*types.TableDescription, error) {
	out, err := api.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &table})
	var missing *types.ResourceNotFoundException
	switch {
	case errors.As(err, &missing):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("describe table %s: %w", table, err)
	case out.Table == nil:
		return nil, fmt.Errorf("describe table %s: empty answer", table)
	}
	return out.Table, nil
}

// timeToLive returns the attribute by which rows expire; empty for none.
func timeToLive(ctx context.Context, api AdminAPI, table string) (string, error) {
	out, err := api.DescribeTimeToLive(ctx, &dynamodb.DescribeTimeToLiveInput{TableName: &table})
	if err != nil {
		return "", fmt.Errorf("describe time to live of table %s: %w", table, err)
	}
	ttl := out.TimeToLiveDescription
	if ttl == nil || (ttl.TimeToLiveStatus != types.TimeToLiveStatusEnabled && ttl.TimeToLiveStatus != types.TimeToLiveStatusEnabling) {
		return "", nil
	}
	return aws.ToString(ttl.AttributeName), nil
}

// compare returns the differences that the description of a table shows.
func compare(spec *TableSpec, table *types.TableDescription) []Difference {
	var found []Difference
	kinds := attributeTypes(table.AttributeDefinitions)
	if have, want := keyText(keyOf(table.KeySchema, kinds)), keyText(spec.Key); have != want {
		found = append(found, Difference{Table: spec.Name, Aspect: AspectKey, Want: want, Have: orMissing(have)})
	}
	if status := table.TableStatus; status != types.TableStatusActive && status != types.TableStatusUpdating {
		found = append(found, Difference{Table: spec.Name, Aspect: AspectTable, Want: string(types.TableStatusActive), Have: string(status), Fixable: status == types.TableStatusCreating})
	}
	if has(table, oldIndex) {
		found = append(found, Difference{
			Table: spec.Name, Aspect: AspectIndex, Name: oldIndex,
			Have: "of an older version, whose rows this one cannot use and nothing converts",
			Want: "none: choose another --aws-prefix, or delete the tables of this one with all their tasks",
		})
	}
	for i := range spec.Indexes {
		want := &spec.Indexes[i]
		d := Difference{Table: spec.Name, Aspect: AspectIndex, Name: want.Name, Want: indexText(want), Have: Missing, Fixable: true}
		at := slices.IndexFunc(table.GlobalSecondaryIndexes, func(x types.GlobalSecondaryIndexDescription) bool { return aws.ToString(x.IndexName) == want.Name })
		if at >= 0 {
			d.Have, d.Fixable = indexState(&table.GlobalSecondaryIndexes[at], kinds)
		}
		if d.Have != d.Want {
			found = append(found, d)
		}
	}
	return found
}

func has(table *types.TableDescription, index string) bool {
	return slices.ContainsFunc(table.GlobalSecondaryIndexes, func(x types.GlobalSecondaryIndexDescription) bool { return aws.ToString(x.IndexName) == index })
}

// indexState returns an index in the form of indexText, or its status while it cannot be used.
func indexState(x *types.GlobalSecondaryIndexDescription, kinds map[string]string) (text string, fixable bool) {
	if x.IndexStatus != types.IndexStatusActive && x.IndexStatus != types.IndexStatusUpdating {
		return string(x.IndexStatus), x.IndexStatus == types.IndexStatusCreating
	}
	have := IndexSpec{Key: keyOf(x.KeySchema, kinds)}
	if x.Projection != nil {
		have.Projection = string(x.Projection.ProjectionType)
	}
	return indexText(&have), false
}

func indexText(x *IndexSpec) string { return keyText(x.Key) + " " + x.Projection }

// keyText returns a key in a form that people read and Check compares.
func keyText(parts []KeyPart) string {
	texts := make([]string, len(parts))
	for i, p := range parts {
		texts[i] = p.Attribute + " " + p.Type + " " + p.Role
	}
	return strings.Join(texts, ", ")
}

func keyOf(schema []types.KeySchemaElement, kinds map[string]string) []KeyPart {
	parts := make([]KeyPart, len(schema))
	for i, e := range schema {
		name := aws.ToString(e.AttributeName)
		parts[i] = KeyPart{Attribute: name, Role: string(e.KeyType), Type: kinds[name]}
	}
	return parts
}

func attributeTypes(definitions []types.AttributeDefinition) map[string]string {
	kinds := map[string]string{}
	for _, d := range definitions {
		kinds[aws.ToString(d.AttributeName)] = string(d.AttributeType)
	}
	return kinds
}

func orMissing(text string) string {
	if text == "" {
		return Missing
	}
	return text
}
