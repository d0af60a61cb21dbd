package chart

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// value is one that the chart takes.
type value struct {
	path   []string
	preset string // as JSON
}

// presets are all values of values.yaml, each with the comment above it.
func presets(t *testing.T) []value {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(Dir, "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	return below(t, nil, doc.Content[0])
}

func below(t *testing.T, path []string, n *yaml.Node) []value {
	t.Helper()
	var all []value
	for i := 0; i < len(n.Content); i += 2 {
		key, content := n.Content[i], n.Content[i+1]
		own := append(slices.Clone(path), key.Value)
		documented := strings.HasPrefix(key.HeadComment, "# -- ")
		if !documented && content.Kind == yaml.MappingNode && len(content.Content) > 0 {
			all = append(all, below(t, own, content)...)
			continue
		}
		if !documented {
			t.Errorf("values.yaml: nothing says what %s means", strings.Join(own, "."))
		}
		var preset any
		if err := content.Decode(&preset); err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(preset)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, value{own, string(text)})
	}
	return all
}

// TestGroupsOfPods has the other groups of pods begin with the values of scheduler, as their comments in values.yaml say.
func TestGroupsOfPods(t *testing.T) {
	t.Parallel()
	scheduler := map[string]string{}
	for _, v := range presets(t) {
		switch group, name := v.path[0], strings.Join(v.path[1:], "."); group {
		case "scheduler":
			scheduler[name] = v.preset
		case "inbound", "hsc":
			if v.preset != scheduler[name] {
				t.Errorf("values.yaml: %s.%s is not that of scheduler", group, name)
			}
		}
	}
}

// schema is as much of a JSON schema as is needed to walk along properties.
type schema struct {
	Ref         string            `json:"$ref"`
	Properties  map[string]schema `json:"properties"`
	Required    []string          `json:"required"`
	Definitions map[string]schema `json:"definitions"`
	Additional  any               `json:"additionalProperties"`
}

func readSchema(t *testing.T) (top schema) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(Dir, "values.schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &top); err != nil {
		t.Fatal(err)
	}
	return top
}

// TestSchemaHasAll looks for values that the schema would refuse, and for what the schema takes and no value
// says.
func TestSchemaHasAll(t *testing.T) {
	t.Parallel()
	top := readSchema(t)
	documented := map[string]bool{"global": true}
	for _, v := range presets(t) {
		documented[strings.Join(v.path, ".")] = true
	}
	taken := leaves(top, top, "", documented)
	for _, path := range taken {
		if !documented[path] {
			t.Errorf("the schema takes %s, which is not in values.yaml", path)
		}
		delete(documented, path)
	}
	for path := range documented {
		t.Errorf("the schema does not take %s", path)
	}
}

// mayBeNull are values that `null` leaves out; of all others it would take away what templates count on.
var mayBeNull = []string{"global", "replicas", "runAsUser", "runAsGroup", "fsGroup", "requests", "limits"}

// TestSchemaRequires looks for values that `null` would take away unnoticed: Helm drops them before it asks
// the schema.
func TestSchemaRequires(t *testing.T) {
	t.Parallel()
	top := readSchema(t)
	seen := checkRequired(t, "", top)
	for name, d := range top.Definitions {
		if name != "env" {
			seen += checkRequired(t, name, d)
		}
	}
	if seen < 80 {
		t.Errorf("only %d values seen", seen)
	}
}

func checkRequired(t *testing.T, path string, s schema) int {
	t.Helper()
	seen := 0
	for name, p := range s.Properties {
		if required := slices.Contains(s.Required, name); required == slices.Contains(mayBeNull, name) {
			t.Errorf("%s.%s: required is %v", path, name, required)
		}
		seen += 1 + checkRequired(t, path+"."+name, p)
	}
	return seen
}

// leaves are the paths at which the schema ends, or a value is documented.
func leaves(top, s schema, path string, documented map[string]bool) []string {
	if name, is := strings.CutPrefix(s.Ref, "#/definitions/"); is {
		s = top.Definitions[name]
	}
	if documented[path] || len(s.Properties) == 0 {
		return []string{path}
	}
	var all []string
	for name, p := range s.Properties {
		all = append(all, leaves(top, p, strings.TrimPrefix(path+"."+name, "."), documented)...)
	}
	return all
}
