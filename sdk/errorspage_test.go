package sdk_test

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
)

var update = flag.Bool("update", false, "write docs/reference/errors.md")

const (
	errorsPage             = "../docs/reference/errors.md"
	errorsBegin, errorsEnd = "<!-- errors -->\n", "<!-- end of errors -->"
)

// TestErrorsPage compares the table of docs/reference/errors.md with the refusals in the code.
func TestErrorsPage(t *testing.T) {
	t.Parallel()
	meanings, offered := comments(t, "../api/errors.go"), comments(t, "errors.go")
	var table strings.Builder
	table.WriteString("| reason | meaning | HTTP | gRPC, Connect |\n|---|---|---|---|\n")
	for _, number := range slices.Sorted(maps.Keys(kinesinv1.Reason_name)) {
		reason := kinesinv1.Reason(number)
		if reason == kinesinv1.Reason_REASON_UNSPECIFIED {
			continue
		}
		refused := &kinesinv1.Problem{Reason: reason}
		plain, name := api.HTTPProblemOf(refused), "Err"
		for word := range strings.SplitSeq(plain.Reason, "_") {
			name += strings.ToUpper(word[:1]) + word[1:]
		}
		meaning := strings.TrimPrefix(meanings[name], name+" means that ")
		if meaning == "" || meaning == meanings[name] {
			t.Errorf("the comment of api.%s is %q: want \"%s means that …\"", name, meanings[name], name)
			continue
		}
		status, again := fmt.Sprint(plain.Status), ""
		if soon := api.HTTPProblemOf(&kinesinv1.Problem{Reason: reason, RetryAfter: 1}); soon.Status != plain.Status {
			status, again = fmt.Sprintf("%d, with `retry_after` %d", plain.Status, soon.Status), " Try again after `retry_after`, if there is one."
		}
		if _, is := offered[name]; !is {
			t.Errorf("package sdk has no %s, which the page promises", name)
		}
		again = cmp.Or(map[api.Reason]string{
			kinesinv1.Reason_REASON_UNAVAILABLE: " The SDK and the commands try again.",
			kinesinv1.Reason_REASON_THROTTLED:   " The SDK and the commands try again after `retry_after`.",
		}[reason], again)
		fmt.Fprintf(&table, "| `%s` | %s%s%s | %s | `%s` |\n", plain.Reason, strings.ToUpper(meaning[:1]), meaning[1:], again, status,
			connect.CodeOf(api.ToWire(api.Errorf(reason, "why"))))
	}
	have, err := os.ReadFile(errorsPage)
	before, rest, begins := strings.Cut(string(have), errorsBegin)
	_, after, ends := strings.Cut(rest, errorsEnd)
	if err != nil || !begins || !ends {
		t.Fatalf("%s has no place for the table: %v", errorsPage, err)
	}
	want := before + errorsBegin + table.String() + errorsEnd + after
	if *update {
		err = os.WriteFile(errorsPage, []byte(want), 0o644)
	} else if want != string(have) {
		err = errors.New("docs/reference/errors.md has another table than the code: make docs/errors")
	}
	if err != nil {
		t.Error(err)
	}
}

// comments returns the comments of the variables that a file declares, each on one line.
func comments(t *testing.T, path string) map[string]string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		if spec, is := n.(*ast.ValueSpec); is {
			found[spec.Names[0].Name] = strings.Join(strings.Fields(spec.Doc.Text()), " ")
		}
		return true
	})
	return found
}
