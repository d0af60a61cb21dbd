package task

import (
	"fmt"
	"regexp"
)

// TraceparentBytesMax bounds a trace context; version 00 has 55 bytes, a later one may have more.
const TraceparentBytesMax = 128

var traceparentForm = regexp.MustCompile(`^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-[!-~]*)?$`)

// CheckTraceparent refuses text that is not a traceparent of W3C Trace Context: version, trace id, parent id
// and flags in lower-case hex. Empty text is fine. Versions after 00 may have more fields.
func CheckTraceparent(text string) error {
	if text == "" {
		return nil
	}
	var m []string
	if len(text) <= TraceparentBytesMax {
		m = traceparentForm.FindStringSubmatch(text)
	}
	ok := m != nil && m[1] != "ff" && (m[1] != "00" || m[5] == "") &&
		m[2] != "00000000000000000000000000000000" && m[3] != "0000000000000000"
	if !ok {
		return fmt.Errorf(`%w traceparent %.64q: want the W3C form "00-<32 hex of a trace id>-<16 hex of a parent id>-<2 hex of flags>" in lower case, ids not all zero`, ErrInvalid, text)
	}
	return nil
}
