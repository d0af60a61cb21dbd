package api

import (
	"fmt"
	"strings"
	"testing"
	"unicode"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
)

const trick = "a\x1b[31m\u202egnp.exe\u200b\u009b\U000e0041\u3164\xff"

// hides returns what of a text a terminal would obey or hide.
func hides(text string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Other_Default_Ignorable_Code_Point)) {
			return r
		}
		return -1
	}, text)
}

// A server's text may quote somebody else's.
func TestErrorTextsAreVisible(t *testing.T) {
	t.Parallel()
	texts := map[string]string{
		"refusal":  ProblemOf(Errorf(kinesinv1.Reason_REASON_KEY_CONFLICT, "key %s is taken", trick)).GetText(),
		"sentinel": ProblemOf(fmt.Errorf("%w: %s", ErrInvalid, trick)).GetText(),
		"call":     ToWire(Errorf(kinesinv1.Reason_REASON_INVALID, "%s", trick)).Error(),
	}
	for name, text := range texts {
		if found := hides(text); found != "" || text == "" || strings.Contains(text, "\xff") {
			t.Errorf("%s: %q", name, text)
		}
	}
	if want := "key a\\u001b[31m\\u202egnp.exe\\u200b\\u009b\\udb40\\udc41\\u3164\\xff is taken"; texts["refusal"] != want {
		t.Errorf("%s, want %s", texts["refusal"], want)
	}
	if plain := "plain äöü 日本 🙂\tand\nlines \ufffd"; Visible(plain) != plain {
		t.Errorf("%q", Visible(plain))
	}
}
