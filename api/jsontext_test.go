package api_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/kinesin-io/kinesin/api"
)

// Text that a decoder would change is refused, by the name of its field; all other text is left alone.
func TestCheckJSONText(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"key":"\ud83d\ude00"}`:                         "",
		`{"key":"\ud83d\ude00\uD83D\uDE00x"}`:            "",
		`{"key":"\\ud800","a":"\n\\","b":1}`:             "",
		`{"key":"\u00e4\u0000\uffff\ufffd"}`:             "",
		`{"key":"é😀"}`:                                   "",
		`{"a":{"b":[1,"x",{}]},"c":[[]]}`:                "",
		`{"key":"\ud800"}`:                               `key: \ud800 is half of a surrogate pair`,
		`{"key":"x\udfff"}`:                              `key: \udfff is half`,
		`{"key":"\uDBFFx"}`:                              `key: \udbff is half`,
		`{"key":"\ud800\n"}`:                             `key: \ud800 is half`,
		`{"key":"\ud800\ud83d\ude00"}`:                   `key: \ud800 is half`,
		`{"key":"\ude00\ud83d"}`:                         `key: \ude00 is half`,
		`{"key":"\ud83d\u0041"}`:                         `key: \ud83d is half`,
		`{"key":"\ud83d\ude00\ude00"}`:                   `key: \ude00 is half`,
		`{"key":"\\\ud800"}`:                             `key: \ud800 is half`,
		`{"ok":"","tags":{"a":"b","c":"\ud800"}}`:        `tags.c: \ud800 is half`,
		`{"tags":{"a":"b","\udc00":"c"}}`:                `a name in tags: \udc00 is half`,
		`{"\udc00":1}`:                                   `a name in the body: \udc00 is half`,
		`{"items":[{},{"then":[[1],{"key":"\ud800"}]}]}`: `items[1].then[1].key: \ud800 is half`,
		`["a","\ud800"]`:                                 `[1]: \ud800 is half`,
		`"\ud800"`:                                       `the body: \ud800 is half`,
		"{\"a\":{},\"key\":\"x\xff\"}":                   `key: byte \xff is no UTF-8`,
		"{\"a\":{\"x\xc3\":1}}":                          `a name in a: byte \xc3 is no UTF-8`,
		`{"key":\ud800`:                                  "", // the decoder refuses it
		`{"key":"\ud8`:                                   "",
		`\`:                                              "",
	} {
		err := api.CheckJSONText([]byte(text))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

func FuzzCheckJSONText(f *testing.F) {
	f.Add([]byte(`{"a":["\ud83d\ude00",{"b":"\ud800"}]}`))
	f.Add([]byte("{\"\xff\":1}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		var v any
		err := api.CheckJSONText(data)
		if json.Unmarshal(data, &v) != nil {
			return
		}
		text, _ := json.Marshal(v)
		changed := strings.Count(string(text), `\ufffd`)+strings.Count(string(text), "\uFFFD") > 0 && !strings.Contains(string(data), "\uFFFD") && !strings.Contains(strings.ToLower(string(data)), `\ufffd`)
		if changed != (err != nil) && (err == nil || utf8.Valid(data)) {
			t.Errorf("%q: %v; decoded as %s", data, err, text)
		}
	})
}
