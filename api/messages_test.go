package api_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/kinesin-io/kinesin/api"
)

// pieces is a body of which each read returns one piece, as they were written.
type pieces struct{ all []string }

func (p *pieces) Read(into []byte) (int, error) {
	if len(p.all) == 0 {
		return 0, io.EOF
	}
	n := copy(into, p.all[0])
	if p.all[0] = p.all[0][n:]; p.all[0] == "" {
		p.all = p.all[1:]
	}
	return n, nil
}

func TestAMessageIsReadAtOnce(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 300)
	body := api.WholeMessages(io.NopCloser(&pieces{[]string{
		"\x00\x00\x00\x00\x05", "hello", "\x00\x00\x00\x00\x00", "\x00\x00", "\x00\x01\x2c", long, "\x00\x00\x00\x00\x01", "y",
	}}))
	into := make([]byte, 200)
	for _, want := range []string{"\x00\x00\x00\x00\x05hello", "\x00\x00\x00\x00\x00", "\x00\x00\x00\x01\x2c" + long[:195], long[195:], "\x00\x00\x00\x00\x01y"} {
		if n, err := body.Read(into); err != nil || string(into[:n]) != want {
			t.Errorf("%q, %v, want %q", into[:n], err, want)
		}
	}
	if n, err := body.Read(into); n != 0 || !errors.Is(err, io.EOF) {
		t.Errorf("%d bytes, %v at the end", n, err)
	}
	if _, err := body.Read(into[:4]); !errors.Is(err, io.ErrShortBuffer) {
		t.Errorf("%v for a read that cannot hold what stands before a message", err)
	}
}

func TestWholeMessagesOfAnyPieces(t *testing.T) {
	t.Parallel()
	all := []byte("\x00\x00\x00\x00\x05hello\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01y")
	for _, of := range []func(io.Reader) io.Reader{iotest.OneByteReader, iotest.HalfReader, iotest.DataErrReader} {
		got, err := io.ReadAll(api.WholeMessages(io.NopCloser(of(bytes.NewReader(all)))))
		if err != nil || !bytes.Equal(got, all) {
			t.Errorf("%q, %v", got, err)
		}
	}
}
