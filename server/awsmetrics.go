package server

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/kinesin-io/kinesin/internal/sqsclient"
	"github.com/kinesin-io/kinesin/store/dynamo"
)

// awsMetrics are the series of what is asked of AWS. Their labels are names of requests and of our own
// tables.
type awsMetrics struct {
	requests   *prometheus.HistogramVec // service, request, outcome
	billed     *prometheus.CounterVec   // request
	rows       *prometheus.CounterVec   // request
	throttled  *prometheus.CounterVec   // table
	unreadable *prometheus.CounterVec   // table
	refused    *prometheus.CounterVec   // request, code
	discarded  *prometheus.CounterVec   // reason
	packed     prometheus.Histogram
	returned   prometheus.Counter
}

func newAWSMetrics(r prometheus.Registerer) *awsMetrics {
	f := promauto.With(r)
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return f.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	m := &awsMetrics{
		requests: f.NewHistogramVec(prometheus.HistogramOpts{
			Name: "kinesin_aws_request_seconds", Help: "Time of a request to AWS, waits of long polls included.",
			Buckets: []float64{.001, .002, .005, .01, .025, .05, .1, .25, .5, 1, 3, 10, 25},
		}, []string{"service", "request", "outcome"}),
		billed:     counter("kinesin_sqs_billed_requests_total", "Requests as SQS bills them: one for each 64 KiB.", "request"),
		rows:       counter("kinesin_dynamodb_rows_total", "Rows that requests named.", "request"),
		throttled:  counter("kinesin_dynamodb_throttled_total", "Reads and writes that DynamoDB put off for want of capacity.", "table"),
		unreadable: counter("kinesin_dynamodb_unreadable_rows_total", "Rows that were left alone: of a newer version, or damaged.", "table"),
		refused:    counter("kinesin_sqs_refused_entries_total", "Entries of batches that SQS refused.", "request", "code"),
		discarded:  counter("kinesin_sqs_discarded_messages_total", "Messages that came to nothing.", "reason"),
		packed: f.NewHistogram(prometheus.HistogramOpts{
			Name: "kinesin_sqs_message_tasks", Help: "Tasks in a message that was sent.", Buckets: []float64{1, 2, 4, 8, 16, 32},
		}),
		returned: f.NewCounter(prometheus.CounterOpts{
			Name: "kinesin_sqs_returned_tasks_total", Help: "Tasks that were received, taken by no worker here, and returned.",
		}),
	}
	return m
}

func outcome(err error) string {
	if err != nil {
		return "error"
	}
	return "ok"
}

func (m *awsMetrics) dynamo() dynamo.Observer {
	return dynamo.Observer{
		Request: func(name string, rows int, took time.Duration, err error) {
			m.requests.WithLabelValues("dynamodb", name, outcome(err)).Observe(took.Seconds())
			m.rows.WithLabelValues(name).Add(float64(rows))
		},
		Throttled:  func(table string) { m.throttled.WithLabelValues(table).Inc() },
		Unreadable: func(table string, _ error) { m.unreadable.WithLabelValues(table).Inc() },
	}
}

func (m *awsMetrics) sqs() *sqsclient.Observer {
	return &sqsclient.Observer{
		Request: func(r sqsclient.Request) {
			m.requests.WithLabelValues("sqs", string(r.Action), outcome(r.Err)).Observe(r.Took.Seconds())
			m.billed.WithLabelValues(string(r.Action)).Add(float64(r.Billed()))
		},
		Sent: func(_ string, tasks int) { m.packed.Observe(float64(tasks)) },
		Refused: func(_ string, action sqsclient.Action, code string) {
			m.refused.WithLabelValues(string(action), code).Inc()
		},
		Discarded: func(_, reason string) { m.discarded.WithLabelValues(reason).Inc() },
		Returned:  func(_ string, tasks, _ int) { m.returned.Add(float64(tasks)) },
	}
}
