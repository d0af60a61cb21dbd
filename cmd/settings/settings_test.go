package settings

import (
	"encoding/base64"
	"slices"
	"strings"
	"testing"

	"github.com/kinesin-io/kinesin/internal/alloctest"
)

func FuzzConfig(f *testing.F) {
	for _, text := range []string{
		"", "---\n...", "log-level: debug\nroles: [inbound, hsc]\n", "log-level", "nope: 1", "roles: {a: b}", "log-level: *a", "a: &a [x]\nlog-level: *a",
		"a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\nroles: [*c,*c,*c,*c,*c,*c,*c]",
		strings.Repeat("[", 20_000), strings.Repeat("a: ", 20_000), strings.Repeat("- a\n", 10_000), "\x00", "log-level: !!binary AAAA", "<<: {log-level: a}",
	} {
		f.Add([]byte(text))
	}
	known := []string{"log-level", "roles"}
	f.Fuzz(func(t *testing.T, data []byte) {
		data = data[:min(len(data), configBytesMax)]
		var values map[string]any
		var err error
		alloctest.AtMost(t, uint64(1<<20+1024*len(data)), func() {
			values, err = parseConfig("kinesin.yaml", data, known)
			for _, v := range values {
				_ = text(v)
			}
		})
		if err != nil && values != nil {
			t.Errorf("%v, and %v", values, err)
		}
		for name := range values {
			if !slices.Contains(known, name) {
				t.Errorf("%q is accepted", name)
			}
		}
	})
}

func keyLine(id string) string {
	return id + " " + base64.StdEncoding.EncodeToString([]byte(strings.Repeat(id[:1], 32)))
}

func FuzzPayloadKeys(f *testing.F) {
	for _, text := range []string{
		"", "# none\n", keyLine("a"), keyLine("new") + "\r\n\n# old\n  " + keyLine("old"), "a", "a b c", "a !", keyLine("a") + "x",
		strings.Repeat(keyLine("a")+"\n", payloadKeysMax+1), strings.Repeat("\n", payloadKeysBytesMax), strings.Repeat("a ", 1000),
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		alloctest.AtMost(t, uint64(32<<10+64*len(content)), func() {
			keys, err := parsePayloadKeys(content)
			if len(keys) > payloadKeysMax || err != nil && (keys != nil || len(err.Error()) > 200) {
				t.Errorf("%d keys, %v", len(keys), err)
			}
		})
	})
}
