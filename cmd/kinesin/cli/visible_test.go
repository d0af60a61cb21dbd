package cli

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestWhatATerminalObeysIsEscaped(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"plain äöü 日本 🙂\tand\nlines": "plain äöü 日本 🙂\tand\nlines",
		"\x1b[31mred\r":              `\u001b[31mred\u000d`,
		"\u009b31m\x7f":              `\u009b31m\u007f`,
		"a\u202egnp.exe":             `a\u202egnp.exe`,
		"zero\u200bwidth\ufeff":      `zero\u200bwidth\ufeff`,
		"\u2066isolated\u2069":       `\u2066isolated\u2069`,
		"line\u2028separator":        `line\u2028separator`,
		"tag\U000e0041":              `tag\udb40\udc41`,
		"selector\U000e0100":         `selector\udb40\udd00`,
		"filler\u3164\u034f\u00ad":   `filler\u3164\u034f\u00ad`,
		"❤\ufe0f":                    "❤\ufe0f",
		"bytes \xff\xc0":             `bytes \xff`,
	} {
		var whole strings.Builder
		_, _ = (&visible{w: &whole}).Write([]byte(text))
		if !strings.HasPrefix(whole.String(), want) {
			t.Errorf("%q is written as %q, want %q", text, whole.String(), want)
		}
		var apart strings.Builder
		v := &visible{w: &apart}
		for i := range len(text) {
			if n, err := v.Write([]byte(text[i : i+1])); n != 1 || err != nil {
				t.Fatal(n, err)
			}
		}
		if apart.String() != whole.String() {
			t.Errorf("%q byte by byte is %q, want %q", text, apart.String(), whole.String())
		}
	}
}

// JSON stays JSON, and means the same.
func TestEscapedJSONMeansTheSame(t *testing.T) {
	t.Parallel()
	want := "\x1b\u009b\u202e\u200b\u2028 \x7f ä\U000e0041"
	var b strings.Builder
	if err := printJSON(&visible{w: &b}, want); err != nil {
		t.Fatal(err)
	}
	var got string
	if err := json.Unmarshal([]byte(b.String()), &got); err != nil || got != want {
		t.Errorf("%s means %q, %v", b.String(), got, err)
	}
	if strings.ContainsAny(b.String(), "\u009b\u202e\u200b\U000e0041") {
		t.Errorf("%q", b.String())
	}
}
