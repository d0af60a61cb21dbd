package server

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/kinesin-io/kinesin/internal/sqsclient"
	"github.com/kinesin-io/kinesin/partition/kube"
	"github.com/kinesin-io/kinesin/store/dynamo"
)

// awsMetrics are the series of the requests to AWS. Their labels are names of requests and of our own tables.
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
			Name: "kinesin_aws_request_seconds", Help: "Duration of requests to AWS, including the wait of long polls.",
			Buckets: []float64{.001, .002, .005, .01, .025, .05, .1, .25, .5, 1, 3, 10, 25},
		}, []string{"service", "request", "outcome"}),
		billed:     counter("kinesin_sqs_billed_requests_total", "SQS requests as billed, one per 64 KiB.", "request"),
		rows:       counter("kinesin_dynamodb_rows_total", "Rows read or written by DynamoDB requests.", "request"),
		throttled:  counter("kinesin_dynamodb_throttled_total", "Reads and writes throttled by DynamoDB.", "table"),
		unreadable: counter("kinesin_dynamodb_unreadable_rows_total", "Rows skipped because they are damaged or of a newer version.", "table"),
		refused:    counter("kinesin_sqs_refused_entries_total", "Batch entries refused by SQS.", "request", "code"),
		discarded:  counter("kinesin_sqs_discarded_messages_total", "Discarded messages.", "reason"),
		packed: f.NewHistogram(prometheus.HistogramOpts{
			Name: "kinesin_sqs_message_tasks", Help: "Tasks per message sent.", Buckets: []float64{1, 2, 4, 8, 16, 32},
		}),
		returned: f.NewCounter(prometheus.CounterOpts{
			Name: "kinesin_sqs_returned_tasks_total", Help: "Tasks received and returned to their queue because no worker here took them.",
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

// kubeHooks returns hooks that count the lists and failures of a membership by pods.
func kubeHooks(r prometheus.Registerer) kube.Hooks {
	f := promauto.With(r)
	relists := f.NewCounter(prometheus.CounterOpts{
		Name: "kinesin_pods_relists_total", Help: "Extra lists of the pods because their watch was silent or disagreed with the lease rows.",
	})
	failures := f.NewCounter(prometheus.CounterOpts{
		Name: "kinesin_pods_watch_failures_total", Help: "Failed lists and watches of the Kubernetes API server, including watches cut off early.",
	})
	return kube.Hooks{Relisted: relists.Inc, Broke: failures.Inc}
}
