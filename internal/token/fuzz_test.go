package token

import (
	"bytes"
	"net/http"
	"strings"
	"testing"

	"github.com/kinesin-io/kinesin/internal/alloctest"
)

func FuzzParse(f *testing.F) {
	for _, text := range []string{"", "\n", tokenA, "# new\r\n " + tokenA + "\n" + tokenB, strings.Repeat(tokenA+"\n", TokensMax+1), strings.Repeat("\n", FileBytesMax), strings.Repeat("a", FileBytesMax), "\xff\x00"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		var tokens []string
		var err error
		alloctest.AtMost(t, uint64(16<<10+16*len(content)), func() { tokens, err = Parse(content) })
		if (err == nil) != (len(tokens) > 0) || len(tokens) > TokensMax {
			t.Errorf("%d tokens, %v", len(tokens), err)
		}
		set := NewSet(tokens)
		for _, token := range tokens {
			h := http.Header{}
			Put(h, token)
			if got, present := Of(h); got != token || !present || !set.Holds(got) || !bytes.Contains(content, []byte(token)) {
				t.Errorf("token %q is sent as %q", token, h)
			}
		}
	})
}

func FuzzAuthorization(f *testing.F) {
	for _, value := range []string{"", "Bearer", "Bearer " + tokenA, "bearer  " + tokenB + " ", "Basic QTpC", "Bearer " + strings.Repeat("a", 1<<20), "Bearer \x00\u202e", " Bearer a"} {
		f.Add(value)
	}
	set := NewSet([]string{tokenA})
	f.Fuzz(func(t *testing.T, value string) {
		h := http.Header{"Authorization": {value}}
		alloctest.AtMost(t, uint64(8<<10+4*len(value)), func() {
			token, present := Of(h)
			if present != (value != "") || token != "" && !strings.Contains(value, token) {
				t.Errorf("%q: %q, %v", value, token, present)
			}
			if set.Holds(token) != (token == tokenA) {
				t.Errorf("%q is taken for a token", token)
			}
		})
	})
}
