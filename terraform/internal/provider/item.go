package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
)

func tableItem() kind {
	return kind{
		name: "aws_dynamodb_table_item",
		schema: schema.Schema{Attributes: with(attributes{
			"table_name": namingText, "hash_key": namingText, "range_key": bindingText, "item": requiredText,
		}, regional)},
		identify: func(_ *session, v values) { v["id"] = strings.Join([]string{v.text("table_name"), keyText(v)}, "|") },
		service:  items{},
	}
}

// keyText is the key of an item, as far as it can be read.
func keyText(v values) string {
	item, err := parseItem(v.text("item"))
	if err != nil {
		return ""
	}
	text, err := json.Marshal(formatItem(keyOfItem(v, item)))
	if err != nil {
		return ""
	}
	return string(text)
}

func keyOfItem(v values, item map[string]types.AttributeValue) map[string]types.AttributeValue {
	key := map[string]types.AttributeValue{v.text("hash_key"): item[v.text("hash_key")]}
	if name := v.text("range_key"); name != "" {
		key[name] = item[name]
	}
	return key
}

// items are rows of tables. As the real provider's, they are made only where none is, are looked at in the
// attributes that the configuration has and in no others, and are changed in these alone.
type items struct{}

func (items) create(ctx context.Context, s *session, v values) error {
	item, err := parseItem(v.text("item"))
	if err != nil {
		return err
	}
	_, err = s.dynamodb.PutItem(ctx, &dynamodb.PutItemInput{
		TableName: aws.String(v.text("table_name")), Item: item,
		ConditionExpression: aws.String("attribute_not_exists(#h)"), ExpressionAttributeNames: map[string]string{"#h": v.text("hash_key")},
	})
	return err
}

func (items) read(ctx context.Context, s *session, v values) error {
	item, err := parseItem(v.text("item"))
	if err != nil {
		return err
	}
	out, err := s.dynamodb.GetItem(ctx, &dynamodb.GetItemInput{
		TableName: aws.String(v.text("table_name")), Key: keyOfItem(v, item), ConsistentRead: aws.Bool(true),
	})
	if err != nil {
		return goneOr[*types.ResourceNotFoundException](err)
	}
	if out.Item == nil {
		return errGone
	}
	maps.DeleteFunc(out.Item, func(name string, _ types.AttributeValue) bool { return item[name] == nil })
	if reflect.DeepEqual(out.Item, item) {
		return nil
	}
	text, err := json.Marshal(formatItem(out.Item))
	v["item"] = string(text)
	return err
}

func (items) update(ctx context.Context, s *session, prior, v values) error {
	before, err := parseItem(prior.text("item"))
	if err != nil {
		return err
	}
	after, err := parseItem(v.text("item"))
	if err != nil {
		return err
	}
	if !reflect.DeepEqual(keyOfItem(v, before), keyOfItem(v, after)) {
		return errors.New("the key of an item changed: the real provider would put another one, the test-only one does not")
	}
	in := &dynamodb.UpdateItemInput{
		TableName: aws.String(v.text("table_name")), Key: keyOfItem(v, after), ExpressionAttributeNames: map[string]string{},
	}
	var sets, removals []string
	for i, name := range slices.Sorted(maps.Keys(before)) {
		if after[name] == nil {
			alias := fmt.Sprintf("#r%d", i)
			in.ExpressionAttributeNames[alias] = name
			removals = append(removals, alias)
		}
	}
	for i, name := range slices.Sorted(maps.Keys(after)) {
		if !reflect.DeepEqual(before[name], after[name]) {
			alias, value := fmt.Sprintf("#s%d", i), fmt.Sprintf(":s%d", i)
			if in.ExpressionAttributeValues == nil {
				in.ExpressionAttributeValues = map[string]types.AttributeValue{}
			}
			in.ExpressionAttributeNames[alias], in.ExpressionAttributeValues[value] = name, after[name]
			sets = append(sets, alias+" = "+value)
		}
	}
	var expression []string
	if len(sets) > 0 {
		expression = append(expression, "SET "+strings.Join(sets, ", "))
	}
	if len(removals) > 0 {
		expression = append(expression, "REMOVE "+strings.Join(removals, ", "))
	}
	if len(expression) == 0 {
		return nil
	}
	in.UpdateExpression = aws.String(strings.Join(expression, " "))
	_, err = s.dynamodb.UpdateItem(ctx, in)
	return err
}

func (items) remove(ctx context.Context, s *session, v values) error {
	item, err := parseItem(v.text("item"))
	if err != nil {
		return err
	}
	_, err = s.dynamodb.DeleteItem(ctx, &dynamodb.DeleteItemInput{TableName: aws.String(v.text("table_name")), Key: keyOfItem(v, item)})
	return goneOr[*types.ResourceNotFoundException](err)
}

// parseItem reads DynamoDB's JSON, of the types that rows of Kinesin may have.
func parseItem(text string) (map[string]types.AttributeValue, error) {
	var raw map[string]struct {
		S    *string `json:"S"`
		N    *string `json:"N"`
		B    *string `json:"B"`
		BOOL *bool   `json:"BOOL"`
	}
	if err := json.Unmarshal([]byte(text), &raw); err != nil {
		return nil, fmt.Errorf("item: %w", err)
	}
	item := map[string]types.AttributeValue{}
	for name, v := range raw {
		switch {
		case v.S != nil:
			item[name] = &types.AttributeValueMemberS{Value: *v.S}
		case v.N != nil:
			if _, err := strconv.ParseFloat(*v.N, 64); err != nil {
				return nil, fmt.Errorf("item: %s: %w", name, err)
			}
			item[name] = &types.AttributeValueMemberN{Value: *v.N}
		case v.B != nil:
			bytes, err := base64.StdEncoding.DecodeString(*v.B)
			if err != nil {
				return nil, fmt.Errorf("item: %s: %w", name, err)
			}
			item[name] = &types.AttributeValueMemberB{Value: bytes}
		case v.BOOL != nil:
			item[name] = &types.AttributeValueMemberBOOL{Value: *v.BOOL}
		default:
			return nil, fmt.Errorf("item: %s: want one of S, N, B, BOOL", name)
		}
	}
	return item, nil
}

func formatItem(item map[string]types.AttributeValue) map[string]map[string]any {
	all := map[string]map[string]any{}
	for name, v := range item {
		switch v := v.(type) {
		case *types.AttributeValueMemberS:
			all[name] = map[string]any{"S": v.Value}
		case *types.AttributeValueMemberN:
			all[name] = map[string]any{"N": v.Value}
		case *types.AttributeValueMemberB:
			all[name] = map[string]any{"B": base64.StdEncoding.EncodeToString(v.Value)}
		case *types.AttributeValueMemberBOOL:
			all[name] = map[string]any{"BOOL": v.Value}
		}
	}
	return all
}
