package dial

import (
	"slices"
	"strings"
	"testing"
)

func TestServers(t *testing.T) {
	for _, c := range []struct {
		list string
		want []string
	}{
		{"http://127.0.0.1:7070", []string{"http://127.0.0.1:7070"}},
		{"127.0.0.1:7070", []string{"http://127.0.0.1:7070"}},
		{"localhost:7070", []string{"http://localhost:7070"}},
		{"[::1]:7070/", []string{"http://[::1]:7070"}},
		{"https://a.example.org/kinesin/", []string{"https://a.example.org/kinesin"}},
		{"a:1, b:2 ,https://c", []string{"http://a:1", "http://b:2", "https://c"}},
	} {
		if got, err := Servers(c.list); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%q: %q, %v", c.list, got, err)
		}
	}
	for list, word := range map[string]string{
		"":                       `server "": want a URL such as`,
		":":                      "want a URL such as",
		"nonsense":               "want a URL such as",
		"ftp://x":                "want a URL such as",
		"a:1,,b:2":               `server "": want`,
		"a:1,b":                  `server "b": want`,
		"http://a:1?x=y":         "want a URL such as",
		"http://user:secret@a:1": "has a user or a password in it",
		"a:1,http://a:1/":        `server "http://a:1" is named twice`,
		many(17):                 "17 servers: want 16 at most",
	} {
		if got, err := Servers(list); err == nil || !strings.Contains(err.Error(), word) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %q, %v", list, got, err)
		}
	}
}

// many returns a list of n addresses.
func many(n int) string {
	all := make([]string, n)
	for i := range all {
		all[i] = "host:" + strings.Repeat("1", i+1)
	}
	return strings.Join(all, ",")
}
