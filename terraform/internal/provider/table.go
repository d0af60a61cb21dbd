package main

import (
	"context"
	"maps"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
)

func table() kind {
	return kind{
		name: "aws_dynamodb_table",
		schema: schema.Schema{
			Attributes: with(attributes{
				"name": namingText, "billing_mode": textDefault("PROVISIONED"), "hash_key": bindingText, "range_key": bindingText,
				"read_capacity": eitherNumber, "write_capacity": eitherNumber, "deletion_protection_enabled": optionalFlag,
				"table_class": optionalText,
			}, regional, named, tags),
			Blocks: blocks{
				"attribute": setBlock(attributes{"name": requiredText, "type": requiredText}, nil),
				"global_secondary_index": setBlock(attributes{
					"name": requiredText, "hash_key": requiredText, "range_key": optionalText, "projection_type": requiredText,
					"non_key_attributes": optionalTexts, "read_capacity": optionalNumber, "write_capacity": optionalNumber,
				}, nil),
				"ttl":                    listBlock(attributes{"attribute_name": optionalText, "enabled": optionalFlag}, nil),
				"point_in_time_recovery": listBlock(attributes{"enabled": requiredFlag}, nil),
				"server_side_encryption": listBlock(attributes{"enabled": requiredFlag, "kms_key_arn": optionalText}, nil), // see keep
			},
		},
		identify: func(s *session, v values) {
			v["id"], v["arn"] = v["name"], s.arn("dynamodb", "table/"+v.text("name"))
			for _, name := range []string{"read_capacity", "write_capacity"} {
				if v[name] == nil {
					v[name] = int64(0)
				}
			}
		},
		service: tables{},
	}
}

// tables are those of DynamoDB. Backups, encryption and tags are the account's: the emulator has none, or
// none that is told.
type tables struct{}

func (tables) create(ctx context.Context, s *session, v values) error {
	in := &dynamodb.CreateTableInput{
		TableName: aws.String(v.text("name")), BillingMode: types.BillingMode(v.text("billing_mode")), KeySchema: keyOf(v),
		ProvisionedThroughput:     throughput(v, v),
		DeletionProtectionEnabled: aws.Bool(v.flag("deletion_protection_enabled")),
	}
	for _, a := range v.blocks("attribute") {
		in.AttributeDefinitions = append(in.AttributeDefinitions, types.AttributeDefinition{
			AttributeName: aws.String(a.text("name")), AttributeType: types.ScalarAttributeType(a.text("type")),
		})
	}
	for _, i := range v.blocks("global_secondary_index") {
		in.GlobalSecondaryIndexes = append(in.GlobalSecondaryIndexes, types.GlobalSecondaryIndex{
			IndexName: aws.String(i.text("name")), KeySchema: keyOf(i), ProvisionedThroughput: throughput(v, i),
			Projection: &types.Projection{ProjectionType: types.ProjectionType(i.text("projection_type")), NonKeyAttributes: i.texts("non_key_attributes")},
		})
	}
	if _, err := s.dynamodb.CreateTable(ctx, in); err != nil {
		return err
	}
	if ttl := v.block("ttl"); ttl.flag("enabled") {
		return setTTL(ctx, s, v.text("name"), ttl)
	}
	return nil
}

func setTTL(ctx context.Context, s *session, name string, ttl values) error {
	_, err := s.dynamodb.UpdateTimeToLive(ctx, &dynamodb.UpdateTimeToLiveInput{
		TableName:               &name,
		TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: aws.String(ttl.text("attribute_name")), Enabled: aws.Bool(ttl.flag("enabled"))},
	})
	return err
}

func keyOf(v values) []types.KeySchemaElement {
	key := []types.KeySchemaElement{{AttributeName: aws.String(v.text("hash_key")), KeyType: types.KeyTypeHash}}
	if name := v.text("range_key"); name != "" {
		key = append(key, types.KeySchemaElement{AttributeName: &name, KeyType: types.KeyTypeRange})
	}
	return key
}

// throughput of a table, or of one of its indexes. One that was on demand gets 1 when nothing is told, as
// from the real provider.
func throughput(table, of values) *types.ProvisionedThroughput {
	if table.text("billing_mode") != string(types.BillingModeProvisioned) {
		return nil
	}
	return &types.ProvisionedThroughput{
		ReadCapacityUnits: aws.Int64(max(1, of.number("read_capacity"))), WriteCapacityUnits: aws.Int64(max(1, of.number("write_capacity"))),
	}
}

func (tables) read(ctx context.Context, s *session, v values) error {
	out, err := s.dynamodb.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: aws.String(v.text("name"))})
	if err != nil {
		return goneOr[*types.ResourceNotFoundException](err)
	}
	t := out.Table
	v["billing_mode"] = string(types.BillingModeProvisioned)
	if t.BillingModeSummary != nil {
		v["billing_mode"] = string(t.BillingModeSummary.BillingMode)
	}
	if t.ProvisionedThroughput != nil && v.text("billing_mode") == string(types.BillingModeProvisioned) {
		v["read_capacity"] = aws.ToInt64(t.ProvisionedThroughput.ReadCapacityUnits)
		v["write_capacity"] = aws.ToInt64(t.ProvisionedThroughput.WriteCapacityUnits)
	}
	v["deletion_protection_enabled"] = aws.ToBool(t.DeletionProtectionEnabled)
	var indexes []any
	for _, index := range v.blocks("global_secondary_index") {
		if slices.ContainsFunc(t.GlobalSecondaryIndexes, func(d types.GlobalSecondaryIndexDescription) bool {
			return aws.ToString(d.IndexName) == index.text("name")
		}) {
			indexes = append(indexes, map[string]any(index))
		}
	}
	v["global_secondary_index"] = append([]any{}, indexes...)
	return nil
}

