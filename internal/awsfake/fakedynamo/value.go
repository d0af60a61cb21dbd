package fakedynamo

import (
	"bytes"
	"maps"
	"reflect"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

type (
	value = types.AttributeValue
	item  = map[string]types.AttributeValue
)

// normal is a copy of a value in the one form in which equal values are alike.
func normal(v value) (value, error) {
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		return &types.AttributeValueMemberS{Value: v.Value}, nil
	case *types.AttributeValueMemberB:
		return &types.AttributeValueMemberB{Value: append([]byte{}, v.Value...)}, nil
	case *types.AttributeValueMemberN:
		n, err := parseNumber(v.Value)
		return &types.AttributeValueMemberN{Value: n.String()}, err
	case *types.AttributeValueMemberBOOL:
		return &types.AttributeValueMemberBOOL{Value: v.Value}, nil
	case *types.AttributeValueMemberNULL:
		return &types.AttributeValueMemberNULL{Value: true}, nil
	case *types.AttributeValueMemberM:
		m, err := normalItem(v.Value)
		return &types.AttributeValueMemberM{Value: m}, err
	case *types.AttributeValueMemberL:
		list := make([]value, len(v.Value))
		for i, member := range v.Value {
			var err error
			if list[i], err = normal(member); err != nil {
				return nil, err
			}
		}
		return &types.AttributeValueMemberL{Value: list}, nil
	case *types.AttributeValueMemberSS, *types.AttributeValueMemberNS, *types.AttributeValueMemberBS:
		return normalSet(v)
	}
	return nil, invalid("Supplied AttributeValue is empty, must contain exactly one of the supported datatypes")
}

func normalItem(m item) (item, error) {
	out := make(item, len(m))
	for name, v := range m {
		var err error
		if out[name], err = normal(v); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func normalSet(v value) (out value, err error) {
	count, distinct := 0, 0
	switch v := v.(type) {
	case *types.AttributeValueMemberSS:
		set := slices.Compact(slices.Sorted(slices.Values(v.Value)))
		out, count, distinct = &types.AttributeValueMemberSS{Value: set}, len(v.Value), len(set)
	case *types.AttributeValueMemberNS:
		set := make([]string, len(v.Value))
		for i, s := range v.Value {
			n, err := parseNumber(s)
			if err != nil {
				return nil, err
			}
			set[i] = n.String()
		}
		slices.Sort(set)
		set = slices.Compact(set)
		out, count, distinct = &types.AttributeValueMemberNS{Value: set}, len(v.Value), len(set)
	case *types.AttributeValueMemberBS:
		set := slices.CompactFunc(slices.SortedFunc(slices.Values(v.Value), bytes.Compare), bytes.Equal)
		out, count, distinct = &types.AttributeValueMemberBS{Value: set}, len(v.Value), len(set)
	}
	switch {
	case count == 0:
		return nil, invalid("One or more parameter values were invalid: An set may not be empty")
	case distinct < count:
		return nil, invalid("One or more parameter values were invalid: Input collection contains duplicates")
	}
	return out, nil
}

// clone copies an item that is in normal form, so that a caller may write to it.
func clone(m item) item {
	if m == nil {
		return nil
	}
	out, _ := normalItem(m) // it was normal before
	return out
}

func equal(a, b value) bool { return reflect.DeepEqual(a, b) }

// order is a string that sorts like a value of one of the three ordered types.
func order(v value) (s string, typ types.ScalarAttributeType) {
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		return v.Value, types.ScalarAttributeTypeS
	case *types.AttributeValueMemberB:
		return string(v.Value), types.ScalarAttributeTypeB
	case *types.AttributeValueMemberN:
		n, _ := parseNumber(v.Value) // it is in normal form
		return n.order(), types.ScalarAttributeTypeN
	}
	return "", ""
}

// typeOf is the name of a value's type as attribute_type knows it.
func typeOf(v value) string {
	switch v.(type) {
	case *types.AttributeValueMemberS:
		return "S"
	case *types.AttributeValueMemberB:
		return "B"
	case *types.AttributeValueMemberN:
		return "N"
	case *types.AttributeValueMemberBOOL:
		return "BOOL"
	case *types.AttributeValueMemberNULL:
		return "NULL"
	case *types.AttributeValueMemberM:
		return "M"
	case *types.AttributeValueMemberL:
		return "L"
	case *types.AttributeValueMemberSS:
		return "SS"
	case *types.AttributeValueMemberNS:
		return "NS"
	case *types.AttributeValueMemberBS:
		return "BS"
	}
	return "?"
}

// itemBytes is what an item counts for in limits and capacity: names and values.
func itemBytes(m item) int {
	size := 0
	for name, v := range m {
		size += len(name) + valueBytes(v)
	}
	return size
}

func valueBytes(v value) int {
	const container, member = 3, 1
	size := 0
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		return len(v.Value)
	case *types.AttributeValueMemberB:
		return len(v.Value)
	case *types.AttributeValueMemberN:
		n, _ := parseNumber(v.Value)
		return n.bytes()
	case *types.AttributeValueMemberM:
		return container + itemBytes(v.Value) + member*len(v.Value)
	case *types.AttributeValueMemberL:
		for _, e := range v.Value {
			size += valueBytes(e) + member
		}
		return container + size
	case *types.AttributeValueMemberSS:
		for _, s := range v.Value {
			size += len(s)
		}
		return size
	case *types.AttributeValueMemberBS:
		for _, s := range v.Value {
			size += len(s)
		}
		return size
	case *types.AttributeValueMemberNS:
		for _, s := range v.Value {
			n, _ := parseNumber(s)
			size += n.bytes()
		}
		return size
	}
	return 1 // BOOL, NULL
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

func names(m item) []string { return slices.Sorted(maps.Keys(m)) }
