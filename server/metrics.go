package server

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/kinesin-io/kinesin/internal/node"
	"github.com/kinesin-io/kinesin/internal/sqsclient"
	"github.com/kinesin-io/kinesin/partition/kube"
	"github.com/kinesin-io/kinesin/store/dynamo"
)

// awsObservers returns observers that count the requests to AWS. The labels are names of requests and of our
// own tables.
func awsObservers(m *node.Metrics) (dynamo.Observer, *sqsclient.Observer) {
	f := promauto.With(m.Registerer())
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return f.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	requests := f.NewHistogramVec(m.Histogram(prometheus.HistogramOpts{
		Name: "kinesin_aws_request_seconds", Help: "Duration of requests to AWS, including the wait of long polls.",
		Buckets: []float64{.001, .002, .005, .01, .025, .05, .1, .25, .5, 1, 3, 10, 25},
	}), []string{"service", "request", "outcome"})
	rows := counter("kinesin_dynamodb_rows_total", "Rows read or written by DynamoDB requests.", "request")
	throttled := counter("kinesin_dynamodb_throttled_total", "Reads and writes throttled by DynamoDB.", "table")
	unreadable := counter("kinesin_dynamodb_unreadable_rows_total", "Rows skipped because they are damaged or of a newer version.", "table")
	billed := counter("kinesin_sqs_billed_requests_total", "SQS requests as billed, one per 64 KiB.", "request")
	refused := counter("kinesin_sqs_refused_entries_total", "Batch entries refused by SQS.", "request", "code")
	discarded := counter("kinesin_sqs_discarded_messages_total", "Discarded messages.", "reason")
	packed := f.NewHistogram(prometheus.HistogramOpts{
		Name: "kinesin_sqs_message_tasks", Help: "Tasks per message sent.", Buckets: []float64{1, 2, 4, 8, 16, 32},
	})
	returned := f.NewCounter(prometheus.CounterOpts{
		Name: "kinesin_sqs_returned_tasks_total", Help: "Tasks received and returned to their queue because no worker here took them.",
	})
	forDynamo := dynamo.Observer{
		Request: func(name string, n int, took time.Duration, err error) {
			requests.WithLabelValues("dynamodb", name, outcome(err)).Observe(took.Seconds())
			rows.WithLabelValues(name).Add(float64(n))
		},
		Throttled:  func(table string) { throttled.WithLabelValues(table).Inc() },
		Unreadable: func(table string, _ error) { unreadable.WithLabelValues(table).Inc() },
	}
	forSQS := &sqsclient.Observer{
		Request: func(r sqsclient.Request) {
			requests.WithLabelValues("sqs", string(r.Action), outcome(r.Err)).Observe(r.Took.Seconds())
			billed.WithLabelValues(string(r.Action)).Add(float64(r.Billed()))
		},
		Sent: func(_ string, tasks int) { packed.Observe(float64(tasks)) },
		Refused: func(_ string, action sqsclient.Action, code string) {
			refused.WithLabelValues(string(action), code).Inc()
		},
		Discarded: func(_, reason string) { discarded.WithLabelValues(reason).Inc() },
		Returned:  func(_ string, tasks, _ int) { returned.Add(float64(tasks)) },
	}
	return forDynamo, forSQS
}

// outcome returns the value of the label outcome.
func outcome(err error) string {
	if err != nil {
		return "error"
	}
	return "ok"
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
