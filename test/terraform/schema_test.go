package terraform_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

// TestSchema compares the test-only provider with the published schema of the real one, so that what is
// applied here is what the real one takes: no attribute or block that it lacks, none optional that it
// requires, none that may be set where it only tells.
func TestSchema(t *testing.T) {
	w := newWorkspace(t, "modules/core")
	served := w.schemas()
	listed := publishedNames(t)
	for _, name := range slices.Sorted(maps.Keys(served)) {
		folder := strings.ReplaceAll(strings.TrimPrefix(name, "aws_"), "_", "-")
		if !slices.Contains(listed, folder) {
			t.Errorf("%s is not in tools/awsschema/types", name)
			continue
		}
		listed = slices.DeleteFunc(listed, func(s string) bool { return s == folder })
		for _, d := range deviations(served[name], published(t, folder)) {
			t.Errorf("%s: %s", name, d)
		}
	}
	for _, left := range listed {
		t.Errorf("tools/awsschema/types has %s, which the test-only provider does not serve", left)
	}
}

// TestSchemaDeviations has mistakes, so that none found means something.
func TestSchemaDeviations(t *testing.T) {
	t.Parallel()
	table := published(t, "dynamodb-table")
	if table.attributes["name"] != (attribute{kind: "string", required: true, settable: true}) || table.attributes["arn"] != (attribute{kind: "string"}) {
		t.Fatalf("read %+v", table.attributes)
	}
	index := table.blocks["global_secondary_index"]
	if index.nesting != "set" || index.single || !index.attributes["hash_key"].required || index.attributes["range_key"].required || len(index.blocks) != 2 {
		t.Fatalf("read %+v", index)
	}
	if ttl := table.blocks["ttl"]; ttl.nesting != "list" || !ttl.single || ttl.attributes["enabled"].kind != "bool" {
		t.Fatalf("read %+v", ttl)
	}
	text, name := attribute{kind: "string", settable: true}, map[string]attribute{"name": {kind: "string", required: true, settable: true}}
	for want, served := range map[string]shape{
		"attribute shape is not one of the real provider":                     {attributes: with(name, "shape", text)},
		"attribute hash_key is required, and is not for the real provider":    {attributes: with(name, "hash_key", attribute{kind: "string", required: true, settable: true})},
		"attribute name is not required, and is for the real provider":        {attributes: map[string]attribute{"name": text}},
		"attribute name, which the real provider requires, is missing":        {},
		"attribute arn may be set, and not with the real provider":            {attributes: with(name, "arn", text)},
		"attribute read_capacity is a string, and a number for the real":      {attributes: with(name, "read_capacity", text)},
		"block ttls is not one of the real provider":                          {attributes: name, blocks: map[string]block{"ttls": {nesting: "list"}}},
		"block attribute is a list, and a set for the real provider":          {attributes: name, blocks: map[string]block{"attribute": {nesting: "list"}}},
		"block ttl: attribute name is not one of the real provider":           {attributes: name, blocks: map[string]block{"ttl": {nesting: "list", shape: shape{attributes: map[string]attribute{"name": text}}}}},
		"block replica: attribute region_name, which the real provider requi": {attributes: name, blocks: map[string]block{"replica": {nesting: "set"}}},
	} {
		if got := deviations(served, table); !slices.ContainsFunc(got, func(d string) bool { return strings.HasPrefix(d, want) }) {
			t.Errorf("want %q among %q", want, got)
		}
	}
}

func with(attributes map[string]attribute, name string, a attribute) map[string]attribute {
	more := maps.Clone(attributes)
	more[name] = a
	return more
}

// publishedNames are those of tools/awsschema/types.
func publishedNames(t *testing.T) (names []string) {
	t.Helper()
	text, err := os.ReadFile("../../tools/awsschema/types")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "#") {
			names = append(names, strings.TrimSpace(line))
		}
	}
	return names
}

