package settings

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/kinesin-io/kinesin/internal/alloctest"
)

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
