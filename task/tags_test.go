package task

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

func TestTagsOf(t *testing.T) {
	got, err := TagsOf(map[string]string{"tenant": "acme", "batch": "", "über": "ü"})
	if want := []Tag{{"batch", ""}, {"tenant", "acme"}, {"über", "ü"}}; err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v, %v; want %v", got, err, want)
	}
	if got := TagValues(got); !reflect.DeepEqual(got, map[string]string{"tenant": "acme", "batch": "", "über": "ü"}) {
		t.Errorf("values: %v", got)
	}
	if none, err := TagsOf(nil); none != nil || err != nil || TagValues(none) != nil {
		t.Errorf("no tags: %v, %v", none, err)
	}
}

func TestTagsOfRefuses(t *testing.T) {
	many := map[string]string{}
	for i := range TagsMax + 1 {
		many[fmt.Sprint(i)] = ""
	}
	for name, values := range map[string]map[string]string{
		"too many": many, "no name": {"": "x"}, "long name": {strings.Repeat("n", TagNameBytesMax+1): ""},
		"equals sign": {"a=b": ""}, "space": {"a b": ""}, "control": {"a\x00": ""}, "no UTF-8": {"a": "\xff"},
		"long value": {"a": strings.Repeat("v", TagValueBytesMax+1)}, "line break": {"a": "x\ny"},
	} {
		if tags, err := TagsOf(values); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v, %v", name, tags, err)
		}
	}
}
