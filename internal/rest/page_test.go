package rest

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write docs/reference/http.md")

const (
	page                 = "../../docs/reference/http.md"
	callsBegin, callsEnd = "<!-- calls -->\n", "<!-- end of calls -->"
)

// TestCallsPage compares the list of calls in docs/reference/http.md with the routes.
func TestCallsPage(t *testing.T) {
	var list strings.Builder
	list.WriteString("\n")
	for _, r := range routes(Services{}.withDefaults()) {
		if strings.Contains(r.path, "/keys/{key}") {
			continue // as of a task by its id, which the page says
		}
		call := r.method + " " + strings.TrimPrefix(r.path, "/v1")
		for i, p := range r.query {
			call += map[bool]string{true: "?", false: "&"}[i == 0] + p.name
		}
		fmt.Fprintf(&list, "- `%s`: %s\n", call, strings.ToLower(r.summary[:1])+r.summary[1:])
	}
	have, err := os.ReadFile(page)
	before, rest, begins := strings.Cut(string(have), callsBegin)
	_, after, ends := strings.Cut(rest, callsEnd)
	if err != nil || !begins || !ends {
		t.Fatalf("%s has no place for the calls: %v", page, err)
	}
	want := before + callsBegin + list.String() + "\n" + callsEnd + after
	if *update {
		err = os.WriteFile(page, []byte(want), 0o644)
	} else if want != string(have) {
		err = fmt.Errorf("%s has other calls than the code: make docs/http", page)
	}
	if err != nil {
		t.Error(err)
	}
}
