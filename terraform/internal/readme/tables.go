package main

import (
	"fmt"
	"strings"
)

// cellMax is how many characters of source go into a cell; what is longer is told below the table.
const cellMax = 72

// tables is all that is generated.
func (m module) tables() string {
	var b, details strings.Builder
	b.WriteString("### Inputs\n\n| name | type | default | |\n|---|---|---|---|\n")
	for _, v := range m.inputs {
		kind := v.kind
		if long(kind) {
			kind = kind[:strings.Index(kind+"(", "(")] + "(…)"
			fmt.Fprintf(&details, "\nType of `%s`:\n\n```hcl\n%s\n```\n", v.name, outdent(v.kind))
		}
		preset := "required"
		if !v.required {
			preset = "`" + v.preset + "`"
		}
		fmt.Fprintf(&b, "| `%s` | `%s` | %s | %s |\n", v.name, cell(kind), cell(preset), cell(v.text))
	}
	b.WriteString(details.String())
	b.WriteString("\n### Outputs\n\n| name | |\n|---|---|\n")
	for _, o := range m.outputs {
		fmt.Fprintf(&b, "| `%s` | %s |\n", o.name, cell(o.text))
	}
	b.WriteString("\n### Resources\n\n" + wrap("`"+strings.Join(m.resources, "`, `")+"`") + "\n")
	return b.String()
}

func long(source string) bool { return len(source) > cellMax || strings.Contains(source, "\n") }

// columnsMax is the width of prose.
const columnsMax = 120

// wrap breaks a text into lines.
func wrap(text string) string {
	var b strings.Builder
	column := 0
	for i, word := range strings.Fields(text) {
		switch {
		case i == 0:
		case column+1+len(word) > columnsMax:
			b.WriteByte('\n')
			column = 0
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += len(word)
	}
	return b.String()
}

// cell makes a text fit into a row.
func cell(text string) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(text), " "), "|", "\\|")
}

// outdent takes the indentation away that a source has because of where it was.
func outdent(source string) string { return strings.ReplaceAll(source, "\n  ", "\n") }
