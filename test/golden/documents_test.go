package golden

import (
	"bytes"
	"encoding/json"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/catalog/lambdas"
	"github.com/kinesin-io/kinesin/store"
)

// TestDocument keeps the OpenAPI document, with what fits into a line in a line.
func TestDocument(t *testing.T) {
	_, text := readDocument(t)
	var document any
	if err := json.Unmarshal([]byte(text), &document); err != nil {
		t.Fatal(err)
	}
	golden(t, "openapi.json", inLines(t, document, "")+"\n")
}

func inLines(t *testing.T, value any, indent string) string {
	t.Helper()
	const longest = 140
	line, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	deeper, open, end := indent+" ", "[", "]"
	var parts []string
	switch value := value.(type) {
	case map[string]any:
		open, end = "{", "}"
		for _, name := range slices.Sorted(maps.Keys(value)) {
			parts = append(parts, deeper+strconv.Quote(name)+": "+inLines(t, value[name], deeper))
		}
	case []any:
		for _, element := range value {
			parts = append(parts, deeper+inLines(t, element, deeper))
		}
	}
	if len(line) <= longest || len(parts) == 0 {
		return string(line)
	}
	return open + "\n" + strings.Join(parts, ",\n") + "\n" + indent + end
}

// TestUnknownNames keeps what every operation says of a field or a parameter that it does not know: the names of those
// that it knows.
func TestUnknownNames(t *testing.T) {
	document, _ := readDocument(t)
	values := strings.NewReplacer("{lambda}", "mail", "{id}", "k1", "{group}", "g1", "{key}", "k", "{name}", "nightly")
	var requests []string
	for path, methods := range document.Paths {
		for method, operation := range methods {
			request := strings.ToUpper(method) + " " + values.Replace(path)
			requests = append(requests, request+"?nosuch=1")
			if operation.RequestBody != nil {
				requests = append(requests, request+` {"nosuch":1}`)
			}
		}
	}
	slices.Sort(requests)
	golden(t, "unknown", newScript(t).run(strings.Join(requests, "\n\n")+"\n"))
}

// TestRegistrations keeps what servers read in rows that Terraform wrote, and their digest, by which they notice a
// change: another one for the same row has every lambda registered anew.
func TestRegistrations(t *testing.T) {
	rows, err := os.ReadFile("testdata/registrations")
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for line := range strings.Lines(string(rows)) {
		if strings.HasPrefix(line, "=") {
			continue
		}
		out.WriteString(line)
		if !strings.HasPrefix(line, "{") {
			continue
		}
		r, err := lambdas.ParseRegistration(store.Control{Kind: catalog.RegistrationKind, Name: "mail", Version: 1, Value: []byte(strings.TrimSpace(line))})
		if err != nil {
			out.WriteString("=! " + err.Error() + "\n")
			continue
		}
		meaning, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		out.WriteString("= " + string(meaning) + "\n")
	}
	golden(t, "registrations", out.String())
}

// TestDeclarations keeps what the packages of the SDK declare.
func TestDeclarations(t *testing.T) {
	for _, dir := range []string{"sdk", "sdk/admin", "sdk/blobs", "sdk/blobs/s3blobs", "sdk/sdktest", "sdk/sqsinbound"} {
		golden(t, strings.ReplaceAll(dir, "/", "-")+".decl", declarations(t, filepath.Join("..", "..", dir)))
	}
}

// declarations returns the exported declarations of a package, without comments and bodies, in order.
func declarations(t *testing.T, dir string) string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.FileExports(f)
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				d.Body = nil
				if d.Recv != nil {
					d.Recv.List[0].Names = nil
				}
			case *ast.GenDecl:
				if d.Tok == token.IMPORT {
					continue
				}
			}
			var text bytes.Buffer
			if err := format.Node(&text, set, d); err != nil {
				t.Fatal(err)
			}
			all = append(all, text.String())
		}
	}
	slices.Sort(all)
	return strings.Join(all, "\n") + "\n"
}
