package task

import (
	"encoding/base64"
	"fmt"
)

// PeekID returns the task's id by a public id, whoever made it: it has no key, and so cannot tell a forged
// one. It returns ErrBadID for forms that it does not know. The id is first in the body; in the form q2 it
// follows the number of a key and the name of a sender, whose length is in front of it, and counts for that
// sender alone.
func PeekID(text string) (id ID, err error) {
	const prefixChars = 2
	unknown := fmt.Errorf("%w: not one of the forms that this version knows", ErrBadID)
	if len(text) < prefixChars || len(text) > prefixChars+base64.RawURLEncoding.EncodedLen(publicIDBytesMax) {
		return ID{}, unknown
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text[prefixChars:])
	if err != nil {
		return ID{}, unknown
	}
	at := 0
	switch text[:prefixChars] {
	case "k1", "k2", "k3", "q1":
	case "q2":
		if len(raw) < 2 {
			return ID{}, unknown
		}
		at = 2 + int(raw[1])
	default:
		return ID{}, unknown
	}
	if len(raw) < at+len(id) {
		return ID{}, unknown
	}
	id = ID(raw[at : at+len(id)])
	if at > 0 {
		return InboundToken{ID: id, Sender: string(raw[2:at])}.TaskID(), nil
	}
	return id, nil
}

// publicIDBytesMax is above the length of every public id.
const publicIDBytesMax = 512
