// Package envelope is the form of messages in the inbound buffer: several
// tasks, sealed with the inbound key, as text that SQS takes. Who sends (a
// server that accepts, or sdk/sqsinbound) packs with it, who consumes opens with it. It knows
// nothing of queues.
package envelope

import (
	"encoding/base64"
	"errors"
	"fmt"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/task"
)

// Version is the newest form that is read, and the one that is written.
const Version = 1

const (
	// TasksMax is how many tasks are packed into one message: what a store writes in one batch.
	TasksMax = 25
	// PackBytesMax is how large a message grows by packing: what SQS charges as one request. A larger task
	// has a message of its own.
	PackBytesMax = 64 << 10
	// tasksRead bounds the tasks of a message that somebody else packed.
	tasksRead = 1000
	// headBytes is what the version and the number of tries add at most.
	headBytes = 16
	// taskBytes is what a task adds beside its own encoding at most.
	taskBytes = 8
)

// Why a message was not opened. The text of an error says more.
var (
	// ErrUndecodable says that the body is no envelope.
	ErrUndecodable = errors.New("not an envelope of tasks")
	// ErrVersion says that a newer version wrote it.
	ErrVersion = errors.New("of a newer version")
	// ErrSeal says that it was not sealed with our inbound key, or was changed since.
	ErrSeal = errors.New("not sealed with this installation's inbound key")
	// ErrTooLarge says that a task does not fit a message.
	ErrTooLarge = errors.New("too large for a message")
)

// Message is a body and how many of the tasks that were to be packed, in order, are in it.
type Message struct {
	Body  string
	Tasks int
}

// Seal makes the body of a message with these tasks. tries says how often they were put back under way.
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

// Open reads the body of a message. Its errors are ErrUndecodable, ErrVersion and ErrSeal.
func Open(s *task.InboundSealer, body string) (*kinesinv1.Envelope, error) {
	sealed, err := base64.StdEncoding.DecodeString(body)
	if err != nil {
		return nil, fmt.Errorf("%w: want base64: %w", ErrUndecodable, err)
	}
	if len(sealed) <= task.InboundMACBytes {
		return nil, fmt.Errorf("%w: %d bytes, want a seal of %d and tasks", ErrUndecodable, len(sealed), task.InboundMACBytes)
	}
	seal, raw := sealed[:task.InboundMACBytes], sealed[task.InboundMACBytes:]
	e := &kinesinv1.Envelope{}
	if err := e.UnmarshalVT(raw); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUndecodable, err)
	}
	switch {
	case e.Version == 0:
		return nil, fmt.Errorf("%w: no version", ErrUndecodable)
	case e.Version > Version:
		return nil, fmt.Errorf("version %d is %w: this one reads up to %d; retry after the upgrade", e.Version, ErrVersion, Version)
	case !s.Vouches(raw, seal):
		return nil, fmt.Errorf("%w: who sends needs the key that `kinesin inbound key` prints", ErrSeal)
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

// Bytes is what a task adds to the body of a message at most, in bytes.
func Bytes(t *kinesinv1.BufferedTask) int { return encoded(t.SizeVT() + taskBytes) }

// Fits reports whether a task fits a message of bytesMax.
func Fits(t *kinesinv1.BufferedTask, bytesMax int) bool {
	return sized(t.SizeVT()+taskBytes) <= bytesMax
}

// Pack seals tasks into as few messages as their limits allow: bytesMax of one body, and of packing TasksMax
// and PackBytesMax. ErrTooLarge when a task does not fit alone: ask Fits before.
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

// sized is the length of a body whose tasks have so many bytes.
func sized(tasks int) int { return encoded(task.InboundMACBytes + headBytes + tasks) }

func encoded(raw int) int { return base64.StdEncoding.EncodedLen(raw) }
