package harness

import (
	"cmp"
	"testing"

	"github.com/kinesin-io/kinesin/internal/awslocal"
)

// AWS is where the servers of a site keep their tasks and messages: tables and queues with a prefix of their
// own.
type AWS struct {
	awslocal.Endpoints

	Prefix string
}

func newAWS(tb testing.TB, at awslocal.Endpoints) AWS {
	tb.Helper()
	if at.DynamoDB == "" || at.SQS == "" {
		shared := awslocal.Start(tb)
		at.DynamoDB, at.SQS = cmp.Or(at.DynamoDB, shared.DynamoDB), cmp.Or(at.SQS, shared.SQS)
	}
	return AWS{at, at.Prefix(tb)}
}

// Setup runs `kinesin aws setup ARGS`.
func (a AWS) Setup(tb testing.TB, args ...string) Result {
	tb.Helper()
	return a.Run(tb, append([]string{"aws", "setup", "--aws-prefix", a.Prefix}, args...)...)
}

// Run runs `kinesin ARGS` with the environment to its end.
func (a AWS) Run(tb testing.TB, args ...string) Result {
	tb.Helper()
	return Command{Args: args, Env: a.Env()}.Run(tb)
}
