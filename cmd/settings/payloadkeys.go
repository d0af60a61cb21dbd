package settings

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/kinesin-io/kinesin/internal/livefile"
	"github.com/kinesin-io/kinesin/sdk"
)

const (
	payloadKeysBytesMax = 64 << 10
	payloadKeysMax      = 64
)

// readPayloadKeys returns a codec with the keys of a file; nil for no file.
func readPayloadKeys(path string) (sdk.PayloadCodec, error) {
	if path == "" {
		return nil, nil //nolint:nilnil // payloads stay as they are
	}
	content, err := livefile.Read(path, payloadKeysBytesMax)
	if err != nil {
		return nil, err
	}
	keys, err := parsePayloadKeys(content)
	if err != nil {
		return nil, fmt.Errorf("%w %s: %w", livefile.ErrFile, path, err)
	}
	return sdk.NewAESGCMCodec(keys...)
}

// parsePayloadKeys reads keys, one per line, the newest first: its id, a space and its 32 bytes in base64. It
// skips empty lines and those that begin with #. No error quotes a key.
func parsePayloadKeys(content []byte) ([]sdk.PayloadKey, error) {
	var keys []sdk.PayloadKey
	number := 0
	for line := range bytes.Lines(content) {
		number++
		fields := strings.Fields(string(line))
		if len(fields) == 0 || fields[0][0] == '#' {
			continue
		}
		if len(keys) == payloadKeysMax {
			return nil, fmt.Errorf("line %d: it holds more than %d keys", number, payloadKeysMax)
		}
		if len(fields) != 2 {
			return nil, fmt.Errorf("line %d: want an id, a space and a key, as in: echo \"2026-11 $(openssl rand -base64 32)\"", number)
		}
		secret, err := base64.StdEncoding.DecodeString(fields[1])
		if err != nil {
			return nil, fmt.Errorf("line %d: the key is not 32 bytes in base64: openssl rand -base64 32 prints one", number)
		}
		keys = append(keys, sdk.PayloadKey{ID: fields[0], Secret: secret})
	}
	return keys, nil
}
