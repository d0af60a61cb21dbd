package token

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/livefile"
)

var (
	tokenA = strings.Repeat("a", CharsMin)
	tokenB = "b-._~+/=" + strings.Repeat("B", CharsMax-8)
)

func TestParse(t *testing.T) {
	for name, c := range map[string]struct {
		content string
		want    []string
		refusal string
	}{
		"one":               {tokenA, []string{tokenA}, ""},
		"lines of Windows":  {tokenA + "\r\n" + tokenB + "\r\n", []string{tokenA, tokenB}, ""},
		"comments":          {"# new\n\n " + tokenB + " \n# old\n" + tokenA, []string{tokenB, tokenA}, ""},
		"the same twice":    {tokenA + "\n" + tokenA, []string{tokenA, tokenA}, ""},
		"nothing":           {"", nil, "no token"},
		"only a comment":    {"# later\n", nil, "no token"},
		"too short":         {"\n" + tokenA[1:], nil, "line 2: a token of 31 characters: want 32 to 8192"},
		"too long":          {tokenB + "B", nil, "8193 characters"},
		"a space inside":    {tokenA + " " + tokenA, nil, "invalid character"},
		"no ASCII":          {tokenA + "é", nil, "invalid character"},
		"binary":            {strings.Repeat("\x00", 40), nil, "invalid character"},
		"as many as may be": {strings.Repeat(tokenA+"\n", TokensMax), slices.Repeat([]string{tokenA}, TokensMax), ""},
		"too many":          {strings.Repeat(tokenA+"\n", TokensMax+1), nil, "more than 64"},
	} {
		got, err := Parse([]byte(c.content))
		if !slices.Equal(got, c.want) || (err == nil) != (c.refusal == "") || err != nil && !strings.Contains(err.Error(), c.refusal) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		if err != nil && strings.Contains(err.Error(), tokenA[1:]) {
			t.Errorf("%s: %v quotes a token", name, err)
		}
	}
}

func TestASetHoldsItsTokensAndNoOther(t *testing.T) {
	s := NewSet([]string{tokenA, tokenB, tokenA})
	for token, want := range map[string]bool{tokenA: true, tokenB: true, "": false, tokenA[1:]: false, tokenA + "a": false, strings.ToUpper(tokenA): false} {
		if s.Holds(token) != want {
			t.Errorf("%q: %v", token, !want)
		}
	}
	if (Set{}).Holds("") {
		t.Error("an empty set holds something")
	}
}

func TestATokenInAHeader(t *testing.T) {
	h := http.Header{}
	if token, present := Of(h); token != "" || present {
		t.Errorf("none: %q, %v", token, present)
	}
	Put(h, tokenA)
	if token, present := Of(h); token != tokenA || !present {
		t.Errorf("%q, %v", token, present)
	}
	for value, want := range map[string]string{"bearer " + tokenA: tokenA, "Bearer  " + tokenA: tokenA, "Basic " + tokenA: "", tokenA: "", "Bearer": ""} {
		h.Set("Authorization", value)
		if token, present := Of(h); token != want || !present {
			t.Errorf("%q: %q, %v", value, token, present)
		}
	}
}

func TestFilesOfTokensAreReadAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	virtual := clock.NewVirtual(0, 1)
	if _, err := OpenSet(path, virtual.Process(0), nil); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("a file that is not there: %v", err)
	}
	write(tokenA)
	set, err := OpenSet(path, virtual.Process(0), nil)
	if err != nil {
		t.Fatal(err)
	}
	first, err := OpenFirst(path, virtual.Process(0), nil)
	if err != nil {
		t.Fatal(err)
	}
	write(tokenB + "\n" + tokenA)
	virtual.Advance(livefile.LookEvery)
	if !set.Get().Holds(tokenA) || !set.Get().Holds(tokenB) || first.Get() != tokenB {
		t.Error("two tokens: both are accepted, the first is sent")
	}
	write("short")
	virtual.Advance(livefile.LookEvery)
	if !set.Get().Holds(tokenA) || first.Get() != tokenB {
		t.Error("what is no token put those before out of force")
	}
	write(tokenB)
	virtual.Advance(livefile.LookEvery)
	if set.Get().Holds(tokenA) {
		t.Error("what was taken out is still accepted")
	}
}
