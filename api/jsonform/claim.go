package jsonform

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// A claim names an attempt of a task, which is all that a worker needs of it: the task in hexadecimal digits, a dash, and
// the number of the attempt. The messages that have one have task as their first field, and attempt, which answers also
// have by itself.
const (
	attemptName  = "attempt"
	claimPattern = "^[0-9a-f]{32}-[0-9]+$"
)

func attemptOf(m protoreflect.Message) protoreflect.FieldDescriptor {
	return m.Descriptor().Fields().ByName(attemptName)
}

func appendClaim(dst []byte, m protoreflect.Message) []byte {
	dst = hex.AppendEncode(append(dst, '"'), m.Get(m.Descriptor().Fields().Get(0)).Bytes())
	return append(strconv.AppendUint(append(dst, '-'), m.Get(attemptOf(m)).Uint(), 10), '"')
}

// setClaim reads a claim into a message.
func setClaim(m protoreflect.Message, raw []byte) error {
	text, err := textOf(raw, "a claim")
	if err != nil {
		return err
	}
	digits, number, _ := strings.Cut(text, "-")
	task, err := hex.DecodeString(digits)
	n, numberErr := strconv.ParseUint(number, 10, 32)
	if err != nil || numberErr != nil || len(task) != 16 {
		return fmt.Errorf("%s is no claim: want one that /v1/work/claim returned", Shown(raw))
	}
	m.Set(m.Descriptor().Fields().Get(0), protoreflect.ValueOfBytes(task))
	m.Set(attemptOf(m), protoreflect.ValueOfUint32(uint32(n)))
	return nil
}
