package task

import (
	"encoding/base64"
	"fmt"
	"strings"
)

// PeekID returns the task's id in a public id of either form, whoever made it: it has no key, and so cannot
// tell a forged one. It returns ErrBadID for other forms.
func PeekID(text string) (id ID, err error) {
	const chars = 22 // of base64, for 16 bytes
	if len(text) > len(tokenPrefix)+chars && (strings.HasPrefix(text, tokenPrefix) || IsInboundToken(text)) {
		var raw [17]byte // the last character has bits of the next byte
		if _, err := base64.RawURLEncoding.Decode(raw[:], []byte(text[len(tokenPrefix):][:chars+1])); err == nil {
			return ID(raw[:16]), nil
		}
	}
	return ID{}, fmt.Errorf("%w: not one of the forms that this version knows", ErrBadID)
}
