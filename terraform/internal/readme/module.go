package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// module is what a README tells of one.
type module struct {
	inputs    []input
	outputs   []output
	resources []string // their types, in order
}

// input is a variable; types and defaults are in the words of the source.
type input struct {
	name, kind, preset, text string
	required                 bool
}

type output struct{ name, text string }

// read reads the files of a module, in order of their names, and what is in them in the order in which it is
// there.
func read(dir string) (m module, err error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.tf"))
	if err == nil && len(files) == 0 {
		err = errors.New("there are no *.tf files beside it")
	}
	if err != nil {
		return module{}, err
	}
	var errs []error
	for _, path := range files {
		source, err := os.ReadFile(path)
		if err != nil {
			return module{}, err
		}
		file, wrong := hclsyntax.ParseConfig(source, path, hcl.InitialPos)
		if wrong.HasErrors() {
			return module{}, wrong
		}
		body, ok := file.Body.(*hclsyntax.Body)
		if !ok {
			return module{}, fmt.Errorf("%s is not in HCL's own syntax", path)
		}
		for _, block := range body.Blocks {
			errs = append(errs, m.add(block, source))
		}
	}
	slices.Sort(m.resources)
	m.resources = slices.Compact(m.resources)
	return m, errors.Join(errs...)
}

// add takes over a block of a file.
func (m *module) add(block *hclsyntax.Block, source []byte) error {
	switch block.Type {
	case "variable":
		v := input{name: block.Labels[0], required: block.Body.Attributes["default"] == nil}
		v.kind, v.preset = sourceOf(block, "type", source), sourceOf(block, "default", source)
		v.text = textOf(block)
		m.inputs = append(m.inputs, v)
		if v.kind == "" || v.text == "" {
			return fmt.Errorf("variable %s has no type or no description: every input has both", v.name)
		}
	case "output":
		o := output{block.Labels[0], textOf(block)}
		m.outputs = append(m.outputs, o)
		if o.text == "" {
			return fmt.Errorf("output %s has no description", o.name)
		}
	case "resource":
		m.resources = append(m.resources, block.Labels[0])
	}
	return nil
}

// sourceOf is what an attribute is set to; empty when it is not set.
func sourceOf(block *hclsyntax.Block, attribute string, source []byte) string {
	a := block.Body.Attributes[attribute]
	if a == nil {
		return ""
	}
	return string(a.Expr.Range().SliceBytes(source))
}

// textOf is the description; empty when it is none, or none that can be told before a plan.
func textOf(block *hclsyntax.Block) string {
	a := block.Body.Attributes["description"]
	if a == nil {
		return ""
	}
	v, wrong := a.Expr.Value(nil)
	if wrong.HasErrors() || v.IsNull() {
		return ""
	}
	return strings.TrimSpace(v.AsString())
}
