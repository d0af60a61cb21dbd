// Package envelope is the format of messages in the inbound buffer: several tasks, sealed with an inbound
// key, as text for SQS. Servers and sdk/sqsinbound pack messages with it, and the consumer opens them.
package envelope

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

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
	// headBytes is the most that the version, the number of tries, and the form and the key of the seal add.
	headBytes = 16
	// sealBytes is the length of a seal without those.
	sealBytes = task.InboundMACBytes
	// taskBytes is the most that a task adds to its encoding.
	taskBytes = 8
)

// Why a message was not opened. The text of an error says more.
var (
	// ErrUndecodable means that a sealed body is not an envelope.
	ErrUndecodable = errors.New("not an envelope of tasks")
	// ErrVersion means that a newer version wrote it.
	ErrVersion = errors.New("of a newer version")
	// ErrSeal means that it was not sealed with an inbound key of this installation, or was changed since.
	ErrSeal = task.ErrUnsealed
	// ErrSender means that a sender sealed it that may not send such tasks.
	ErrSender = errors.New("outside the lambdas of its sender")
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
	return s.SealMessage(raw), nil
}

// Open reads the body of a message. It reads nothing in a body without a seal that holds, for which it
// returns ErrSeal, task.ErrKeyGone or task.ErrSenderRevoked. For a sealed one it returns ErrUndecodable or
// ErrVersion, and ErrSender if any of its tasks is not one that its sender may send.
func Open(ctx context.Context, s *task.InboundSealer, body string) (*kinesinv1.Envelope, error) {
	e, _, err := OpenFrom(ctx, s, body)
	return e, err
}

// OpenFrom is Open, and also returns the name of the sender whose key sealed the body, for a sealed one that
// cannot be read too; empty if that was a server or has the key of all lambdas.
func OpenFrom(ctx context.Context, s *task.InboundSealer, body string) (e *kinesinv1.Envelope, from string, err error) {
	raw, sender, err := s.OpenMessage(ctx, body)
	switch {
	case errors.Is(err, task.ErrKeyGone):
		return nil, "", fmt.Errorf("%w; who sends needs the key that `kinesin inbound key` prints now", err)
	case errors.Is(err, task.ErrSenderRevoked):
		return nil, "", err
	case err != nil:
		return nil, "", fmt.Errorf("%w; who sends needs the key that `kinesin inbound key` prints", err)
	}
	if sender != nil {
		from = sender.Name
	}
	e, err = read(ctx, s, sender, raw)
	return e, from, err
}

// read reads what was behind a seal that holds.
func read(ctx context.Context, s *task.InboundSealer, sender *task.InboundSender, raw []byte) (*kinesinv1.Envelope, error) {
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
		if err := checkSender(ctx, s, sender, t); err != nil {
			return nil, err
		}
	}
	return e, nil
}

// checkSender refuses a task of a lambda that the sender may not send to, and one under an id that the sender
// did not issue for that lambda.
func checkSender(ctx context.Context, s *task.InboundSealer, sender *task.InboundSender, t *kinesinv1.BufferedTask) error {
	if sender == nil {
		return nil
	}
	if !sender.Allows(t.Item.Lambda) {
		return fmt.Errorf("%w: %s may send to %s, and a task is of %q", ErrSender, sender.Name, strings.Join(sender.Lambdas, ", "), t.Item.Lambda)
	}
	if id, err := s.Open(ctx, t.Id); err != nil || id.Sender != sender.Name || id.Lambda != t.Item.Lambda {
		return fmt.Errorf("%w: a task of %s has an id that %s did not issue for it", ErrSender, t.Item.Lambda, sender.Name)
	}
	return nil
}

// Bytes returns the most that a task adds to the body of a message, in bytes.
func Bytes(t *kinesinv1.BufferedTask) int { return encoded(t.SizeVT() + taskBytes) }

// Fits reports whether a task fits into a message of bytesMax.
func Fits(s *task.InboundSealer, t *kinesinv1.BufferedTask, bytesMax int) bool {
	return sized(s, t.SizeVT()+taskBytes) <= bytesMax
}

// Pack seals tasks into as few messages as the limits allow: bytesMax for any body; TasksMax and PackBytesMax
// for one with several tasks. The tasks of a message of a sender are of one lambda, so that one outside the
// lambdas of the sender does not keep others back. It returns ErrTooLarge if a task does not Fit.
func Pack(s *task.InboundSealer, tasks []*kinesinv1.BufferedTask, bytesMax int) ([]Message, error) {
	var messages []Message
	for len(tasks) > 0 {
		n, size := 1, tasks[0].SizeVT()+taskBytes
		if sized(s, size) > bytesMax {
			return nil, fmt.Errorf("a task of %d bytes is %w of %d", sized(s, size), ErrTooLarge, bytesMax)
		}
		for ; n < min(len(tasks), TasksMax); n++ {
			size += tasks[n].SizeVT() + taskBytes
			if s.Sender() != "" && tasks[n].Item.Lambda != tasks[0].Item.Lambda {
				break
			}
			if sized(s, size) > min(bytesMax, PackBytesMax) {
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
func sized(s *task.InboundSealer, tasks int) int {
	return encoded(sealBytes + headBytes + len(s.Sender()) + tasks)
}

func encoded(raw int) int { return base64.StdEncoding.EncodedLen(raw) }
