package server

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/kinesin-io/kinesin/api/jsonform"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/api/kinesinv1/kinesinv1connect"
)

// heapBytes returns how much the objects of the heap take, those included that nobody has found unused yet.
func heapBytes() uint64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// highest calls f, and returns by how much the heap grew at most meanwhile. The collector runs much more
// often than it would, so that little of that is garbage.
func highest(f func()) uint64 {
	defer debug.SetGCPercent(debug.SetGCPercent(5))
	runtime.GC()
	before, over, most := heapBytes(), make(chan struct{}), make(chan uint64)
	go func() {
		top := uint64(0)
		for {
			select {
			case <-over:
				most <- top
				return
			case <-time.After(200 * time.Microsecond):
				top = max(top, heapBytes())
			}
		}
	}()
	f()
	close(over)
	return max(<-most, before) - before
}

// TestAcceptedRequestsTakeAFewTimesTheirSize sends requests as large as they may be.
func TestAcceptedRequestsTakeAFewTimesTheirSize(t *testing.T) {
	const timesMax, triesMax = 8, 3
	if testing.Short() {
		t.Skip("takes a while, and the race detector takes memory of its own")
	}
	r := serve(t, Config{})
	r.create("mail")
	random := rand.NewChaCha8([32]byte{})
	sizes := []struct{ tasks, payloadBytes int }{{10_000, 1000}, {60, 190_000}, {2800, 4 << 10}}
	for _, c := range sizes {
		message := &kinesinv1.ScheduleRequest{}
		for range c.tasks {
			one := item("mail", time.Hour)
			one.Payload = make([]byte, c.payloadBytes)
			_, _ = random.Read(one.Payload)
			message.Items = append(message.Items, one)
		}
		decoded := uint64(proto.Size(message))
		for form, marshal := range map[string]func(proto.Message) ([]byte, error){"proto": proto.Marshal, "json": inJSON} {
			plain, err := marshal(message)
			if err != nil {
				t.Fatal(err)
			}
			for encoding, body := range map[string][]byte{"identity": plain, "gzip": zipped(plain)} {
				what := fmt.Sprintf("%d tasks of %d bytes in %s, %s", c.tasks, c.payloadBytes, form, encoding)
				header := http.Header{"Content-Type": {"application/" + form}, "Content-Encoding": {encoding}, "Accept-Encoding": {"identity"}}
				taken := highest(func() { r.accepted(what, header, body) })
				for try := 1; try < triesMax && taken > timesMax*decoded; try++ { // garbage, where the collector got no processor
					taken = min(taken, highest(func() { r.accepted(what, header, body) }))
				}
				t.Logf("%s: %.1f times %d bytes", what, float64(taken)/float64(decoded), decoded)
				if taken > timesMax*decoded {
					t.Errorf("%s: %d bytes at once, want at most %d times %d", what, taken, timesMax, decoded)
				}
			}
		}
	}
}

func inJSON(m proto.Message) ([]byte, error) { return jsonform.Append(nil, m), nil }

func zipped(body []byte) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write(body)
	_ = w.Close()
	return b.Bytes()
}

// accepted sends a Schedule that has to be accepted, with all of its tasks.
func (r *running) accepted(what string, header http.Header, body []byte) {
	r.t.Helper()
	request, err := http.NewRequestWithContext(r.t.Context(), http.MethodPost, r.url+kinesinv1connect.TaskServiceScheduleProcedure, bytes.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	request.Header = header
	response, err := r.http.Do(request)
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK || strings.Contains(string(answer), `"problem"`) {
		r.t.Fatalf("%s: %v %d %.200s", what, err, response.StatusCode, answer)
	}
}
