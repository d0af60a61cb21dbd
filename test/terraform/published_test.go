package terraform_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/kinesin-io/kinesin/internal/loopback"
)

// shape is the schema of a resource type, of the provider's configuration, or of a block in either.
type shape struct {
	attributes map[string]attribute
	blocks     map[string]block
}

// attribute is how one may be used. Whether it is told when it is not set (optional and computed) nobody
// publishes.
type attribute struct {
	kind     string // string, number, bool, list, set, map: the last three of strings
	required bool
	settable bool
}

type block struct {
	nesting  string // list or set; struct is only ever that of timeouts
	required bool
	single   bool // at most one
	shape
}

// publishedSchemas is the folder of the real provider's schemas, as tools/awsschema/install fetches them.
var publishedSchemas = sync.OnceValues(func() (string, error) { return loopback.Installed("awsschema") })

// published reads the schema of a resource type, or of a data source, as @cdktf/provider-aws has it: kinds
// and nesting from the code, required and optional from the declarations. The name is that of the folder:
// sqs-queue, data-aws-region, or provider.
func published(t *testing.T, name string) shape {
	t.Helper()
	if testing.Short() {
		t.Skip("may fetch the published schemas")
	}
	dir, err := publishedSchemas()
	if err != nil {
		t.Fatal(err)
	}
	var texts [2]string
	for i, file := range []string{"index.js", "index.d.ts"} {
		text, err := os.ReadFile(filepath.Join(dir, name, file))
		if err != nil {
			t.Fatalf("the published schema of %s: %v: want its name in tools/awsschema/types", name, err)
		}
		texts[i] = string(text)
	}
	p := &publishedCode{code: texts[0], declarations: texts[1]}
	found := publishedClass.FindStringSubmatch(p.code)
	_, body, cut := strings.Cut(p.code, "synthesizeHclAttributes() {")
	if found == nil || !cut {
		t.Fatalf("%s is not written as it was: %s has no class, or no attributes", name, dir)
	}
	s, err := p.shape(found[1], found[1]+"Config", body)
	if err != nil {
		t.Fatalf("the published schema of %s: %v", name, err)
	}
	return s
}

// publishedCode is what @cdktf/provider-aws has of one resource type.
type publishedCode struct{ code, declarations string }

var (
	publishedClass = regexp.MustCompile(`(?m)^class (\w+) extends cdktf\.Terraform(?:Resource|Provider|DataSource) \{$`)
	// An attribute or a block: how it is encoded, and what it is.
	publishedEntry = regexp.MustCompile(`(?m)^ +(\w+): \{\n +value: (.*),\n +isBlock: (true|false),\n +type: "(\w+)",\n +storageClassType: "(\w+)",\n +\},?$`)
	publishedBlock = regexp.MustCompile(`(\w+)ToHclTerraform\b`)
	// Its declaration: a question mark says that it may be left out.
	publishedField = regexp.MustCompile(`(?s)#(\w+) \w+#\w+\}.*?\n    readonly \w+(\?)?:`)
	publishedTold  = regexp.MustCompile(`(?m)^ +// (\w+) - computed: true, optional: false, required: false\n +get \w+\(\) \{\n +return this\.get(\w+)Attribute`)
	publishedMap   = regexp.MustCompile(`(?m)^ +this\.\w+ = new cdktf\.StringMap\(this, "(\w+)"\);$`)
)

// shape is that of the class or struct whose entries begin the body.
func (p *publishedCode) shape(class, declared, body string) (shape, error) {
	s := shape{attributes: map[string]attribute{}, blocks: map[string]block{}}
	optional, err := p.fields(declared)
	if err != nil {
		return s, err
	}
	entries, _, ends := strings.Cut(body, "// remove undefined attributes")
	if !ends {
		return s, fmt.Errorf("no end of what %s has", class)
	}
	for _, e := range publishedEntry.FindAllStringSubmatch(entries, -1) {
		name, value, kind, of := e[1], e[2], e[4], e[5]
		may, told := optional[name]
		if !told {
			return s, fmt.Errorf("%s is not declared in %s", name, declared)
		}
		if e[3] == "false" {
			if kind == "simple" {
				kind = of
			}
			s.attributes[name] = attribute{kind: strings.Replace(kind, "boolean", "bool", 1), required: !may, settable: true}
			continue
		}
		b := block{nesting: kind, required: !may, single: !strings.Contains(value, "listMapperHcl")}
		inner := publishedBlock.FindAllStringSubmatch(value, -1)
		if len(inner) == 0 {
			return s, fmt.Errorf("block %s is encoded by %s", name, value)
		}
		function := inner[0][1]
		_, rest, found := strings.Cut(p.code, "function "+function+"ToHclTerraform(struct) {")
		if !found {
			return s, fmt.Errorf("no function for block %s", name)
		}
		structName := strings.ToUpper(function[:1]) + function[1:]
		if b.shape, err = p.shape(structName, structName, rest); err != nil {
			return s, err
		}
		s.blocks[name] = b
	}
	p.addComputed(class, &s)
	return s, nil
}

// fields tells of each field of a declaration whether it may be left out.
func (p *publishedCode) fields(declared string) (map[string]bool, error) {
	_, body, found := strings.Cut(p.declarations, "export interface "+declared+" ")
	body, _, ends := strings.Cut(body, "\n}")
	if !found || !ends {
		return nil, fmt.Errorf("no declaration of %s", declared)
	}
	optional := map[string]bool{}
	for _, f := range publishedField.FindAllStringSubmatch(body, -1) {
		optional[f[1]] = f[2] == "?"
	}
	return optional, nil
}

// addComputed adds what can be read and not set.
func (p *publishedCode) addComputed(class string, s *shape) {
	for _, head := range []string{"class " + class + " extends cdktf.Terraform", "class " + class + "OutputReference extends "} {
		_, body, found := strings.Cut(p.code, "\n"+head)
		if !found {
			continue
		}
		body, _, _ = strings.Cut(body, "\n}")
		for _, c := range publishedTold.FindAllStringSubmatch(body, -1) {
			s.attributes[c[1]] = attribute{kind: strings.Replace(strings.ToLower(c[2]), "boolean", "bool", 1)}
		}
		for _, c := range publishedMap.FindAllStringSubmatch(body, -1) {
			s.attributes[c[1]] = attribute{kind: "map"}
		}
	}
}
