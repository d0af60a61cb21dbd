// Package envelope is the format of messages in the inbound buffer: several tasks, sealed with the inbound
// key, as text for SQS. Servers and sdk/sqsinbound pack messages with it, and the consumer opens them.
package envelope

import (
	"encoding/base64"
	"errors"
	"fmt"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/task"
)

// Version is the version that is written, and the newest one that is read.
const Version = 1

const (
	// TasksMax is how many tasks are packed into one message: as many as a store writes in one batch.
	TasksMax = 25
	// PackBytesMax is how large a message becomes by packing: as much as SQS charges as one request. A larger
	// task gets a message of its own.
	PackBytesMax = 64 << 10
	// tasksRead bounds the tasks of a message that is opened.
	tasksRead = 1000
	// headBytes is the most that the version and the number of tries add.
	headBytes = 16
	// taskBytes is the most that a task adds to its encoding.
	taskBytes = 8
)

// Why a message was not opened. The text of an error says more.
var (
	// ErrUndecodable means that a sealed body is not an envelope.
	ErrUndecodable = errors.New("not an envelope of tasks")
	// ErrVersion means that a newer version wrote it.
	ErrVersion = errors.New("of a newer version")
	// ErrSeal means that it was not sealed with this inbound key, or was changed since.
	ErrSeal = errors.New("not sealed with this installation's inbound key")
	// ErrTooLarge means that a task does not fit into a message.
	ErrTooLarge = errors.New("too large for a message")
)

// Message is a body and the number of tasks in it.
type Message struct {
	Body  string
	Tasks int
}

// Seal returns the body of a message with these tasks. tries says how often they were sent again.
func Seal(s *task.InboundSealer, tasks []*kinesinv1.BufferedTask, tries uint32) (string, error) {
	e := &kinesinv1.Envelope{Version: Version, Tasks: tasks, Tries: tries}
	raw, err := e.MarshalVT()
	if err != nil {
		return "", fmt.Errorf("encode an envelope: %w", err)
	}
	sealed := make([]byte, 0, task.InboundMACBytes+len(raw))
	sealed = append(append(sealed, s.Sum(raw)...), raw...)
	return base64.StdEncoding.EncodeToString(sealed), nil
}

// Open reads the body of a message. It returns ErrSeal for a body that was not sealed with the key, and reads
// nothing in it; ErrUndecodable or ErrVersion for a sealed one.
func Open(s *task.InboundSealer, body string) (*kinesinv1.Envelope, error) {
	sealed, err := base64.StdEncoding.DecodeString(body)
	if err != nil {
		return nil, fmt.Errorf("%w: want base64: %w", ErrSeal, err)
	}
	if len(sealed) <= task.InboundMACBytes {
		return nil, fmt.Errorf("%w: %d bytes, want a seal of %d and tasks", ErrSeal, len(sealed), task.InboundMACBytes)
	}
	seal, raw := sealed[:task.InboundMACBytes], sealed[task.InboundMACBytes:]
	if !s.Verify(raw, seal) {
		return nil, fmt.Errorf("%w: who sends needs the key that `kinesin inbound key` prints", ErrSeal)
	}
	e := &kinesinv1.Envelope{}
	if err := e.UnmarshalVT(raw); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUndecodable, err)
	}
	switch {
	case e.Version == 0:
		return nil, fmt.Errorf("%w: no version", ErrUndecodable)
	case e.Version > Version:
		return nil, fmt.Errorf("version %d is %w: this one reads up to %d; retry after the upgrade", e.Version, ErrVersion, Version)
	case len(e.Tasks) == 0 || len(e.Tasks) > tasksRead:
		return nil, fmt.Errorf("%w: %d tasks, want 1 to %d", ErrUndecodable, len(e.Tasks), tasksRead)
	}
	for i, t := range e.Tasks {
		if t.GetItem() == nil {
			return nil, fmt.Errorf("%w: task %d has no item", ErrUndecodable, i)
		}
	}
	return e, nil
}

// Bytes returns the most that a task adds to the body of a message, in bytes.
func Bytes(t *kinesinv1.BufferedTask) int { return encoded(t.SizeVT() + taskBytes) }

// Fits reports whether a task fits into a message of bytesMax.
func Fits(t *kinesinv1.BufferedTask, bytesMax int) bool {
	return sized(t.SizeVT()+taskBytes) <= bytesMax
}

// Pack seals tasks into as few messages as the limits allow: bytesMax for any body; TasksMax and PackBytesMax
// for one with several tasks. It returns ErrTooLarge if a task does not Fit.
func Pack(s *task.InboundSealer, tasks []*kinesinv1.BufferedTask, bytesMax int) ([]Message, error) {
	var messages []Message
	for len(tasks) > 0 {
		n, size := 1, tasks[0].SizeVT()+taskBytes
		if sized(size) > bytesMax {
			return nil, fmt.Errorf("a task of %d bytes is %w of %d", sized(size), ErrTooLarge, bytesMax)
		}
		for ; n < min(len(tasks), TasksMax); n++ {
			size += tasks[n].SizeVT() + taskBytes
			if sized(size) > min(bytesMax, PackBytesMax) {
				break
			}
		}
		body, err := Seal(s, tasks[:n], 0)
		if err != nil {
			return nil, err
		}
		messages = append(messages, Message{Body: body, Tasks: n})
		tasks = tasks[n:]
	}
	return messages, nil
}

// sized returns the length of a body whose tasks have so many bytes.
func sized(tasks int) int { return encoded(task.InboundMACBytes + headBytes + tasks) }

func encoded(raw int) int { return base64.StdEncoding.EncodedLen(raw) }
