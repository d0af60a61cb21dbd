package sdktest

import (
	"io"
	"testing"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
)

// answers is a stream that sends so many messages and then ends.
type answers int

func (*answers) Send(*kinesinv1.WorkRequest) error { return nil }
func (*answers) Close() error                      { return nil }

func (a *answers) Receive() (*kinesinv1.WorkResponse, error) {
	if *a--; *a < 0 {
		return nil, io.EOF
	}
	return &kinesinv1.WorkResponse{}, nil
}

// A stream is open when its first message was handled, not when it came: the timer of silence runs until then,
// and time that jumped would end the stream.
func TestAStreamIsOpenOnceItsFirstMessageIsHandled(t *testing.T) {
	messages, opened := answers(1), false
	s := &told{Stream: &messages, opened: func() { opened = true }}
	if _, err := s.Receive(); err != nil || opened {
		t.Errorf("with the first message: opened %v, error %v", opened, err)
	}
	if _, err := s.Receive(); err == nil || !opened {
		t.Errorf("after it: opened %v, error %v", opened, err)
	}
	broken, opened := answers(0), false
	if _, err := (&told{Stream: &broken, opened: func() { opened = true }}).Receive(); err == nil || !opened {
		t.Errorf("without a message: opened %v, error %v", opened, err)
	}
}
