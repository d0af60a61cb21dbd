package sim

import (
	"bytes"
	"encoding/base64"
	"io"
	"net/http"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/api/kinesinv1/kinesinv1connect"
	"github.com/kinesin-io/kinesin/sdk"
)

// beats notes for the register which attempts a worker's heartbeats are told not to own.
type beats struct{ *link }

// RoundTrip implements http.RoundTripper.
func (b *beats) RoundTrip(r *http.Request) (*http.Response, error) {
	from := time.Now().UnixNano()
	response, err := b.link.RoundTrip(r)
	if err != nil || !strings.HasSuffix(r.URL.Path, kinesinv1connect.WorkerServiceHeartbeatProcedure) || response.StatusCode != http.StatusOK {
		return response, err
	}
	body, broken := io.ReadAll(response.Body)
	_ = response.Body.Close()
	response.Body = &readOnce{bytes.NewReader(body), broken}
	var answer kinesinv1.HeartbeatResponse
	if broken != nil || proto.Unmarshal(body, &answer) != nil {
		return response, nil //nolint:nilerr // whoever asked finds that out
	}
	w := b.from.w
	for _, h := range answer.Fenced {
		w.saw("heartbeat fenced")
		w.called(call{task: idOf(h.Task), from: from, do: operation{kind: opFence, attempt: h.Attempt}}, true)
	}
	return response, nil
}

// readOnce is a body that was read, with how that ended.
type readOnce struct {
	*bytes.Reader

	err error
}

// Read implements io.Reader.
func (o *readOnce) Read(p []byte) (int, error) {
	n, err := o.Reader.Read(p)
	if err == io.EOF && o.err != nil {
		err = o.err
	}
	return n, err
}

// Close implements io.Closer.
func (o *readOnce) Close() error { return nil }

// idOf is taskOf of a task's id: a public id has it after its form.
func idOf(id []byte) string { return taskOf(sdk.ID("k1" + base64.RawURLEncoding.EncodeToString(id))) }
