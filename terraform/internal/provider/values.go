package main

import (
	"fmt"
	"math/big"

	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// values are the attributes and blocks of a resource, as JSON would have them: string, bool, int64 or
// float64, []any, map[string]any. A value that is null or not known yet is nil.
type values map[string]any

func (v values) text(name string) string {
	text, _ := v[name].(string)
	return text
}

func (v values) flag(name string) bool {
	flag, _ := v[name].(bool)
	return flag
}

// number is 0 where there is none. Values read back from the account are floats.
func (v values) number(name string) int64 {
	switch n := v[name].(type) {
	case int64:
		return n
	case float64:
		return int64(n)
	}
	return 0
}

// blocks are the nested blocks of a name.
func (v values) blocks(name string) []values {
	list, _ := v[name].([]any)
	var all []values
	for _, item := range list {
		if block, ok := item.(map[string]any); ok {
			all = append(all, block)
		}
	}
	return all
}

// texts are those of a list, set or map of strings.
func (v values) texts(name string) []string {
	list, _ := v[name].([]any)
	var all []string
	for _, item := range list {
		if text, ok := item.(string); ok {
			all = append(all, text)
		}
	}
	return all
}

// block is the first nested block of a name, empty where there is none.
func (v values) block(name string) values {
	if all := v.blocks(name); len(all) > 0 {
		return all[0]
	}
	return values{}
}

func decode(raw tftypes.Value) (values, error) {
	decoded, err := decodeAny(raw)
	if err != nil {
		return nil, err
	}
	object, _ := decoded.(map[string]any)
	return object, nil
}

func decodeAny(raw tftypes.Value) (any, error) {
	if raw.IsNull() || !raw.IsKnown() {
		return nil, nil
	}
	kind := raw.Type()
	switch {
	case kind.Is(tftypes.String):
		var text string
		err := raw.As(&text)
		return text, err
	case kind.Is(tftypes.Bool):
		var flag bool
		err := raw.As(&flag)
		return flag, err
	case kind.Is(tftypes.Number):
		var n big.Float
		if err := raw.As(&n); err != nil {
			return nil, err
		}
		if whole, exact := n.Int64(); exact == big.Exact {
			return whole, nil
		}
		f, _ := n.Float64()
		return f, nil
	case kind.Is(tftypes.List{}), kind.Is(tftypes.Set{}):
		var items []tftypes.Value
		if err := raw.As(&items); err != nil {
			return nil, err
		}
		list := make([]any, len(items))
		for i, item := range items {
			var err error
			if list[i], err = decodeAny(item); err != nil {
				return nil, err
			}
		}
		return list, nil
	}
	var items map[string]tftypes.Value
	if err := raw.As(&items); err != nil {
		return nil, err
	}
	object := make(map[string]any, len(items))
	for name, item := range items {
		var err error
		if object[name], err = decodeAny(item); err != nil {
			return nil, err
		}
	}
	return object, nil
}

// encode is the way back.
func encode(kind tftypes.Type, v any) (tftypes.Value, error) {
	if v == nil {
		return tftypes.NewValue(kind, nil), nil
	}
	switch kind := kind.(type) {
	case tftypes.Object:
		object, ok := v.(map[string]any)
		if !ok {
			return tftypes.Value{}, fmt.Errorf("%T is no object", v)
		}
		return encodeMap(kind, object, func(name string) tftypes.Type { return kind.AttributeTypes[name] })
	case tftypes.Map:
		object, ok := v.(map[string]any)
		if !ok {
			return tftypes.Value{}, fmt.Errorf("%T is no map", v)
		}
		return encodeMap(kind, object, func(string) tftypes.Type { return kind.ElementType })
	case tftypes.List:
		return encodeList(kind, kind.ElementType, v)
	case tftypes.Set:
		return encodeList(kind, kind.ElementType, v)
	}
	if f, ok := v.(float64); ok {
		return tftypes.NewValue(kind, big.NewFloat(f)), nil
	}
	return tftypes.NewValue(kind, v), nil
}

func encodeMap(kind tftypes.Type, object map[string]any, typeOf func(string) tftypes.Type) (tftypes.Value, error) {
	items := map[string]tftypes.Value{}
	if of, ok := kind.(tftypes.Object); ok {
		for name, item := range of.AttributeTypes {
			items[name] = tftypes.NewValue(item, nil)
		}
	}
	for name, item := range object {
		if typeOf(name) == nil {
			return tftypes.Value{}, fmt.Errorf("there is no attribute %s", name)
		}
		value, err := encode(typeOf(name), item)
		if err != nil {
			return tftypes.Value{}, fmt.Errorf("%s: %w", name, err)
		}
		items[name] = value
	}
	return tftypes.NewValue(kind, items), nil
}

func encodeList(kind, element tftypes.Type, v any) (tftypes.Value, error) {
	list, ok := v.([]any)
	if !ok {
		return tftypes.Value{}, fmt.Errorf("%T is no list", v)
	}
	items := make([]tftypes.Value, len(list))
	for i, item := range list {
		var err error
		if items[i], err = encode(element, item); err != nil {
			return tftypes.Value{}, err
		}
	}
	return tftypes.NewValue(kind, items), nil
}
