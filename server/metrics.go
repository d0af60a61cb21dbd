package server

import (
	"time"

	"github.com/kinesin-io/kinesin/internal/node"
	"github.com/kinesin-io/kinesin/internal/sqsclient"
	"github.com/kinesin-io/kinesin/partition/kube"
	"github.com/kinesin-io/kinesin/store/dynamo"
)

// awsObservers returns observers that count the requests to AWS. The labels are names of requests and of our
// own tables.
func awsObservers(m *node.Metrics) (dynamo.Observer, *sqsclient.Observer) {
	requests := m.Histograms("kinesin_aws_request_seconds", "Duration of requests to AWS, including the wait of long polls.",
		[]float64{.001, .002, .005, .01, .025, .05, .1, .25, .5, 1, 3, 10, 25}, "service", "request", "outcome")
	rows := m.Counters("kinesin_dynamodb_rows_total", "Rows read or written by DynamoDB requests.", "request")
	throttled := m.Counters("kinesin_dynamodb_throttled_total", "Reads and writes throttled by DynamoDB.", "table")
	unreadable := m.Counters("kinesin_dynamodb_unreadable_rows_total", "Rows skipped because they are damaged or of a newer version.", "table")
	billed := m.Counters("kinesin_sqs_billed_requests_total", "SQS requests as billed, one per 64 KiB.", "request")
	refused := m.Counters("kinesin_sqs_refused_entries_total", "Batch entries refused by SQS.", "request", "code")
	discarded := m.Counters("kinesin_sqs_discarded_messages_total", "Discarded messages.", "reason")
	packed := m.Histogram("kinesin_sqs_message_tasks", "Tasks per message sent.", []float64{1, 2, 4, 8, 16, 32})
	returned := m.Counter("kinesin_sqs_returned_tasks_total", "Tasks received and returned to their queue because no worker here took them.")
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
func kubeHooks(m *node.Metrics) kube.Hooks {
	relists := m.Counter("kinesin_pods_relists_total", "Extra lists of the pods because their watch was silent or disagreed with the lease rows.")
	failures := m.Counter("kinesin_pods_watch_failures_total", "Failed lists and watches of the Kubernetes API server, including watches cut off early.")
	return kube.Hooks{Relisted: relists.Inc, Broke: failures.Inc}
}