func (tables) find(ctx context.Context, s *session, v values) error {
	v["name"] = v["id"]
	out, err := s.dynamodb.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: aws.String(v.text("name"))})
	if err != nil {
		return goneOr[*types.ResourceNotFoundException](err)
	}
	var attributes, indexes []any
	for _, a := range out.Table.AttributeDefinitions {
		attributes = append(attributes, map[string]any{"name": aws.ToString(a.AttributeName), "type": string(a.AttributeType)})
	}
	for _, i := range out.Table.GlobalSecondaryIndexes {
		index := values{"name": aws.ToString(i.IndexName), "projection_type": string(i.Projection.ProjectionType)}
		setKey(index, i.KeySchema)
		indexes = append(indexes, map[string]any(index))
	}
	setKey(v, out.Table.KeySchema)
	v["attribute"], v["global_secondary_index"] = attributes, append([]any{}, indexes...)
	v["point_in_time_recovery"], v["server_side_encryption"] = []any{map[string]any{"enabled": false}}, []any{}
	expiry, err := s.dynamodb.DescribeTimeToLive(ctx, &dynamodb.DescribeTimeToLiveInput{TableName: aws.String(v.text("name"))})
	if err != nil {
		return err
	}
	v["ttl"] = []any{}
	if ttl := expiry.TimeToLiveDescription; ttl.TimeToLiveStatus == types.TimeToLiveStatusEnabled {
		v["ttl"] = []any{map[string]any{"enabled": true, "attribute_name": aws.ToString(ttl.AttributeName)}}
	}
	return tables{}.read(ctx, s, v)
}

// keep has a table stay under its key when the configuration says nothing of it. With the real provider the
// block is computed then, and no change; this one cannot tell a block that is not in the plan, and shows it
// when it reads the table again.
func (tables) keep(prior, v values) values {
	there := maps.Clone(v)
	if len(v.blocks("server_side_encryption")) == 0 {
		there["server_side_encryption"] = prior["server_side_encryption"]
	}
	return there
}

func setKey(v values, key []types.KeySchemaElement) {
	for _, k := range key {
		name := "hash_key"
		if k.KeyType == types.KeyTypeRange {
			name = "range_key"
		}
		v[name] = aws.ToString(k.AttributeName)
	}
}

func (tables) update(ctx context.Context, s *session, prior, v values) error {
	name := v.text("name")
	if prior.flag("deletion_protection_enabled") != v.flag("deletion_protection_enabled") {
		if _, err := s.dynamodb.UpdateTable(ctx, &dynamodb.UpdateTableInput{
			TableName: &name, DeletionProtectionEnabled: aws.Bool(v.flag("deletion_protection_enabled")),
		}); err != nil {
			return err
		}
	}
	if err := setBilling(ctx, s, prior, v); err != nil {
		return err
	}
	if before, after := prior.block("ttl"), v.block("ttl"); before.flag("enabled") != after.flag("enabled") {
		if !after.flag("enabled") {
			after = values{"attribute_name": before.text("attribute_name"), "enabled": false}
		}
		return setTTL(ctx, s, name, after)
	}
	return nil
}

// setBilling sets the billing mode and, where there is one, the capacity.
func setBilling(ctx context.Context, s *session, prior, v values) error {
	same := true
	for _, name := range []string{"billing_mode", "read_capacity", "write_capacity"} {
		same = same && (prior[name] == v[name] || prior.number(name) == v.number(name) && prior.text(name) == v.text(name))
	}
	if same {
		return nil
	}
	in := &dynamodb.UpdateTableInput{
		TableName: aws.String(v.text("name")), BillingMode: types.BillingMode(v.text("billing_mode")), ProvisionedThroughput: throughput(v, v),
	}
	// Of indexes only a change of their own is sent, as by the real provider.
	before := map[string]values{}
	for _, i := range prior.blocks("global_secondary_index") {
		before[i.text("name")] = i
	}
	for _, i := range v.blocks("global_secondary_index") {
		was := before[i.text("name")]
		same := was.number("read_capacity") == i.number("read_capacity") && was.number("write_capacity") == i.number("write_capacity")
		if t := throughput(v, i); t != nil && !same {
			in.GlobalSecondaryIndexUpdates = append(in.GlobalSecondaryIndexUpdates, types.GlobalSecondaryIndexUpdate{
				Update: &types.UpdateGlobalSecondaryIndexAction{IndexName: aws.String(i.text("name")), ProvisionedThroughput: t},
			})
		}
	}
	_, err := s.dynamodb.UpdateTable(ctx, in)
	return err
}

func (tables) remove(ctx context.Context, s *session, v values) error {
	_, err := s.dynamodb.DeleteTable(ctx, &dynamodb.DeleteTableInput{TableName: aws.String(v.text("name"))})
	return goneOr[*types.ResourceNotFoundException](err)
}
