package dynamo_test

import (
	"bytes"
	"encoding/json"
	"hash/crc32"
	"io"
	"net/http"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/store/dynamo"
	"github.com/kinesin-io/kinesin/task"
)

// instant is an HTTP transport that answers every request itself, so that only the client's work is measured.
type instant struct {
	after time.Duration
	page  []byte // answers queries
}

func (s instant) RoundTrip(r *http.Request) (*http.Response, error) {
	var in struct {
		Statements []json.RawMessage
	}
	body := []byte("{}")
	if r.Header.Get("X-Amz-Target") == "DynamoDB_20120810.BatchExecuteStatement" {
		sent, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		in.Statements = make([]json.RawMessage, bytes.Count(sent, []byte(`"Statement":`)))
		body = append([]byte(`{"Responses":[{}`), bytes.Repeat([]byte(`,{}`), len(in.Statements)-1)...)
		body = append(body, `]}`...)
	}
	if r.Header.Get("X-Amz-Target") == "DynamoDB_20120810.Query" {
		body = s.page
	}
	_ = r.Body.Close()
	if s.after > 0 {
		time.Sleep(s.after)
	}
	return &http.Response{
		StatusCode: http.StatusOK, ProtoMajor: 1, ProtoMinor: 1, Request: r, ContentLength: int64(len(body)),
		Header: http.Header{
			"Content-Type": {"application/x-amz-json-1.0"}, "X-Amz-Crc32": {strconv.FormatUint(uint64(crc32.ChecksumIEEE(body)), 10)},
		},
		Body: io.NopCloser(bytes.NewReader(body)),
	}, nil
}

func instantClient(transport http.RoundTripper) *dynamodb.Client {
	return dynamodb.New(dynamodb.Options{
		Region: "us-east-1", Credentials: credentials.NewStaticCredentialsProvider("id", "secret", ""),
		BaseEndpoint: aws.String("http://localhost"), HTTPClient: &http.Client{Transport: transport},
	})
}

func benchTask(n int) task.Task {
	return task.Task{
		ID: task.NewID(task.Instant(n)<<20+1<<50, uint64(n), uint64(n)*0x9e3779b97f4a7c15), Partition: task.Partition{Lambda: 0x12345678, Shard: uint16(n % 16)},
		State: task.Enqueued, Seq: 2, Due: 1_800_000_000_000_000, Created: 1_799_999_000_000_000, Wake: 1_800_000_030_000_000,
		WakeRow:  task.WakeRow{At: 1_800_000_000_000_000, Seq: 1},
		Enqueued: 1_800_000_000_100_000, Payload: bytes.Repeat([]byte("p"), 100), PayloadSize: 100, Enqueues: 1,
	}
}

// BenchmarkApply measures the CPU time of one write, cpu-µs/row, with so many calls at once and requests that
// take 3 ms. The time per op says nothing here.
func BenchmarkApply(b *testing.B) {
	for _, c := range []struct {
		name  string
		rows  int
		calls int // at once
	}{{"alone", 1, 1}, {"calls of 25", 25, 4}, {"calls of 100", 100, 4}, {"8 calls of 1", 1, 8}, {"200 calls of 1", 1, 200}} {
		b.Run(c.name, func(b *testing.B) {
			d := dynamo.New(instantClient(instant{after: 3 * time.Millisecond}), dynamo.Config{Prefix: "bench"})
			b.ReportAllocs()
			var wg sync.WaitGroup
			calls := (b.N + c.rows - 1) / c.rows
			before := cpuTime(b)
			for n := range c.calls {
				wg.Go(func() {
					ops := make([]store.Op, c.rows)
					for i := n; i < calls; i += c.calls {
						for k := range ops {
							ops[k] = store.Op{Kind: store.ReplaceTask, Task: benchTask(i*c.rows + k)}
						}
						if results, err := d.Apply(b.Context(), ops); err != nil || results[0] != nil {
							b.Error(results, err)
						}
					}
				})
			}
			wg.Wait()
			b.ReportMetric(float64((cpuTime(b)-before).Microseconds())/float64(calls*c.rows), "cpu-µs/row")
			_ = d.Close()
		})
	}
}

// BenchmarkScan measures the work for one row of a full page.
func BenchmarkScan(b *testing.B) {
	const rows = 500
	type value map[string]any
	var items []value
	for n := range rows {
		t := benchTask(n)
		items = append(items, value{
			"p": value{"S": t.Partition.String()}, "k": value{"S": "1800000000000000#" + t.ID.String()}, "q": value{"N": "1"},
			"r": value{"B": store.AppendTask(nil, &t)},
		})
	}
	page, err := json.Marshal(value{"Items": items, "Count": rows})
	if err != nil {
		b.Fatal(err)
	}
	d := dynamo.New(instantClient(instant{page: page}), dynamo.Config{Prefix: "bench"})
	b.ReportAllocs()
	for i := 0; i < b.N; i += rows {
		found, err := d.ScanSchedule(b.Context(), task.Partition{}, store.WakeKey{}, 1<<62, rows)
		if err != nil || len(found) != rows {
			b.Fatal(len(found), err)
		}
	}
	_ = d.Close()
}

func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