// deviations are in what the served schema lets pass, or tells, and the real one does not. It may do less.
func deviations(served, genuine shape) (all []string) {
	say := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	for _, name := range slices.Sorted(maps.Keys(served.attributes)) {
		ours := served.attributes[name]
		theirs, found := genuine.attributes[name]
		switch {
		case !found && name == "id" && !ours.settable: // every resource has one
		case !found:
			say("attribute %s is not one of the real provider", name)
		case ours.kind != theirs.kind:
			say("attribute %s is a %s, and a %s for the real provider", name, ours.kind, theirs.kind)
		case ours.settable && !theirs.settable:
			say("attribute %s may be set, and not with the real provider", name)
		case ours.required && !theirs.required:
			say("attribute %s is required, and is not for the real provider", name)
		case theirs.required && !ours.required:
			say("attribute %s is not required, and is for the real provider", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(genuine.attributes)) {
		if _, found := served.attributes[name]; !found && genuine.attributes[name].required {
			say("attribute %s, which the real provider requires, is missing", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(served.blocks)) {
		ours := served.blocks[name]
		theirs, found := genuine.blocks[name]
		switch {
		case !found:
			say("block %s is not one of the real provider", name)
			continue
		case ours.nesting != theirs.nesting:
			say("block %s is a %s, and a %s for the real provider", name, ours.nesting, theirs.nesting)
		}
		for _, d := range deviations(ours.shape, theirs.shape) {
			say("block %s: %s", name, d)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(genuine.blocks)) {
		if _, found := served.blocks[name]; !found && genuine.blocks[name].required {
			say("block %s, which the real provider requires, is missing", name)
		}
	}
	return all
}

// servedBlock is a schema as `providers schema -json` prints it.
type servedBlock struct {
	Attributes map[string]struct {
		Type                         json.RawMessage
		Required, Optional, Computed bool
	}
	BlockTypes map[string]struct {
		NestingMode string `json:"nesting_mode"`
		Block       servedBlock
	} `json:"block_types"`
}

// schemas are those of the test-only provider: of its resource types, of its data sources as data_aws_region,
// and "provider".
func (w *workspace) schemas() map[string]shape {
	w.t.Helper()
	var said struct {
		Schemas map[string]struct {
			Provider  struct{ Block servedBlock }
			Resources map[string]struct{ Block servedBlock } `json:"resource_schemas"`
			Data      map[string]struct{ Block servedBlock } `json:"data_source_schemas"`
		} `json:"provider_schemas"`
	}
	if err := json.Unmarshal([]byte(w.must("providers", "schema", "-json")), &said); err != nil {
		w.t.Fatal(err)
	}
	all := map[string]shape{}
	for address, p := range said.Schemas {
		if !strings.HasSuffix(address, "/hashicorp/aws") { // terraform_data is Terraform's own
			continue
		}
		all["provider"] = w.servedShape(p.Provider.Block)
		for name, r := range p.Resources {
			all[name] = w.servedShape(r.Block)
		}
		for name, d := range p.Data {
			all["data_"+name] = w.servedShape(d.Block)
		}
	}
	return all
}

func (w *workspace) servedShape(b servedBlock) shape {
	w.t.Helper()
	s := shape{attributes: map[string]attribute{}, blocks: map[string]block{}}
	for name, a := range b.Attributes {
		var kind any
		if err := json.Unmarshal(a.Type, &kind); err != nil {
			w.t.Fatal(err)
		}
		if many, ok := kind.([]any); ok && len(many) == 2 && many[1] == "string" {
			kind = many[0]
		}
		text, _ := kind.(string)
		s.attributes[name] = attribute{kind: text, required: a.Required, settable: a.Required || a.Optional}
	}
	for name, inner := range b.BlockTypes {
		s.blocks[name] = block{nesting: inner.NestingMode, shape: w.servedShape(inner.Block)}
	}
	return s
}
