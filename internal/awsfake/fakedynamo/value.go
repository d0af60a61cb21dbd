package fakedynamo

import (
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

type (
	value = types.AttributeValue
	item  = map[string]types.AttributeValue
)

// numberDigitsMax bounds the numbers that are modelled: whole ones that are not negative.
const numberDigitsMax = 20

// normalValue copies a value, and gives equal numbers the same text.
func normalValue(v value) (value, error) {
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		return &types.AttributeValueMemberS{Value: v.Value}, nil
	case *types.AttributeValueMemberB:
		return &types.AttributeValueMemberB{Value: slices.Clone(v.Value)}, nil
	case *types.AttributeValueMemberN:
		digits := strings.TrimLeft(v.Value, "0")
		if v.Value == "" || strings.Trim(v.Value, "0123456789") != "" || len(digits) > numberDigitsMax {
			return nil, notModelled("number %q", v.Value)
		}
		if digits == "" {
			digits = "0"
		}
		return &types.AttributeValueMemberN{Value: digits}, nil
	}
	return nil, notModelled("a value of type %T", v)
}

func normalItem(m item) (item, error) {
	out := make(item, len(m))
	for name, v := range m {
		var err error
		if out[name], err = normalValue(v); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// clone copies an item that is normal already, so that a caller may write to it.
func clone(m item) item {
	if m == nil {
		return nil
	}
	out, _ := normalItem(m)
	return out
}

// sortText returns a text that sorts like the value among others of its type.
func sortText(v value) string {
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		return v.Value
	case *types.AttributeValueMemberB:
		return string(v.Value)
	case *types.AttributeValueMemberN:
		return strings.Repeat("0", numberDigitsMax-len(v.Value)) + v.Value
	}
	return ""
}

// typeOf returns DynamoDB's name for the type of a value; empty for no value.
func typeOf(v value) types.ScalarAttributeType {
	switch v.(type) {
	case *types.AttributeValueMemberS:
		return types.ScalarAttributeTypeS
	case *types.AttributeValueMemberB:
		return types.ScalarAttributeTypeB
	case *types.AttributeValueMemberN:
		return types.ScalarAttributeTypeN
	}
	return ""
}

func equal(a, b value) bool { return typeOf(a) == typeOf(b) && sortText(a) == sortText(b) }

func equalItems(a, b item) bool { return maps.EqualFunc(a, b, equal) }

// itemBytes returns what an item counts for in limits and capacity: names and values.
func itemBytes(m item) int {
	size := 0
	for name, v := range m {
		size += len(name) + valueBytes(v)
	}
	return size
}

func valueBytes(v value) int {
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		return len(v.Value)
	case *types.AttributeValueMemberB:
		return len(v.Value)
	case *types.AttributeValueMemberN:
		return (len(strings.TrimRight(v.Value, "0"))+1)/2 + 1
	}
	return 0
}

// project keeps the named attributes.
func project(m item, names []string) item {
	out := item{}
	for _, name := range names {
		if v, found := m[name]; found {
			out[name] = v
		}
	}
	return out
}
